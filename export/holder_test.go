package export

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// conf makes an exports file and a holder of it.
func conf(t *testing.T, text string) (*Holder, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "exports")
	write(t, file, text)
	h, _, err := NewHolder(context.Background(), LoadOptions{File: file, Dir: file + ".d", Root: tree(t), Resolver: caseHosts(t)})
	if err != nil {
		t.Fatal(err)
	}
	return h, file
}

func TestReload(t *testing.T) {
	h, file := conf(t, "/E/a *(ro)\n")
	first := h.State()
	write(t, file, "/E/b *(ro)\n")
	if _, err := h.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if h.Generation() == first.Generation || h.Table().Export("/E/b") == nil || h.Table().Export("/E/a") != nil {
		t.Errorf("generation %d, %v", h.Generation(), h.Table().EtabLines())
	}
	if first.Table().Export("/E/a") == nil {
		t.Error("a table that was handed out has changed")
	}
	held := h.State()
	write(t, file, "/E/a *(ro)\n/E/b *(zork)\n")
	if diags, err := h.Reload(context.Background()); !errors.Is(err, ErrRefused) || !diags.HasErrors() {
		t.Errorf("%v, %v", diags, err)
	}
	os.Remove(file)
	if _, err := h.Reload(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if h.State() != held {
		t.Error("a file with an error replaced the table")
	}
	if _, err := HoldTable(h.Table(), nil).Reload(context.Background()); err == nil {
		t.Error("a fixed table was reloaded")
	}
}

// TestReloadWhileMatching is for the race detector, and for half-made tables.
func TestReloadWhileMatching(t *testing.T) {
	h, file := conf(t, "/E/a *(ro)\n/E/b *(ro)\n")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := h.State()
				a, _ := s.Match(s.Table().Export("/E/a"), bigAddr)
				b, _ := s.Match(s.Table().Export("/E/b"), bigAddr)
				if a == nil || b == nil || a.Options.AnonUID != b.Options.AnonUID {
					t.Error("half a table")
					return
				}
			}
		})
	}
	for i := range 100 {
		write(t, file, fmt.Sprintf("/E/a *(ro,anonuid=%d)\n/E/b *(ro,anonuid=%d)\n", i, i))
		if _, err := h.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

// TestWatch changes the files as editors and people do.
func TestWatch(t *testing.T) {
	h, file := conf(t, "/E/a *(ro)\n")
	dir := file + ".d"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type call struct {
		diags Diagnostics
		err   error
	}
	calls := make(chan call, 100)
	ended := make(chan error, 1)
	// This change falls between the first load and Watch.
	write(t, file, "/E/b *(ro)\n")
	go func() { ended <- h.Watch(ctx, func(d Diagnostics, err error) { calls <- call{d, err} }) }()
	expect := func(what string, want error, exports ...string) {
		t.Helper()
		select {
		case c := <-calls:
			if !errors.Is(c.err, want) {
				t.Errorf("%s: %v\n%v", what, c.err, c.diags)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nothing happened", what)
		}
		var got []string
		for _, x := range h.Table().Exports() {
			got = append(got, x.Path)
		}
		if fmt.Sprint(got) != fmt.Sprint(exports) {
			t.Errorf("%s: %v, want %v", what, got, exports)
		}
	}
	expect("changed before", nil, "/E/b")
	write(t, file, "/E/a *(ro)\n")
	expect("written in place", nil, "/E/a")
	write(t, file+".new", "/E/b *(ro)\n")
	os.Rename(file+".new", file)
	expect("replaced", nil, "/E/b")
	write(t, file, "/E/b *(zork)\n")
	expect("an error", ErrRefused, "/E/b")
	os.Remove(file)
	expect("removed", os.ErrNotExist, "/E/b")
	write(t, file, "/E/b *(ro)\n")
	expect("back", nil, "/E/b")
	os.Mkdir(dir, 0o755)
	expect("exports.d made", nil, "/E/b")
	write(t, filepath.Join(dir, "one.exports"), "/E/f *(ro)\n")
	expect("file in exports.d", nil, "/E/b", "/E/f")
	write(t, filepath.Join(dir, "ignored"), "/E/a *(ro)\n")
	os.RemoveAll(dir)
	expect("exports.d removed", nil, "/E/b")
	// The file may be a link.
	target := filepath.Join(t.TempDir(), "x")
	write(t, target, "/E/b *(ro)\n")
	os.Symlink(target, file+".new")
	os.Rename(file+".new", file)
	expect("became a link", nil, "/E/b")
	write(t, target, "/E/a *(ro)\n")
	expect("changed behind the link", nil, "/E/a")
	os.Remove(file)
	expect("link removed", os.ErrNotExist, "/E/a")
	for i := range 20 { // one reload, not twenty
		write(t, file, strings.Repeat("#\n", i)+"/E/a *(ro)\n")
	}
	expect("many writes", nil, "/E/a")
	time.Sleep(3 * settle)
	if n := len(calls); n > 1 {
		t.Errorf("%d more reloads than needed", n)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestWatchEmptied: a program that writes the file anew empties it first, and may
// take its time. Nobody loses his export meanwhile; a file that stays empty is
// taken at its word.
func TestWatchEmptied(t *testing.T) {
	h, file := conf(t, "/E/a *(ro)\n")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls := make(chan int, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- h.Watch(ctx, func(Diagnostics, error) { calls <- len(h.Table().Exports()) })
	}()
	expect := func(want int) {
		t.Helper()
		select {
		case n := <-calls:
			if n != want {
				t.Errorf("%d exports, want %d", n, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("nothing happened")
		}
	}
	write(t, file, "/E/b *(ro)\n/E/f *(ro)\n")
	expect(2)
	write(t, file, "")
	time.Sleep(5 * settle)
	write(t, file, "/E/a *(ro)\n")
	expect(1)
	write(t, file, "")
	expect(0)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNoFileYet: a server may start before its exports file is there.
func TestNoFileYet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exports")
	h, _, err := NewHolder(context.Background(), LoadOptions{File: file, Root: tree(t), Resolver: caseHosts(t)})
	if !errors.Is(err, os.ErrNotExist) || h.Table().Len() != 0 {
		t.Fatal(err)
	}
	if x, e := h.State().Find(context.Background(), "/E/a", netip.MustParseAddr("10.0.0.1")); x != nil || e != nil {
		t.Error("an empty table exports something")
	}
	write(t, file, "/E/a *(ro)\n")
	if _, err := h.Reload(context.Background()); err != nil || h.Table().Len() != 1 {
		t.Error(err)
	}
}

// TestReloadUnlessSame: reading again for names that did not resolve leaves a
// table alone until something has changed.
func TestReloadUnlessSame(t *testing.T) {
	h, file := conf(t, "/E/a late.example.org(ro) big(ro)\n")
	if h.Table().unresolved != 1 {
		t.Fatalf("%d unresolved", h.Table().unresolved)
	}
	before := h.Generation()
	if _, err := h.reload(context.Background(), true); err != nil || h.Generation() != before {
		t.Error(err, "an unchanged table was replaced")
	}
	hosts := caseHosts(t)
	late := netip.MustParseAddr("10.9.9.99")
	hosts.names["late.example.org"] = "late.example.org"
	hosts.addrs["late.example.org"] = []netip.Addr{late}
	h.o.Resolver = hosts
	if _, err := h.reload(context.Background(), true); err != nil || h.Generation() == before {
		t.Error(err, "a host that resolves now was not seen")
	}
	s := h.State()
	if e, known := s.Match(s.Table().Export("/E/a"), late); !known || matchName(e) != "late.example.org" {
		t.Error(matchName(e))
	}
	write(t, file, "# a line more\n/E/a late.example.org(ro) big(ro)\n")
	if _, err := h.reload(context.Background(), true); err != nil || h.State() == s {
		t.Error(err, "entries that moved were not seen")
	}
}
