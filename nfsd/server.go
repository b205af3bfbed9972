package nfsd

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/export"
	"sluice/ioctx"
	"sluice/nfsd/sendpath"
	"sluice/rpc"
)

// Config says how the NFS service works. The zero value of a field takes the
// default that is named.
type Config struct {
	// StateDir holds the handle key. Required.
	StateDir string
	// MaxRead is the longest READ in bytes, a power of two from 4 KiB to 4 MiB.
	// Default 1 MiB.
	MaxRead int
	// Send is how READ data leaves. Log is the service's by default.
	Send sendpath.Config
	// SendLane says which of Send's rings the calling thread uses. It is called once
	// on each thread that answers calls, in its place. Default the first.
	SendLane func() int
	// IO is the shared I/O context. MaxFiles is 4096 by default, MaxPipes 512, Log
	// the service's.
	IO ioctx.Config
	// Log receives what the operator should know. Default slog.Default.
	Log *slog.Logger
}

func (c *Config) fill() error {
	if c.StateDir == "" {
		return errors.New("nfsd: Config.StateDir is empty")
	}
	if c.MaxRead == 0 {
		c.MaxRead = 1 << 20
	}
	if c.MaxRead < 4<<10 || c.MaxRead > 4<<20 || c.MaxRead&(c.MaxRead-1) != 0 {
		return fmt.Errorf("largest read of %d bytes: must be a power of two from 4 KiB to 4 MiB", c.MaxRead)
	}
	if c.SendLane == nil {
		c.SendLane = func() int { return 0 }
	}
	if c.IO.MaxFiles == 0 {
		c.IO.MaxFiles = 4096
	}
	if c.IO.MaxPipes == 0 {
		c.IO.MaxPipes = 512
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.IO.Log == nil {
		c.IO.Log = c.Log
	}
	c.Send.Amend = amendRead
	if c.Send.Log == nil {
		c.Send.Log = c.Log
	}
	return nil
}

// Server is the NFS and MOUNT service. It has no network of its own: rpc.Server
// runs its Programs.
type Server struct {
	cfg        Config
	log        *slog.Logger
	key        handleKey
	switches   bool // may take on callers' identities
	io         *ioctx.Context
	send       *sendpath.Sender
	threads    atomic.Uint32 // made so far
	identities identities
	names      names
	mounted    mountList
	dirs       openDirs
	mountWatch mountWatch

	// sharesMu serializes changes of shares and mounts. Before openDirs.mu.
	sharesMu sync.Mutex
	shares   atomic.Pointer[shareSet]
	mounts   atomic.Pointer[mountTable] // as shares know them
}

// NewServer makes a service that exports nothing yet.
func NewServer(cfg Config) (*Server, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	key, err := loadKey(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	io := ioctx.New(cfg.IO)
	io.Pipes.Size = cfg.MaxRead
	s := &Server{cfg: cfg, log: cfg.Log, key: key, switches: probeSwitch(), io: io,
		send: sendpath.New(cfg.Send, io)}
	s.names.seed = maphash.MakeSeed()
	s.calibrate()
	s.dirs.max = min(max(cfg.IO.MaxFiles/8, 16), 256)
	s.mountWatch.start(s.refreshMounts)
	s.SetExports(export.NewMatcher(new(export.Table), nil))
	return s, nil
}

// calibrate chooses the send path by size and tells the operator.
func (s *Server) calibrate() {
	if err := s.send.Calibrate(); err != nil {
		s.log.Warn("send path not measured", "error", err)
	}
	s.log.Info("send path", "mode", s.send.Mode().String(), "copied up to", s.send.SmallLimit(), "measured", s.send.Calibrated())
}

// Switches says whether the service can act as its callers. If not, it serves
// everything with its own rights.
func (s *Server) Switches() bool { return s.switches }

// Stats is a snapshot of the service's counters.
type Stats struct {
	FilesOpen      int    // in the cache of open files
	FilesOpened    uint64 // since start
	FilesEvicted   uint64 // closed for want of room
	PipesInUse     int
	PipesMade      uint64
	PipesDiscarded uint64 // closed because they were not empty
	Send           sendpath.Stats
	ReadsFetched   uint64 // whose data a waiting thread brought from a disk
	NamesKnown     uint64 // LOOKUPs answered from what was found before
	IO             ioctx.Stats
}

// Stats returns a snapshot.
func (s *Server) Stats() Stats {
	return Stats{
		FilesOpen: s.io.Files.Len(), FilesOpened: s.io.Files.Opened.Load(), FilesEvicted: s.io.Files.Evicted.Load(),
		PipesInUse: s.io.Pipes.InUse(), PipesMade: s.io.Pipes.Made.Load(), PipesDiscarded: s.io.Pipes.Discarded.Load(),
		Send: s.send.Stats(), ReadsFetched: s.io.Fetched.Load(),
		NamesKnown: s.names.Hits.Load(), IO: s.io.Stats(),
	}
}

// Close gives back what the service holds. No call may be under way.
func (s *Server) Close() {
	s.mountWatch.close()
	s.dirs.close()
	s.send.Close()
	s.io.Close()
}

// probeSwitch runs canSwitch on a thread that ends afterwards.
func probeSwitch() bool {
	done := make(chan bool)
	go func() {
		// Not unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		done <- canSwitch()
	}()
	return <-done
}

// worker is what a thread has of its own: its identity and its buffers. One call
// at a time uses it.
type worker struct {
	srv     *Server
	lane    int       // its submitter in the I/O context
	ring    int       // its ring of the send path
	now     *identity // who the thread acts as; nil if unknown
	target  target
	child   attr
	kh      kernelHandle
	how     unix.OpenHow
	groups  [rpc.MaxGroups]uint32
	path    [32]byte
	name    [nfs3MaxName + 1]byte
	fh      [nfs3FHSize]byte
	dirbuf  []byte // made when first needed
	listing listing
}

// NewThread is rpc.Config.NewThread.
func (s *Server) NewThread() any {
	n := s.threads.Add(1) - 1
	return &worker{srv: s, lane: int(n) % s.io.Lanes(), ring: s.cfg.SendLane()}
}

// NewConn is rpc.Config.NewConn.
func (s *Server) NewConn(netip.AddrPort) any { return new(connState) }
