package main

import (
	"bytes"
	"fmt"
	"sync"
)

// lineWriter calls f with each complete line that is written to it.
type lineWriter struct {
	mu   sync.Mutex
	rest []byte
	f    func(line string)
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		w.rest = rest
		w.f(string(line))
	}
}

// prefixed prints lines as they come, each with prefix before it.
func prefixed(prefix string) *lineWriter {
	return &lineWriter{f: func(line string) { fmt.Println(prefix + line) }}
}
