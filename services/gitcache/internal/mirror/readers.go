package mirror

import (
	"container/list"
	"errors"
	"sync"
	"syscall"
	"time"

	"fairlead.dev/services/gitcache/internal/host"
	"fairlead.dev/services/gitcache/internal/pack"
)

const (
	// maxOpen packs, of all mirrors together; two descriptors each. Packs that are being read at the moment are open in
	// any case.
	maxOpen = 64
	// idleTime is how long a pack stays open after it was read.
	idleTime = 10 * time.Second
	// cacheBytes bounds what is remembered of objects that were read, of all mirrors together. The memory is dropped
	// when nothing was read for idleTime, and each object when it was not used for cacheTime.
	cacheBytes = 8 << 20
	cacheTime  = time.Minute
)

// readers are the packs that are open. A mirror that nobody reads holds no descriptor and next to no
// memory.
type readers struct {
	cache *pack.Cache

	mu    sync.Mutex // guards what follows, and the fields of members that say so
	most  int
	idle  list.List // of *member; the front was read last
	open  int
	timer *time.Timer // runs while something is open
}

// member is a pack of a mirror.
type member struct {
	Pack
	path string // without extension

	// Guarded by readers.mu:
	file  *pack.File // nil: not open
	users int
	gone  bool // from the mirror; closed when the last user leaves
	place *list.Element
	since time.Time // idle
}

func newReaders() *readers {
	return &readers{cache: pack.NewCache(cacheBytes), most: host.LimitDescriptors(maxOpen)}
}

// acquirePack opens a pack, or keeps it open, until it is released.
func (r *readers) acquirePack(m *member) (*pack.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.file == nil {
		f, err := pack.Open(m.path)
		if isShortage(err) {
			r.closeIdle(func(*member) bool { return true })
			f, err = pack.Open(m.path)
		}
		if err != nil {
			return nil, err
		}
		m.file = f
		r.open++
	}
	if m.users++; m.place != nil {
		r.idle.Remove(m.place)
		m.place = nil
	}
	return m.file, nil
}

// releasePack ends one use of a pack.
func (r *readers) releasePack(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.users--; m.users > 0 {
		return
	}
	if m.gone {
		r.closePack(m)
		return
	}
	m.place, m.since = r.idle.PushFront(m), time.Now()
	r.closeIdle(func(*member) bool { return r.open > r.most })
	if r.timer == nil && r.open > 0 {
		r.timer = time.AfterFunc(idleTime, r.sweepIdle)
	}
}

// retirePack closes a pack that is no longer part of its mirror, as soon as nobody reads it.
func (r *readers) retirePack(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.gone = true; m.users == 0 {
		r.closePack(m)
	}
}

// sweepIdle closes what was not read for a while.
func (r *readers) sweepIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeIdle(func(m *member) bool { return time.Since(m.since) >= idleTime })
	switch {
	case r.timer == nil: // closed meanwhile
	case r.open == 0:
		r.cache.Clear()
		r.timer = nil
	default:
		r.cache.Expire(cacheTime)
		r.timer.Reset(idleTime / 2)
	}
}

// closeAll closes all that is not being read.
func (r *readers) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeIdle(func(*member) bool { return true })
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.cache.Clear()
}

// closeIdle closes idle packs, those read longest ago first, as long as more says so.
func (r *readers) closeIdle(more func(*member) bool) {
	for last := r.idle.Back(); last != nil; last = r.idle.Back() {
		m := last.Value.(*member) //nolint:forcetypeassert // nothing else is in there
		if !more(m) {
			return
		}
		r.closePack(m)
	}
}

func (r *readers) closePack(m *member) {
	if m.place != nil {
		r.idle.Remove(m.place)
		m.place = nil
	}
	if m.file != nil {
		_ = m.file.Close()
		m.file = nil
		r.open--
	}
}

// isShortage tells whether this process or machine is short of something, which says nothing about a
// mirror.
func isShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
