package get

import (
	"context"
	"sync"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/catalogyaml"
)

const (
	// mostCounted services that are not in sync are counted at a gitcache, and so many at once; of the others it is
	// said that they are behind.
	mostCounted, countWidth = 50, 4
	// mostBehind is how many commits are counted, and mostPages how many answers of a gitcache that takes.
	mostBehind, mostPages = 100, 5
)

// findBehind counts, for services that are not in sync, the commits between what runs and what the ref points to. A
// service whose source can't be asked is left out.
func findBehind(
	ctx context.Context, a *app.App, h *hubclient.Hub, found []catalogyaml.Message,
) map[string]view.Distance {
	var asked []*consolev1.Service
	for _, m := range found {
		if s := m.(*consolev1.Service); isCountable(s) && len(asked) < mostCounted {
			asked = append(asked, s)
		}
	}
	var mu sync.Mutex
	out := map[string]view.Distance{}
	var problem error
	slots := make(chan struct{}, countWidth)
	var counting sync.WaitGroup
	for _, s := range asked {
		counting.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			d, err := countBehind(ctx, h, s)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				problem = err
				return
			}
			out[s.GetMetadata().GetName()] = d
		})
	}
	counting.Wait()
	if problem != nil {
		a.Notef("how far some services are behind can't be counted: %v\n", problem)
	}
	return out
}

// isCountable reports whether commits of a source lie between what runs and what the ref points to. The commit of a
// service with several sources stands for all of these together, and no source has it.
func isCountable(s *consolev1.Service) bool {
	status := s.GetStatus()
	running, wanted := view.RunningCommit(status), status.GetGit().GetRevision().GetCommit()
	return running != "" && wanted != "" && running != wanted && len(s.GetSpec().GetSources()) == 0
}

func countBehind(ctx context.Context, h *hubclient.Hub, s *consolev1.Service) (d view.Distance, err error) {
	request := &gitcachev1.ListCommitsRequest{
		Source:   catalog.SourceOf(s.GetSpec()),
		Revision: s.GetStatus().GetGit().GetRevision().GetCommit(), Path: s.GetSpec().GetPath(),
		Until: view.RunningCommit(s.GetStatus()), PageSize: mostBehind,
	}
	for range mostPages {
		page, err := app.AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ListCommitsResponse, error) {
			return g.Sources.ListCommits(ctx, request)
		})
		if err != nil {
			return d, err
		}
		d.Commits += len(page.GetCommits())
		d.Apart = !page.GetReachedUntil() && page.GetNextPageToken() == ""
		d.More = page.GetNextPageToken() != ""
		if !d.More || d.Commits >= mostBehind {
			break
		}
		request.PageToken = page.GetNextPageToken()
	}
	return d, nil
}
