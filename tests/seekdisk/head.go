package seekdisk

import "time"

// head is the mechanics of the drive: a position and a time, moved by requests.
// It knows no clock; times are durations since any common origin.
type head struct {
	size        int64
	rate        int64
	seek        time.Duration
	trackBuffer int64
	ncq         int

	pos  int64         // where the last request ended
	free time.Duration // when it ended
}

func newHead(o Options) head {
	return head{size: o.Size, rate: o.Rate, seek: o.Seek, trackBuffer: o.TrackBuffer, ncq: o.NCQ}
}

// transfer is how long n bytes take to pass under the head.
func (h *head) transfer(n int64) time.Duration {
	return time.Duration(float64(n) / float64(h.rate) * float64(time.Second))
}

// pick chooses the next request of a queue in order of arrival: of the first ncq
// the one nearest ahead of the head, going round at the end of the disk.
func (h *head) pick(queue []*request) int {
	best, nearest := 0, h.size
	for i, r := range queue[:min(len(queue), h.ncq)] {
		ahead := r.off - h.pos
		if ahead < 0 {
			ahead += h.size
		}
		if ahead < nearest {
			best, nearest = i, ahead
		}
	}
	return best
}

// work is what a request had the head do.
type work struct {
	begin, end time.Duration
	cost       time.Duration // of the seek and the transfer
	sought     bool
}

// serve moves the head through a request that is taken up at now.
func (h *head) serve(r *request, now time.Duration) work {
	w := work{sought: r.off != h.pos, cost: h.transfer(r.n)}
	if w.sought {
		w.cost += h.seek
	}
	switch {
	case !w.sought:
		// The drive went on reading into its buffer since the last request.
		w.begin = max(h.free, now-h.transfer(h.trackBuffer))
	case r.arrived <= h.free:
		w.begin = h.free // it was waiting: the head turned to it at once
	default:
		w.begin = now
	}
	w.end = max(w.begin+w.cost, now)
	h.pos, h.free = r.off+r.n, w.end
	return w
}
