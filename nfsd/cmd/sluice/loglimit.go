package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Clients can make the server log: each mount is a line. So that they cannot fill
// a disk, lines about a client are let through at a rate for each message; what
// is left out is counted in the next that is not.
const (
	logBurst     = 50              // lines of one message at once
	logEvery     = time.Second / 5 // and then one in so much time
	logMostTexts = 256             // messages that are told apart
)

// limitHandler limits the records of a slog.Handler.
type limitHandler struct {
	slog.Handler
	limits *logLimits
}

func newLimitHandler(h slog.Handler) slog.Handler {
	return limitHandler{h, &logLimits{buckets: make(map[string]*logBucket)}}
}

func (h limitHandler) Handle(ctx context.Context, r slog.Record) error {
	if !aboutClient(r) {
		return h.Handler.Handle(ctx, r)
	}
	ok, suppressed := h.limits.take(r.Message, r.Time)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

// aboutClient says that a record names a client, and so may be of its making.
func aboutClient(r slog.Record) (yes bool) {
	r.Attrs(func(a slog.Attr) bool {
		yes = a.Key == "client" || a.Key == "peer"
		return !yes
	})
	return yes
}

func (h limitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitHandler{h.Handler.WithAttrs(attrs), h.limits}
}

func (h limitHandler) WithGroup(name string) slog.Handler {
	return limitHandler{h.Handler.WithGroup(name), h.limits}
}

// logLimits has a bucket of tokens for each message.
type logLimits struct {
	mu      sync.Mutex
	buckets map[string]*logBucket
}

type logBucket struct {
	spent      time.Duration // logEvery for each line, less the time since
	last       time.Time
	suppressed int
}

// take says whether a line may be written, and how many were not since the last.
func (l *logLimits) take(text string, now time.Time) (ok bool, suppressed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[text]
	if b == nil {
		if len(l.buckets) >= logMostTexts {
			clear(l.buckets)
		}
		b = &logBucket{last: now}
		l.buckets[text] = b
	}
	b.spent = max(0, b.spent-now.Sub(b.last))
	b.last = now
	if b.spent > (logBurst-1)*logEvery {
		b.suppressed++
		return false, 0
	}
	b.spent += logEvery
	suppressed, b.suppressed = b.suppressed, 0
	return true, suppressed
}
