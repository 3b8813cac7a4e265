package views

import (
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"
)

// figures are the numbers of a view, by name. Views that count the same things share the names, so that sums over
// thousands of views look no name up.
type figures struct {
	names  *names
	values []int64 // in the order of names
}

// names are those of the figures of some views. Immutable.
type names struct {
	list []string
	at   map[string]int
}

// get returns a figure.
func (f figures) get(name string) (n int64, ok bool) {
	if f.names == nil {
		return 0, false
	}
	at, ok := f.names.at[name]
	if !ok {
		return 0, false
	}
	return f.values[at], true
}

// all are the figures in the order of their names.
func (f figures) all() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for i, n := range f.values {
			if !yield(f.names.list[i], n) {
				return
			}
		}
	}
}

// nameTable shares names between views, as long as a view has them. A nameTable is safe for concurrent use.
type nameTable struct {
	mu sync.Mutex // guards what follows
	of map[string]weak.Pointer[names]
}

// figures packs figures by name.
func (t *nameTable) figures(by map[string]int64) figures {
	list := slices.Sorted(maps.Keys(by))
	f := figures{names: t.share(list), values: make([]int64, len(list))}
	for i, name := range list {
		f.values[i] = by[name]
	}
	return f
}

// share returns the names of a list in order.
func (t *nameTable) share(list []string) *names {
	key := strings.Join(list, "\x00")
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.of[key].Value(); known != nil {
		return known
	}
	n := &names{list: list, at: make(map[string]int, len(list))}
	for i, name := range list {
		n.at[name] = i
	}
	if t.of == nil {
		t.of = map[string]weak.Pointer[names]{}
	}
	t.of[key] = weak.Make(n)
	runtime.AddCleanup(n, t.forget, key)
	return n
}

// forget drops names that no view has any more.
func (t *nameTable) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[key].Value() == nil {
		delete(t.of, key)
	}
}

// sharesPrefix is before figures of sums that no agent counts.
const sharesPrefix = "shares."

// share is a pair of figures that are compared. They come from two sections, and an agent may know one of them alone: a
// share is of the clusters whose names hold both.
type share struct{ part, whole, ofPart, ofWhole string }

func shares() []share {
	return []share{
		{"requests.cpu", "nodes.cpu_allocatable", sharesPrefix + "cpu_requested", sharesPrefix + "cpu_allocatable"},
		{"requests.memory", "nodes.memory_allocatable", sharesPrefix + "memory_requested", sharesPrefix + "memory_allocatable"},
	}
}

// sum adds figures up. The zero value is empty.
type sum struct{ of map[*names][]int64 }

func (s *sum) add(f figures) {
	if f.names == nil {
		return
	}
	total := s.of[f.names]
	if total == nil {
		if s.of == nil {
			s.of = map[*names][]int64{}
		}
		total = make([]int64, len(f.values))
		s.of[f.names] = total
	}
	for i, n := range f.values {
		total[i] += n
	}
}

// byName are the sums, by name, with those of shares.
func (s *sum) byName() map[string]int64 {
	out := map[string]int64{}
	for names, total := range s.of {
		for i, n := range total {
			if name := names.list[i]; !strings.HasPrefix(name, sharesPrefix) {
				out[name] += n
			}
		}
		of := figures{names, total}
		for _, share := range shares() {
			part, okPart := of.get(share.part)
			whole, okWhole := of.get(share.whole)
			if okPart && okWhole {
				out[share.ofPart] += part
				out[share.ofWhole] += whole
			}
		}
	}
	return out
}
