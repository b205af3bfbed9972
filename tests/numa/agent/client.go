package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"sluice/tests/numa"
	"sluice/tests/protocol/wire"
)

// readFrom reads the file through the server at addr, from a CPU: over loopback
// its packets arrive on the CPU that sends them. Nothing of it is in the page
// cache at first.
func readFrom(cpu int, addr string) (r numa.Reading, err error) {
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return r, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its affinity
		var set unix.CPUSet
		set.Set(cpu)
		if err = unix.SchedSetaffinity(0, &set); err == nil {
			r, err = readFile(addr)
			r.CPU = cpu
		}
	}()
	<-done
	return r, err
}

func readFile(addr string) (r numa.Reading, err error) {
	c, err := wire.Dial(addr)
	if err != nil {
		return r, err
	}
	defer c.Close()
	d, err := call(c, wire.Mount, 1, wire.Enc(nil).Str(numa.DataDir))
	if err != nil {
		return r, err
	}
	root := d.FH()
	if d, err = call(c, wire.NFS, wire.Lookup, wire.Enc(nil).Opaque(root).Str(numa.DataFile)); err != nil {
		return r, err
	}
	file := d.FH()
	sum := sha256.New()
	for eof := false; !eof; {
		d, err := call(c, wire.NFS, wire.Read, wire.Enc(nil).Opaque(file).U64(uint64(r.Bytes)).U32(numa.ChunkSize))
		if err != nil {
			return r, err
		}
		d.PostOp()
		d.U32() // count
		eof = d.Bool()
		data := d.Opaque(numa.ChunkSize)
		if err := d.End(); err != nil {
			return r, err
		}
		if len(data) == 0 && !eof {
			return r, fmt.Errorf("READ at %d: no data and no end of file", r.Bytes)
		}
		sum.Write(data)
		r.Bytes += len(data)
	}
	r.Sum = fmt.Sprintf("%x", sum.Sum(nil))
	return r, nil
}

// call returns the results of a call behind their status, which must be 0.
func call(c *wire.Conn, prog, proc uint32, args []byte) (*wire.Dec, error) {
	reply, err := c.Call(wire.NewCall(prog, 3, proc, args))
	if err != nil {
		return nil, err
	}
	d := &wire.Dec{B: reply.Results}
	if s := d.U32(); reply.Denied || reply.Stat != wire.Success || s != 0 {
		return nil, fmt.Errorf("program %d procedure %d: denied %v, accept_stat %d, status %d", prog, proc, reply.Denied, reply.Stat, s)
	}
	return d, nil
}
