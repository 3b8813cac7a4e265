package gitcache

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/e2e/process"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/retry"
)

// oldNews is more than the age of what replicas say of each other.
const oldNews = 3 * time.Second

// Copied waits until every source has an owner among those that run, with something in its mirror, and a
// copy at another.
func (f *Fleet) Copied(ctx context.Context) error {
	retry.Sleep(ctx, oldNews)
	return process.Await(ctx, "every source has an owner and a copy", func(ctx context.Context) error {
		live, err := f.Sources(ctx, f.Running()[0])
		if err != nil {
			return err
		}
		var names []string
		for _, c := range f.Running() {
			names = append(names, c.Name)
		}
		for _, r := range f.Repos() {
			s := live[r.Name]
			if !slices.Contains(names, s.GetOwner()) || s.GetMirrorPacks() == 0 {
				return fmt.Errorf("%s is owned by %q, which has %d packs of it", r.Name, s.GetOwner(), s.GetMirrorPacks())
			}
			if !slices.ContainsFunc(s.GetStandbys(), func(name string) bool { return name != s.GetOwner() && slices.Contains(names, name) }) {
				return fmt.Errorf("%s of %s has copies at %q", r.Name, s.GetOwner(), s.GetStandbys())
			}
		}
		return nil
	})
}

// Sources are the live states of all sources, as one replica tells them.
func (f *Fleet) Sources(ctx context.Context, c *Cache) (map[string]*gitcachev1.LiveSource, error) {
	sources := map[string]*gitcachev1.LiveSource{}
	for page := ""; ; {
		resp, err := f.api.live(c.URL).ListSources(ctx, &gitcachev1.ListSourcesRequest{PageToken: page})
		if err != nil {
			return nil, err
		}
		for _, s := range resp.GetSources() {
			sources[s.GetName()] = s
		}
		if page = resp.GetNextPageToken(); page == "" {
			return sources, nil
		}
	}
}

// servedTime is how long a gitcache may take that nobody else is asked instead of, on a busy machine.
const servedTime = time.Minute

// Served fails unless every running gitcache hands out the first and the last commit of every
// repository.
func (f *Fleet) Served(ctx context.Context) error {
	for _, c := range f.Running() {
		for _, r := range f.Repos() {
			for _, commit := range []Commit{r.Commit(0), r.Last()} {
				q := question{repo: r, revision: commit.ID, number: commit.Number, attempt: servedTime}
				if err := f.ask(ctx, q, c, []*Cache{c}); err != nil {
					return fmt.Errorf("%s, push %d at %s: %w", r.Name, commit.Number, c.Name, err)
				}
			}
		}
	}
	return nil
}
