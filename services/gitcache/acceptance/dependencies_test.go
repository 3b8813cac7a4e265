package acceptance

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/charttest"
	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/registrytest"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// dependents is a fixture whose Git repository has a chart in deploy/ that depends on charts of a repository.
type dependents struct {
	*fixture
	charts *charttest.Repository
}

func newDependents(t *testing.T) *dependents {
	t.Helper()
	f := &dependents{fixture: newFixture(t), charts: charttest.New(t)}
	f.allow(f.host())
	f.charts.Push("db", "1.0.0", template("db one"))
	f.charts.Push("db", "1.1.0", template("db two"))
	f.setFolder("web", "deploy")
	return f
}

func (f *dependents) host() string {
	u, err := url.Parse(f.charts.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	return u.Host
}

// allow changes the hosts that the source allows.
func (f *dependents) allow(hosts ...string) {
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	f.console.sources[sourceName].Spec.Git.Allow = hosts
}

// setFolder has a service want a folder of the default branch.
func (f *dependents) setFolder(name, folder string) {
	f.console.setService(name, "")
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	f.console.services[name].Spec.Path = folder
}

// commit writes a chart with these dependencies, and its lock.
func (f *dependents) commit(dependencies, lock string) string {
	files := map[string]string{
		"deploy/Chart.yaml":  "apiVersion: v2\nname: web\nversion: 1.0.0\n" + strings.ReplaceAll(dependencies, "REPO", f.charts.URL),
		"deploy/values.yaml": "a: 1\n",
	}
	if lock != "" {
		files["deploy/Chart.lock"] = strings.ReplaceAll(lock, "REPO", f.charts.URL)
	}
	return f.repo.Commit("a chart", files)
}

const (
	ranged = "dependencies:\n- name: db\n  version: ^1\n  repository: REPO\n"
	locked = "dependencies:\n- {name: db, version: 1.0.0, repository: REPO}\n"
	exact  = "dependencies:\n- {name: db, version: 1.1.0, repository: REPO}\n" // of itself a lock, too
)

// folderAt waits until the folder at a commit can be had.
func (n *node) folderAt(commit, folder string) map[string]string {
	n.f.t.Helper()
	var a *artifactv1.Result
	await.NoError(n.f.t, "folder "+folder+" is resolved", func() error {
		a = n.ask(commit, folder)
		if a.GetError() != nil {
			return errors.New(a.GetError().GetMessage())
		}
		if !a.GetDependencies() {
			return errors.New("it is answered without dependencies")
		}
		return nil
	})
	return n.download(a.GetResolved().GetArtifact().GetDigest())
}

// TestChartsOfRepositoriesTravelWithTheChart: by the lock, once for all, and with the repository down after a restart.
func TestChartsOfRepositoriesTravelWithTheChart(t *testing.T) {
	t.Parallel()
	f := newDependents(t)
	first := f.commit(ranged, locked)
	dir := t.TempDir()
	n := f.start(dir, nil)
	files := n.folderAt(first, "deploy")
	if files["deploy/charts/db/templates/web.yaml"] != "db one" || files["deploy/charts/db/Chart.yaml"] == "" ||
		files["deploy/Chart.yaml"] == "" {
		t.Errorf("the artifact has %v", files)
	}
	f.problem()

	second := f.commit(exact, exact)
	n.refresh()
	if files := n.folderAt(second, "deploy"); files["deploy/charts/db/templates/web.yaml"] != "db two" {
		t.Errorf("the artifact has %v", files)
	}
	// Another folder that wants the same costs no download, and a version that is replaced upstream changes nothing.
	f.charts.Push("db", "1.1.0", template("replaced"))
	f.repo.Commit("all of it", map[string]string{"Chart.yaml": "apiVersion: v2\nname: all\nversion: 1.0.0\n" +
		strings.ReplaceAll(exact, "REPO", f.charts.URL)})
	f.setFolder("all", "")
	n.refresh()
	third := f.repo.Commit("news elsewhere", map[string]string{"README": "x"})
	n.refresh()
	if files := n.folderAt(third, ""); files["charts/db/templates/web.yaml"] != "db two" {
		t.Errorf("the artifact has %v", files)
	}
	if got := f.charts.Downloads(); got != 2 {
		t.Errorf("%d downloads of two packages", got)
	}
	n.stop()
	f.charts.Close()
	n = f.start(dir, nil)
	for commit, want := range map[string]string{first: "db one", second: "db two"} {
		if files := n.folderAt(commit, "deploy"); files["deploy/charts/db/templates/web.yaml"] != want {
			t.Errorf("after a restart the artifact of %s has %v", commit, files)
		}
	}
}

// TestDependencyThatCantBeHadIsTold with file and line, the folder is refused until then, and others go on.
func TestDependencyThatCantBeHadIsTold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		dependencies, lock string
		says               []string
	}{
		"no such version": {strings.ReplaceAll(exact, "1.1.0", "3.0.0"), "", []string{"deploy/Chart.yaml line 5", "no such version", "highest is 1.1.0"}},
		"no such chart":   {strings.ReplaceAll(exact, "db", "etc"), "", []string{"deploy/Chart.yaml line 5", "no chart of that name"}},
		"no lock":         {ranged, "", []string{"deploy/Chart.yaml line 5", `"^1" is no exact version`, "helm dependency update"}},
		"another lock":    {strings.ReplaceAll(ranged, "^1", "^2"), locked, []string{"deploy/Chart.yaml line 5", `wants version "^2"`, "Chart.lock line 2", "1.0.0"}},
		"not in the lock": {ranged, "dependencies: []\n", []string{"is not in Chart.lock"}},
		"another host":    {strings.ReplaceAll(exact, "REPO", "https://charts.example.com"), "", []string{"does not allow the host charts.example.com", "git.allow"}},
		"a registry":      {strings.ReplaceAll(exact, "REPO", "oci://example.com/x"), "", []string{"does not allow the host example.com", "git.allow"}},
		"an alias":        {strings.ReplaceAll(exact, "REPO", "'@stable'"), "", []string{`git.chartSources of the source has no source with helm of the name "stable"`, "Add its name there"}},
		"a way out":       {strings.ReplaceAll(exact, "db", "../../x"), "", []string{"no name of a chart"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newDependents(t)
			f.repo.Commit("plain", map[string]string{"plain/a.yaml": "a: 1\n"})
			commit := f.commit(tc.dependencies, tc.lock)
			f.setFolder("plain", "plain")
			n := f.one()
			f.problem(tc.says...)
			a := n.ask(commit, "deploy")
			if message := a.GetError().GetMessage(); !strings.Contains(message, "deploy/Chart.yaml line") {
				t.Errorf("the folder is answered with %v", a)
			}
			if files := n.folderAt(commit, "plain"); files["a.yaml"] == "" {
				t.Errorf("the other folder has %v", files)
			}
			f.commit(exact, exact)
			n.refresh()
			f.problem()
		})
	}
}

// TestDependenciesAreThoseOfFilesThatServicesWant: a submodule that the rules of the service leave out hides no
// dependency, and a chart that they leave out wants none.
func TestDependenciesAreThoseOfFilesThatServicesWant(t *testing.T) {
	t.Parallel()
	f := newDependents(t)
	rules := []string{"vendor", "examples"}
	f.console.mu.Lock()
	f.console.services["web"].Spec.Ignore = rules
	f.console.mu.Unlock()
	plain := f.repo.Commit("examples", map[string]string{
		"deploy/examples/Chart.yaml": "apiVersion: v2\nname: example\nversion: 1.0.0\n" + strings.ReplaceAll(strings.ReplaceAll(exact, "db", "absent"), "REPO", f.charts.URL),
	})
	f.commit(exact, "")
	commit := commitLinks(f.repo, link{"deploy/vendor", f.charts.URL, plain})
	n := f.one()
	var files map[string]string
	await.NoError(t, "the folder is resolved", func() error {
		resp, err := n.artifacts.Resolve(t.Context(), &artifactv1.ResolveRequest{
			Queries: []*artifactv1.Query{{Source: sourceName, Revision: commit, Path: "deploy", Ignore: rules}},
		})
		if err != nil {
			return err
		}
		a := resp.GetResults()[0]
		if a.GetError() != nil {
			return errors.New(a.GetError().GetMessage())
		}
		files = n.download(a.GetResolved().GetArtifact().GetDigest())
		return nil
	})
	if files["deploy/charts/db/templates/web.yaml"] != "db two" {
		t.Errorf("the artifact has %v", files)
	}
	f.problem()
}

// TestASlowRepositoryHoldsNoCommitBack: commits are published before charts are downloaded.
func TestASlowRepositoryHoldsNoCommitBack(t *testing.T) {
	t.Parallel()
	f := newDependents(t)
	answer := make(chan struct{})
	t.Cleanup(func() { close(answer) })
	f.charts.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		return true
	})
	commit := f.commit(exact, "")
	f.one()
	f.published("HEAD", commit)
}

// TestALookFetchesTheDependenciesOfItsFolder and of no other, and what can't be had is its answer.
func TestALookFetchesTheDependenciesOfItsFolder(t *testing.T) {
	t.Parallel()
	f := newDependents(t)
	chart := func(dependencies string) map[string]string {
		return map[string]string{"Chart.yaml": "apiVersion: v2\nname: all\nversion: 1.0.0\n" +
			strings.ReplaceAll(dependencies, "REPO", f.charts.URL)}
	}
	plain := f.repo.Commit("no chart", map[string]string{"deploy/a.yaml": "a: 1\n"})
	f.console.setService("other", "")
	n := f.one()
	f.published("HEAD", plain)
	f.branch("elsewhere", chart(strings.ReplaceAll(exact, "1.1.0", "3.0.0")))
	if _, files, err := packed(t.Context(), n.sources, "web", "elsewhere"); err != nil || len(files) == 0 {
		t.Errorf("a chart in another folder: %v, %v", files, err)
	}
	f.branch("absent", map[string]string{"deploy/Chart.yaml": chart(strings.ReplaceAll(exact, "1.1.0", "3.0.0"))["Chart.yaml"]})
	_, _, err := packed(t.Context(), n.sources, "web", "absent")
	wantCode(t, err, connect.CodeOf(err), "deploy/Chart.yaml line 5", "no such version", "highest is 1.1.0")
}

// TestChartsOfRegistriesTravelWithTheChart as those of repositories do, beside them.
func TestChartsOfRegistriesTravelWithTheChart(t *testing.T) {
	t.Parallel()
	f := newDependents(t)
	registry := registrytest.Start(t, "-plain")
	f.allow(f.host(), registry.Host)
	registry.HelmPush(t, "team/cache:1.0.0+build.7", charttest.Package("cache", "1.0.0+build.7", template("cache one")))
	registry.HelmPush(t, "team/cache:1.1.0", charttest.Package("cache", "1.1.0", template("cache two")))
	commit := func(item, lock string) string {
		return f.commit(locked+strings.ReplaceAll(item, "OCI", "oci://"+registry.Host+"/team/"),
			strings.ReplaceAll(lock, "OCI", "oci://"+registry.Host+"/team"))
	}
	first := commit("- {name: cache, version: ~1.0, repository: OCI}\n", locked+
		"- {name: cache, version: 1.0.0+build.7, repository: OCI}\n")
	dir := t.TempDir()
	n := f.start(dir, nil)
	files := n.folderAt(first, "deploy")
	if files["deploy/charts/cache/templates/web.yaml"] != "cache one" ||
		files["deploy/charts/db/templates/web.yaml"] != "db one" {
		t.Errorf("the artifact has %v", files)
	}
	f.problem()

	second := commit("- {name: cache, version: 1.1.0, repository: OCI}\n", locked+
		"- {name: cache, version: 1.1.0, repository: OCI}\n")
	n.refresh()
	if files := n.folderAt(second, "deploy"); files["deploy/charts/cache/templates/web.yaml"] != "cache two" {
		t.Errorf("the artifact has %v", files)
	}
	// A version that was fetched is not asked for again, whatever its tag stands for by now.
	registry.HelmPush(t, "team/cache:1.1.0", charttest.Package("cache", "1.1.0", template("replaced")))
	f.repo.Commit("news elsewhere", map[string]string{"README": "x"})
	before := len(registry.Log(t))
	n.refresh()
	n.polled()
	if asked := registry.Log(t)[before:]; len(asked) != 0 {
		t.Errorf("polls without another dependency asked for\n%s", strings.Join(asked, "\n"))
	}
	if got := registry.Count(t, "GET /v2/team/cache/blobs/"); got != 2 {
		t.Errorf("%d downloads of two packages", got)
	}

	commit("- {name: cache, version: 3.0.0, repository: OCI}\n", locked+
		"- {name: cache, version: 3.0.0, repository: OCI}\n")
	n.refresh()
	f.problem("deploy/Chart.yaml line 6", "no such version", "highest is 1.1.0")
	commit("- {name: absent, version: 1.0.0, repository: OCI}\n", locked+
		"- {name: absent, version: 1.0.0, repository: OCI}\n")
	n.refresh()
	f.problem("deploy/Chart.yaml line 6", "no chart of that name")

	n.stop()
	registry.Stop()
	f.charts.Close()
	n = f.start(dir, nil)
	for commit, want := range map[string]string{first: "cache one", second: "cache two"} {
		if files := n.folderAt(commit, "deploy"); files["deploy/charts/cache/templates/web.yaml"] != want {
			t.Errorf("after a restart the artifact of %s has %v", commit, files)
		}
	}
}

// setCharts has a source of charts beside the one of Git.
func (f *dependents) setCharts(name string, spec *consolev1.HelmSource) {
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	f.console.sources[name] = &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: name, Uid: "uid-" + name}, Spec: &consolev1.SourceSpec{Helm: spec},
		Status: &consolev1.SourceStatus{},
	}
}

// lend changes the sources of charts that the source names.
func (f *dependents) lend(names ...string) {
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	f.console.sources[sourceName].Spec.Git.ChartSources = names
}

// TestChartsOfASourceOfThatNameTravelWithTheChart: @name and alias:name are sources that the charts' own source names,
// and what was fetched needs these no more.
func TestChartsOfASourceOfThatNameTravelWithTheChart(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a commit for each kind of reference")
	f := newDependents(t)
	f.allow()
	f.setCharts("stable", &consolev1.HelmSource{Url: f.charts.URL + "/elsewhere"})
	f.setCharts("other", &consolev1.HelmSource{Url: f.charts.URL})
	f.lend("other")
	named := strings.NewReplacer("REPO", "'@stable'").Replace(ranged)
	first := f.commit(named, locked)
	n := f.one()
	f.problem("deploy/Chart.yaml line 5", `git.chartSources of the source has no source with helm of the name "stable"`,
		"Add its name there")
	f.lend("stable", "other")
	n.refresh()
	f.problem("another repository than the source of that name")
	f.setCharts("stable", &consolev1.HelmSource{Url: f.charts.URL + "/"})
	n.refresh()
	if files := n.folderAt(first, "deploy"); files["deploy/charts/db/templates/web.yaml"] != "db one" {
		t.Errorf("the artifact has %v", files)
	}
	second := f.commit(strings.ReplaceAll(exact, "REPO", "'alias:stable'"), exact)
	n.refresh()
	if files := n.folderAt(second, "deploy"); files["deploy/charts/db/templates/web.yaml"] != "db two" {
		t.Errorf("the artifact has %v", files)
	}
	f.problem()
	f.lend("other")
	n.refresh()
	f.problem(`no source with helm of the name "stable"`)
	if files := n.folderAt(second, "deploy"); files["deploy/charts/db/templates/web.yaml"] != "db two" {
		t.Errorf("what was fetched became %v", files)
	}
}

// TestChartsOfAPrivateSourceTravelWithTheChart by its credentials, which go nowhere else, and only if they are signed
// as it wants.
func TestChartsOfAPrivateSourceTravelWithTheChart(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a commit for each kind of reference")
	f := newDependents(t)
	at := newRegistry(t, "-auth", "basic")
	ada, eve := newCosigner(t, "ecdsa"), newCosigner(t, "ecdsa")
	pushed := at.registry.HelmPush(t, "team/cache:1.0.0", charttest.Package("cache", "1.0.0", template("cache one")))
	f.console.setSecret("login", map[string]string{
		"username": at.registry.Username, "password": at.registry.Password,
		"ca.crt": at.registry.CA,
	})
	url := "oci://" + at.registry.Host + "/team"
	f.setCharts("private", &consolev1.HelmSource{Url: url, Secret: "login", Verify: cosignKeys(ada.public)})
	f.lend("private")
	item := func(version string) string {
		return "- {name: cache, version: " + version + ", repository: " + url + "}\n"
	}
	first := f.commit(locked+item("1.0.0"), "")
	n := f.one()
	f.problem("deploy/Chart.yaml line 6", `source "private": it is not signed`, "Sign it")
	if got := at.registry.Count(t, "GET /v2/team/cache/blobs/"); got != 0 {
		t.Errorf("%d blobs of something unsigned were downloaded", got)
	}
	at.cosign(eve, "team/cache", pushed)
	n.refresh()
	f.problem("by none of the source's verification keys")
	at.cosign(ada, "team/cache", pushed)
	n.refresh()
	if files := n.folderAt(first, "deploy"); files["deploy/charts/cache/templates/web.yaml"] != "cache one" ||
		files["deploy/charts/db/templates/web.yaml"] != "db one" {
		t.Errorf("the artifact has %v", files)
	}
	f.problem()
	for _, h := range f.console.status().GetHeads() {
		if strings.HasPrefix(h.GetRef(), "dependency:cache@") && h.GetSignedBy() != ada.fingerprint {
			t.Errorf("%s is signed by %q", h.GetRef(), h.GetSignedBy())
		}
	}
	for _, r := range f.charts.Requests() {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s came with credentials", r.URL)
		}
	}

	// A password that is wrong is told of that source, and a new one is enough.
	at.cosign(ada, "team/cache", at.registry.HelmPush(t, "team/cache:1.1.0",
		charttest.Package("cache", "1.1.0", template("cache two"))))
	f.console.setSecret("login", map[string]string{
		"username": at.registry.Username, "password": "wrong",
		"ca.crt": at.registry.CA,
	})
	second := f.commit(locked+item("1.1.0"), "")
	n.refresh()
	f.problem("deploy/Chart.yaml line 6", `source "private": 401 from `, `secret "login"`)
	if files := n.folderAt(first, "deploy"); files["deploy/charts/cache/templates/web.yaml"] != "cache one" {
		t.Errorf("what was fetched became %v", files)
	}
	f.console.setSecret("login", map[string]string{
		"username": at.registry.Username, "password": at.registry.Password,
		"ca.crt": at.registry.CA,
	})
	n.refresh()
	if files := n.folderAt(second, "deploy"); files["deploy/charts/cache/templates/web.yaml"] != "cache two" {
		t.Errorf("the artifact has %v", files)
	}
	f.problem()
}

// TestProvenanceOfASourceCountsForDependencies of charts elsewhere.
func TestProvenanceOfASourceCountsForDependencies(t *testing.T) {
	t.Parallel()
	ada := gittest.NewOpenPGP(t, "ed25519")
	f := newDependents(t)
	f.allow()
	f.setCharts("stable", &consolev1.HelmSource{Url: f.charts.URL, Verify: provenanceKeys(ada.Public)})
	f.lend("stable")
	pkg := charttest.Package("web", "1.0.0", template("web one"))
	f.charts.PushPackage("web", "1.0.0", pkg)
	commit := f.commit(strings.NewReplacer("db", "web", "1.1.0", "1.0.0").Replace(exact), "")
	n := f.one()
	f.problem("deploy/Chart.yaml line 5", `source "stable": it has no provenance file`, "Sign it")
	f.charts.PushFile("web-1.0.0.tgz.prov", provenance(t, ada, "1.0.0", pkg))
	n.refresh()
	if files := n.folderAt(commit, "deploy"); files["deploy/charts/web/templates/web.yaml"] != "web one" {
		t.Errorf("the artifact has %v", files)
	}
	f.problem()
}

// TestWhatWasFetchedUnderANameStays: a source that gets another url changes no commit's content, and its new repository
// is asked for new versions only.
func TestWhatWasFetchedUnderANameStays(t *testing.T) {
	t.Parallel()
	longform.Only(t, "several polls")
	f := newDependents(t)
	other := charttest.New(t)
	other.Push("db", "1.0.0", template("db one elsewhere"))
	other.Push("db", "1.1.0", template("db two elsewhere"))
	f.lend("stable")
	f.setCharts("stable", &consolev1.HelmSource{Url: f.charts.URL})
	named := strings.ReplaceAll(exact, "REPO", "'@stable'")
	first := f.commit(named, "")
	n := f.one()
	if files := n.folderAt(first, "deploy"); files["deploy/charts/db/templates/web.yaml"] != "db two" {
		t.Errorf("the artifact has %v", files)
	}
	f.setCharts("stable", &consolev1.HelmSource{Url: other.URL})
	f.repo.Commit("news", map[string]string{"deploy/values.yaml": "a: 2\n"})
	n.refresh()
	older := f.commit(strings.ReplaceAll(named, "1.1.0", "1.0.0"), "")
	n.refresh()
	if files := n.folderAt(older, "deploy"); files["deploy/charts/db/templates/web.yaml"] != "db one elsewhere" {
		t.Errorf("of the new url the artifact has %v", files)
	}
	again := f.commit(named, "")
	n.refresh()
	for _, commit := range []string{first, again} {
		if files := n.folderAt(commit, "deploy"); files["deploy/charts/db/templates/web.yaml"] != "db two" {
			t.Errorf("what was fetched under the name became %v", files)
		}
	}
	f.problem()
}

// TestDependencyThatWantsCredentialsIsTold: a secret in the source would not help.
func TestDependencyThatWantsCredentialsIsTold(t *testing.T) {
	t.Parallel()
	f := newDependents(t)
	registry := registrytest.Start(t, "-plain", "-auth", "basic")
	f.allow(registry.Host)
	f.console.setSecret("login", map[string]string{"username": registry.Username, "password": registry.Password})
	f.console.mu.Lock()
	f.console.sources[sourceName].Spec.Git.Secret = "login"
	f.console.mu.Unlock()
	registry.HelmPush(t, "team/db:1.1.0", charttest.Package("db", "1.1.0", template("db")))
	f.commit(strings.ReplaceAll(exact, "REPO", "oci://"+registry.Host+"/team"), "")
	pushed := len(registry.Log(t))
	f.one()
	f.problem("deploy/Chart.yaml line 5", registry.Host+" wants credentials", "git.chartSources")
	for _, line := range registry.Log(t)[pushed:] {
		if strings.HasSuffix(line, " Basic") {
			t.Errorf("the registry got credentials of the Git host: %s", line)
		}
	}
}

// TestDependenciesComeWithTheHostThatIsAllowed: without hosts a chart is delivered as it is in Git, and a host that
// comes later is enough, without a commit.
func TestDependenciesComeWithTheHostThatIsAllowed(t *testing.T) {
	t.Parallel()
	f := newDependents(t)
	f.allow()
	commit := f.commit(exact, "")
	n := f.one()
	var a *artifactv1.Result
	await.NoError(t, "the folder is resolved", func() error {
		if a = n.ask(commit, "deploy"); a.GetError() != nil {
			return errors.New(a.GetError().GetMessage())
		}
		return nil
	})
	if files := n.download(a.GetResolved().GetArtifact().GetDigest()); files["Chart.yaml"] == "" || len(files) != 2 {
		t.Errorf("the artifact has %v", files)
	}
	if f.charts.Count("/index.yaml") != 0 {
		t.Error("a host was asked that the source does not allow")
	}
	f.allow(f.host())
	if files := n.folderAt(commit, "deploy"); files["deploy/charts/db/templates/web.yaml"] != "db two" {
		t.Errorf("the artifact has %v", files)
	}
}

// TestCredentialsOfGitStayWithGit: who writes a chart may read less than they do.
func TestCredentialsOfGitStayWithGit(t *testing.T) {
	t.Parallel()
	f := newDependents(t)
	f.console.setSecret("login", map[string]string{"username": "ada", "password": "hush"})
	f.console.mu.Lock()
	f.console.sources[sourceName].Spec.Git.Secret = "login"
	f.console.mu.Unlock()
	commit := f.commit(exact, "")
	n := f.one()
	n.folderAt(commit, "deploy")
	for _, r := range f.charts.Requests() {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s came with credentials", r.URL)
		}
	}
}
