package ioctx

import "time"

// window is how far a stream is read ahead. It grows while the stream goes on,
// to what covers the time that data takes to come, and shrinks when pages are
// lost before they are used, as happens under memory pressure.
type window struct {
	size int64
	// cap is what is allowed after a loss; it recovers slowly. 0 is no cap.
	cap int64

	// rate is how fast the stream is consumed, in bytes per second; latency how
	// long what it asks for takes to come, its wait for a turn included.
	rate    float64
	latency time.Duration

	since time.Time // of the bytes below
	bytes int64
}

// start gives the first window, for requests of n bytes.
func (w *window) start(n int64) { w.size = min(max(4*n, windowFirst), windowStartMax) }

// grow is called whenever the window has moved on by half of itself. limit is
// what the context allows to a stream.
func (w *window) grow(limit int64) {
	w.size = min(2*w.size, max(w.needed(), windowSteady), limit)
	if w.cap > 0 {
		w.size = min(w.size, w.cap)
		w.cap += windowRecover
		if w.cap >= windowMax {
			w.cap = 0
		}
	}
	w.size = max(w.size, windowFirst)
}

// needed is the window that keeps the consumer busy: twice what it takes in
// while a request is on its way.
func (w *window) needed() int64 {
	return min(int64(2*w.rate*w.latency.Seconds()), windowMax)
}

// lost says that what was read ahead was gone when it was asked for.
func (w *window) lost() {
	w.size = max(w.size/2, windowFirst)
	w.cap = w.size
}

// consumed counts bytes asked for, up to now.
func (w *window) consumed(n int64, now time.Time) {
	if w.since.IsZero() {
		w.since = now
	}
	w.bytes += n
	d := now.Sub(w.since)
	if d < rateOver {
		return
	}
	w.rate = smooth(w.rate, float64(w.bytes)/d.Seconds())
	w.since, w.bytes = now, 0
}

// came says how long what was asked for took to come.
func (w *window) came(d time.Duration) {
	w.latency = time.Duration(smooth(float64(w.latency), float64(d)))
}

// smooth is an exponential average that starts with its first value.
func smooth(avg, v float64) float64 {
	if avg == 0 {
		return v
	}
	return avg + (v-avg)/4
}
