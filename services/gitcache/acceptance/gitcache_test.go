package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache/internal/gittest"
)

func TestACommitIsPublishedAndServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("add the shop", gittest.Files{"deploy/web.yaml": "kind: Web\n", "README": "hello"})
	n := f.one()
	status := f.published("HEAD", first)
	h := head(status, "HEAD")
	if h.GetSubject() != "add the shop" || h.GetAuthor() != "Ada" || h.GetCommitTime() == nil ||
		h.GetTraceparent() == "" {
		t.Errorf("the revision is %v", h)
	}
	if status.GetEpoch() != 1 || status.GetOwner() == "" || status.GetProblem() != nil {
		t.Errorf("the status is %v", status)
	}

	r := n.resolve("HEAD", "deploy")
	if r.GetRevision().GetCommit() != first || r.GetRevision().GetTraceparent() != h.GetTraceparent() ||
		r.GetArtifact().GetFiles() != 1 {
		t.Errorf("resolved %v", r)
	}
	if got := n.download(r.GetArtifact().GetDigest()); len(got) != 1 || got["web.yaml"] != "kind: Web\n" {
		t.Errorf("the artifact holds %q", got)
	}
	if all := n.download(n.resolve(first, "").GetArtifact().GetDigest()); len(all) != 2 {
		t.Errorf("the whole repository holds %q", all)
	}

	second := f.repo.Commit("change", gittest.Files{"deploy/web.yaml": "kind: Web2\n"})
	n.refresh()
	f.published("HEAD", second)
	if n.resolve(second, "deploy").GetArtifact().GetDigest() == r.GetArtifact().GetDigest() {
		t.Error("a change in the folder kept the digest")
	}
}

func TestOnePollCostsNoFetchWhenNothingMoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.repo.Commit("one", gittest.Files{"a": "1"})
	f.repo.Commit("two", gittest.Files{"a": "2"})
	n := f.one()
	await.NoError(t, "the first fetch", func() error { return atLeast(f.git.Count("fetch"), 1) })
	f.published("HEAD", f.repo.Work("rev-parse", "HEAD"))
	lists, fetches := f.git.Count("list"), f.git.Count("fetch")
	accepted, _ := f.console.publishes()
	for range 3 {
		n.poll()
	}
	if got := f.git.Count("list") - lists; got != 3 {
		t.Errorf("3 polls asked upstream %d times", got)
	}
	if got := f.git.Count("fetch"); got != fetches || fetches != 1 {
		t.Errorf("%d fetches before, %d after polls of a repository that did not move", fetches, got)
	}
	if again, _ := f.console.publishes(); len(again) != len(accepted) {
		t.Errorf("polls without news were published: %d, then %d", len(accepted), len(again))
	}
}

func atLeast(got, want int) error {
	if got < want {
		return fmt.Errorf("%d, want %d", got, want)
	}
	return nil
}

func TestACommitOutsideTheFolderKeepsTheSourceID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/web.yaml": "kind: Web\n"})
	n := f.one()
	f.published("HEAD", first)
	before := n.resolve("HEAD", "deploy")
	second := f.repo.Commit("docs only", gittest.Files{"docs/x": "y"})
	n.refresh()
	f.published("HEAD", second)
	after := n.resolve("HEAD", "deploy")
	if before.GetSourceId() != after.GetSourceId() ||
		before.GetArtifact().GetDigest() != after.GetArtifact().GetDigest() {
		t.Errorf("before %v, after %v", before, after)
	}
	if after.GetRevision().GetCommit() != second {
		t.Errorf("the revision is %s, want %s", after.GetRevision().GetCommit(), second)
	}
	if got := n.metric("fairlead_gitcache_builds_total"); got != 1 {
		t.Errorf("%v builds for one content", got)
	}
}

func TestForcePushIsFollowedAndTheSameContentKeepsItsDigest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.repo.Commit("base", gittest.Files{"x": "1"})
	old := f.repo.Commit("one", gittest.Files{"deploy/web.yaml": "kind: Web\n"})
	n := f.one()
	f.published("HEAD", old)
	before := n.resolve(old, "deploy")

	f.repo.Work("checkout", "--quiet", "--orphan", "again")
	rewritten := f.repo.Commit("history rewritten", gittest.Files{})
	n.refresh()
	f.published("HEAD", rewritten)
	after := n.resolve(rewritten, "deploy")
	if before.GetArtifact().GetDigest() != after.GetArtifact().GetDigest() ||
		before.GetSourceId() != after.GetSourceId() {
		t.Errorf("before %v, after %v", before, after)
	}
	if still := n.resolve(old, "deploy"); still.GetArtifact().GetDigest() != before.GetArtifact().GetDigest() {
		t.Error("the old commit is not served any more")
	}
}

func TestWrongCredentialsAreSaidAndHealWithTheSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	f.git.RequireLogin("ada", "right")
	f.console.setSecret("shop-git", map[string]string{"username": "ada", "password": "wr0ng"})
	f.console.setSource(f.repo.URL(), "shop-git")
	n := f.one()
	message := f.problem(`source "shop"`, "401", `secret "shop-git"`)
	if strings.Contains(message, "wr0ng") {
		t.Errorf("%q gives the password away", message)
	}
	if live := n.live(); live.GetProblem().GetMessage() != message {
		t.Errorf("the live problem is %q", live.GetProblem().GetMessage())
	}
	f.console.setSecret("shop-git", map[string]string{"username": "ada", "password": "right"})
	f.published("HEAD", first)
	f.problem()

	f.git.RequireLogin("x-access-token", "t0ken")
	second := f.repo.Commit("two", gittest.Files{"a": "2"}) // before the secret, whose change has the source looked at
	f.console.setSecret("shop-git", map[string]string{"token": "t0ken"})
	f.published("HEAD", second)
}

func TestMissingSecretIsSaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.repo.Commit("one", gittest.Files{"a": "1"})
	f.console.setSource(f.repo.URL(), "none")
	f.one()
	f.problem(`secret "none" does not exist`)
	f.console.setSecret("none", map[string]string{"user": "x"})
	f.problem(`secret "none" has neither a token nor`)
}

func TestUnreachableUpstreamKeepsTheLastGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	n := f.one()
	f.published("HEAD", first)
	f.git.SetFault(gittest.Status(500))
	n.refresh()
	f.problem("500 from")
	if got := head(f.console.status(), "HEAD").GetCommit(); got != first {
		t.Errorf("the head went to %q", got)
	}
	n.resolve("HEAD", "deploy")
	f.git.SetFault(nil)
	f.problem()

	f.console.setSource("http://127.0.0.1:1/x.git", "")
	f.problem("connection refused")
	f.console.setSource("git://example.com/x", "")
	f.problem("must begin with https:// or ssh://")
	n.resolve("HEAD", "deploy")
}

func TestMissingFolderAndUnknownThings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	n := f.one()
	f.published("HEAD", first)
	n.refuses(first, "nope", artifactv1.ResolveError_REASON_PATH_NOT_FOUND, `"shop"`, first[:8], `"nope"`)
	n.refuses(first, "deploy/a", artifactv1.ResolveError_REASON_PATH_NOT_FOUND)
	n.refuses(first, "../etc", artifactv1.ResolveError_REASON_PATH_NOT_FOUND)
	n.refuses(first, "deploy/", artifactv1.ResolveError_REASON_PATH_NOT_FOUND, "slashes")
	n.refuses(strings.Repeat("1", 40), "deploy", artifactv1.ResolveError_REASON_NOT_FETCHED)
	n.refuses("refs/heads/none", "deploy", artifactv1.ResolveError_REASON_NOT_FETCHED)
	resp, err := n.artifacts.Resolve(t.Context(), &artifactv1.ResolveRequest{
		Queries: []*artifactv1.Query{
			{Source: "unknown", Revision: "HEAD"},
			{Source: "shop", Revision: "HEAD", Path: "deploy"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetResults()[0].GetError().GetReason(); got != artifactv1.ResolveError_REASON_UNKNOWN_SOURCE {
		t.Errorf("an unknown source gives %s", got)
	}
	if resp.GetResults()[1].GetResolved() == nil {
		t.Error("one bad query failed another")
	}
	_, err = n.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: "unknown"})
	if connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("refresh of an unknown source: %v", err)
	}
}

func TestHostileContentIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good := f.repo.Commit("good", gittest.Files{"deploy/a": "1"})
	blob := f.repo.Object("blob", []byte("x"))
	file := func(name string) gittest.TreeEntry { return gittest.TreeEntry{Mode: "100644", Name: name, ID: blob} }
	link := func(target string) gittest.TreeEntry {
		return gittest.TreeEntry{Mode: "120000", Name: "link", ID: f.repo.Object("blob", []byte(target))}
	}
	folders := map[string]struct {
		entries []gittest.TreeEntry
		words   string
	}{
		"dot-git":      {[]gittest.TreeEntry{file(".GIT")}, ".git"},
		"dot-git-hfs":  {[]gittest.TreeEntry{file(".g\u200cit")}, ".git"},
		"dot-git-ntfs": {[]gittest.TreeEntry{file("git~1")}, ".git"},
		"dot-dot":      {[]gittest.TreeEntry{file("..")}, `".."`},
		"slash":        {[]gittest.TreeEntry{file("../x")}, `"../x"`},
		"twice":        {[]gittest.TreeEntry{file("a"), file("a")}, "twice"},
		"submodule":    {[]gittest.TreeEntry{{Mode: "160000", Name: "sub", ID: good}}, "submodule"},
		"mode":         {[]gittest.TreeEntry{{Mode: "60000", Name: "dev", ID: blob}}, "mode"},
		"lfs": {[]gittest.TreeEntry{{Mode: "100644", Name: "big.bin", ID: f.repo.Object("blob",
			[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"))}}, "LFS"},
	}
	var root []gittest.TreeEntry
	for name, folder := range folders {
		root = append(root, gittest.TreeEntry{Mode: "40000", Name: name, ID: f.repo.Tree(folder.entries...)})
	}
	root = append(root, gittest.TreeEntry{
		Mode: "40000", Name: "fine",
		ID: f.repo.Tree(file("A"), file("a"), file("a\x1b[31m"), file("caf\xe9"), link("./x"), file("x")),
	})
	// Links lead where they like: agents refuse what is read through one that leads out, and nothing else.
	links := map[string]string{
		"out": "../../etc/passwd", "absolute": "/etc/passwd", "roundabout": "a/../../../x",
		"to-git": ".git/config", "to-itself": "link",
	}
	for name, target := range links {
		root = append(root, gittest.TreeEntry{Mode: "40000", Name: name, ID: f.repo.Tree(link(target), file("x"))})
	}
	commit := f.repo.SetMain(f.repo.Tree(root...))
	n := f.one()
	f.published("HEAD", commit)
	for name, target := range links {
		if got := n.download(n.resolve(commit, name).GetArtifact().GetDigest()); got["link"] != "-> "+target ||
			got["x"] != "x" {
			t.Errorf("a folder with a link to %s holds %q", target, got)
		}
	}
	for name, folder := range folders {
		n.refuses(commit, name, artifactv1.ResolveError_REASON_REFUSED, `"shop"`, name, folder.words)
	}
	n.refuses(commit, "", artifactv1.ResolveError_REASON_REFUSED)
	if got := n.download(n.resolve(commit, "fine").GetArtifact().GetDigest()); got["link"] != "-> ./x" ||
		got["caf\xe9"] != "x" || got["a\x1b[31m"] != "x" || got["A"] != "x" || got["a"] != "x" {
		t.Errorf("a folder beside hostile ones holds %q", got)
	}
}

func TestATreeBombIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.repo.Commit("good", gittest.Files{"deploy/a": "1"})
	id := f.repo.Tree(gittest.TreeEntry{Mode: "100644", Name: "f", ID: f.repo.Object("blob", []byte("x"))})
	for range 12 { // 10^12 files in 13 objects
		var entries []gittest.TreeEntry
		for i := range 10 {
			entries = append(entries, gittest.TreeEntry{Mode: "40000", Name: fmt.Sprint(i), ID: id})
		}
		id = f.repo.Tree(entries...)
	}
	deep := f.repo.Tree(gittest.TreeEntry{Mode: "100644", Name: "f", ID: f.repo.Object("blob", []byte("x"))})
	for range 100 {
		deep = f.repo.Tree(gittest.TreeEntry{Mode: "40000", Name: "d", ID: deep})
	}
	commit := f.repo.SetMain(f.repo.Tree(
		gittest.TreeEntry{Mode: "40000", Name: "bomb", ID: id},
		gittest.TreeEntry{Mode: "40000", Name: "deep", ID: deep},
	))
	n := f.one()
	f.published("HEAD", commit)
	n.refuses(commit, "bomb", artifactv1.ResolveError_REASON_REFUSED, "limit of 50000")
	n.refuses(commit, "deep", artifactv1.ResolveError_REASON_REFUSED, "limit of 64 folders", "d/d/d")
}

func TestADeletedRefKeepsItsLastGoodHeadAndOthersGoOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "HEAD:refs/heads/release")
	release := f.repo.Work("rev-parse", "HEAD")
	f.console.setService("web", "release")
	n := f.one()
	f.published("refs/heads/release", release)
	f.repo.Bare("update-ref", "-d", "refs/heads/release")
	next := f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
	n.refresh()
	f.published("HEAD", next)
	f.problem(`ref "refs/heads/release"`, `service "web"`, "gone upstream", release[:8])
	if got := head(f.console.status(), "refs/heads/release").GetCommit(); got != release {
		t.Errorf("the lost ref is at %q", got)
	}
	n.resolve("refs/heads/release", "deploy")

	f.console.setService("web", "never-there")
	f.problem(`ref "refs/heads/never-there"`, "does not exist upstream")
	if refs := f.console.status().GetProblem().GetRefs(); !slices.Equal(refs, []string{"refs/heads/never-there"}) {
		t.Errorf("the problem is about %q", refs)
	}
	f.console.setService("web", "main")
	f.published("refs/heads/main", next)
	f.problem()
	// A name that needs the place of the lost one as a folder.
	f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "HEAD:refs/heads/release/1")
	f.console.setService("web", "release/1")
	f.published("refs/heads/release/1", next)
}

func TestAnEmptiedRepositoryHoldsTheLastGood(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := f.one()
	f.problem("repository is empty")
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	n.refresh()
	f.published("HEAD", first)
	f.problem()
	f.repo.Bare("update-ref", "-d", "refs/heads/main")
	n.refresh()
	f.problem("no refs any more", "kept")
	if got := head(f.console.status(), "HEAD").GetCommit(); got != first {
		t.Errorf("the head is at %q", got)
	}
	n.resolve("HEAD", "deploy")
}

func TestTagsAndCommitsAreRefs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	f.repo.Work("tag", "-a", "-m", "release", "v1")
	f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "v1")
	second := f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
	f.repo.Work("checkout", "--quiet", "-b", "side")
	aside := f.repo.Commit("aside", gittest.Files{"deploy/a": "3"})
	f.repo.Bare("update-ref", "refs/heads/main", second)
	f.console.setService("tagged", "refs/tags/v1")
	f.console.setService("pinned", first)
	f.console.setService("aside", aside)
	f.git.SetFault(gittest.OnlyVersion0()) // in version 2 Git hands out all it has
	n := f.one()
	f.published("refs/tags/v1", first)
	f.published(first, first)
	f.problem("commit "+aside[:8], `service "aside"`, "hands out only refs")
	f.repo.Bare("config", "uploadpack.allowAnySHA1InWant", "true")
	n.refresh()
	f.published(aside, aside)
	f.problem()
	n.resolve(aside, "deploy")
}

func TestAStaleOwnerStandsDown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	n := f.one()
	f.published("HEAD", first)
	usurper := f.console.usurp("shop")
	second := f.repo.Commit("two", gittest.Files{"a": "2"})
	n.refresh()
	await.NoError(t, "the stale epoch is refused", func() error {
		_, refused := f.console.publishes()
		return atLeast(refused, 1)
	})
	// The old owner comes back with an epoch of its own, not with the old epoch.
	status := f.published("HEAD", second)
	if status.GetEpoch() <= usurper {
		t.Errorf("epoch %d after %d", status.GetEpoch(), usurper)
	}
	if _, refused := f.console.publishes(); refused != 1 {
		t.Errorf("it was refused %d times before it stood down", refused)
	}
}

func TestConsoleDownPollsOnAndPublishesLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	n := f.one()
	f.published("HEAD", first)
	f.console.setDown(true)
	second := f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
	n.poll()
	if r := n.resolve("HEAD", "deploy"); r.GetRevision().GetCommit() != second {
		t.Errorf("with the console down HEAD is %s", r.GetRevision().GetCommit())
	}
	f.console.setDown(false)
	f.published("HEAD", second)
}

// A pack that can't be used, such as one with an object beyond the limit, would be the same one again.
// The pack is not downloaded with every poll; the next push is.
func TestAPackThatCanNotBeUsedIsNotFetchedWithEveryPoll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.git.SetFault(f.git.TruncateFetch(100))
	f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	n := f.one()
	f.problem("can't be used")
	for range 5 {
		n.poll()
	}
	polls, fetches := n.metric("fairlead_gitcache_polls_total"), n.metric("fairlead_gitcache_fetches_total")
	if polls < fetches+2 {
		t.Errorf("%v polls caused %v fetches", polls, fetches)
	}
	f.problem("can't be used")
	f.git.SetFault(nil)
	second := f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
	n.poll()
	f.published("HEAD", second)
	f.problem()
}

// A replica that owned the source long ago owns it again, and reaches the console only after its first
// poll. A head that the poll did not see is no news, and must not replace what was published since.
func TestAnOldOwnerTakesNoHeadBack(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct {
		cause func(*fixture)
		words string
	}{
		"upstream is down":    {func(f *fixture) { f.git.SetFault(gittest.Status(503)) }, "503 from"},
		"upstream lost a ref": {func(f *fixture) { f.repo.Bare("update-ref", "-d", "refs/heads/stable") }, "is gone upstream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.console.setService("web", "stable")
			first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
			f.repo.Bare("update-ref", "refs/heads/stable", first)
			old := f.one()
			f.published("refs/heads/stable", first)
			old.stop()
			second := f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
			f.repo.Bare("update-ref", "refs/heads/stable", second)
			later := f.one()
			f.published("refs/heads/stable", second)
			later.stop()

			trouble.cause(f)
			f.console.setDown(true)
			again := f.start(old.dir, nil)
			await.NoError(t, "a poll", func() error {
				if live := again.live(); live.GetLastPollTime() == nil || live.GetEpoch() != 0 {
					return errors.New("not yet: " + live.String())
				}
				return nil
			})
			f.console.setDown(false)
			f.problem(trouble.words)
			if got := head(f.console.status(), "refs/heads/stable").GetCommit(); got != second {
				t.Errorf("the head went from %s back to %s", second, got)
			}
		})
	}
}

func TestRestartWithUpstreamAndConsoleOffServesEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1", "other/b": "2"})
	n := f.one()
	f.published("HEAD", first)
	built := n.resolve("HEAD", "deploy")
	n.stop()
	f.git.SetFault(gittest.Status(503))
	f.console.setDown(true)

	again := f.start(n.dir, nil)
	await.NoError(t, "it answers", func() error {
		if e := again.ask("HEAD", "deploy").GetError(); e != nil {
			return errors.New(e.GetMessage())
		}
		return nil
	})
	if got := again.resolve(first, "deploy"); got.GetArtifact().GetDigest() != built.GetArtifact().GetDigest() {
		t.Errorf("before %v, after %v", built, got)
	}
	if got := again.download(built.GetArtifact().GetDigest()); got["a"] != "1" {
		t.Errorf("the artifact holds %q", got)
	}
	if got := again.metric("fairlead_gitcache_builds_total"); got != 0 {
		t.Errorf("%v builds for what was built before", got)
	}
	// A folder that was fetched and never built is built from the mirror.
	if got := again.download(again.resolve("HEAD", "other").GetArtifact().GetDigest()); got["b"] != "2" {
		t.Errorf("the other folder holds %q", got)
	}
	// An artifact that the disk lost is built again under the same digest.
	again.stop()
	if err := os.RemoveAll(filepath.Join(n.dir, "artifacts")); err != nil {
		t.Fatal(err)
	}
	third := f.start(n.dir, nil)
	if got := third.download(built.GetArtifact().GetDigest()); got["a"] != "1" {
		t.Errorf("the artifact holds %q after its file was lost", got)
	}
}

func TestConcurrentResolvesBuildOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	files := gittest.Files{}
	for i := range 300 {
		files[fmt.Sprintf("deploy/%d.yaml", i)] = fmt.Sprintf("n: %d\n", i)
	}
	first := f.repo.Commit("one", files)
	n := f.one()
	f.published("HEAD", first)
	var asking sync.WaitGroup
	digests := make([]string, 20)
	for i := range digests {
		asking.Go(func() {
			resp, err := n.artifacts.Resolve(t.Context(), &artifactv1.ResolveRequest{
				Queries: []*artifactv1.Query{
					{Source: "shop", Revision: first, Path: "deploy"},
					{Source: "shop", Revision: "HEAD", Path: "deploy"},
				},
			})
			if err == nil {
				digests[i] = resp.GetResults()[0].GetResolved().GetArtifact().GetDigest()
			}
		})
	}
	asking.Wait()
	for _, d := range digests {
		if d == "" || d != digests[0] {
			t.Errorf("digests are %q", digests)
			break
		}
	}
	if got := n.metric("fairlead_gitcache_builds_total"); got != 1 {
		t.Errorf("%v builds", got)
	}
}

func TestAnyReplicaAnswersByAskingTheOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	c, err := coordination.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	owner := f.start(t.TempDir(), c)
	f.published("HEAD", first)
	other := f.start(t.TempDir(), c)
	await.NoError(t, "the other one knows the head", func() error {
		if e := other.ask("HEAD", "deploy").GetError(); e != nil {
			return errors.New(e.GetMessage())
		}
		return nil
	})
	if other.live().GetOwnedHere() || other.live().GetOwner() != owner.live().GetOwner() ||
		!owner.live().GetOwnedHere() {
		t.Errorf("owner says %v, other says %v", owner.live(), other.live())
	}
	r := other.resolve(first, "deploy")
	if got := other.download(r.GetArtifact().GetDigest()); got["a"] != "1" {
		t.Errorf("the artifact holds %q", got)
	}
	if e := other.ask(strings.Repeat("2", 40), "").GetError(); e.GetReason() != artifactv1.ResolveError_REASON_NOT_FETCHED {
		t.Errorf("nobody has it: %v", e)
	}

	second := f.repo.Commit("two", gittest.Files{"deploy/a": "2"})
	other.refresh()
	f.published("HEAD", second)
	if f.git.Count("fetch") != 2 {
		t.Errorf("%d fetches by two replicas for two commits", f.git.Count("fetch"))
	}

	// The owner goes: the other one takes over, and what it had served it still serves.
	owner.stop()
	third := f.repo.Commit("three", gittest.Files{"deploy/a": "3"})
	other.refresh() // the new owner goes on with the schedule of the one before
	f.published("HEAD", third)
	if !other.live().GetOwnedHere() || other.live().GetEpoch() != 2 {
		t.Errorf("after the owner went: %v", other.live())
	}
	if got := other.download(r.GetArtifact().GetDigest()); got["a"] != "1" {
		t.Errorf("the artifact holds %q", got)
	}
}

func TestADownloadFromAReplicaThatHangsEndsWithTheService(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	asked, left := make(chan struct{}), make(chan struct{})
	hung := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(left)
	}))
	hung.Config.Protocols = new(http.Protocols)
	hung.Config.Protocols.SetUnencryptedHTTP2(true)
	hung.Start()
	t.Cleanup(func() {
		hung.CloseClientConnections()
		hung.Close()
	})
	c, err := coordination.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := signing(c).Join(t.Context(), identity.ServiceGitcache, coordination.Member{ID: "hung", URL: hung.URL}, time.Minute); err != nil {
		t.Fatal(err)
	}
	n := f.start(t.TempDir(), c)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if _, err := artifact.Fetch(ctx, n.bytes, n.url, artifact.Digest("sha256:"+strings.Repeat("0", 64)), 0); err == nil {
			t.Error("an artifact from nowhere")
		}
	}()
	<-asked
	cancel()
	<-gone
	n.stop()
	select {
	case <-left:
	case <-time.After(patience):
		t.Error("the download goes on without the service")
	}
}

// TestASourceThatComesBackIsAsItWas: a console that has lost its catalog for a while costs no clone.
func TestASourceThatComesBackIsAsItWas(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	cfg := f.config(t.TempDir())
	cfg.MeasureFree = func(string) float64 { return 0.5 } // on a full disk the mirror would go at once
	n := f.startWith(cfg, nil)
	f.published("HEAD", first)
	digest := n.resolve("HEAD", "deploy").GetArtifact().GetDigest()
	gone := filepath.Join(n.dir, "mirrors", "uid-shop", "gone")
	wait := func(want bool) {
		t.Helper()
		await.NoError(t, fmt.Sprintf("the mirror is noted as gone: %t", want), func() error {
			if _, err := os.Stat(gone); (err == nil) != want {
				return fmt.Errorf("not yet: %w", err)
			}
			return nil
		})
	}
	f.console.deleteSource()
	wait(true)
	if e := n.ask("HEAD", "deploy").GetError(); e.GetReason() != artifactv1.ResolveError_REASON_UNKNOWN_SOURCE {
		t.Errorf("resolved a deleted source: %v", e)
	}
	f.git.SetFault(gittest.Status(http.StatusServiceUnavailable))
	lists := f.git.Count("list")
	f.console.setSource(f.repo.URL(), "")
	f.published("HEAD", first)
	wait(false)
	if got := n.download(n.resolve("HEAD", "deploy").GetArtifact().GetDigest())["a"]; got != "1" ||
		n.resolve("HEAD", "deploy").GetArtifact().GetDigest() != digest {
		t.Errorf("served %q", got)
	}
	if f.git.Count("list") <= lists {
		t.Error("a source that came back was not polled")
	}

	// The source stays away, and after some hours the catalog changes again.
	f.console.deleteSource()
	wait(true)
	then := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(gone, then, then); err != nil {
		t.Fatal(err)
	}
	f.console.addSource("other", f.repo.URL())
	await.NoError(t, "the mirror goes", func() error {
		left, err := filepath.Glob(filepath.Join(n.dir, "mirrors", "*shop*"))
		if err == nil && len(left) > 0 {
			return errors.New("it is still there")
		}
		return err
	})
}

func TestADamagedMirrorIsClonedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": strings.Repeat("content\n", 100), "other/b": "2"})
	n := f.one()
	f.published("HEAD", first)
	n.stop()
	packs, err := filepath.Glob(filepath.Join(n.dir, "mirrors", "*", "repo.git", "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs are %q, %v", packs, err)
	}
	flip(t, packs[0])
	again := f.start(n.dir, nil)
	await.NoError(t, "it is served again", func() error {
		if e := again.ask(first, "deploy").GetError(); e != nil {
			return errors.New(e.GetMessage())
		}
		return nil
	})
	if got := again.download(again.resolve(first, "deploy").GetArtifact().GetDigest()); got["a"] != strings.Repeat("content\n", 100) {
		t.Errorf("the artifact holds %q", got)
	}
}

// flip inverts the middle of a file: the objects are there, and none of them is right.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 20; i < len(b)-20; i++ {
		b[i] ^= 0x55
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyDistributorsAndGitcachesGetContent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	n := f.one()
	f.published("HEAD", first)
	d, err := artifact.ParseDigest(n.resolve("HEAD", "deploy").GetArtifact().GetDigest())
	if err != nil {
		t.Fatal(err)
	}
	hc, err := client.New(client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hc.CloseIdleConnections)
	for name, token := range map[string]string{
		"an agent":   f.console.token(t, identity.KindAgent, "edge-1"),
		"a user":     f.console.token(t, identity.KindUser, "ada"),
		"a stranger": "nonsense", "the tunnel": f.console.token(t, identity.KindService, identity.ServiceTunnel),
	} {
		source := f.sending(token)
		c := artifactv1connect.NewArtifactServiceClient(hc, n.url,
			append(client.Options(), client.WithToken(source))...)
		if _, err := c.Resolve(t.Context(), &artifactv1.ResolveRequest{Queries: []*artifactv1.Query{{Source: "shop", Revision: "HEAD"}}}); err == nil {
			t.Errorf("%s may resolve", name)
		}
		n.bytes.Transport = client.Authorize(hc.Transport, source)
		if _, err := artifact.Fetch(t.Context(), n.bytes, n.url, d, 0); err == nil {
			t.Errorf("%s may download", name)
		}
	}
	if _, err := n.sources.GetSource(t.Context(), &gitcachev1.GetSourceRequest{Name: "none"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an unknown source: %v", err)
	}
}
