package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() { os.Exit(inWorld(raceEnabled, chaos)) }

const (
	defaultLength = 10 * time.Minute
	// oneRound is how long a fault is tried at a time.
	oneRound = 5 * time.Second
)

// chaos tries all faults in turn until the time is over, then prints the report.
func chaos() int {
	length, err := time.ParseDuration(envOr("CHAOS", defaultLength.String()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: CHAOS:", err)
		return 2
	}
	seed := chooseSeed()
	fmt.Printf("chaos for %v, CHAOS_SEED=%d\n", length, seed)
	var all []*outcome
	for _, f := range suite() {
		if strings.Contains(f.area+": "+f.name, os.Getenv("CHAOS_ONLY")) {
			all = append(all, &outcome{fault: f})
		}
	}
	code := 0
	end := time.Now().Add(length)
	for round := uint64(0); round == 0 || time.Now().Before(end); round++ {
		for _, o := range all {
			if round > 0 && time.Now().After(end) || o.skipped != "" || len(o.errs) > 0 {
				continue
			}
			begin := time.Now()
			o.try(oneRound, seed+round)
			fmt.Printf("%s: %s: %d tried, %v\n", o.area, o.name, o.tried, time.Since(begin).Round(time.Second))
			if err := o.err(); err != nil {
				fmt.Printf("WRONG (CHAOS_SEED=%d): %v\n", seed+round, err)
				code = 1
			}
		}
	}
	report(os.Stdout, all)
	return code
}

// chooseSeed is CHAOS_SEED or the time.
func chooseSeed() uint64 {
	text := envOr("CHAOS_SEED", strconv.FormatInt(time.Now().Unix(), 10))
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
