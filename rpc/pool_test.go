package rpc

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// twoCPUs returns two CPUs of this process.
func twoCPUs(t *testing.T) (cpus [2]int) {
	t.Helper()
	var set unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &set))
	n := 0
	for cpu := 0; cpu < 8*len(set)*8 && n < 2; cpu++ {
		if set.IsSet(cpu) {
			cpus[n] = cpu
			n++
		}
	}
	if n < 2 {
		t.Skip("SKIPPED: steering cannot be seen on a single CPU")
	}
	return cpus
}

// pinTo keeps the calling thread, which is locked, on a CPU.
func pinTo(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// whereProgram answers with the number of the thread that runs the call.
func whereProgram() Program {
	return Program{Number: 77, Name: "test", Versions: []Version{{Number: 1, Procs: []Procedure{
		0: {Name: "WHERE", Handle: func(c *Call) Result {
			c.Reply = binary.BigEndian.AppendUint32(c.Reply, c.Thread.(uint32))
			return Done
		}, MaxReply: 4},
	}}}}
}

// startPools serves with two threads on each of two CPUs, thread i on CPU i%2.
func startPools(t *testing.T, cpus [2]int) (addr string) {
	var thread [4]atomic.Int32 // the OS threads, by number
	number := func() uint32 {
		for i := range thread {
			if thread[i].Load() == int32(unix.Gettid()) {
				return uint32(i)
			}
		}
		return 99 // a waiting thread
	}
	_, addr = startTestServer(t, Config{Programs: []Program{whereProgram()}, Threads: 4, MaxConns: 10,
		Place: func(i int) Placement {
			return Placement{Name: fmt.Sprintf("sl-x%d", i), CPUs: []int{cpus[i%2]}, Enter: func(buffers ...[]byte) {
				if len(buffers) != 2 || cap(buffers[0]) < recvBuffer || cap(buffers[1]) < outBuffer {
					t.Errorf("thread %d is given %d buffers", i, len(buffers))
				}
				if err := pinTo(cpus[i%2]); err != nil {
					t.Error(err)
				}
				thread[i].Store(int32(unix.Gettid()))
			}}
		},
		NewThread: func() any { return number() },
	})
	for i := range thread {
		eventually(t, "every thread starts", func() bool { return thread[i].Load() != 0 })
		comm, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/comm", thread[i].Load()))
		if want := fmt.Sprintf("sl-x%d\n", i); err != nil || string(comm) != want {
			t.Errorf("thread %d is named %q, %v; want %q", i, comm, err, want)
		}
	}
	return addr
}

// where asks which thread serves the connection.
func where(t *testing.T, c net.Conn) int {
	t.Helper()
	r := exchange(t, c, callRecord(1, 0, nil))
	return int(binary.BigEndian.Uint32(r[len(r)-4:]))
}

// Over loopback a packet arrives on the CPU that sends it, so a pinned client
// shows where its connections are served: by a thread of its CPU, from the start
// and, when it has moved, some time after.
func TestConnectionsAreSteered(t *testing.T) {
	cpus := twoCPUs(t)
	addr := startPools(t, cpus)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends
		conns := [2]net.Conn{}
		for i, cpu := range cpus {
			must(t, pinTo(cpu))
			conns[i] = dialTest(t, addr)
			if got := where(t, conns[i]); got%2 != i {
				t.Errorf("a client on CPU %d is served by thread %d, want one of CPU %d", cpu, got, cpu)
			}
		}
		// Still on the second CPU: the first connection follows.
		deadline := time.Now().Add(20 * time.Second)
		for where(t, conns[0])%2 != 1 {
			if time.Now().After(deadline) {
				t.Error("the connection does not follow its client to the other CPU")
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	<-done
}

// The idle time of CPUs, from a real /proc/stat; the figures by hand.
func TestIdleTime(t *testing.T) {
	const stat = `cpu  1393280 32966 572056 13343292 6130 0 17875 0 23933 0
cpu0 350000 8000 143000 3335000 1500 0 4400 0 5900 0
cpu1 347000 8100 142000 3336000 1600 0 4500 0 6000 0
cpu8 348000 8200 143500 3337000 1700 0 4400 0 6000 0
cpu10 348280 8666 143556 3335292 1330 0 4575 0 6033 0
intr 8885917 17 0 0
`
	for _, row := range []struct {
		cpus  []int
		ticks int64
	}{{nil, 13343292 + 6130}, {[]int{0}, 3335000 + 1500}, {[]int{8, 10}, 3337000 + 1700 + 3335292 + 1330}, {[]int{2}, 0}} {
		if got := idleTime(stat, row.cpus); got != time.Duration(row.ticks)*10*time.Millisecond {
			t.Errorf("CPUs %v: %v, want %d ticks", row.cpus, got, row.ticks)
		}
	}
	for _, bad := range []string{"", "cpu", "cpu0", "cpux 1 2 3 4 5 6", "cpu 1 2"} {
		if got := idleTime(bad, nil); got != 0 {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
