package main

import (
	"fmt"
	"strings"

	"sluice/tests/iostat"
)

// row is a line of a table with its measurements.
type row struct {
	name    string
	run     func() (figure, error)
	figures []figure
}

// rounds measures the rows in turn.
func (b *bench) measureRows(rows []*row) error {
	for range b.rounds {
		for _, r := range rows {
			if b.ctx.Err() != nil {
				return b.ctx.Err()
			}
			f, err := r.run()
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			r.figures = append(r.figures, f)
		}
	}
	return nil
}

// mbs is in 10^6 bytes per second, as dd and fio have it.
func (f figure) mbs() float64 { return f.rate / 1e6 }

func heading(title string, columns ...string) {
	fmt.Printf("\n%s\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(strings.Split(strings.Join(columns, " | "), " | "))))
}

// printRows prints a table whose first row is the base of the others.
func printRows(title string, rows []*row) {
	heading(title, "test", "MB/s", "of the base", "lowest and highest", iostat.Header)
	base := median(rows[0].figures)
	for _, r := range rows {
		m, low, high := median(r.figures), r.figures[0], r.figures[0]
		for _, f := range r.figures {
			if f.rate < low.rate {
				low = f
			}
			if f.rate > high.rate {
				high = f
			}
		}
		fmt.Printf("| %s | %.0f | %.2f | %.0f to %.0f | %s |\n", r.name, m.mbs(), m.rate/base.rate, low.mbs(), high.mbs(), m.disk.Row())
	}
}
