package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"sluice/tests/iostat"
)

// localRows prints the table's head and, for comparison, what dd on the server
// itself makes of the disk.
func (t *test) localRows() error {
	columns := []string{"scheduler", "I/O contexts", "threads", "page cache", "MB/s", "seeks", iostat.Header}
	head := strings.Join(columns, " | ")
	fmt.Printf("| %s |\n|%s\n", head, strings.Repeat("---|", strings.Count(head, "|")+1))
	for _, scheduler := range []string{"mq-deadline", "bfq", "none"} {
		if err := t.disk.SetScheduler(scheduler); err != nil {
			return err
		}
		if err := t.drop(); err != nil {
			return err
		}
		if err := t.line("@begin"); err != nil {
			return err
		}
		out, err := exec.Command("dd", "if="+filepath.Join(t.disk.Dir(), fileName), "of=/dev/null", "bs=1M").CombinedOutput()
		if err != nil {
			return fmt.Errorf("dd: %w: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			_ = t.line(strings.TrimSpace(line)) // dd's own lines cannot fail
		}
		if err := t.print(fmt.Sprintf("%s | local dd | | cold", scheduler)); err != nil {
			return err
		}
	}
	return nil
}

// row prints the row of the dd that has just ended.
func (t *test) row(cache string) error {
	return t.print(fmt.Sprintf("%s | %s | %d | %s", t.now.scheduler, t.now.mode.name, t.now.threads, cache))
}

func (t *test) print(what string) error {
	after, err := iostat.Read(t.disk.Name())
	if err != nil {
		return err
	}
	rate, err := ddRate(t.dd)
	if err != nil {
		return err
	}
	t.dd = ""
	st, err := t.disk.Stats()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.0f | %d | %s |\n", what, rate/1e6, st.Seeks, after.Since(t.before).Row())
	return nil
}
