package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"syscall"
)

// DefaultFile is where exports are by default.
const DefaultFile = "/etc/exports"

// LoadOptions says where the table comes from.
type LoadOptions struct {
	// File is the exports file; DefaultFile if empty.
	File string
	// Dir holds further files, *.exports. If empty, it is /etc/exports.d for
	// /etc/exports, and there is none for any other file.
	Dir string
	// Root is where exported paths and the links on the way are looked up;
	// "/" if empty.
	Root string
	// Resolver resolves host names; SystemResolver() if nil.
	Resolver Resolver
}

func (o LoadOptions) withDefaults() LoadOptions {
	if o.File == "" {
		o.File = DefaultFile
	}
	if o.Dir == "" && o.File == DefaultFile {
		o.Dir = DefaultFile + ".d"
	}
	return o
}

// Load reads an exports file and its directory. It returns an error only where
// there was nothing to read; everything else is in the diagnostics, and the
// table holds what exportfs would have kept.
func Load(ctx context.Context, o LoadOptions) (*Table, Diagnostics, error) {
	o = o.withDefaults()
	rep := &reporter{}
	files := []string{o.File}
	budget := int64(maxTotalBytes)
	var sources []*source
	main, mainErr := readSource(o.File, &budget)
	if mainErr == nil {
		sources = append(sources, main)
	}
	names := dirFiles(o.Dir, rep)
	for _, name := range names {
		files = append(files, name)
		src, err := readSource(name, &budget)
		if err != nil {
			sev := Error
			if errors.Is(err, syscall.EISDIR) { // exportfs reads nothing from it
				sev = Warning
			}
			rep.file(name, sev, sev == Error, "", "cannot read it: %s", reason(err))
			continue
		}
		sources = append(sources, src)
	}
	if len(sources) == 0 {
		return nil, rep.finish(files), fmt.Errorf("reading exports: %w", mainErr)
	}
	if mainErr != nil {
		// Only what cannot be read is an error; a file may be absent.
		sev := Error
		if errors.Is(mainErr, fs.ErrNotExist) {
			sev = Warning
		}
		rep.file(o.File, sev, true, "", "cannot read it: %s", reason(mainErr))
	}
	table, _ := buildTable(ctx, o, rep, sources)
	if err := ctx.Err(); err != nil {
		return nil, rep.finish(files), err
	}
	return table, rep.finish(files), nil
}

// Parse reads one file from memory. Entries are in file order, linked to their
// exports.
func Parse(name string, src []byte, o LoadOptions) ([]*Entry, Diagnostics) {
	_, entries, diags := parseTable(context.Background(), name, src, o)
	return entries, diags
}

func parseTable(ctx context.Context, name string, src []byte, o LoadOptions) (*Table, []*Entry, Diagnostics) {
	rep := &reporter{}
	if len(src) > maxFileBytes {
		rep.file(name, Error, true, "", "%d bytes; an exports file may have %d", len(src), maxFileBytes)
		return newTable().seal(), nil, rep.finish([]string{name})
	}
	table, entries := buildTable(ctx, o, rep, []*source{{name, src}})
	return table, entries, rep.finish([]string{name})
}

// buildTable goes from sources to a sealed table.
func buildTable(ctx context.Context, o LoadOptions, rep *reporter, sources []*source) (*Table, []*Entry) {
	var raw []rawEntry
	for _, src := range sources {
		raw = append(raw, parseSource(src, rep, maxEntries-len(raw))...)
	}
	b := newBuilder(ctx, o, rep)
	entries := b.build(raw)
	checkTable(b.table, entries, rep)
	return b.table.seal(), entries
}

// readSource reads a regular file within bounds. It opens without waiting:
// a FIFO in exports.d must not stop the server.
func readSource(name string, budget *int64) (*source, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return nil, syscall.EISDIR
	}
	if !fi.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	limit := min(int64(maxFileBytes), *budget)
	if fi.Size() > limit {
		return nil, tooLarge(limit)
	}
	var buf bytes.Buffer
	buf.Grow(int(fi.Size()) + bytes.MinRead)
	n, err := buf.ReadFrom(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit { // it grew
		return nil, tooLarge(limit)
	}
	*budget -= n
	return &source{name, buf.Bytes()}, nil
}

func tooLarge(limit int64) error {
	if limit < maxFileBytes {
		return fmt.Errorf("it is too large: all exports files together may have %d bytes", maxTotalBytes)
	}
	return fmt.Errorf("it is too large: an exports file may have %d bytes", maxFileBytes)
}

// dirFiles lists the files of exports.d that exportfs reads, in its order: no
// dot files, names ending in .exports, 9 before 10.
func dirFiles(dir string, rep *reporter) []string {
	if dir == "" {
		return nil
	}
	f, err := os.Open(dir)
	if err == nil {
		defer f.Close()
		var list []fs.DirEntry
		list, err = f.ReadDir(maxDirFiles + 1)
		if err == nil && len(list) > maxDirFiles {
			rep.file(dir, Error, true, "", "more than %d files", maxDirFiles)
			list = list[:maxDirFiles]
		}
		if err == nil {
			return exportsFiles(dir, list)
		}
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.EOF) {
		rep.file(dir, Error, false, "", "cannot read it: %s", reason(err))
	}
	return nil
}

func exportsFiles(dir string, list []fs.DirEntry) (names []string) {
	for _, d := range list {
		regular := d.Type().IsRegular() || d.Type()&fs.ModeSymlink != 0
		if regular && !strings.HasPrefix(d.Name(), ".") && strings.HasSuffix(d.Name(), ".exports") {
			names = append(names, d.Name())
		}
	}
	slices.SortFunc(names, strverscmp)
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	return names
}

// strverscmp orders names as versionsort(3) does: a run of digits counts as a
// number, unless it starts with zeros, when it counts as a fraction and more
// zeros come first: 000 < 00 < 01 < 010 < 09 < 0 < 1 < 9 < 10.
func strverscmp(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	start := i
	for start > 0 && isDigit(a, start-1) {
		start--
	}
	// The run of digits around the difference, if there is one.
	inRun := start < i
	da, db := isDigit(a, i), isDigit(b, i)
	if !da && !db || !inRun && (!da || !db) {
		return byteAt(a, i) - byteAt(b, i)
	}
	if fraction(a, b, start, i) {
		return compareFraction(a, b, start, i)
	}
	ea, eb := runEnd(a, i), runEnd(b, i)
	if ea != eb {
		return ea - eb
	}
	return byteAt(a, i) - byteAt(b, i)
}

// fraction reports whether the digits from start count as a fraction.
func fraction(a, b string, start, i int) bool {
	if start < i {
		return a[start] == '0'
	}
	return a[i] == '0' || b[i] == '0'
}

// compareFraction compares after a common part that begins with a zero. A
// number that ends there is more than one that goes on only if the common
// part is nothing but zeros and what follows is a digit.
func compareFraction(a, b string, start, i int) int {
	da, db := isDigit(a, i), isDigit(b, i)
	if da != db && strings.Trim(a[start:i], "0") == "" {
		return b2i(db) - b2i(da)
	}
	return byteAt(a, i) - byteAt(b, i)
}

func isDigit(s string, i int) bool { return i < len(s) && '0' <= s[i] && s[i] <= '9' }

func byteAt(s string, i int) int {
	if i < len(s) {
		return int(s[i])
	}
	return 0
}

func runEnd(s string, i int) int {
	for isDigit(s, i) {
		i++
	}
	return i
}
