package rpc

import "testing"

// A slot that is used again gets another generation, so that an event of the
// connection that had it does not reach its successor.
func TestConnTableGenerations(t *testing.T) {
	table := newConnTable(2)
	a, b := new(Conn), new(Conn)
	if !table.put(a) || !table.put(b) {
		t.Fatal("no room for two")
	}
	if table.put(new(Conn)) {
		t.Fatal("room for a third of two")
	}
	if table.len() != 2 || table.get(a.slot, a.gen) != a || table.get(b.slot, b.gen) != b {
		t.Fatal("not found where they were put")
	}
	slot, gen := a.slot, a.gen
	table.remove(a)
	if table.get(slot, gen) != nil || table.len() != 1 {
		t.Error("found after it was removed")
	}
	next := new(Conn)
	if !table.put(next) || next.slot != slot {
		t.Fatal("the free slot is not used")
	}
	if table.get(slot, gen) != nil {
		t.Error("an event of the connection before reaches its successor")
	}
	if table.get(next.slot, next.gen) != next {
		t.Error("not found")
	}
	seen := 0
	table.each(func(*Conn) { seen++ })
	if seen != 2 {
		t.Errorf("each sees %d connections", seen)
	}
}

// Generations wrap around and pass over the one that means a listener.
func TestConnTableGenerationWraps(t *testing.T) {
	table := newConnTable(1)
	table.gen = ^uint32(0) - 1
	for range 4 {
		c := new(Conn)
		if !table.put(c) {
			t.Fatal("no room")
		}
		if c.gen == listenerGen {
			t.Error("a connection has the generation of listeners")
		}
		table.remove(c)
	}
}
