package numa

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The process's first thread does not end with a goroutine that is locked to it,
// and would stay pinned. So the main goroutine keeps it.
func init() { runtime.LockOSThread() }

// threadState is what /proc says of a thread of this process.
type threadState struct{ cpus, policy string }

// readThread looks at a thread; false if it has ended meanwhile. The policy is
// the second word of a line in numa_maps (proc(5)), that of memory without a
// policy of its own; "" where the kernel has no such file.
func readThread(tid string) (s threadState, ok bool) {
	dir := "/proc/self/task/" + tid
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return s, false
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			s.cpus = strings.TrimSpace(v)
		}
	}
	maps, _ := os.ReadFile(dir + "/numa_maps")
	for line := range strings.Lines(string(maps)) {
		if f := strings.Fields(line); len(f) > 2 && strings.Contains(line, "stack") {
			s.policy = f[1]
		}
	}
	return s, true
}

// onlyCPU is a placement on one of the CPUs of this process.
func onlyCPU(t *testing.T) (Placement, *Topology) {
	t.Helper()
	topo, err := Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	if len(topo.CPUs) < 2 {
		t.Skip("SKIPPED: pinning cannot be seen on a single CPU")
	}
	return Placement{Node: topo.Mems[0], CPUs: topo.CPUs[:1], Memory: topo.Mems[0], Strict: true}, topo
}

// onPinnedThread runs f on a thread that is pinned and ends with it.
func onPinnedThread(t *testing.T, p Placement, f func(tid string)) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := p.Pin(); err != nil {
			done <- err
			return
		}
		f(fmt.Sprint(unix.Gettid()))
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestPin(t *testing.T) {
	p, topo := onlyCPU(t)
	for _, row := range []struct {
		p    Placement
		want threadState
	}{
		{Placement{}, threadState{topo.CPUs.String(), "default"}},
		{p, threadState{p.CPUs.String(), fmt.Sprintf("bind:%d", p.Memory)}},
		{Placement{Node: p.Node, CPUs: topo.CPUs[1:2], Memory: p.Memory}, threadState{topo.CPUs[1:2].String(), fmt.Sprintf("prefer:%d", p.Memory)}},
	} {
		onPinnedThread(t, row.p, func(tid string) {
			got, _ := readThread(tid)
			if got.policy == "" {
				t.Log("no numa_maps here: the memory policy is NOT CHECKED")
				got.policy = row.want.policy
			}
			if got != row.want {
				t.Errorf("%+v: the thread has %+v, want %+v", row.p, got, row.want)
			}
		})
	}
}

// The runtime's own threads are not pinned, not even those it needs while and
// because a pinned thread runs.
func TestGoThreadsAreNotPinned(t *testing.T) {
	p, topo := onlyCPU(t)
	onPinnedThread(t, p, func(pinned string) {
		before := countThreads(t)
		blocked := before + 20 // more than idle threads can take
		// Blocking system calls occupy a thread each; this goroutine, on the
		// pinned thread, is the one that makes them ready to run.
		var done sync.WaitGroup
		r, w := pipe(t)
		for range blocked {
			done.Go(func() { _, _ = unix.Read(r, make([]byte, 1)) })
		}
		deadline := time.Now().Add(20 * time.Second)
		for countThreads(t) < blocked && time.Now().Before(deadline) {
			runtime.Gosched()
			_, _ = unix.Poll(nil, 1) // a system call that waits: the processor goes to another thread
		}
		if n := countThreads(t); n < blocked {
			t.Errorf("%d threads, %d before: the runtime had no need to make any", n, before)
		}
		checkOthers(t, pinned, topo.CPUs.String())
		_, _ = unix.Write(w, bytes.Repeat([]byte{0}, blocked))
		done.Wait()
	})
}

func checkOthers(t *testing.T, pinned, cpus string) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		s, ok := readThread(task.Name())
		if !ok || task.Name() == pinned {
			continue
		}
		if s.cpus != cpus || s.policy != "default" && s.policy != "" {
			t.Errorf("thread %s has CPUs %s and memory policy %s, want %s and default", task.Name(), s.cpus, s.policy, cpus)
		}
	}
}

func countThreads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// pipe is one of blocking descriptors.
func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return fds[0], fds[1]
}

// Bound memory has the policy, page by page, and only it; its pages are new.
func TestBind(t *testing.T) {
	p, _ := onlyCPU(t)
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 8*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	fill(b)
	if err := p.Bind(b[1 : 2 : 4*page+1]); err != nil { // three whole pages and two parts
		t.Fatal(err)
	}
	for i, v := range b {
		if isNew := i >= page && i < 4*page; isNew != (v == 0) {
			t.Fatalf("byte %d of page %d is %d", i, i/page, v)
		}
	}
	fill(b)
	for _, small := range [][]byte{nil, {}, make([]byte, 3), b[1:page:page]} {
		if err := p.Bind(small); err != nil {
			t.Errorf("%d bytes: %v", len(small), err)
		}
	}
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	want := fmt.Sprintf("bind:%d anon=3 dirty=3", p.Memory)
	if !strings.Contains(string(maps), want) {
		t.Errorf("no %q in numa_maps:\n%s", want, maps)
	}
}

func fill(b []byte) {
	for i := range b {
		b[i] = 1
	}
}
