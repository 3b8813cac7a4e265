package origin

import (
	"context"
	"errors"
	"sync"
)

// Peers are the other replicas.
type Peers interface {
	// Resolve asks the owner of a source and, where that leaves something open, those that may have a
	// copy. Answers come in the order of the queries. ErrNoOwner: nobody has answered.
	Resolve(ctx context.Context, uid string, queries []Query) ([]Answer, error)
}

// ErrNoOwner means that no other replica can be asked.
var ErrNoOwner = errors.New("no other replica can be asked")

// askOthers fills in what this replica does not have, source by source.
func (o *Origin) askOthers(ctx context.Context, queries []Query, answers []Answer) {
	missing := map[string][]int{}
	for i, a := range answers {
		if a.Err != nil && a.Err.elsewhere {
			missing[queries[i].Source] = append(missing[queries[i].Source], i)
		}
	}
	var asking sync.WaitGroup
	for name, places := range missing {
		s, ok := o.deps.Catalog.Source(name)
		if !ok {
			continue
		}
		asking.Go(func() {
			batch := make([]Query, len(places))
			for i, p := range places {
				batch[i] = s.pinned(queries[p])
			}
			got, err := o.deps.Peers.Resolve(ctx, s.UID, batch)
			if err != nil || len(got) != len(batch) {
				return // the answers so far are still right
			}
			for i, p := range places {
				if got[i].better() && s.covers(got[i]) {
					answers[p] = got[i]
				}
			}
		})
	}
	asking.Wait()
}

// pinned names the commit in place of a ref that is published: a replica that is behind must not
// answer with an older one.
func (s Source) pinned(q Query) Query {
	if h, ok := s.published(q.Revision); ok {
		q.Revision = h.Commit.String()
	}
	return q
}

// covers tells whether another replica's answer is about this source, and of an epoch that nothing newer was published
// in. An answer with neither is of an older version.
func (s Source) covers(a Answer) bool {
	return a.SourceUID == "" || a.SourceUID == s.UID && a.Epoch >= s.Epoch
}

// better tells an answer of another replica that says more than that it is not here.
func (a Answer) better() bool {
	return a.Err == nil || a.Err.Reason == PathNotFound || a.Err.Reason == Refused
}
