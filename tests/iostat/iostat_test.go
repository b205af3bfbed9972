package iostat

import (
	"testing"
	"time"
)

// Lines as Documentation/admin-guide/iostats.rst describes them.
const (
	before = `   7       3 loop3 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
 254       0 vda 1000 50 80000 4000 7 7 7 7 0 3000 9 0 0 0 0 0 0
`
	after = ` 254       0 vda 3000 650 4176000 10000 7 7 7 7 0 4500 9 0 0 0 0 0 0
`
)

func TestColumns(t *testing.T) {
	a, err := parse(before, "vda")
	if err != nil {
		t.Fatal(err)
	}
	b, err := parse(after, "vda")
	if err != nil {
		t.Fatal(err)
	}
	// In 2 s: 2000 reads, 600 merged, 4096000 sectors, 6000 ms of waiting, 1500 ms busy.
	want := Columns{ReadsPerSecond: 1000, KBPerSecond: 1_024_000, MergedPerSecond: 300, MeanKB: 1024, AwaitMs: 3, Util: 75, Reads: 2000}
	if got := b.over(a, 2*time.Second); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := a.over(a, time.Second); got != (Columns{}) {
		t.Errorf("nothing happened: %+v", got)
	}
}

func TestParseErrors(t *testing.T) {
	for what, text := range map[string]string{
		"another device": "254 0 vdb 1 2 3 4 5 6 7 8 9 10 11\n",
		"too few fields": "254 0 vda 1 2 3\n",
		"not a number":   "254 0 vda 1 2 x 4 5 6 7 8 9 10 11\n",
	} {
		if _, err := parse(text, "vda"); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
