package views

import (
	"hash/fnv"
	"iter"
)

// table is what is known of the objects of a kind, by uid. Above its bound it holds a sample: objects whose uid hashes
// to one of so many. The lock of View guards it.
type table[R any] struct {
	most   int
	same   func(a, b R) bool
	rows   map[string]*row[R]
	mark   uint32 // of the reading that goes on, or of the last one
	sample uint32 // one object of so many is counted
	// keeps: one object of so many is kept. It is less than sample while objects are read again in place of a sample:
	// until all came, the sample counts.
	keeps uint32
	// finer is when refine had the table keep more objects last, and coarse one of how many it kept before that, within
	// an hour.
	finer  int64
	coarse uint32
}

type row[R any] struct {
	record R
	mark   uint32
}

func newTable[R any](most int, same func(a, b R) bool) *table[R] {
	return &table[R]{most: most, same: same, rows: map[string]*row[R]{}, sample: 1, keeps: 1}
}

// begin notes that all objects come now.
func (t *table[R]) begin() {
	t.mark++
	if t.thin() {
		t.keeps = 1
	}
}

// thin says whether the sample is of so few objects by now that the table has room for all: they have to be read again.
func (t *table[R]) thin() bool { return t.keeps > 1 && len(t.rows)*int(t.keeps) < t.most/2 }

// refine has the table hold more of the objects that come from now on, if they have become few. That is for what is
// counted as it comes, and not as it is there.
func (t *table[R]) refine(now int64) {
	if t.thin() {
		if now-t.finer > steps*stepSeconds {
			t.coarse = 0
		}
		t.finer, t.coarse = now, max(t.coarse, t.keeps)
		t.keeps /= 2
		t.sample = t.keeps
	}
}

// complete drops objects that did not come since begin. complete says whether there were any.
func (t *table[R]) complete() (changed bool) {
	for uid, r := range t.rows {
		if r.mark != t.mark {
			delete(t.rows, uid)
			changed = true
		}
	}
	if len(t.rows) == 0 {
		t.keeps = 1
	}
	t.sample = t.keeps
	return changed
}

// put takes over an object, and returns what was known of it. changed is false if the record is the same as before, or
// not in the sample.
func (t *table[R]) put(uid string, record R) (before R, known, changed bool) {
	if !t.holds(uid) {
		return before, false, false
	}
	is := t.rows[uid]
	if known = is != nil; known {
		before, *is = is.record, row[R]{record, t.mark}
	} else {
		t.rows[uid] = &row[R]{record, t.mark}
	}
	if len(t.rows) > t.most { // which a further ViewSet lowers
		t.halve()
	}
	return before, known, !known || !t.same(before, record)
}

func (t *table[R]) remove(uid string) (changed bool) {
	_, known := t.rows[uid]
	delete(t.rows, uid)
	return known
}

// holds says whether an object is one of those that are kept.
func (t *table[R]) holds(uid string) bool { return isOf(t.keeps, uid) }

// counts says whether an object is of the sample. For an object that is kept and does not count, the sample stands.
func (t *table[R]) counts(uid string) bool { return isOf(t.sample, uid) }

// stoodFor says whether the sample of before refine stood for an object that is there since first: what happened until
// then is counted.
func (t *table[R]) stoodFor(uid string, first int64) bool {
	return first < t.finer && !isOf(t.coarse, uid)
}

// isOf says whether an object is of a sample of one of so many.
func isOf(sample uint32, uid string) bool {
	if sample == 1 {
		return true
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(uid)) // never fails
	return sum.Sum32()%sample == 0
}

func (t *table[R]) halve() {
	t.keeps *= 2
	t.sample = max(t.sample, t.keeps)
	for uid := range t.rows {
		if !t.holds(uid) {
			delete(t.rows, uid)
		}
	}
}

func (t *table[R]) clear() { clear(t.rows); t.sample, t.keeps, t.finer = 1, 1, 0 }

// all returns the records that count, in no order. They are those of the table, not copies: they change once the lock
// of View is free.
func (t *table[R]) all() iter.Seq[*R] {
	return func(yield func(*R) bool) {
		for uid, r := range t.rows {
			if t.keeps < t.sample && !t.counts(uid) {
				continue
			}
			if !yield(&r.record) {
				return
			}
		}
	}
}

// times is what a number counted at the sample stands for.
func (t *table[R]) times(n int64) int64 { return n * int64(t.sample) }
