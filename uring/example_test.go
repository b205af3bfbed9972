package uring_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sluice/uring"
	"sluice/uring/uringtest"
)

// greeting returns an open file with a line in it.
func greeting() *os.File {
	f, err := os.CreateTemp("", "uring-example")
	if err != nil {
		log.Fatal(err)
	}
	os.Remove(f.Name())
	f.WriteString("hello, ring\n")
	return f
}

// Reading a file: an entry, an enter, a completion.
func Example() {
	f := greeting()
	defer f.Close()
	r, err := uring.New(uring.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	buf := make([]byte, 100)
	s := r.NextSQE()
	s.PrepRead(int(f.Fd()), buf, 0)
	s.UserData = 7
	if _, err := r.SubmitAndWait(1, -1); err != nil {
		log.Fatal(err)
	}
	var cqes [8]uring.CQE
	for _, c := range cqes[:r.Reap(cqes[:])] {
		if err := c.Err(); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("operation %d: %s", c.UserData, buf[:c.Res])
	}
	// Output: operation 7: hello, ring
}

// A loop takes operations from any goroutine. Thread and Setup run on its
// thread.
func ExampleLoop() {
	f := greeting()
	defer f.Close()
	l, err := uring.StartLoop(uring.LoopConfig{
		Setup: func(q uring.Queue) error {
			_, _, err := q.(*uring.Ring).RegisterIOWQMaxWorkers(4, 4)
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	buf := make([]byte, 100)
	done := make(chan uring.CQE)
	op := &uring.Op{
		Keep: buf,
		Done: func(op *uring.Op, c uring.CQE) { done <- c },
	}
	op.SQE.PrepRead(int(f.Fd()), buf, 7)
	if err := l.Submit(op); err != nil {
		log.Fatal(err)
	}
	c := <-done
	fmt.Printf("%s", buf[:c.Res])
	// Output: ring
}

// A chain: the read of a pipe gets ten milliseconds.
func ExampleLoop_SubmitChain() {
	l, err := uring.StartLoop(uring.LoopConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	r, w, err := os.Pipe()
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	defer w.Close()

	done := make(chan error, 1)
	report := func(op *uring.Op, c uring.CQE) { done <- c.Err() }
	limit := uring.Timespec(10 * time.Millisecond)
	read, timeout := &uring.Op{Done: report}, &uring.Op{}
	read.SQE.PrepRead(int(r.Fd()), make([]byte, 1), uring.CurrentPosition)
	timeout.SQE.PrepLinkTimeout(&limit, 0)
	if err := l.SubmitChain(read, timeout); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-done)
	// Output: operation canceled
}

// Ask for what is needed, and fall back when it is not there.
func ExampleProbe() {
	p, err := uring.NewProbe()
	if err != nil {
		fmt.Println("no io_uring:", err) // names the sysctl or limit
		return
	}
	err = p.RequireOps(uring.IORING_OP_SPLICE, 200)
	fmt.Println(errors.Is(err, uring.ErrNotSupported), err)
	// Output: true uring: this kernel does not support Opcode(200)
}

// Code that takes a Queue can be run on a fake one that misbehaves.
func ExampleQueue() {
	readAll := func(q uring.Queue, fd int, buf []byte) (n int, err error) {
		var c [1]uring.CQE
		for n < len(buf) {
			q.NextSQE().PrepRead(fd, buf[n:], uint64(n))
			for q.Reap(c[:]) == 0 {
				if _, err := q.SubmitAndWait(1, -1); err != nil && !errors.Is(err, unix.EAGAIN) {
					return n, err
				}
			}
			switch err := c[0].Err(); {
			case err == unix.EINTR || err == unix.EAGAIN:
			case err != nil:
				return n, err
			case c[0].Res == 0:
				return n, nil
			}
			n += int(max(c[0].Res, 0))
		}
		return n, nil
	}
	f := greeting()
	defer f.Close()
	q := uringtest.New(uringtest.Config{Seed: 5, Faults: uringtest.Faults{Short: 0.5, EINTR: 0.2, EnterEAGAIN: 0.2}})
	defer q.Close()
	buf := make([]byte, 100)
	n, err := readAll(q, int(f.Fd()), buf)
	fmt.Printf("%s%v\n", buf[:n], err)
	// Output:
	// hello, ring
	// <nil>
}
