package guest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Log collects what a process prints and lets others wait for a text in it.
// The zero value is ready for use.
type Log struct {
	// Tee, if set before the first write, gets everything as it arrives.
	Tee io.Writer

	mu      sync.Mutex
	text    []byte
	changed chan struct{} // closed and replaced at each write
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	if l.Tee != nil {
		return l.Tee.Write(p)
	}
	return len(p), nil
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// WaitFor returns when the log contains text, or when ctx ends.
func (l *Log) WaitFor(ctx context.Context, text string) error {
	for {
		found, changed := l.look(text)
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("no %q in the log: %w", text, ctx.Err())
		}
	}
}

func (l *Log) look(text string) (bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return strings.Contains(string(l.text), text), l.changed
}
