package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"fairlead.dev/services/gitcache/internal/pack"
)

const (
	// maxPacks that a mirror may have before some are joined. Every fetch adds one.
	maxPacks = 20
	// growth: of the packs that stay each is so many times as large as the one before it. So an object
	// is written again only when the packs below it have grown as large, about log2(packs) times in all.
	growth = 2
	// maintainTime bounds the work on one mirror.
	maintainTime = 15 * time.Minute
	// Pauses after a failure, which is most likely a full disk; they double.
	firstMaintainPause = 10 * time.Minute
	mostMaintainPause  = 6 * time.Hour
)

// upkeep is what all mirrors share for it: one is worked on at a time.
type upkeep struct {
	slot chan struct{}

	mu  sync.Mutex // guards what follows
	git string     // path of the git binary; empty: do without
}

// work is a mirror's own state of its upkeep.
type work struct {
	mu        sync.Mutex // guards what follows
	failures  int        // in a row
	notBefore time.Time

	checked *[]*member // the packs that were checked last
	failure error      // and what was found
}

// Maintain joins small packs when there are many of them. It is for the owner, after a poll: mostly
// nothing is due, and while another mirror is worked on this one's turn comes with a later poll. Polls,
// reads and fetches may go on meanwhile. Objects that no head reaches any more (after a force-push)
// are kept: what was published once is served for ever. After an error all is as it was, and a pause
// follows in which nothing is due, so that a full disk is told of once in a while only.
func (m *Mirror) Maintain(ctx context.Context) error {
	if m.Doubted() || m.work.paused() {
		return nil
	}
	small := due(*m.packs.Load())
	if len(small) == 0 {
		return nil
	}
	select {
	case m.upkeep.slot <- struct{}{}:
		defer func() { <-m.upkeep.slot }()
	default:
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, maintainTime)
	defer cancel()
	err := m.join(limited, small)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.work.done(err)
	if errors.Is(err, pack.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		m.Doubt(err)
	}
	if err != nil {
		return fmt.Errorf("join %d packs; they stay as they are: %w", len(small), err)
	}
	return nil
}

func (w *work) paused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.notBefore)
}

func (w *work) done(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.failures, w.notBefore = 0, time.Time{}
		return
	}
	w.notBefore = time.Now().Add(min(firstMaintainPause<<min(w.failures, 16), mostMaintainPause))
	w.failures++
}

// due returns the packs to be joined: the fewest, of the small ones, such that the sizes of those that
// are left grow by the factor.
func due(set []*member) []*member {
	if len(set) <= maxPacks {
		return nil
	}
	set = slices.SortedFunc(slices.Values(set), func(a, b *member) int { return cmp.Compare(a.Bytes, b.Bytes) })
	n := len(set)
	for n > 1 && set[n-1].Bytes >= growth*set[n-2].Bytes {
		n--
	}
	if n == 1 {
		return nil // they grow as they should, from a few bytes to all that fits on a disk
	}
	sum := int64(0)
	for _, p := range set[:n] {
		sum += p.Bytes
	}
	for n < len(set) && set[n].Bytes < growth*sum {
		sum += set[n].Bytes
		n++
	}
	return set[:n]
}
