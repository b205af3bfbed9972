package compare

import (
	"slices"
	"testing"

	"sluice/nfsd/bench"
)

// exports(5): "Octal escapes can be used"; what QuoteExport writes must hold no byte
// that the syntax gives a meaning.
func TestQuoteExport(t *testing.T) {
	for in, want := range map[string]string{"/srv/data": "/srv/data", "/a b": `/a\040b`, "/q\"#\\(": `/q\042\043\134\050`, "/é": "/é", "/t\t": `/t\011`} {
		if got := QuoteExport(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Every figure of the report has its workload, once.
func TestWorkloads(t *testing.T) {
	all := Workloads()
	count := make(map[Workload]int)
	sizes, conns := make(map[int]bool), make(map[int]bool)
	var ops []string
	for _, w := range all {
		count[w]++
		switch {
		case w.Op != bench.OpRead:
			ops = append(ops, w.Op)
		case w.Cold:
			warm := w
			warm.Cold = false
			if !slices.Contains(all, warm) {
				t.Errorf("%s: not run from the page cache too", w)
			}
		default:
			sizes[w.RSize], conns[w.Conns] = true, true
		}
	}
	for w, n := range count {
		if n > 1 {
			t.Errorf("%s: %d times", w, n)
		}
	}
	for _, op := range bench.MetaOps {
		if !slices.Contains(ops, op) {
			t.Errorf("no %s", op)
		}
	}
	if len(sizes) < 5 || len(conns) < 5 {
		t.Errorf("%d sizes, %d numbers of connections", len(sizes), len(conns))
	}
}
