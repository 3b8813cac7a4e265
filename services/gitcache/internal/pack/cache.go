package pack

import (
	"container/list"
	"sync"
	"time"

	"fairlead.dev/services/gitcache/internal/git"
)

// Cache remembers objects that were read, least recently used ones out first. Safe for many goroutines.
// Callers must not change the objects that a Cache gives out.
type Cache struct {
	most int64

	mu    sync.Mutex // guards what follows
	bytes int64
	order list.List // of *cached; the front was used last
	byKey map[cacheKey]*list.Element
}

type cacheKey struct {
	file uint64
	at   int64
}

type cached struct {
	key  cacheKey
	used time.Time
	kind git.Kind
	b    []byte
}

const (
	// cachedExtra is what an object in the cache takes besides its bytes, about.
	cachedExtra = 200
	// cacheShare: an object that would take more than this part of the cache is not put there.
	cacheShare = 8
)

// NewCache makes a cache of at most so many bytes.
func NewCache(most int64) *Cache { return &Cache{most: most, byKey: map[cacheKey]*list.Element{}} }

func (c *Cache) getObject(file uint64, at int64) (git.Kind, []byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[cacheKey{file, at}]
	if !ok {
		return git.UnknownKind, nil, false
	}
	c.order.MoveToFront(e)
	o := e.Value.(*cached) //nolint:forcetypeassert // nothing else is in there
	o.used = time.Now()
	return o.kind, o.b, true
}

func (c *Cache) putObject(file uint64, at int64, kind git.Kind, b []byte) {
	size := int64(len(b)) + cachedExtra
	if size > c.most/cacheShare {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cacheKey{file, at}
	if _, ok := c.byKey[key]; ok {
		return
	}
	c.byKey[key] = c.order.PushFront(&cached{key, time.Now(), kind, b})
	c.bytes += size
	c.dropOldest(func(*cached) bool { return c.bytes > c.most })
}

// dropOldest forgets objects, least recently used ones first, as long as more says so. mu is held.
func (c *Cache) dropOldest(more func(*cached) bool) {
	for last := c.order.Back(); last != nil; last = c.order.Back() {
		o := last.Value.(*cached) //nolint:forcetypeassert // nothing else is in there
		if !more(o) {
			return
		}
		c.order.Remove(last)
		delete(c.byKey, o.key)
		c.bytes -= int64(len(o.b)) + cachedExtra
	}
}

// Expire forgets objects that were not used for so long: where something is always read they would stay
// until the cache is full, though their packs may be gone.
func (c *Cache) Expire(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Now().Add(-after)
	c.dropOldest(func(o *cached) bool { return o.used.Before(since) })
}

// Clear forgets everything.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes = 0
	c.order.Init()
	clear(c.byKey)
}
