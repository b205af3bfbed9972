package peers

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	rsize      = 1 << 20 // what clients read at once
	sparseSize = 5 << 30
)

// sparseMarks are where the sparse file has data: at its ends and around the
// offsets where 32-bit arithmetic, signed or not, goes wrong.
var sparseMarks = []int64{0, 1<<31 - 8, 1 << 31, 1<<32 - 8, 1 << 32, sparseSize - 8}

// bigTree returns a tree of 10,000 files and everything else that a file
// system may hold. It is made once and must not be changed.
func bigTree(t *testing.T) string {
	t.Helper()
	dir, err := makeBigTree()
	must(t, err)
	return dir
}

var makeBigTree = sync.OnceValues(func() (string, error) {
	b := &treeBuilder{dir: filepath.Join(scratch, "tree"), random: newRandom(1)}
	b.many()
	b.oddNames()
	b.boundarySizes()
	b.sparse()
	b.links()
	b.specialFiles()
	b.modesAndTimes()
	return b.dir, b.err
})

// newRandom returns the same bytes for the same seed.
func newRandom(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

// treeBuilder makes files until the first error.
type treeBuilder struct {
	dir    string
	random *rand.ChaCha8
	err    error
}

func (b *treeBuilder) path(name string) string { return filepath.Join(b.dir, name) }

func (b *treeBuilder) do(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *treeBuilder) mkdir(name string) { b.do(os.MkdirAll(b.path(name), 0o755)) }

func (b *treeBuilder) file(name string, size int) {
	data := make([]byte, size)
	b.random.Read(data)
	b.do(os.WriteFile(b.path(name), data, 0o644))
}

// many makes one directory that needs several READDIRPLUS calls, many small
// ones, and a deep one.
func (b *treeBuilder) many() {
	b.mkdir("many")
	for i := range 6000 {
		b.file(fmt.Sprintf("many/file-%05d", i), i%300)
	}
	for d := range 60 {
		dir := fmt.Sprintf("spread/%02d", d)
		b.mkdir(dir)
		for i := range 65 {
			b.file(fmt.Sprintf("%s/%d.dat", dir, i), 100*i)
		}
	}
	deep := "deep" + strings.Repeat("/below", 60)
	b.mkdir(deep)
	b.file(deep+"/bottom", 10)
	b.mkdir("empty")
}

func (b *treeBuilder) oddNames() {
	b.mkdir("names")
	names := []string{
		"two\nlines", "\n", " ", "  lead and trail  ", "tab\there", `"double"`, "'single'", "`back`", `back\slash`,
		"-rf", "--help", "*", "?", "[a]", "$HOME", "#", "~", "%s%n", ";", "&", "|", "(", ">", "...", ".hidden", "a.", ":", "C:\\x",
		"gr\u00fc\u00dfe", "gru\u0308\u00dfe", "日本語", "🦀", "\u202eright-to-left", "\xff\xfe", "\xc3\x28", "half \xe6\x97", "\x7f", "\x1b[31m",
		strings.Repeat("n", 255), strings.Repeat("ü", 127) + "x", strings.Repeat("\xff", 255),
	}
	for c := byte(1); c < ' '; c++ {
		names = append(names, "control"+string(rune(c)))
	}
	for i, name := range names {
		b.file("names/"+name, 20+i)
	}
	b.mkdir("names/dir\nwith newline")
	b.file("names/dir\nwith newline/inside", 1)
}

func (b *treeBuilder) boundarySizes() {
	b.mkdir("sizes")
	sizes := []int{0, 1, 2, 3, 4, 5, 511, 512, 513, 4095, 4096, 4097, 8191, 8192, 8193, 16384, 32767, 32768, 32769,
		65535, 65536, 65537, 131072, 262143, 262144, 262145, rsize - 1, rsize, rsize + 1, 2*rsize - 1, 2 * rsize, 2*rsize + 1, 8*rsize + 5}
	for _, size := range sizes {
		b.file(fmt.Sprintf("sizes/%d", size), size)
	}
}

// sparse makes a file over 4 GiB with data at sparseMarks, and a smaller one
// that starts, goes on and ends with holes.
func (b *treeBuilder) sparse() {
	b.mkdir("sparse")
	b.holes("sparse/5g", sparseSize, sparseMarks...)
	b.holes("sparse/holes", 3*rsize+100, 300000, rsize+4096, 2*rsize-3)
}

func (b *treeBuilder) holes(name string, size int64, marks ...int64) {
	f, err := os.Create(b.path(name))
	if err != nil {
		b.do(err)
		return
	}
	defer f.Close()
	b.do(f.Truncate(size))
	for _, at := range marks {
		_, err := f.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(at)^0xa5a5a5a5a5a5a5a5), at)
		b.do(err)
	}
}

func (b *treeBuilder) links() {
	b.mkdir("links")
	for name, target := range map[string]string{
		"file":     "../sizes/4096",
		"near":     "hard1",
		"dir":      "../names",
		"dangling": "nowhere",
		"absolute": "/etc/hostname",
		"loop":     "loop",
		"odd":      "line\nbreak \xff",
		"long":     strings.Repeat("long/", 800),
		"longest":  strings.Repeat("x", unix.PathMax-1),
	} {
		b.do(os.Symlink(target, b.path("links/"+name)))
	}
	b.file("links/hard1", 777)
	b.do(os.Link(b.path("links/hard1"), b.path("links/hard2")))
	b.do(os.Link(b.path("links/hard1"), b.path("spread/hard3")))
}

func (b *treeBuilder) specialFiles() {
	b.mkdir("special")
	b.do(unix.Mkfifo(b.path("special/fifo"), 0o640))
	b.do(unix.Mknod(b.path("special/char"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	b.do(unix.Mknod(b.path("special/block"), unix.S_IFBLK|0o600, int(unix.Mkdev(259, 70000))))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.path("special/socket"), Net: "unix"})
	b.do(err)
	if err == nil {
		l.SetUnlinkOnClose(false)
		b.do(l.Close())
	}
}

func (b *treeBuilder) modesAndTimes() {
	for _, mode := range []uint32{0o000, 0o711, 0o755, 0o1777, 0o2755, 0o700} {
		dir := fmt.Sprintf("modes/dir-%04o", mode)
		b.mkdir(dir)
		b.file(dir+"/inside", 9)
		b.do(unix.Chmod(b.path(dir), mode))
	}
	for _, mode := range []uint32{0o000, 0o111, 0o400, 0o644, 0o4755, 0o2755, 0o1644, 0o7777} {
		name := fmt.Sprintf("modes/file-%04o", mode)
		b.file(name, 12)
		b.do(os.Chown(b.path(name), 1001, 1<<32-3))
		b.do(unix.Chmod(b.path(name), mode)) // after chown, which clears set-id bits
	}
	// NFSv3 counts seconds in 32 bits without a sign: 1970 to 2106.
	for name, at := range map[string]time.Time{
		"epoch": time.Unix(0, 1), "y2038": time.Unix(1<<31, 999999999), "y2105": time.Unix(1<<32-2, 5),
	} {
		b.file("modes/"+name, 3)
		b.do(os.Chtimes(b.path("modes/"+name), at, at))
	}
}
