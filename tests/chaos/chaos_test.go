package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// inTest is how long a fault is tried here.
const inTest = time.Second

var outcomes []*outcome

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Println("chaos: NOTHING TRIED: needs root")
		os.Exit(0)
	}
	os.Exit(inWorld(raceEnabled, func() int {
		code := m.Run()
		report(os.Stdout, outcomes)
		return code
	}))
}

// TestChaos tries each fault once: nothing wrong, nothing lost, nobody let in.
func TestChaos(t *testing.T) {
	seed := chooseSeed()
	t.Logf("CHAOS_SEED=%d", seed)
	for _, f := range suite() {
		t.Run(strings.ReplaceAll(f.area+" "+f.name, " ", "_"), func(t *testing.T) {
			o := &outcome{fault: f}
			outcomes = append(outcomes, o)
			o.try(inTest, seed)
			if err := o.err(); err != nil {
				t.Error(err)
			}
			if o.skipped != "" {
				t.Skip(o.skipped)
			}
			if o.tried == 0 {
				t.Error("nothing was tried")
			}
		})
	}
}
