package command

import (
	"context"
	"fmt"
	"sync"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/manifest"
)

const (
	// mostCounted services that are not in sync are counted at a gitcache, and so many at once; of the others it is said that they are behind.
	mostCounted, countWidth = 50, 4
	// mostBehind is how many commits are counted, and mostPages how many answers of a gitcache that takes.
	mostBehind, mostPages = 100, 5
)

// distance is how far what runs in a cluster is behind what a service's ref points to.
type distance struct {
	// commits that change the folder; more: there are others.
	commits int
	more    bool
	// apart: what runs is not among the commits that the ref leads to, as after a force-push.
	apart bool
}

// findBehind counts, for services that are not in sync, the commits between what runs and what the ref points to. A service whose source can't be asked is left out.
func (a *app) findBehind(ctx context.Context, h *hub.Hub, found []manifest.Message) map[string]distance {
	var asked []*consolev1.Service
	for _, m := range found {
		s := m.(*consolev1.Service)
		status := s.GetStatus()
		running, wanted := runningCommit(status), status.GetGit().GetRevision().GetCommit()
		if running != "" && wanted != "" && running != wanted && len(asked) < mostCounted {
			asked = append(asked, s)
		}
	}
	var mu sync.Mutex
	out := map[string]distance{}
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
		a.notef("how far some services are behind can't be counted: %v\n", problem)
	}
	return out
}

func countBehind(ctx context.Context, h *hub.Hub, s *consolev1.Service) (d distance, err error) {
	request := &gitcachev1.ListCommitsRequest{
		Source: catalog.SourceOf(s.GetSpec()), Revision: s.GetStatus().GetGit().GetRevision().GetCommit(), Path: s.GetSpec().GetPath(),
		Until: runningCommit(s.GetStatus()), PageSize: mostBehind,
	}
	for range mostPages {
		page, err := atGitcache(ctx, h, callTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.ListCommitsResponse, error) {
			return g.Sources.ListCommits(ctx, request)
		})
		if err != nil {
			return d, err
		}
		d.commits += len(page.GetCommits())
		d.apart = !page.GetReachedUntil() && page.GetNextPageToken() == ""
		d.more = page.GetNextPageToken() != ""
		if !d.more || d.commits >= mostBehind {
			break
		}
		request.PageToken = page.GetNextPageToken()
	}
	return d, nil
}

// syncText says whether what the ref of a service points to runs in its cluster, or how many commits that change its folder are missing there; and how many objects
// others have changed.
func (v view) syncText(s *consolev1.Service) string {
	status := s.GetStatus()
	report := status.GetCluster().GetReport()
	running, wanted := runningCommit(status), status.GetGit().GetRevision().GetCommit()
	text := ""
	switch d, known := v.behind[s.GetMetadata().GetName()]; {
	case running == "" || wanted == "":
		return ""
	case running == wanted:
		text = "in sync"
	case !known:
		text = "behind"
	case d.apart:
		text = "another line"
	case d.more:
		text = fmt.Sprintf("%d+ behind", d.commits)
	case d.commits > 0:
		text = fmt.Sprintf("%d behind", d.commits)
	default:
		text = "in sync" // no commit since changes the folder
	}
	if n := report.GetObjectsDrifted(); n > 0 {
		text += fmt.Sprintf(", %d drifted", n)
	}
	return text
}
