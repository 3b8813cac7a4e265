package owner

import (
	"maps"
	"slices"
	"testing"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
)

// A host that hands out only refs is asked for the object of the ref that stands for a commit: for the tag object of a
// tag that has one.
func TestCommitsAreAskedForByTheirRefs(t *testing.T) {
	t.Parallel()
	branch, tag, tagged, plain, absent := git.Hash{1}, git.Hash{2}, git.Hash{3}, git.Hash{4}, git.Hash{5}
	l := &gitwire.Listing{
		Refs: map[string]git.Hash{
			RefHead: branch, "refs/heads/main": branch, "refs/tags/v1": tag, "refs/tags/v2": plain,
			"refs/tags/of-main": {6},
		},
		Peeled: map[string]git.Hash{"refs/tags/v1": tagged, "refs/tags/of-main": branch},
	}
	want := map[git.Hash]git.Hash{branch: branch, tagged: tag, plain: plain, tag: tag}
	if got := tipsOf(l, slices.Values([]git.Hash{branch, tag, tagged, plain, absent})); !maps.Equal(got, want) {
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
