package gitcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"fairlead.dev/e2e/process"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/artifact"
)

// Resolver asks one gitcache what a service's folder is at a commit.
func (f *Fleet) Resolver(c *Cache) func(ctx context.Context, source, commit string) error {
	artifacts := f.api.artifacts(c.URL)
	return func(ctx context.Context, source, commit string) error {
		resp, err := artifacts.Resolve(ctx, &artifactv1.ResolveRequest{
			Queries: []*artifactv1.Query{{Source: source, Revision: commit, Path: Folder}},
		})
		if err != nil {
			return err
		}
		if e := resp.GetResults()[0].GetError(); e != nil {
			return fmt.Errorf("%w: %s", reason(e.GetReason().String()), e.GetMessage())
		}
		return nil
	}
}

// ResolvedAs waits until a gitcache has made the artifact of a commit.
func (f *Fleet) ResolvedAs(ctx context.Context, c *Cache, source, commit string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	resolve := f.Resolver(c)
	return process.Await(ctx, source+" is resolved", func(ctx context.Context) error { return resolve(ctx, source, commit) })
}

// Resolved is ResolvedAs for a repository under its own name.
func (f *Fleet) Resolved(ctx context.Context, c *Cache, r *Repo, commit string) error {
	return f.ResolvedAs(ctx, c, r.Name, commit)
}

// Healthy asks whether a gitcache lives.
func (f *Fleet) Healthy(ctx context.Context, c *Cache) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// Refresh asks for a poll.
func (f *Fleet) Refresh(ctx context.Context, c *Cache, source string) error {
	_, err := f.api.live(c.URL).RefreshSource(ctx, &gitcachev1.RefreshSourceRequest{Name: source})
	return err
}

// DownloadBytes counts the bytes of the newest artifact as it travels in an encoding.
func (f *Fleet) DownloadBytes(ctx context.Context, c *Cache, r *Repo, encoding string) (int64, error) {
	resolved, err := f.resolve(ctx, question{repo: r, revision: r.Last().ID}, c)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+artifact.Path+resolved.GetArtifact().GetDigest(), http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", encoding)
	resp, err := f.api.bytes().Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Encoding"); resp.StatusCode != http.StatusOK || got != encoding {
		return 0, fmt.Errorf("download: %s, encoding %q", resp.Status, got)
	}
	return io.Copy(io.Discard, resp.Body)
}

// LostLeases counts, by repository, the leases that ran out under replicas that lived: they log it.
func (f *Fleet) LostLeases() (map[string]int, error) {
	lost := map[string]int{}
	for _, c := range f.Caches() {
		log, err := c.Log()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(log) {
			_, after, found := strings.Cut(line, " source=")
			if name, _, _ := strings.Cut(after, " "); found && strings.Contains(line, `msg="lease lost`) {
				lost[name]++
			}
		}
	}
	return lost, nil
}
