package sendpath

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// TestMain is a gate at the end: whatever the tests open is closed again.
func TestMain(m *testing.M) {
	if r, w, err := os.Pipe(); err == nil { // the runtime's epoll
		r.Close()
		w.Close()
	}
	before := descriptors()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); descriptors() > before && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if after := descriptors(); code == 0 && after > before {
		fmt.Printf("sendpath: %d descriptors after the tests, %d before\n", after, before)
		code = 1
	}
	os.Exit(code)
}

func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}
