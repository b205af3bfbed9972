package export

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrRefused is returned by Reload where the file has an error: the table
// before it stays.
var ErrRefused = errors.New("the exports file has errors; the table before it stays in force")

// State is a table with what matches against it and its generation.
type State struct {
	*Matcher
	Generation uint64
}

// Holder holds the current table. Readers take the whole State at once, so
// that they never see half of one table and half of the next.
type Holder struct {
	o     LoadOptions
	cache *Cache

	// mu keeps one reload at a time; state is written under it.
	mu    sync.Mutex
	state atomic.Pointer[State]
}

// NewHolder loads the table for the first time. In contrast to Reload it takes
// a table although the file has errors, as exportfs would: whether to go on is
// for the caller to say, by the diagnostics. Without a file it starts with an
// empty table if o.File may come later; the error says so and the holder can
// be used.
func NewHolder(ctx context.Context, o LoadOptions) (*Holder, Diagnostics, error) {
	h := &Holder{o: o.withDefaults(), cache: NewCache(o.Resolver, CacheOptions{})}
	t, diags, err := Load(ctx, h.o)
	if err != nil {
		t = newTable().seal()
	}
	h.set(t)
	return h, diags, err
}

// HoldTable returns a holder of a fixed table, such as Local makes.
func HoldTable(t *Table, r Resolver) *Holder {
	h := &Holder{cache: NewCache(r, CacheOptions{})}
	h.set(t)
	return h
}

func (h *Holder) set(t *Table) {
	generation := uint64(1)
	if old := h.state.Load(); old != nil {
		generation = old.Generation + 1
	}
	h.state.Store(&State{NewCachedMatcher(t, h.cache), generation})
}

// State returns the current table with its matcher.
func (h *Holder) State() *State { return h.state.Load() }

// Table returns the current table.
func (h *Holder) Table() *Table { return h.State().Table() }

// Generation returns a number that changes with every change of the table.
// What was matched before is stale once it has.
func (h *Holder) Generation() uint64 { return h.State().Generation }

// Reload reads the files again, as a whole, and swaps the table if they have
// no error; else it returns ErrRefused, or why they could not be read, and
// keeps the table. Names of clients are asked for anew.
func (h *Holder) Reload(ctx context.Context) (Diagnostics, error) {
	return h.reload(ctx, false)
}

// reload is Reload, or, if so wanted, one that leaves an unchanged table be.
func (h *Holder) reload(ctx context.Context, unlessSame bool) (Diagnostics, error) {
	if h.o.File == "" {
		return nil, errors.New("this table does not come from a file")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t, diags, err := Load(ctx, h.o)
	if err != nil {
		return diags, err
	}
	if diags.HasErrors() {
		return diags, ErrRefused
	}
	if unlessSame && t.same(h.Table()) {
		return diags, nil
	}
	h.cache.Refresh()
	h.set(t)
	return diags, nil
}
