package rpc

import (
	"fmt"
	"sync/atomic"
)

// Program is one row of the server's program table.
type Program struct {
	Number   uint32
	Name     string
	Versions []Version
	// UDP says that the program answers over UDP too.
	UDP bool
}

// Version is one version of a program. Versions of a program are contiguous for
// PROG_MISMATCH, which can only tell the lowest and the highest.
type Version struct {
	Number uint32
	Procs  []Procedure
}

// Procedure is one procedure; its number is its index in Version.Procs. A row
// without Handle answers PROC_UNAVAIL.
type Procedure struct {
	Name   string
	Handle Handler
	// MaxReply is the worst case of the results in bytes, payload not counted.
	MaxReply int
}

// Handler serves one call: it reads c.Args, appends results to c.Reply, perhaps
// sets c.Payload, and says what to do next.
type Handler func(c *Call) Result

// Result is what a handler decided.
type Result uint8

const (
	// Done: the results are in c.Reply and c.Payload.
	Done Result = iota
	// GarbageArgs: the arguments could not be decoded (RFC 5531 section 9).
	GarbageArgs
	// SystemErr: the server failed in a way that the program cannot express.
	SystemErr
	// Wait: the call has to wait; run it again on a waiting thread, with
	// c.MayBlock set. Only a call without MayBlock may return it.
	Wait
	// Parked: the call has been parked with [Call.Park], and runs again on a
	// server thread when it is resumed.
	Parked
	// Again: what the call waited for is there; run it once more on a server
	// thread. Only a call with MayBlock may return it.
	Again
)

// Null is the procedure 0 that every program has: no arguments, no results.
func Null(*Call) Result { return Done }

// route is a Procedure with its counter, as the table holds it.
type route struct {
	Procedure
	// index is the procedure's place in every thread's counters.
	index int
}

// table finds a procedure by its numbers. It never changes after newTable.
type table struct {
	programs []tableProgram
	names    []string // program/version/procedure by route.index
	maxReply int
}

type tableProgram struct {
	number    uint32
	udp       bool
	low, high uint32
	versions  [][]route // by version - low; nil where there is none
}

// newTable builds the table and panics on rows that could not be served.
func newTable(programs []Program) *table {
	t := &table{}
	for _, p := range programs {
		tp := tableProgram{number: p.Number, udp: p.UDP, low: ^uint32(0)}
		for _, v := range p.Versions {
			tp.low, tp.high = min(tp.low, v.Number), max(tp.high, v.Number)
		}
		tp.versions = make([][]route, tp.high-tp.low+1)
		for _, v := range p.Versions {
			tp.versions[v.Number-tp.low] = t.routes(p.Name, v)
		}
		t.programs = append(t.programs, tp)
	}
	return t
}

func (t *table) routes(program string, v Version) []route {
	routes := make([]route, len(v.Procs))
	for i, proc := range v.Procs {
		routes[i] = route{Procedure: proc, index: len(t.names)}
		t.names = append(t.names, fmt.Sprintf("%s/%d/%s", program, v.Number, proc.Name))
		t.maxReply = max(t.maxReply, proc.MaxReply)
		if markLen+acceptedLen+proc.MaxReply > outBuffer-flushAt {
			panic(fmt.Sprintf("rpc: %s v%d %s: worst-case reply of %d bytes exceeds the batch buffer",
				program, v.Number, proc.Name, proc.MaxReply))
		}
	}
	return routes
}

// find returns the route for a call, or appends the rejection that the call
// deserves to reply and returns nil.
func (t *table) find(h header, udp bool, reply []byte) (*route, []byte) {
	for i := range t.programs {
		p := &t.programs[i]
		if p.number != h.prog || (udp && !p.udp) {
			continue
		}
		if h.vers < p.low || h.vers > p.high || p.versions[h.vers-p.low] == nil {
			return nil, appendProgMismatch(reply, h.xid, p.low, p.high)
		}
		procs := p.versions[h.vers-p.low]
		if h.proc >= uint32(len(procs)) || procs[h.proc].Handle == nil {
			return nil, appendAccepted(reply, h.xid, acceptProcUnavail)
		}
		return &procs[h.proc], reply
	}
	return nil, appendAccepted(reply, h.xid, acceptProgUnavail)
}

// counters counts calls by procedure. One thread writes, anyone may read.
type counters []atomic.Uint64

func (c counters) add(i int) { c[i].Store(c[i].Load() + 1) }
