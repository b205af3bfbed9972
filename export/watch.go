package export

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watch reloads the table whenever its files change, until ctx is done, and
// calls onChange after each attempt with what Reload returned. It watches the
// directories of the files, not the files: editors replace a file instead of
// writing to it. It also reads the files again now and then while host names
// in them do not resolve, and calls onChange only if that changed the table.
func (h *Holder) Watch(ctx context.Context, onChange func(Diagnostics, error)) error {
	if h.o.File == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	fw, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer fw.Close()
	w := watch{h: h, fw: fw, onChange: onChange}
	if err := fw.Add(filepath.Dir(h.o.File)); err != nil {
		return err
	}
	w.watchDirs()
	// What changed between the first load and now was not seen.
	w.changed()
	return w.run(ctx)
}

type watch struct {
	h        *Holder
	fw       *fsnotify.Watcher
	onChange func(Diagnostics, error)

	real     string // where the file was when last read
	seen     bool   // an event, as opposed to the look at the start
	timer    *time.Timer
	deadline time.Time // of a reload that changes keep putting off
}

// watchDirs watches exports.d and its parent, so that its coming is seen, and
// where the file is if it is a symbolic link.
func (w *watch) watchDirs() {
	if d := w.h.o.Dir; d != "" {
		_ = w.fw.Add(filepath.Dir(d))
		_ = w.fw.Add(d) // it need not exist
	}
	if w.real = w.realFile(); w.real != "" {
		_ = w.fw.Add(filepath.Dir(w.real))
	}
}

// realFile is where the file is in the end, or "" if it is nowhere.
func (w *watch) realFile() string {
	p, _ := filepath.EvalSymlinks(w.h.o.File)
	return p
}

// concerns reports whether an event is about our files.
func (w *watch) concerns(name string) bool {
	name = filepath.Clean(name)
	if name == filepath.Clean(w.h.o.File) || name == w.real || w.realFile() != w.real {
		return true
	}
	if w.h.o.Dir == "" {
		return false
	}
	dir := filepath.Clean(w.h.o.Dir)
	return name == dir || filepath.Dir(name) == dir && filepath.Ext(name) == ".exports"
}

// changed puts the reload to a moment when the files have been quiet for a
// while, but not for ever.
func (w *watch) changed() {
	now := time.Now()
	if w.deadline.IsZero() {
		w.deadline = now.Add(settleMax)
	}
	wait := min(settle, max(time.Until(w.deadline), 0))
	if w.timer == nil {
		w.timer = time.NewTimer(wait)
		return
	}
	w.timer.Reset(wait)
}

// emptied says that the file is empty, as it is for a moment while a program
// writes it anew in place. Taken at its word it would end all exports.
func (w *watch) emptied() bool {
	st, err := os.Stat(w.h.o.File)
	return err == nil && st.Size() == 0
}

func (w *watch) run(ctx context.Context) error {
	retry := time.NewTicker(retryUnresolved)
	defer retry.Stop()
	defer w.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ev, ok := <-w.fw.Events:
			if !ok {
				return fsnotify.ErrClosed
			}
			if w.concerns(ev.Name) && ev.Op != fsnotify.Chmod {
				w.seen = true
				w.changed()
			}
		case err, ok := <-w.fw.Errors:
			if !ok {
				return fsnotify.ErrClosed
			}
			_ = err // the queue overflowed: something changed
			w.seen = true
			w.changed()
		case <-w.timer.C:
			if w.emptied() && time.Now().Before(w.deadline) {
				w.changed()
				continue
			}
			w.deadline = time.Time{}
			w.watchDirs() // exports.d may be new, or another one
			w.reload(ctx, !w.seen)
			w.seen = false
		case <-retry.C:
			if w.h.Table().unresolved > 0 {
				w.reload(ctx, true)
			}
		}
	}
}

// reload reads the files again. If quiet, onChange hears only of a change.
func (w *watch) reload(ctx context.Context, quiet bool) {
	before := w.h.Generation()
	diags, err := w.h.reload(ctx, quiet)
	if ctx.Err() != nil || quiet && w.h.Generation() == before {
		return
	}
	w.onChange(diags, err)
}
