package mirror

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// History lists up to limit commits from one on, newest first, along first parents. next is where the
// following page begins; it is zero after the last.
func (o *Objects) History(ctx context.Context, from plumbing.Hash, limit int) (commits []Commit, next plumbing.Hash, err error) {
	for next = from; !next.IsZero() && len(commits) < limit; {
		if err := ctx.Err(); err != nil {
			return nil, plumbing.ZeroHash, err
		}
		c, err := o.Commit(next)
		if err != nil {
			return nil, plumbing.ZeroHash, fmt.Errorf("list history: %w", err)
		}
		commits, next = append(commits, c), c.Parent
	}
	return commits, next, nil
}
