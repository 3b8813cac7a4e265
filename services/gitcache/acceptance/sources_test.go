package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// change edits what the catalog says of a source.
func (c *console) change(name string, edit func(*consolev1.GitSource)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	edit(c.sources[name].GetSpec().GetGit())
}

// together makes a coordinator for replicas of one test.
func together(t *testing.T) coordination.Coordinator {
	t.Helper()
	c, err := coordination.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// replica starts one with a name.
func (f *fixture) replica(name string, c coordination.Coordinator) *node {
	f.t.Helper()
	cfg := f.config(f.t.TempDir())
	cfg.Replica = name
	return f.startWith(cfg, c)
}

func (n *node) list(q *gitcachev1.ListSourcesRequest) *gitcachev1.ListSourcesResponse {
	n.f.t.Helper()
	resp, err := n.sources.ListSources(n.f.t.Context(), q)
	if err != nil {
		n.f.t.Fatal(err)
	}
	return resp
}

func wantCode(t *testing.T, err error, code connect.Code, words ...string) {
	t.Helper()
	if err == nil || connect.CodeOf(err) != code {
		t.Fatalf("got %v, want %v", err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestAnyReplicaListsTheLiveStateOfAllSources(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a fleet of gitcaches")
	f := newFixture(t)
	commit := f.repo.Commit("one", nil)
	for i := range 5 {
		f.console.addSource(fmt.Sprint("more-", i), f.repo.URL())
	}
	f.console.addSource("broken", f.git.URL+"/nope.git")
	c := together(t)
	a, b := f.replica("a", c), f.replica("b", c)
	var of map[string]*gitcachev1.LiveSource
	for _, n := range []*node{a, b} {
		await.NoError(t, "everything is owned and polled", func() error {
			resp := n.list(&gitcachev1.ListSourcesRequest{})
			of = map[string]*gitcachev1.LiveSource{}
			for _, s := range resp.GetSources() {
				of[s.GetName()] = s
				if s.GetOwner() == "" || s.GetLastPollTime() == nil || s.GetNextPollTime() == nil || s.GetEpoch() == 0 {
					return fmt.Errorf("of %s: %v", s.GetName(), s)
				}
			}
			if of["shop"].GetMirrorBytes() == 0 { // a mirror is measured after what was polled is published
				return errors.New("the mirror of shop is not measured")
			}
			if resp.GetTotal() != 7 || len(of) != 7 || len(resp.GetSilentReplicas()) > 0 {
				return fmt.Errorf("%d sources, silent %v", resp.GetTotal(), resp.GetSilentReplicas())
			}
			return nil
		})
		for name, s := range of {
			if s.GetOwnedHere() != (n == a && s.GetOwner() == "a" || n == b && s.GetOwner() == "b") ||
				strings.Contains(s.GetUrl(), "@") {
				t.Errorf("%s: %v", name, s)
			}
		}
		if s := of["shop"]; len(s.GetHeads()) != 1 || s.GetHeads()[0].GetRevision().GetCommit() != commit ||
			s.GetUpstreamRequestsLastHour() == 0 {
			t.Errorf("shop: %v", s)
		}
		if s := of["broken"]; s.GetProblem().GetMessage() == "" || s.GetStaleSince() == nil {
			t.Errorf("broken: %v", s)
		}
	}
	// Filter, order and pages are the server's.
	var paged []string
	for q := (&gitcachev1.ListSourcesRequest{PageSize: 2, Filter: "problem:false host:127.0.0.1", OrderBy: "name desc"}); ; {
		resp := b.list(q)
		for _, s := range resp.GetSources() {
			paged = append(paged, s.GetName())
		}
		if resp.GetTotal() != 6 {
			t.Errorf("total is %d", resp.GetTotal())
		}
		if q.PageToken = resp.GetNextPageToken(); q.PageToken == "" {
			break
		}
	}
	if want := "shop more-4 more-3 more-2 more-1 more-0"; strings.Join(paged, " ") != want {
		t.Errorf("got %s", paged)
	}
	_, err := a.sources.ListSources(t.Context(), &gitcachev1.ListSourcesRequest{Filter: "colour:red"})
	wantCode(t, err, connect.CodeInvalidArgument, "colour:red", "name:PART")
	_, err = a.sources.GetSource(t.Context(), &gitcachev1.GetSourceRequest{Name: "nope"})
	wantCode(t, err, connect.CodeNotFound, `source "nope"`)

	// A replica that is said to live and can't be reached is named.
	if err := signing(c).Join(t.Context(), identity.ServiceGitcache, coordination.Member{ID: "gone", URL: "http://127.0.0.1:1"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	silent := func(want ...string) {
		t.Helper()
		await.NoError(t, "the silent ones are known", func() error {
			if resp := a.list(&gitcachev1.ListSourcesRequest{}); !slices.Equal(resp.GetSilentReplicas(), want) {
				return fmt.Errorf("silent: %v", resp.GetSilentReplicas())
			}
			return nil
		})
	}
	silent("gone")
	if err := c.Leave(t.Context(), identity.ServiceGitcache, "gone"); err != nil {
		t.Fatal(err)
	}
	silent()
}

func TestWatchedSourcesTellWhatChangesAndEndWithTheReplica(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", nil)
	n := f.one()
	f.published("HEAD", first)
	stream, err := n.sources.WatchSources(t.Context(), &gitcachev1.WatchSourcesRequest{Filter: "name:shop"})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*gitcachev1.LiveSource{}
	read := func(what string, enough func(*gitcachev1.WatchSourcesResponse) bool) {
		t.Helper()
		for stream.Receive() {
			for _, s := range stream.Msg().GetSources() {
				known[s.GetName()] = s
			}
			for _, name := range stream.Msg().GetGone() {
				delete(known, name)
			}
			if enough(stream.Msg()) {
				return
			}
		}
		t.Fatalf("%s never came: %v", what, stream.Err())
	}
	read("the end of the snapshot", (*gitcachev1.WatchSourcesResponse).GetSynced)
	if len(known) != 1 || known["shop"].GetHeads()[0].GetRevision().GetCommit() != first {
		t.Fatalf("got %v", known)
	}
	second := f.repo.Commit("two", nil)
	n.refresh()
	read("the new commit", func(*gitcachev1.WatchSourcesResponse) bool {
		return known["shop"].GetHeads()[0].GetRevision().GetCommit() == second
	})
	f.console.deleteSource()
	read("the end of the source", func(*gitcachev1.WatchSourcesResponse) bool { return len(known) == 0 })

	go n.stop()
	for stream.Receive() { //nolint:revive // to its end
	}
	if err := stream.Err(); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnyReplicaShowsHistoryFoldersAndFilesWithUpstreamOff(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a fleet of gitcaches")
	f := newFixture(t)
	binary := string([]byte{0, 1, 255, '\n'})
	old := f.repo.Commit("one", gittest.Files{"deploy/web.yaml": "a: 1\n", "bin": binary})
	f.repo.Commit("two", gittest.Files{
		"deploy/web.yaml": "a: 2\n", "deploy/more": "x",
		"large": strings.Repeat("x", 1<<20+1),
	})
	f.console.setService("web", "main")
	c := together(t)
	nodes := []*node{f.replica("a", c)}
	f.published("refs/heads/main", f.repo.Work("rev-parse", "HEAD"))
	nodes = append(nodes, f.replica("b", c), f.replica("c", c))
	f.git.SetFault(gittest.Status(http.StatusServiceUnavailable))
	for _, n := range nodes {
		commits, err := n.sources.ListCommits(t.Context(),
			&gitcachev1.ListCommitsRequest{Source: "shop", Revision: "main", PageSize: 1})
		if err != nil || len(commits.GetCommits()) != 1 || commits.GetCommits()[0].GetSubject() != "two" ||
			commits.GetCommits()[0].GetAuthor() != "Ada" {
			t.Fatalf("got %v, %v", commits, err)
		}
		commits, err = n.sources.ListCommits(t.Context(), &gitcachev1.ListCommitsRequest{
			Source:   "shop",
			Revision: "main", PageSize: 1, PageToken: commits.GetNextPageToken(),
		})
		if err != nil || commits.GetCommits()[0].GetCommit() != old || commits.GetNextPageToken() != "" {
			t.Errorf("got %v, %v", commits, err)
		}
		listing, err := n.sources.ListTree(t.Context(), &gitcachev1.ListTreeRequest{Source: "shop", Path: "deploy"})
		if err != nil || len(listing.GetEntries()) != 2 ||
			listing.GetEntries()[1].GetName() != "web.yaml" || listing.GetEntries()[1].GetSize() != 5 ||
			listing.GetEntries()[1].GetKind() != gitcachev1.TreeEntry_KIND_FILE ||
			listing.GetRevision().GetSubject() != "two" {
			t.Errorf("got %v, %v", listing, err)
		}
		for revision, want := range map[string]string{
			"": "a: 2\n", "HEAD": "a: 2\n", old: "a: 1\n",
			old[:8]: "a: 1\n",
		} {
			file, err := n.sources.ReadFile(t.Context(),
				&gitcachev1.ReadFileRequest{Source: "shop", Revision: revision, Path: "deploy/web.yaml"})
			if err != nil || string(file.GetContent()) != want {
				t.Errorf("%q: got %v, %v", revision, file, err)
			}
		}
		file, err := n.sources.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: "shop", Path: "bin"})
		if err != nil || string(file.GetContent()) != binary {
			t.Errorf("got %v, %v", file, err)
		}
		_, err = n.sources.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: "shop", Path: "large"})
		wantCode(t, err, connect.CodeResourceExhausted, "1 MiB")
		_, err = n.sources.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: "shop", Path: "nope"})
		wantCode(t, err, connect.CodeNotFound, `no file "nope"`)
		_, err = n.sources.ListTree(t.Context(), &gitcachev1.ListTreeRequest{Source: "shop", Revision: "next"})
		wantCode(t, err, connect.CodeNotFound, `"next"`, "refs/heads/main")
		_, err = n.sources.ListTree(t.Context(), &gitcachev1.ListTreeRequest{Source: "shop", PageToken: "x"})
		wantCode(t, err, connect.CodeInvalidArgument, "page_token")
		_, err = n.sources.ListCommits(t.Context(), &gitcachev1.ListCommitsRequest{Source: "nope"})
		wantCode(t, err, connect.CodeNotFound, `source "nope"`)
	}
}

func TestOnlyUsersAndGitcachesLookAtSources(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.one()
	hc, err := client.New(client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hc.CloseIdleConnections)
	for name, may := range map[string]bool{
		identity.ServiceGitcache: true, identity.ServiceDistributor: false,
		identity.ServiceTunnel: false,
	} {
		as := gitcachev1connect.NewSourceServiceClient(hc, n.url,
			append(client.Options(), client.WithToken(f.sending(f.console.token(t, identity.KindService, name))))...)
		_, list := as.ListSources(context.WithoutCancel(t.Context()), &gitcachev1.ListSourcesRequest{})
		_, file := as.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: "shop", Path: "a"})
		for _, err := range []error{list, file} {
			if refused := connect.CodeOf(err) == connect.CodePermissionDenied; refused == may {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := gitcachev1connect.NewSourceServiceClient(hc, n.url).ListSources(t.Context(), &gitcachev1.ListSourcesRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
}
