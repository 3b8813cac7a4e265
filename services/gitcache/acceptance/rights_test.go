package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
)

// codesOf are the codes with which somebody's calls about a source end, and what they say.
func codesOf(ctx context.Context, as gitcachev1connect.SourceServiceClient, source string) (codes, words string) {
	_, get := as.GetSource(ctx, &gitcachev1.GetSourceRequest{Name: source})
	_, commits := as.ListCommits(ctx, &gitcachev1.ListCommitsRequest{Source: source})
	_, tree := as.ListTree(ctx, &gitcachev1.ListTreeRequest{Source: source})
	_, file := as.ReadFile(ctx, &gitcachev1.ReadFileRequest{Source: source, Path: "deploy/web.yaml"})
	_, refresh := as.RefreshSource(ctx, &gitcachev1.RefreshSourceRequest{Name: source})
	for i, err := range []error{get, commits, tree, file, refresh} {
		code := "ok"
		if err != nil {
			code = connect.CodeOf(err).String()
			words += strings.ReplaceAll(err.Error(), source, "SOURCE") + "\n"
		}
		codes += []string{"get ", " commits ", " tree ", " file ", " refresh "}[i] + code
	}
	return codes, words
}

func TestWhatIsInASourceIsForWhoSeesAServiceOfIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	commit := f.repo.Commit("one", map[string]string{"deploy/web.yaml": "a: 1\n"})
	f.console.setService("web", "")
	f.console.services["web"].Spec.Project = "shop"
	f.console.addSource("unused", f.repo.URL())
	n := f.one()
	f.published("HEAD", commit)
	ada := n.sourcesAs(identity.Identity{Kind: identity.KindUser, Name: "ada"})

	const no = "permission_denied"
	all := func(get, content, refresh string) string {
		return fmt.Sprintf("get %s commits %s tree %s file %s refresh %s", get, content, content, content, refresh)
	}
	for _, tc := range []struct {
		name, role     string
		projects       []string
		shop, unused   string
		unknown, lists string
	}{
		{"nobody", "", nil, all(no, no, no), all(no, no, no), all(no, no, no), no},
		{"of another project", "operator", []string{"blog"}, all("ok", no, no), all("ok", no, no), all("not_found", no, no), ""},
		{"viewer", "viewer", []string{"shop"}, all("ok", "ok", no), all("ok", no, no), all("not_found", no, no), ""},
		{"deployer at the cluster", "deployer", nil, all("ok", "ok", "ok"), all("ok", no, no), all("not_found", no, no), ""},
	} {
		f.console.grant(tc.role, tc.projects...)
		await.NoError(t, tc.name, func() error {
			if got, words := codesOf(t.Context(), ada, "shop"); got != tc.shop {
				return fmt.Errorf("shop: %s\n%s", got, words)
			}
			return nil
		})
		unused, told := codesOf(t.Context(), ada, "unused")
		unknown, toldOfNone := codesOf(t.Context(), ada, "nope")
		if unused != tc.unused || unknown != tc.unknown {
			t.Errorf("%s: unused: %s, unknown: %s", tc.name, unused, unknown)
		}
		if unused == unknown && told != toldOfNone {
			t.Errorf("%s: a source that is there is told from one that is not:\n%s\n%s", tc.name, told, toldOfNone)
		}
		_, err := ada.ListSources(t.Context(), &gitcachev1.ListSourcesRequest{})
		if (tc.lists == no) != (connect.CodeOf(err) == connect.CodePermissionDenied) || tc.lists == "" && err != nil {
			t.Errorf("%s lists: %v", tc.name, err)
		}
	}

	// A watch ends with the last grant, at its next message.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := ada.WatchSources(ctx, &gitcachev1.WatchSourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if !watch.Receive() {
		t.Fatal(watch.Err())
	}
	f.console.grant("")
	for watch.Receive() { //nolint:revive // to its end
	}
	if connect.CodeOf(watch.Err()) != connect.CodePermissionDenied {
		t.Errorf("the watch goes on: %v", watch.Err())
	}
}
