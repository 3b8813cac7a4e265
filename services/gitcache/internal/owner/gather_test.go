package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/mirror/mirrortest"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func chart(i int, host string) depend.Chart {
	return depend.Chart{Name: fmt.Sprint("db", i), Version: "1.0.0", Repository: "https://" + host}
}

// dependent is a tenure of a source whose default branch has, in folders, charts that depend on charts of repositories.
func dependent(t *testing.T, charts map[string]depend.Chart) (*tenure, source.Source) {
	t.Helper()
	files := gittest.Files{}
	s := source.Source{Name: "shop", HasDependencies: true, Allow: []string{"a.example.com"}, Folders: map[string][]source.Folder{}}
	for _, folder := range slices.Sorted(maps.Keys(charts)) {
		c := charts[folder]
		files[folder+"/Chart.yaml"] = fmt.Sprintf("apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: %s, version: %s, repository: %s}\n", c.Name, c.Version, c.Repository)
		s.Folders[source.RefHead] = append(s.Folders[source.RefHead], source.Folder{Path: folder})
	}
	tn := newTenure(s)
	var commit git.Hash
	tn.mirror, commit = mirrortest.New(t, files)
	tn.heads = map[string]mirror.Head{source.RefHead: {Ref: source.RefHead, Object: commit, Commit: commit}}
	return tn, s
}

// A dependency that the console told of becomes durable in the mirror, and is not asked for again.
func TestADependencyThatAnotherReplicaPublishedIsKept(t *testing.T) {
	t.Parallel()
	c := chart(1, "a.example.com")
	tn, s := dependent(t, map[string]depend.Chart{"deploy": c})
	tn.heads[c.Ref()] = mirror.Head{Ref: c.Ref(), Commit: tn.heads[source.RefHead].Commit}
	p := &plan{}
	if err := tn.bringDependencies(t.Context(), upstream.Remote{URL: &url.URL{Scheme: "https", Host: "git.example.com"}}, s, p); err != nil {
		t.Fatal(err)
	}
	if moved, err := tn.settleDependencies(p); err != nil || !moved {
		t.Errorf("moved %t, %v", moved, err)
	}
	if _, kept := tn.mirror.Heads()[c.Ref()]; !kept || len(p.troubles) != 0 {
		t.Errorf("the mirror keeps it: %t, told %v", kept, p.troubles)
	}
}

// refusingCharts is a repository that has an error.
type refusingCharts struct {
	chartrepo.Fetcher
	err error
}

func (f refusingCharts) ListCharts(context.Context, upstream.Remote, []string, *chartrepo.Charts) (*chartrepo.Charts, error) {
	return nil, f.err
}

// A look is refused for what its folder lacks, and only put off while the host of that is down.
func TestALookIsRefusedForWhatTheFolderLacks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host   string
		isHere bool
		err    error
		want   refusal.Reason
		isGood bool
	}{
		"here, and its host is not allowed any more": {host: "b.example.com", isHere: true, isGood: true},
		"its host is not allowed":                    {host: "b.example.com", want: refusal.Precondition},
		"its host is down":                           {host: "a.example.com", err: &upstream.Error{Kind: upstream.KindUnreachable, Message: "down"}, want: refusal.Unavailable},
		"its host wants time":                        {host: "a.example.com", err: &upstream.Error{Kind: upstream.KindThrottled, Message: "429"}, want: refusal.Unavailable},
		"its host is no repository":                  {host: "a.example.com", err: &upstream.Error{Kind: upstream.KindContent, Message: "welcome"}, want: refusal.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := chart(1, tc.host)
			tn, s := dependent(t, map[string]depend.Chart{"deploy": c})
			tn.loop.o.deps.Charts = refusingCharts{err: tc.err}
			if tc.isHere {
				tn.heads[c.Ref()] = mirror.Head{
					Ref: c.Ref(), Object: tn.heads[source.RefHead].Commit,
					Commit: tn.heads[source.RefHead].Commit,
				}
			}
			err := tn.lookDependencies(t.Context(),
				upstream.Remote{URL: &url.URL{Scheme: "https", Host: "git.example.com"}}, s, &plan{})
			known, isLook := errors.AsType[*refusal.Error](err)
			if isLook == tc.isGood || isLook && known.Reason != tc.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// While upstream is away a pin is taken, and no base is looked at: those that services need stay.
func TestAPinKeepsBasesThatServicesNeed(t *testing.T) {
	t.Parallel()
	tn, s := dependent(t, nil)
	s.URL = "https://git.example.com/shop.git"
	commit := tn.heads[source.RefHead].Commit
	s.Wants = map[string]int{commit.String(): 1}
	tn.seen = map[string]bool{}
	base := remotebase.RefPrefix + "https://a.example.com/org/repo@v1"
	tn.heads[base] = mirror.Head{Ref: base, Object: commit, Commit: commit, FetchTime: time.Unix(1, 0)}
	for i := range 200 { // newer, and not needed any more
		c := chart(i, "a.example.com")
		tn.heads[c.Ref()] = mirror.Head{Ref: c.Ref(), Object: commit, Commit: commit, FetchTime: time.Unix(2, 0)}
	}
	if !tn.takePins(t.Context(), s) {
		t.Fatal("the pin is no head")
	}
	if _, kept := tn.heads[base]; !kept {
		t.Error("the base is gone")
	}
}
