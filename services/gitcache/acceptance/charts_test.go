package acceptance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/charttest"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/longform"
)

// charts is a fixture whose source "shop" is a repository of charts.
type charts struct {
	*fixture
	repo *charttest.Repository
}

func newCharts(t *testing.T) *charts {
	t.Helper()
	f := &charts{fixture: newFixture(t), repo: charttest.New(t)}
	f.setSource(&consolev1.HelmSource{})
	return f
}

// setSource changes the source; the url is the repository's.
func (f *charts) setSource(helm *consolev1.HelmSource) {
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	helm.Url, helm.Interval = f.repo.URL, durationpb.New(seldom)
	f.console.sources[sourceName].Spec = &consolev1.SourceSpec{Helm: helm}
}

// chart has a service follow a chart and waits until a version is published for it.
func (f *charts) chart(chart, version, want string) *consolev1.Head {
	f.t.Helper()
	ref := catalog.ChartRef(chart, version)
	var is *consolev1.Head
	await.NoError(f.t, want+" is published for "+ref, func() error {
		status := f.console.status()
		if is = headOf(status, ref); is.GetResolvedRef() != catalog.ChartRef(chart, want) {
			return errors.New("it is " + is.GetResolvedRef() + "; problem: " + status.GetProblem().GetMessage())
		}
		return nil
	})
	return is
}

// polled asks for a poll and waits until it is over.
func (n *node) polled() {
	n.f.t.Helper()
	last := n.live().GetLastPollTime().AsTime()
	n.refresh()
	await.NoError(n.f.t, "a poll", func() error {
		if !n.live().GetLastPollTime().AsTime().After(last) {
			return errors.New("not polled")
		}
		return nil
	})
}

func template(text string) map[string]string {
	return map[string]string{"templates/web.yaml": text, "values.yaml": "a: 1\n"}
}

// TestChartFollowsItsVersions has an index of 20,000 versions: a pushed patch version is published, and a poll without
// news costs one small request.
func TestChartFollowsItsVersions(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	for c := range 100 {
		for v := range 200 {
			f.repo.List(fmt.Sprint("other-", c), fmt.Sprintf("1.%d.0", v), "elsewhere.tgz", "")
		}
	}
	f.repo.Push("web", "1.2.0", template("one"))
	f.repo.Push("web", "2.0.0", template("two"))
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	n := f.one()
	first := f.chart("web", "^1", "1.2.0")
	if r := first.GetRevision(); r.GetSubject() != "web 1.2.0 (app 9.9)" || r.GetCommitTime().AsTime().Year() != 2026 {
		t.Errorf("the revision is %v", r)
	}
	f.problem()
	ref := catalog.ChartRef("web", "^1")
	resolved := n.resolve(ref, "")
	if files := n.download(resolved.GetArtifact().GetDigest()); files["templates/web.yaml"] != "one" ||
		files["Chart.yaml"] == "" {
		t.Errorf("the artifact has %v", files)
	}

	indexes, downloads := f.repo.Count("/index.yaml"), f.repo.Downloads()
	n.polled()
	if last := f.repo.Requests()[len(f.repo.Requests())-1]; f.repo.Count("/index.yaml") != indexes+1 ||
		last.Header.Get("If-None-Match") == "" {
		t.Errorf("%d requests for the index, the last with %v", f.repo.Count("/index.yaml")-indexes, last.Header)
	}
	f.repo.Push("web", "1.3.0-rc.1", template("a pre-release"))
	f.repo.Push("other-1", "7.0.0", nil)
	n.polled()
	if f.repo.Downloads() != downloads {
		t.Error("a package was downloaded that nobody follows")
	}

	f.repo.Push("web", "1.2.1", template("patched"))
	n.refresh()
	if second := f.chart("web", "^1", "1.2.1"); second.GetRevision().GetCommit() == first.GetRevision().GetCommit() {
		t.Error("another version is the same commit")
	}
	if files := n.download(n.resolve(ref, "").GetArtifact().GetDigest()); files["templates/web.yaml"] != "patched" {
		t.Errorf("the artifact has %v", files)
	}
	// The version that ran before stays there to go back to.
	if files := n.download(n.resolve(first.GetRevision().GetCommit(), "").GetArtifact().GetDigest()); files["templates/web.yaml"] != "one" {
		t.Errorf("the older artifact has %v", files)
	}
	file, err := n.sources.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{
		Source: "shop", Revision: ref,
		Path: "templates/web.yaml",
	})
	if err != nil || string(file.GetContent()) != "patched" {
		t.Errorf("the file reads %q, %v", file.GetContent(), err)
	}
}

// TestChartsAreServedWithTheirRepositoryDown after a restart, too, and what was downloaded is not downloaded again.
func TestChartsAreServedWithTheirRepositoryDown(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.console.setService("web", catalog.ChartRef("web", ""))
	dir := t.TempDir()
	n := f.start(dir, nil)
	f.chart("web", "", "1.0.0")
	n.stop()
	n = f.start(dir, nil)
	n.polled()
	if got := f.repo.Downloads(); got != 1 {
		t.Errorf("%d downloads of one package", got)
	}
	n.stop()
	f.repo.Close()
	n = f.start(dir, nil)
	f.problem("connection refused")
	n.resolve(catalog.ChartRef("web", ""), "")
}

// TestReplacedVersionIsToldAndKeptAway: what runs under a number does not change, unless the source allows it.
func TestReplacedVersionIsToldAndKeptAway(t *testing.T) {
	t.Parallel()
	longform.Only(t, "several polls")
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.console.setService("web", catalog.ChartRef("web", "1.0.0"))
	dir := t.TempDir()
	n := f.start(dir, nil)
	first := f.chart("web", "1.0.0", "1.0.0").GetRevision().GetCommit()

	// The same content in another package, and in an index that was written anew, is no news.
	f.repo.PushPackage("web", "1.0.0", append(charttest.Package("web", "1.0.0", template("one")), gzipped("")...))
	n.polled()
	f.problem()

	f.repo.Push("web", "1.0.0", template("replaced"))
	n.refresh()
	f.problem("web 1.0.0", `service "web"`, "replaced upstream", "allowReplaced")
	downloads := f.repo.Downloads()
	n.polled()
	f.problem("replaced upstream")
	if f.repo.Downloads() != downloads {
		t.Error("the replaced package is downloaded with every poll")
	}
	f.console.setService("late", catalog.ChartRef("web", "^1"))
	if got := f.chart("web", "^1", "1.0.0").GetRevision().GetCommit(); got != first {
		t.Errorf("another service gets %s, want what was published first, %s", got, first)
	}
	n.stop()
	n = f.start(dir, nil)
	f.problem("replaced upstream")
	n.polled()
	f.problem("replaced upstream")
	if got := f.chart("web", "1.0.0", "1.0.0").GetRevision().GetCommit(); got != first {
		t.Errorf("after a restart it is %s, want %s", got, first)
	}

	f.setSource(&consolev1.HelmSource{AllowReplaced: true})
	await.NoError(t, "the replaced content is published", func() error {
		for _, version := range []string{"1.0.0", "^1"} {
			if headOf(f.console.status(), catalog.ChartRef("web", version)).GetRevision().GetCommit() == first {
				return errors.New("not for " + version)
			}
		}
		return nil
	})
	f.problem()
}

// TestVersionThatVanishesIsKeptAndTold, and so is what no service can get.
func TestVersionThatVanishesIsKeptAndTold(t *testing.T) {
	t.Parallel()
	longform.Only(t, "several polls")
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.repo.Push("web", "1.1.0", template("two"))
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	n := f.one()
	f.chart("web", "^1", "1.1.0")
	f.repo.Remove("web", "1.1.0")
	n.refresh()
	f.problem("web 1.1.0", "gone from the index", "now 1.0.0", "is kept")
	f.chart("web", "^1", "1.1.0")
	f.repo.Push("web", "1.1.0", template("two"))
	n.refresh()
	f.problem()

	f.console.setService("next", catalog.ChartRef("web", "^2"))
	f.problem(`no version of chart "web" fits "^2" of service "next"`, "highest version is 1.1.0")
	f.console.setService("next", catalog.ChartRef("absent", ""))
	f.problem(`chart "absent" of service "next" is not in the index`)
	f.console.setService("next", "main")
	f.problem(`service "next" names no chart`)
	f.console.setService("next", catalog.ChartRef("web", "1.0.0"))
	f.chart("web", "1.0.0", "1.0.0")
	f.problem()
}

// TestVersionWithoutATimeHasNone: 1970 would count as the time that a deployment took since.
func TestVersionWithoutATimeHasNone(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.repo.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/index.yaml" {
			return false
		}
		_, _ = w.Write([]byte("entries: \n  web:\n  - {name: web, version: 1.0.0, urls: [web-1.0.0.tgz]}\n"))
		return true
	})
	f.console.setService("web", catalog.ChartRef("web", ""))
	f.one()
	first := f.chart("web", "", "1.0.0").GetRevision()
	f.console.setService("pinned", first.GetCommit())
	await.NoError(t, "the pin is published", func() error {
		if headOf(f.console.status(), first.GetCommit()) == nil {
			return errors.New("not yet")
		}
		return nil
	})
	for _, r := range []*artifactv1.Revision{first, headOf(f.console.status(), first.GetCommit()).GetRevision()} {
		if r.GetCommitTime() != nil || r.GetAuthor() != "" {
			t.Errorf("it is of %v by %q", r.GetCommitTime().AsTime(), r.GetAuthor())
		}
	}
}

// TestGitSourceHasNoCharts says so.
func TestGitSourceHasNoCharts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.repo.Commit("one", map[string]string{"a": "1"})
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	f.one()
	f.problem(`service "web" names chart "web ^1"`, "is a Git repository")
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	_, _ = gz.Write([]byte(text)) // to memory
	_ = gz.Close()
	return b.Bytes()
}

// linked is a package with a link.
func linked() []byte {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	_ = w.WriteHeader(&tar.Header{Name: "bad/values.yaml", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink})
	_ = w.Close()
	_ = gz.Close()
	return b.Bytes()
}

// TestServersThatLieAreToldAndOtherChartsGoOn: each has its words at the source, and nothing of it is published.
func TestServersThatLieAreToldAndOtherChartsGoOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lie  func(f *charts)
		says []string
	}{
		"another digest": {func(f *charts) {
			f.repo.Push("bad", "1.0.0", nil)
			f.repo.List("bad", "1.0.0", "bad-1.0.0.tgz", strings.Repeat("a", 64))
		}, []string{"digest sha256:", "index says sha256:aaaaaaaaaaaa"}},
		"no package": {func(f *charts) { f.repo.List("bad", "1.0.0", "none.tgz", "") }, []string{"404", "names a package that is not there"}},
		"a web page": {func(f *charts) {
			f.repo.PushPackage("bad", "1.0.0", []byte("<html><body>It is not here.</body></html>"))
		}, []string{"not compressed with gzip"}},
		"another one": {func(f *charts) { f.repo.PushPackage("bad", "1.0.0", charttest.Package("good", "1.0.0", nil)) }, []string{`has the name "good"`}},
		"a link":      {func(f *charts) { f.repo.PushPackage("bad", "1.0.0", linked()) }, []string{"is a link or a device"}},
		"cut": {func(f *charts) {
			f.repo.Push("bad", "1.0.0", nil)
			f.repo.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "bad") {
					return false
				}
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte("\x1f\x8b\x08"))
				return true
			})
		}, []string{"ends early"}},
		"packed short": {func(f *charts) {
			whole := charttest.Package("bad", "1.0.0", nil)
			f.repo.PushPackage("bad", "1.0.0", whole[:len(whole)/2])
		}, []string{"can't be used", "unexpected EOF"}},
		"no right": {func(f *charts) {
			f.repo.Push("bad", "1.0.0", nil)
			f.repo.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "bad") {
					w.WriteHeader(http.StatusForbidden)
				}
				return strings.Contains(r.URL.Path, "bad")
			})
		}, []string{"403"}},
		"a scheme":     {func(f *charts) { f.repo.List("bad", "1.0.0", "oci://example.com/bad", "") }, []string{"oci://"}},
		"a file":       {func(f *charts) { f.repo.List("bad", "1.0.0", "file:///etc/passwd", "") }, []string{"must begin with https://"}},
		"another host": {func(f *charts) { f.repo.List("bad", "1.0.0", "http://192.0.2.1/bad.tgz", "") }, []string{"http://"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCharts(t)
			f.repo.Push("good", "1.0.0", template("good"))
			tc.lie(f)
			f.console.setService("web", catalog.ChartRef("bad", ""))
			f.console.setService("good", catalog.ChartRef("good", ""))
			n := f.one()
			f.problem(append(tc.says, "bad 1.0.0", `service "web"`, "Nothing of it is published")...)
			f.chart("good", "", "1.0.0")
			n.resolve(catalog.ChartRef("good", ""), "")
			if h := headOf(f.console.status(), catalog.ChartRef("bad", "")); h != nil {
				t.Errorf("published: %v", h)
			}
		})
	}
}

// TestIndexThatCantBeReadIsTold, and what was published stays.
func TestIndexThatCantBeReadIsTold(t *testing.T) {
	t.Parallel()
	longform.Only(t, "several polls")
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.console.setService("web", catalog.ChartRef("web", ""))
	n := f.one()
	f.chart("web", "", "1.0.0")
	answer := func(status int, body string, header ...string) {
		f.repo.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		})
		n.refresh()
	}
	answer(200, "<html>welcome</html>")
	f.problem("does not answer as a chart repository does", "not the index")
	answer(200, "entries:\n  web:\n  - name: web\n", "Content-Length", "5000")
	f.problem("ends early")
	answer(401, "")
	f.problem("401", "Name a secret")
	answer(304, "")
	f.problem()
	answer(500, "")
	f.problem("500", "asks again later")
	answer(429, "", "Retry-After", "1")
	f.problem("too many requests")
	f.chart("web", "", "1.0.0")
	f.repo.SetFault(nil)
	n.refresh()
	f.problem()
}

// TestPackagesWaitAsLongAsTheirHostAsks: polls in between ask the repository, but not the host of the package.
func TestPackagesWaitAsLongAsTheirHostAsks(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	other := charttest.New(t)
	other.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	f.repo.Push("good", "1.0.0", template("good"))
	f.repo.List("web", "1.0.0", other.URL+"/web-1.0.0.tgz", "")
	f.console.setService("web", catalog.ChartRef("web", ""))
	f.console.setService("good", catalog.ChartRef("good", ""))
	n := f.one()
	f.chart("good", "", "1.0.0")
	f.problem("web 1.0.0", "too many requests")
	n.polled()
	f.repo.Push("good", "1.1.0", template("better"))
	n.refresh()
	f.chart("good", "", "1.1.0")
	if got := other.Downloads(); got != 1 {
		t.Errorf("%d requests to a host that wants none for an hour", got)
	}
}

// TestCredentialsStayWithTheRepository: an index may name packages on another host, which gets none.
func TestCredentialsStayWithTheRepository(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	other := charttest.New(t)
	f.repo.Push("near", "1.0.0", template("near"))
	other.Push("far", "1.0.0", template("far"))
	f.repo.List("far", "1.0.0", other.URL+"/far-1.0.0.tgz?a=b", "")
	f.console.setSecret("login", map[string]string{"username": "ada", "password": "hush"})
	f.setSource(&consolev1.HelmSource{Secret: "login"})
	f.console.setService("near", catalog.ChartRef("near", ""))
	f.console.setService("far", catalog.ChartRef("far", ""))
	f.one()
	f.chart("near", "", "1.0.0")
	f.chart("far", "", "1.0.0")
	for _, r := range f.repo.Requests() {
		if user, password, _ := r.BasicAuth(); user != "ada" || password != "hush" {
			t.Errorf("%s came without the credentials", r.URL)
		}
	}
	for _, r := range other.Requests() {
		if r.Header.Get("Authorization") != "" || r.URL.RawQuery != "a=b" {
			t.Errorf("%s came with %v", r.URL, r.Header)
		}
	}
}

// TestKillNineDuringADownloadLeavesNothingHalf: the next process serves what there was, and downloads again.
func TestKillNineDuringADownloadLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	dir := t.TempDir()
	n, kill := f.spawn(dir)
	f.chart("web", "^1", "1.0.0")

	tgz := charttest.Package("web", "1.1.0", template("two"))
	f.repo.PushPackage("web", "1.1.0", tgz)
	started, resume := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(release)
	f.repo.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/web-1.1.0.tgz" {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(tgz)))
		_, _ = w.Write(tgz[:len(tgz)-10])
		_ = http.NewResponseController(w).Flush()
		select {
		case started <- struct{}{}:
		default:
		}
		<-resume
		return true
	})
	n.refresh()
	<-started
	kill()
	again, _ := f.spawn(dir)
	again.resolve(catalog.ChartRef("web", "^1"), "")
	f.repo.SetFault(nil)
	release()
	again.refresh()
	f.chart("web", "^1", "1.1.0")
	if files := again.download(again.resolve(catalog.ChartRef("web", "^1"), "").GetArtifact().GetDigest()); files["templates/web.yaml"] != "two" {
		t.Errorf("the artifact has %v", files)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "fetch")); err != nil || len(left) > 0 {
		t.Errorf("left of downloads: %v, %v", left, err)
	}
}

// TestHandOverOfChartsDownloadsNothingAnew: the other replica has a copy.
func TestHandOverOfChartsDownloadsNothingAnew(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	repo := charttest.New(t)
	repo.Push("web", "1.0.0", template("one"))
	ref := catalog.ChartRef("web", "^1")
	f.console.mu.Lock()
	f.console.sources["s00"].Spec = &consolev1.SourceSpec{Helm: &consolev1.HelmSource{
		Url:      repo.URL,
		Interval: durationpb.New(seldom),
	}}
	catalog.SetRef(f.console.services["web-s00"].Spec, ref)
	f.console.services["web-s00"].Spec.Path = ""
	f.console.mu.Unlock()
	published := func(n *node, version string) {
		t.Helper()
		await.NoError(t, version+" is published", func() error {
			if got := headOf(f.console.statusOf("s00"), ref).GetResolvedRef(); got != catalog.ChartRef("web", version) {
				_, _ = n.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: "s00"}) // the owner changes meanwhile
				return errors.New("it is " + got)
			}
			return nil
		})
	}
	a := f.begin("a")
	published(a, "1.0.0")
	b := f.begin("b")
	b.settled(2)
	owner, other := "a", b
	if a.listShards("")[0].GetOwner() == "b" {
		owner, other = "b", a
	}
	f.end(owner)
	await.NoError(t, "the other replica owns the source", func() error {
		shards := other.listShards("")
		if got := shards[0].GetOwner(); got == owner || got == "" {
			return errors.New("its owner is " + got)
		}
		return nil
	})
	repo.Push("other", "1.0.0", nil) // the index is news, the chart is not
	index := repo.Count("/index.yaml")
	await.NoError(t, "it polls", func() error {
		if repo.Count("/index.yaml") > index {
			return nil
		}
		_, err := other.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: "s00"})
		return errors.Join(errors.New("not yet"), err)
	})
	repo.Push("web", "1.1.0", template("two"))
	published(other, "1.1.0")
	if got := repo.Downloads(); got != 2 {
		t.Errorf("%d downloads of two packages", got)
	}
}

// TestAServiceIsPackedAtAVersionThatNobodyFollows: what a comparison with another version asks for, which makes no
// head.
func TestAServiceIsPackedAtAVersionThatNobodyFollows(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.repo.Push("web", "2.0.0", template("two"))
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	n := f.one()
	f.chart("web", "^1", "1.0.0")
	if _, files, err := packed(t.Context(), n.sources, "web", catalog.ChartRef("web", "2.x")); err != nil ||
		files["templates/web.yaml"] != "two" {
		t.Errorf("got %v, %v", files, err)
	}
	for ref, word := range map[string]string{
		"main":                       "Name chart:NAME@VERSION",
		catalog.ChartRef("web", "3"): "highest version is 2.0.0",
	} {
		if _, _, err := packed(t.Context(), n.sources, "web", ref); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if heads := f.console.status().GetHeads(); len(heads) != 1 {
		t.Errorf("the heads are %v", heads)
	}
	f.problem()
}

// TestAVersionThatNoServiceNamesIsFetchedToBeRead once, by who may deploy, and published to nobody.
func TestAVersionThatNoServiceNamesIsFetchedToBeRead(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.repo.Push("web", "2.0.0", map[string]string{"values.yaml": "b: 2\n"})
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	n := f.one()
	f.chart("web", "^1", "1.0.0")
	before := f.repo.Downloads()
	read := func(as gitcachev1connect.SourceServiceClient, version string) (*gitcachev1.ReadFileResponse, error) {
		ref := catalog.ChartRef("web", version)
		return as.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: "shop", Revision: ref, Path: "values.yaml"})
	}
	ada := n.sourcesAs(identity.Identity{Kind: identity.KindUser, Name: "ada"})
	f.console.grant("viewer")
	await.NoError(t, "ada sees what is published", func() error {
		_, err := read(ada, "^1")
		return err
	})
	if _, err := read(ada, "2.0.0"); connect.CodeOf(err) != connect.CodePermissionDenied ||
		f.repo.Downloads() != before {
		t.Errorf("a viewer has a version fetched: %v", err)
	}
	for range 2 {
		got, err := read(n.sources, "2.0.0")
		if err != nil || string(got.GetContent()) != "b: 2\n" {
			t.Fatalf("read %q, %v", got.GetContent(), err)
		}
	}
	if now := f.repo.Downloads(); now != before+1 {
		t.Errorf("%d downloads for one version", now-before)
	}
	if heads := f.console.status().GetHeads(); len(heads) != 1 {
		t.Errorf("published %v", heads)
	}
	if _, err := read(n.sources, "3.0.0"); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a version that is not there: %v", err)
	}
	f.chart("web", "^1", "1.0.0")
}

// TestANewerVersionOutsideOfTheRangeIsTold with the head, and no pre-release.
func TestANewerVersionOutsideOfTheRangeIsTold(t *testing.T) {
	t.Parallel()
	f := newCharts(t)
	f.repo.Push("web", "1.0.0", template("one"))
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	f.console.setService("exact", catalog.ChartRef("web", "1.0.0"))
	n := f.one()
	f.chart("web", "^1", "1.0.0")
	newer := func(want string) {
		t.Helper()
		for _, version := range []string{"^1", "1.0.0"} {
			await.NoError(t, version+" has a newer version "+want, func() error {
				if got := headOf(f.console.status(), catalog.ChartRef("web", version)).GetNewerVersion(); got != want {
					return errors.New("it is " + got)
				}
				return nil
			})
		}
	}
	newer("")
	f.repo.Push("web", "2.0.0", template("two"))
	f.repo.Push("web", "3.0.0-rc.1", template("three"))
	n.refresh()
	newer("2.0.0")
	f.problem()
	if files := n.download(n.resolve(catalog.ChartRef("web", "^1"), "").GetArtifact().GetDigest()); files["templates/web.yaml"] != "one" {
		t.Errorf("served %v", files)
	}
}
