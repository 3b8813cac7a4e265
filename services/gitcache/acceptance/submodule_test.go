package acceptance

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// link is a submodule of a repository.
type link struct{ path, url, commit string }

// commitLinks commits submodules, with .gitmodules, and pushes.
func commitLinks(r *gittest.Repo, links ...link) string {
	modules := ""
	for _, l := range links {
		modules += fmt.Sprintf("[submodule %q]\n\tpath = %s\n\turl = %s\n", l.path, l.path, l.url)
		r.Work("update-index", "--add", "--cacheinfo", "160000,"+l.commit+","+l.path)
		// Git takes a submodule whose folder is missing for one that was removed.
		r.WorkFolder(l.path)
	}
	return r.Commit("submodules", gittest.Files{".gitmodules": modules})
}

func withSubmodules(s *consolev1.GitSource) { s.Submodules = true }

// hosts is a source with a repository of libraries on its own host and one elsewhere.
type hosts struct {
	*fixture
	libs  *gittest.Repo
	other *gittest.Server
	far   *gittest.Repo
}

func newHosts(t *testing.T) *hosts {
	t.Helper()
	f := newFixture(t)
	h := &hosts{fixture: f, libs: f.git.NewRepo(t, "libs.git"), other: gittest.NewServer(t)}
	h.far = h.other.NewRepo(t, "far.git")
	f.console.changeSource(withSubmodules)
	return h
}

// asked counts requests for a repository.
func asked(s *gittest.Server, repo string) int {
	n := 0
	for _, r := range s.Log() {
		if strings.HasPrefix(r.Path, "/"+repo+"/") {
			n++
		}
	}
	return n
}

func TestSubmodulesAreFetchedAndServed(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	deep := h.far.Commit("deep", gittest.Files{"d": "deep"})
	h.libs.Commit("what does not pack", gittest.Files{"noise": noise(64 << 10)})
	lib := commitLinks(h.libs, link{"far", h.far.URL(), deep})
	h.libs.Commit("a later commit that nobody wants yet", gittest.Files{"l": "2"})
	first := commitLinks(h.repo, link{"deploy/libs", "../libs.git", lib})
	dir := t.TempDir()
	n := h.start(dir, nil)
	h.published("HEAD", first)
	h.problem()
	files := n.download(n.resolve("HEAD", "deploy").GetArtifact().GetDigest())
	if files["libs/far/d"] != "deep" || files["libs/.gitmodules"] == "" {
		t.Errorf("the artifact holds %q", files)
	}

	// While all commits of submodules are here nobody is asked for them.
	near, far := asked(h.git, "libs.git"), asked(h.other, "far.git")
	n.poll()
	second := h.repo.Commit("elsewhere", gittest.Files{"README": "2"})
	n.refresh()
	h.published("HEAD", second)
	if got := [2]int{asked(h.git, "libs.git"), asked(h.other, "far.git")}; got != [2]int{near, far} {
		t.Errorf("asked %v times before, %v after", [2]int{near, far}, got)
	}

	// A new one is a list and a fetch, and what is here is not sent again.
	big := strings.Repeat("x", 1<<10)
	lib = h.libs.Commit("more", gittest.Files{"l": big})
	bytes := n.metric("fairlead_gitcache_fetched_bytes_total")
	third := commitLinks(h.repo, link{"deploy/libs", "../libs.git", lib})
	n.refresh()
	h.published("HEAD", third)
	if got := asked(h.git, "libs.git") - near; got != 2 {
		t.Errorf("asked %d times for one new commit", got)
	}
	if asked(h.other, "far.git") != far {
		t.Error("asked for a submodule within, which did not move")
	}
	if got := n.metric("fairlead_gitcache_fetched_bytes_total") - bytes; got > 3<<10 {
		t.Errorf("%v bytes for one file of 1 KiB that packs well", got)
	}
	if got := n.download(n.resolve("HEAD", "deploy").GetArtifact().GetDigest()); got["libs/l"] != big {
		t.Errorf("the artifact holds %q", got)
	}

	n.stop()
	h.git.SetFault(gittest.Status(500))
	h.other.SetFault(gittest.Status(500))
	n = h.start(dir, nil)
	h.problem("500")
	if got := n.download(n.resolve(first, "deploy").GetArtifact().GetDigest()); got["libs/far/d"] != "deep" {
		t.Errorf("after a restart the artifact holds %q", got)
	}
}

func TestAHeadWhoseSubmodulesCanNotBeHadIsNotPublished(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a repository for each kind of failure")
	h := newHosts(t)
	far := h.far.Commit("far", gittest.Files{"d": "1"})
	first := commitLinks(h.repo, link{"far", h.far.URL(), far})
	n := h.one()
	h.published("HEAD", first)

	h.far.Work("commit", "--quiet", "--allow-empty", "-m", "not pushed")
	next := h.far.Work("rev-parse", "HEAD")
	second := commitLinks(h.repo, link{"far", h.far.URL(), next})
	n.refresh()
	h.problem(`ref "HEAD" at commit `+second[:8], `submodule "far" at commit `+next[:8], h.far.URL(),
		"no branch of that repository has the commit", first[:8]+" is kept")
	n.resolve("HEAD", "")

	before := asked(h.other, "far.git")
	n.poll()
	if got := asked(h.other, "far.git"); got > before+1 {
		t.Errorf("asked %d times between two polls", got-before)
	}
	h.far.Push()
	h.pollUntil(n, second)
	h.problem()

	h.other.SetFault(gittest.Status(500))
	far = h.far.Commit("more", gittest.Files{"d": "2"})
	third := commitLinks(h.repo, link{"far", h.far.URL(), far})
	n.refresh()
	h.problem(`submodule "far"`, "500 from", second[:8]+" is kept")
	before = asked(h.other, "far.git")
	for range 5 {
		n.poll()
	}
	if got := asked(h.other, "far.git") - before; got > 3 {
		t.Errorf("a host that is down was asked %d times in 5 polls", got)
	}
	h.other.SetFault(nil)
	h.pollUntil(n, third)
	h.problem()

	// A submodule that does not move does not keep other refs from moving.
	h.repo.Work("push", "--quiet", h.repo.URLOnDisk(), first+":refs/heads/old")
	h.console.setService("web", "old")
	h.published("refs/heads/old", first)
}

func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// pollUntil polls until the default branch is published at a commit: pauses end some time.
func (h *hosts) pollUntil(n *node, commit string) {
	h.t.Helper()
	await.NoError(h.t, "the head is published", func() error {
		n.refresh()
		if got := head(h.console.status(), "HEAD").GetCommit(); got != commit {
			return errors.New("at " + got + ": " + h.console.status().GetProblem().GetMessage())
		}
		return nil
	})
}

func TestCredentialsStayOnTheHostOfTheSource(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	h.git.RequireLogin("ada", "s3cret")
	h.console.setSecret("shop-git", map[string]string{"username": "ada", "password": "s3cret"})
	h.console.changeSource(func(s *consolev1.GitSource) { s.Secret = "shop-git" })
	lib, far := h.libs.Commit("lib", gittest.Files{"l": "1"}), h.far.Commit("far", gittest.Files{"d": "1"})
	first := commitLinks(h.repo, link{"libs", "../libs.git", lib}, link{"far", h.far.URL(), far})
	n := h.one()
	h.published("HEAD", first)
	for _, r := range h.other.Log() {
		if r.Authorized {
			t.Fatalf("%s %s came with credentials", r.Method, r.Path)
		}
	}
	h.other.RequireLogin("ada", "s3cret")
	far = h.far.Commit("more", gittest.Files{"d": "2"})
	commitLinks(h.repo, link{"libs", "../libs.git", lib}, link{"far", h.far.URL(), far})
	n.refresh()
	message := h.problem(`submodule "far"`, "wants credentials, and those of the source go to", first[:8]+" is kept")
	if strings.Contains(message, "s3cret") {
		t.Errorf("%q gives the password away", message)
	}
	for _, r := range h.other.Log() {
		if r.Authorized {
			t.Fatalf("%s %s came with credentials", r.Method, r.Path)
		}
	}
}

// A commit names its submodules, and whoever wrote it may read less than the source's credentials do.
func TestCredentialsAreForSubmodulesOfTheSameOwnerAndThoseThatTheSourceNames(t *testing.T) {
	t.Parallel()
	longform.Only(t, "many submodules")
	h := newHosts(t)
	app, libs, payroll := h.git.NewRepo(t, "acme/app.git"), h.git.NewRepo(t, "acme/libs.git"), h.git.NewRepo(t,
		"corp/payroll.git")
	h.git.RequireLogin("ada", "s3cret")
	h.console.setSecret("shop-git", map[string]string{"username": "ada", "password": "s3cret"})
	h.console.changeSource(func(s *consolev1.GitSource) { s.Url, s.Secret = app.URL(), "shop-git" })
	lib, secret := libs.Commit("lib", gittest.Files{"l": "1"}), payroll.Commit("salaries", gittest.Files{"s": "1"})
	first := commitLinks(app, link{"libs", "../libs.git", lib})
	n := h.one()
	h.published("HEAD", first)

	second := commitLinks(app, link{"libs", "../libs.git", lib}, link{"pay", "../../corp/payroll.git", secret})
	n.refresh()
	h.problem(`submodule "pay"`, "for repositories of the same owner", "corp/payroll.git", "submoduleRepositories",
		first[:8]+" is kept")
	for _, r := range h.git.Log() {
		if r.Authorized && strings.HasPrefix(r.Path, "/corp/") {
			t.Fatalf("%s %s came with credentials", r.Method, r.Path)
		}
	}
	h.console.changeSource(func(s *consolev1.GitSource) { s.SubmoduleRepositories = []string{"corp/payroll"} })
	h.published("HEAD", second)
	h.problem()
}

func TestHostileSubmodulesAreNotAskedFor(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a repository for each attack")
	h := newHosts(t)
	first := h.repo.Commit("good", gittest.Files{"deploy/a": "1"})
	n := h.one()
	h.published("HEAD", first)
	far := h.far.Commit("far", gittest.Files{"d": "1"})
	for url, words := range map[string]string{
		"file:///etc":                 "must begin with https://",
		"--upload-pack=id":            "begins with '-'",
		"../../../../far.git":         "leaves the host",
		"http://10.0.0.1/far.git":     "loopback",
		"ext::sh":                     "must begin with https://",
		"https://ada:b@127.0.0.1/far": "must not hold a user or password",
	} {
		commitLinks(h.repo, link{"far", url, far})
		n.refresh()
		h.problem(words, first[:8]+" is kept")
	}
	if got := len(h.other.Log()); got != 0 {
		t.Errorf("the other host was asked %d times", got)
	}
	good := commitLinks(h.repo, link{"far", h.far.URL(), far})
	n.refresh()
	h.published("HEAD", good)
}

// An unsigned commit must not make the hub ask hosts that its author chose.
func TestSubmodulesOfUnsignedCommitsAreNotAskedFor(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	ada := gittest.NewSSH(t, "ed25519")
	h.console.setVerification(verifyCommit, ada.Public)
	far := h.far.Commit("far", gittest.Files{"d": "1"})
	commitLinks(h.repo, link{"far", h.far.URL(), far})
	n := h.one()
	h.problem("is not signed")
	if got := len(h.other.Log()); got != 0 {
		t.Errorf("asked %d times", got)
	}
	h.signAs(ada)
	signed := h.repo.Commit("signed", gittest.Files{"a": "1"})
	n.refresh()
	h.signed("HEAD", signed, ada.Fingerprint)
}

func TestSubmodulesCanBeTurnedOnAndOff(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	h.console.changeSource(func(s *consolev1.GitSource) { s.Submodules = false })
	far := h.far.Commit("far", gittest.Files{"d": "1"})
	first := commitLinks(h.repo, link{"far", h.far.URL(), far})
	n := h.one()
	h.published("HEAD", first)
	n.refuses(first, "", artifactv1.ResolveError_REASON_REFUSED, "is a submodule, which is not fetched")
	h.console.changeSource(withSubmodules)
	await.NoError(t, "the submodule is served", func() error {
		if e := n.ask(first, "").GetError(); e != nil {
			return errors.New(e.GetMessage())
		}
		return nil
	})
	h.console.changeSource(func(s *consolev1.GitSource) { s.Submodules = false })
	await.NoError(t, "the submodule is refused", func() error {
		if n.ask(first, "").GetError().GetReason() != artifactv1.ResolveError_REASON_REFUSED {
			return errors.New("it is served")
		}
		return nil
	})
}

func TestADamagedMirrorIsClonedAgainWithItsSubmodules(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	far := h.far.Commit("far", gittest.Files{"d": "1"})
	first := commitLinks(h.repo, link{"far", h.far.URL(), far})
	n := h.one()
	h.published("HEAD", first)
	packs, err := filepath.Glob(filepath.Join(n.dir, "mirrors", "*", "repo.git", "objects", "pack", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs are %q, %v", packs, err)
	}
	for _, p := range packs {
		flip(t, p)
	}
	await.NoError(t, "it is served again", func() error {
		if e := n.ask(first, "").GetError(); e != nil {
			return errors.New(e.GetMessage())
		}
		return nil
	})
	if got := n.download(n.resolve(first, "").GetArtifact().GetDigest()); got["far/d"] != "1" {
		t.Errorf("the artifact holds %q", got)
	}
}

func TestSubmodulesWithinEachOtherEnd(t *testing.T) {
	t.Parallel()
	longform.Only(t, "submodules to the greatest depth")
	h := newHosts(t)
	// Ten deep, each in the one before.
	inner := h.libs.Commit("innermost", gittest.Files{"x": "1"})
	for range 10 {
		inner = commitLinks(h.libs, link{"in", h.libs.URL(), inner})
	}
	commitLinks(h.repo, link{"in", "../libs.git", inner})
	h.one()
	h.problem("within more than the limit of 8 others")
}

func TestAHungSubmoduleHostBlocksOnlyItsSource(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	hung := make(chan struct{}, 1)
	h.other.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case hung <- struct{}{}:
		default:
		}
		<-r.Context().Done()
		return true
	})
	far := h.far.Commit("far", gittest.Files{"d": "1"})
	commitLinks(h.repo, link{"far", h.far.URL(), far})
	h.one()
	<-hung
	well := h.git.NewRepo(t, "well.git")
	commit := well.Commit("one", gittest.Files{"a": "1"})
	h.console.addSource("well", well.URL())
	await.NoError(t, "another source is published", func() error {
		if got := head(h.console.statusOf("well"), "HEAD").GetCommit(); got != commit {
			return errors.New("at " + got)
		}
		return nil
	})
	if got := h.console.status().GetHeads(); len(got) != 0 {
		t.Errorf("published %v", got)
	}
}
