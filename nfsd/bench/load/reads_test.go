package load

import (
	"fmt"
	"slices"
	"testing"
)

func all(t *testing.T, r *Reads) (list []string) {
	t.Helper()
	for range 10_000 {
		n, ok := r.Next()
		if !ok {
			return list
		}
		list = append(list, fmt.Sprintf("%d:%d+%d", n.File, n.Offset, n.Count))
	}
	t.Fatal("no end")
	return nil
}

func TestReadsOrder(t *testing.T) {
	for _, row := range []struct {
		name string
		o    ReadOptions
		want []string
	}{
		{"one file, its end is short", ReadOptions{Files: []File{{Size: 25}}, RSize: 10, Loops: 1}, []string{"0:0+10", "0:10+10", "0:20+5"}},
		{"twice", ReadOptions{Files: []File{{Size: 20}}, RSize: 10, Loops: 2}, []string{"0:0+10", "0:10+10", "0:0+10", "0:10+10"}},
		{"a file that is less than a read", ReadOptions{Files: []File{{Size: 3}}, RSize: 10, Loops: 1, Streams: 4}, []string{"0:0+3"}},
		{"two streams", ReadOptions{Files: []File{{Size: 40}}, RSize: 10, Loops: 1, Streams: 2}, []string{"0:0+10", "0:20+10", "0:10+10", "0:30+10"}},
		{"two streams of unequal length", ReadOptions{Files: []File{{Size: 45}}, RSize: 10, Loops: 1, Streams: 2},
			[]string{"0:0+10", "0:20+10", "0:10+10", "0:30+10", "0:40+5"}},
		{"three files of unequal length", ReadOptions{Files: []File{{Size: 30}, {Size: 10}, {Size: 20}}, RSize: 10, Loops: 1},
			[]string{"0:0+10", "1:0+10", "2:0+10", "0:10+10", "2:10+10", "0:20+10"}},
	} {
		if got := all(t, NewReads(row.o)); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// Shuffling changes the order inside windows, and nothing else.
func TestReadsShuffle(t *testing.T) {
	const window, blocks = 8, 20
	r := NewReads(ReadOptions{Files: []File{{Size: blocks * 10}}, RSize: 10, Loops: 2, Shuffle: window})
	moved := false
	for loop := range 2 {
		var got []int
		for range blocks {
			n, ok := r.Next()
			if !ok {
				t.Fatal("too few reads")
			}
			got = append(got, int(n.Offset/10))
		}
		for first := 0; first < blocks; first += window {
			w := got[first:min(first+window, blocks)]
			moved = moved || !slices.IsSorted(w)
			w = slices.Sorted(slices.Values(w))
			for i, n := range w {
				if n != first+i {
					t.Errorf("loop %d, window at %d: reads %v", loop, first, w)
				}
			}
		}
		if tail := got[16:]; !slices.IsSorted(tail) {
			t.Errorf("the last window, which is short, has the order %v", tail)
		}
	}
	if !moved {
		t.Error("everything is in order")
	}
	if _, ok := r.Next(); ok {
		t.Error("too many reads")
	}
}

func TestReadsWithoutEnd(t *testing.T) {
	r := NewReads(ReadOptions{Files: []File{{Size: 20}}, RSize: 10})
	for i := range 1000 {
		if n, ok := r.Next(); !ok || n.Offset != uint64(i%2)*10 {
			t.Fatalf("read %d: %+v, %v", i, n, ok)
		}
	}
	if r.Total() != 0 {
		t.Errorf("total %d", r.Total())
	}
}

func TestRepeat(t *testing.T) {
	r := Repeat{Calls: 3}
	for i := range 5 {
		if _, ok := r.Next(); ok != (i < 3) {
			t.Errorf("call %d: %v", i, ok)
		}
	}
}
