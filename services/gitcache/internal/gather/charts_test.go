package gather

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/gitcache/internal/depend"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/mirror/mirrortest"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// A repository whose versions begin with v has the version that a chart wants without it, as for Helm, and the other
// way round.
func TestVersionsAreTheSameWithAndWithoutV(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		has, wants string
		is         bool
	}{
		{"v1.17.0", "1.17.0", true},
		{"1.17.0", "v1.17.0", true},
		{"1.17.0", "1.17.0", true},
		{"v1.17.1", "1.17.0", false},
		{"1.16.0", "v1.17.0", false},
		{"1.17.0+a", "1.17.0+b", false},
		{"1.17.0-rc.1", "1.17.0", false},
	} {
		if got := isVersion(tc.has, tc.wants); got != tc.is {
			t.Errorf("%s for %s: %t", tc.has, tc.wants, got)
		}
	}
}

// newPoll is a poll of a source that has nothing yet.
func newPoll(s source.Source) *Poll {
	memory := NewMemory()
	return &Poll{
		Deps: Deps{Heads: map[string]mirror.Head{}, Pauses: pause.Pauses{}}, Memory: &memory, Source: s,
		Remote: upstream.Remote{URL: &url.URL{Scheme: "https", Host: "git.example.com", Path: "/team/shop"}},
	}
}

// pollOf is a poll of a source whose default branch is a commit of files. The commit is given, too.
func pollOf(t *testing.T, s source.Source, files gittest.Files) (*Poll, git.Hash) {
	t.Helper()
	p := newPoll(s)
	m, commit := mirrortest.New(t, files)
	p.Mirror, p.Points = m, map[string]git.Hash{source.RefHead: commit}
	return p, commit
}

func mustGather(t *testing.T, gather func(context.Context) (Result, error)) Result {
	t.Helper()
	is, err := gather(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// dependent is a poll of a source whose default branch has, in folders, charts that depend on charts of repositories.
func dependent(t *testing.T, charts map[string]depend.Chart) (*Poll, git.Hash) {
	t.Helper()
	files := gittest.Files{}
	s := source.Source{
		Name: "shop", HasDependencies: true, Allow: []string{"a.example.com"},
		Folders: map[string][]source.Folder{},
	}
	for _, folder := range slices.Sorted(maps.Keys(charts)) {
		c := charts[folder]
		files[folder+"/Chart.yaml"] = fmt.Sprintf("apiVersion: v2\nname: web\nversion: 1.0.0\n"+
			"dependencies:\n- {name: %s, version: %s, repository: %s}\n", c.Name, c.Version, c.Repository)
		s.Folders[source.RefHead] = append(s.Folders[source.RefHead], source.Folder{Path: folder})
	}
	return pollOf(t, s, files)
}

func chart(i int, host string) depend.Chart {
	return depend.Chart{Name: fmt.Sprint("db", i), Version: "1.0.0", Repository: "https://" + host}
}

func TestDependenciesOfASourceHaveALimit(t *testing.T) {
	t.Parallel()
	d := &dependencies{p: newPoll(source.Source{Allow: []string{"a.example.com"}}), needed: map[string]bool{}}
	for i := range maxNeeded {
		if err := d.admitChart(chart(i, "a.example.com")); err != nil {
			t.Fatalf("the %dth: %v", i+1, err)
		}
		d.needed[chart(i, "a.example.com").Ref()] = true
	}
	if err := d.admitChart(chart(0, "a.example.com")); err != nil {
		t.Errorf("a chart that another folder needs too: %v", err)
	}
	if err := d.admitChart(chart(maxNeeded, "a.example.com")); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprint(maxNeeded)) {
		t.Errorf("one more: %v", err)
	}
	ref := chart(maxNeeded, "a.example.com").Ref()
	d.p.Heads = map[string]mirror.Head{ref: {Ref: ref}}
	if err := d.admitChart(chart(maxNeeded, "a.example.com")); err != nil {
		t.Errorf("one more that was fetched before: %v", err)
	}
}

// A host that is not allowed any more is told, also where the chart is here.
func TestAHostThatIsNotAllowedIsRefused(t *testing.T) {
	t.Parallel()
	d := &dependencies{p: newPoll(source.Source{Allow: []string{"a.example.com"}}), needed: map[string]bool{}}
	if err := d.admitChart(chart(1, "b.example.com")); err == nil || !strings.Contains(err.Error(), "b.example.com") {
		t.Errorf("got %v", err)
	}
}

// Until it is known which charts are needed, none is dropped: commits settle before that.
func TestHeadsOfDependenciesStayUntilTheNeedIsKnown(t *testing.T) {
	t.Parallel()
	memory, before := NewMemory(), map[string]mirror.Head{}
	for i := range 2 * maxDependencies {
		ref := chart(i, "a.example.com").Ref()
		before[ref] = mirror.Head{Ref: ref}
	}
	for want, needed := range map[int]map[string]bool{2 * maxDependencies: nil, maxDependencies: {}} {
		heads := map[string]mirror.Head{}
		if memory.KeepHeads(heads, before, Result{Needed: needed}); len(heads) != want {
			t.Errorf("%d heads, want %d", len(heads), want)
		}
	}
}

// A repository that takes the time of a poll is put off, so that the next poll begins with the others.
func TestARepositoryThatTakesTheTimeOfOthersIsPutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &dependencies{p: newPoll(source.Source{})}
		ctx, cancel := context.WithTimeoutCause(t.Context(), dependTime, ErrTime)
		defer cancel()
		<-ctx.Done()
		if err := d.holdOff(ctx, "slow", ctx.Err()); !errors.Is(err, ErrTime) || d.p.Pauses.Check("slow") == nil {
			t.Errorf("got %v, held by %v", err, d.p.Pauses.Check("slow"))
		}
		over, stop := context.WithCancel(t.Context())
		stop()
		if err := d.holdOff(over, "ended", over.Err()); !errors.Is(err, context.Canceled) ||
			d.p.Pauses.Check("ended") != nil {
			t.Errorf("the end of a tenure puts off: %v", err)
		}
	})
}

// What was fetched is delivered as before when its host is not allowed any more: its head is not one of those that may
// be dropped.
func TestWhatWasFetchedFromAHostThatIsNotAllowedAnyMoreIsNeeded(t *testing.T) {
	t.Parallel()
	c := chart(1, "b.example.com")
	p, commit := dependent(t, map[string]depend.Chart{"deploy": c})
	p.Heads[c.Ref()] = mirror.Head{Ref: c.Ref(), Object: commit, Commit: commit}
	is := mustGather(t, p.GatherCharts)
	if !is.Needed[c.Ref()] || len(is.Troubles) != 1 || !strings.Contains(is.Troubles[0].Text, "b.example.com") {
		t.Errorf("needed are %v, told %v", is.Needed, is.Troubles)
	}
}

// A folder that can't be read may need any chart: none is dropped.
func TestNoDependencyIsDroppedWhileAFolderCannotBeRead(t *testing.T) {
	t.Parallel()
	p, _ := dependent(t, map[string]depend.Chart{"deploy": chart(1, "b.example.com")})
	unread := source.Folder{Path: "x", Rules: "not canonical"}
	p.Source.Folders[source.RefHead] = append(p.Source.Folders[source.RefHead], unread)
	if is := mustGather(t, p.GatherCharts); is.Needed != nil {
		t.Errorf("needed are %v", is.Needed)
	}
}

// slowCharts are repositories of charts: one that hangs, and others that have nothing.
type slowCharts struct {
	chartrepo.Fetcher
	asked []string
}

func (f *slowCharts) ListCharts(ctx context.Context, r upstream.Remote, _ []string,
	_ *chartrepo.Charts,
) (*chartrepo.Charts, error) {
	f.asked = append(f.asked, r.URL.Path)
	if r.URL.Path == "/slow" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("it has nothing")
}

// A repository that took all of a poll's time is asked after all others in the next one.
func TestARepositoryThatTookAllTimeIsAskedLast(t *testing.T) {
	t.Parallel()
	slow := depend.Chart{Name: "db", Version: "1.0.0", Repository: "https://a.example.com/slow"}
	good := depend.Chart{Name: "db", Version: "1.0.0", Repository: "https://a.example.com/good"}
	p, _ := dependent(t, map[string]depend.Chart{"a": slow, "b": good})
	charts := &slowCharts{}
	p.Charts = charts
	synctest.Test(t, func(t *testing.T) {
		var told [2]string
		for i := range told {
			for _, one := range mustGather(t, p.GatherCharts).Troubles {
				told[i] += one.Text[:len("a/Chart.yaml")] + " "
			}
			<-time.After(2 * pause.Most) // until nothing is put off
		}
		if got := strings.Join(charts.asked, " "); got != "/slow /good /slow" {
			t.Errorf("asked were %s", got)
		}
		if told[0] != told[1] {
			t.Errorf("told in another order: %q", told)
		}
	})
}

// Who writes a chart gets around no source by another form of its URL.
func TestARepositoryIsTheSameInOtherForms(t *testing.T) {
	t.Parallel()
	for url, same := range map[string]bool{
		"https://charts.example.com/stable": true, "https://Charts.Example.com/stable": true,
		"https://charts.example.com:443/stable": true,
		"https://charts.example.com//stable":    true, "https://charts.example.com/x/../stable": true,
		"http://charts.example.com/stable": false, "https://charts.example.com:8443/stable": false,
		"https://charts.example.com/stable/more": false,
		"https://charts.example.com/stable?a=1":  false, "oci://charts.example.com/stable": false, "://": false,
	} {
		if got := sameRepository("https://charts.example.com/stable", url); got != same {
			t.Errorf("%s: %t", url, got)
		}
	}
	if !sameRepository("oci://registry.example.com/charts", "oci://registry.example.com:443/charts") {
		t.Error("the usual port of a registry makes another repository")
	}
}
