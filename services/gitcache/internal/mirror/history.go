package mirror

import (
	"context"
	"fmt"

	"fairlead.dev/services/gitcache/internal/git"
)

// History lists up to limit commits from one on, newest first, along first parents. next is where the
// following page begins; it is zero after the last.
func (o *Objects) History(ctx context.Context, from git.Hash, limit int) (commits []Commit, next git.Hash, err error) {
	for next = from; !next.IsZero() && len(commits) < limit; {
		if err := ctx.Err(); err != nil {
			return nil, git.Hash{}, err
		}
		c, err := o.Commit(next)
		if err != nil {
			return nil, git.Hash{}, fmt.Errorf("list history: %w", err)
		}
		commits, next = append(commits, c), c.Parent
	}
	return commits, next, nil
}
