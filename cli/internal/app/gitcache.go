package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
)

// AskGitcaches asks the gitcaches, one after the other until one can answer: any of them takes any question.
func AskGitcaches[T any](ctx context.Context, h *hubclient.Hub, timeout time.Duration, ask func(context.Context, hubclient.Gitcache) (T, error)) (T, error) {
	var none T
	if len(h.Context.Endpoints.Gitcaches) == 0 {
		return none, errors.New("the hub did not say where its gitcaches are: set --advertise-gitcaches at the console, then run `fairlead login` again")
	}
	var errs []error
	for _, url := range h.Context.Endpoints.Gitcaches {
		one, cancel := context.WithTimeout(ctx, timeout)
		answer, err := ask(one, h.Gitcache(url))
		cancel()
		if err == nil {
			return answer, nil
		}
		errs = append(errs, err)
		if code := connect.CodeOf(err); ctx.Err() != nil ||
			code != connect.CodeUnavailable && code != connect.CodeDeadlineExceeded {
			break
		}
	}
	return none, errors.Join(errs...)
}

// ReadPages reads all pages of a list, or as many as are wanted; 0: all.
func ReadPages[T any](wanted int, read func(size int, token string) ([]T, string, error)) ([]T, error) {
	var all []T
	for token := ""; ; {
		size := resource.PageSize
		if wanted > 0 {
			size = min(size, wanted-len(all))
		}
		page, next, err := read(size, token)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" || wanted > 0 && len(all) >= wanted {
			return all, nil
		}
		if next == token || len(page) == 0 {
			return nil, errors.New("the hub repeats a page")
		}
		token = next
	}
}

// livePage is how many live states are asked for at a time.
const livePage = 1000

// ReadLiveSources returns what the gitcaches know of all sources right now, by name. Without it the console's word has
// to do.
func (a *App) ReadLiveSources(ctx context.Context, h *hubclient.Hub) map[string]*gitcachev1.LiveSource {
	silent := map[string]bool{}
	all, err := ReadPages(0, func(_ int, token string) ([]*gitcachev1.LiveSource, string, error) {
		page, err := AskGitcaches(ctx, h, hubclient.CallTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.ListSourcesResponse, error) {
			return g.Sources.ListSources(ctx, &gitcachev1.ListSourcesRequest{PageSize: livePage, PageToken: token})
		})
		for _, name := range page.GetSilentReplicas() {
			silent[name] = true
		}
		return page.GetSources(), page.GetNextPageToken(), err
	})
	if err != nil {
		a.Notef("what the gitcaches know right now can't be shown: %v\n", err)
		return nil
	}
	if len(silent) > 0 {
		a.Notef("no answer from %s: of what they fetch less is shown\n",
			strings.Join(slices.Sorted(maps.Keys(silent)), ", "))
	}
	live := make(map[string]*gitcachev1.LiveSource, len(all))
	for _, s := range all {
		live[s.GetName()] = s
	}
	return live
}
