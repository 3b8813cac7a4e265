package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
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
)

// Maintain joins small packs when there are many of them; mostly nothing is due. Maintain is for the owner, after a
// poll, and costs CPU and up to 150 MiB of memory, so one at a time will do for all mirrors. Polls, reads and fetches
// may go on meanwhile. Objects that no head reaches any more (after a force-push) are kept: what was published once is
// served for ever. After an error all is as it was.
func (m *Mirror) Maintain(ctx context.Context) error {
	m.forgetParts()
	if m.Doubted() {
		return nil
	}
	small := duePacks(*m.packs.Load())
	if len(small) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, maintainTime)
	defer cancel()
	err := m.joinPacks(limited, small)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, pack.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		m.Doubt(err)
	}
	return fmt.Errorf("join %d packs; they stay as they are: %w", len(small), err)
}

// duePacks returns the packs to be joined: the fewest, of the small ones, such that the sizes of those that
// are left grow by the factor.
func duePacks(set []*member) []*member {
	if len(set) <= maxPacks {
		return nil
	}
	set = slices.SortedFunc(slices.Values(set), func(a, b *member) int { return cmp.Compare(a.Bytes, b.Bytes) })
	n := len(set)
	for n > 1 && set[n-1].Bytes >= growth*set[n-2].Bytes {
		n--
	}
	if n == 1 {
		return nil // packs grow as they should, from a few bytes to all that fits on a disk
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
