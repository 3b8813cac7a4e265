package owner

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/mirror/mirrortest"
	"fairlead.dev/services/gitcache/internal/source"
)

// A host that hands out only refs is asked for the object of the ref that stands for a commit: for the tag object of a
// tag that has one.
func TestCommitsAreAskedForByTheirRefs(t *testing.T) {
	t.Parallel()
	branch, tag, tagged, plain, absent := git.Hash{1}, git.Hash{2}, git.Hash{3}, git.Hash{4}, git.Hash{5}
	l := &gitwire.Listing{
		Refs: map[string]git.Hash{
			source.RefHead: branch, "refs/heads/main": branch, "refs/tags/v1": tag, "refs/tags/v2": plain,
			"refs/tags/of-main": {6},
		},
		Peeled: map[string]git.Hash{"refs/tags/v1": tagged, "refs/tags/of-main": branch},
	}
	want := map[git.Hash]git.Hash{branch: branch, tagged: tag, plain: plain, tag: tag}
	if got := l.FindTips(slices.Values([]git.Hash{branch, tag, tagged, plain, absent})); !maps.Equal(got, want) {
		t.Errorf("tips %v, want %v", got, want)
	}
	p := &plan{}
	p.wantObjects(l, map[string]git.Hash{
		tagged.String(): tagged, absent.String(): absent, "refs/heads/main": branch, "refs/tags/v3": {7},
	})
	slices.SortFunc(p.wants, git.Hash.Compare)
	if !slices.Equal(p.wants, []git.Hash{branch, tag, {7}}) || !slices.Equal(p.commits, []git.Hash{absent}) {
		t.Errorf("asks for %v, and for the commits %v", p.wants, p.commits)
	}
}

// TestAPollLooksAtTheServicesOnce, however many refs are gone: a source may have hundreds of thousands of services.
func TestAPollLooksAtTheServicesOnce(t *testing.T) {
	t.Parallel()
	looks := 0
	tn := newTenure(source.Source{
		Name: "shop", Wants: map[string]int{"refs/heads/a": 1, "refs/heads/b": 1},
		Users: func() func(string) []string {
			looks++
			return func(ref string) []string { return []string{"of-" + strings.TrimPrefix(ref, source.BranchPrefix)} }
		},
	})
	m, commit := mirrortest.New(t, gittest.Files{"a": "1"})
	tn.mirror, tn.heads = m, map[string]mirror.Head{}
	for polls := range 2 {
		p := tn.makePlan(tn.loop.currentSource(), &gitwire.Listing{Refs: map[string]git.Hash{source.RefHead: commit}})
		if len(p.troubles) != 2 || !strings.Contains(p.troubles[1].Text, `service "of-b"`) {
			t.Errorf("told %+v", p.troubles)
		}
		if looks != polls+1 {
			t.Errorf("looked %d times at the services in %d polls", looks, polls+1)
		}
	}
}
