package ioctx

import (
	"os"
	"strconv"
	"strings"
)

// DeviceStats counts what one device was asked to do.
type DeviceStats struct {
	Name      string `json:"name"`
	Streams   int    `json:"streams"`   // being read now
	InFlight  int    `json:"in_flight"` // units being read now
	Requests  uint64 `json:"requests"`  // units that were read
	Bytes     uint64 `json:"bytes"`     // in them
	Ahead     uint64 `json:"ahead"`     // bytes of them read for streams
	Hits      uint64 `json:"hits"`      // READs that found what was read ahead
	Waits     uint64 `json:"waits"`     // READs that waited for the device
	Coalesced uint64 `json:"coalesced"` // READs that waited for what was on its way already
	Turns     uint64 `json:"turns"`     // changes to another stream
	Waste     uint64 `json:"waste"`     // bytes read ahead that nobody asked for
	Lost      uint64 `json:"lost"`      // times that what was read ahead was gone when asked for
	Failed    uint64 `json:"failed"`    // units that could not be read this way
	GaveUp    uint64 `json:"gave_up"`   // READs whose clients were told to come back later
	Stuck     bool   `json:"stuck"`     // the device does not answer
}

func (s *DeviceStats) add(o *DeviceStats) {
	s.Streams += o.Streams
	s.InFlight += o.InFlight
	s.Requests += o.Requests
	s.Bytes += o.Bytes
	s.Ahead += o.Ahead
	s.Hits += o.Hits
	s.Waits += o.Waits
	s.Coalesced += o.Coalesced
	s.Turns += o.Turns
	s.Waste += o.Waste
	s.Lost += o.Lost
	s.Failed += o.Failed
	s.GaveUp += o.GaveUp
	s.Stuck = s.Stuck || o.Stuck
}

// Stats is what the context has done.
type Stats struct {
	// Mode is shared, private, or threads where there is no io_uring.
	Mode       string        `json:"mode"`
	Submitters int           `json:"submitters"`
	Contexts   int           `json:"contexts"` // distinct kernel io_contexts of submitters and workers; -1 if unknown
	Workers    int           `json:"workers"`  // io-wq workers
	ReadAhead  string        `json:"readahead"`
	Total      DeviceStats   `json:"total"`
	Devices    []DeviceStats `json:"devices"`
}

// Stats returns a snapshot.
func (c *Context) Stats() Stats {
	s := Stats{Mode: c.mode(), Submitters: len(c.lanes), ReadAhead: c.readAhead(), Devices: []DeviceStats{}}
	s.Contexts, s.Workers = c.countContexts()
	for _, d := range c.allDevices() {
		ds := d.snapshot()
		s.Total.add(&ds)
		s.Devices = append(s.Devices, ds)
	}
	s.Total.Name = "total"
	return s
}

func (c *Context) mode() string {
	if _, threads := c.lanes[0].(*threadLane); threads {
		return "threads"
	}
	if c.cfg.Private > 0 {
		return "private"
	}
	return "shared"
}

func (c *Context) readAhead() string {
	switch c.cfg.ReadAhead {
	case ReadAheadAuto:
		return "auto"
	case ReadAheadOff:
		return "off"
	}
	return strconv.FormatInt(c.cfg.ReadAhead, 10)
}

func (d *device) snapshot() DeviceStats {
	streams := d.countStreams()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Name, s.Streams, s.Stuck = d.name, streams, d.stuck.Load()
	s.InFlight = d.turns.demandsOut + d.turns.streamsOut
	return s
}

// countContexts counts the kernel io_contexts of the submitters and their io-wq
// workers, by comparing them with kcmp(2). Each of them has one, for submitters
// set an I/O priority; two tasks without any would look equal.
func (c *Context) countContexts() (contexts, workers int) {
	tids, workers := c.ioTasks()
	var distinct []int
	for _, tid := range tids {
		known := false
		for _, other := range distinct {
			same, err := sameIOContext(tid, other)
			if err != nil {
				return -1, workers
			}
			known = known || same
		}
		if !known {
			distinct = append(distinct, tid)
		}
	}
	return len(distinct), workers
}

// ioTasks lists the tasks that read from disks for the context: the submitters
// and their io-wq workers, which are named for the task whose work they do.
func (c *Context) ioTasks() (tids []int, workers int) {
	names := make(map[string]bool)
	for _, l := range c.lanes {
		if r, ok := l.(*ringLane); ok {
			tids = append(tids, r.tid)
			names["iou-wrk-"+strconv.Itoa(r.tid)] = true
		}
	}
	dir, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return tids, 0
	}
	for _, e := range dir {
		if !names[readLine("/proc/self/task/"+e.Name()+"/comm")] {
			continue
		}
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
			workers++
		}
	}
	return tids, workers
}

// memAvailable returns what the kernel thinks can be used without swapping, in
// bytes (proc_meminfo(5)); if it does not say, enough for a few streams.
func memAvailable() int64 {
	const unknown = 1 << 30
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 40)
			if err == nil {
				return kib << 10
			}
		}
	}
	return unknown
}
