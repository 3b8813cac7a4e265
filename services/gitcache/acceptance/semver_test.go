package acceptance

import (
	"errors"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// headOf is a published head with all that is said of it.
func headOf(s *consolev1.SourceStatus, ref string) *consolev1.Head {
	for _, h := range s.GetHeads() {
		if h.GetRef() == ref {
			return h
		}
	}
	return nil
}

// resolved waits until a range stands for a tag.
func (f *fixture) resolved(ref, tag, commit string) {
	f.t.Helper()
	f.published(ref, commit)
	await.NoError(f.t, ref+" is "+tag, func() error {
		if got := headOf(f.console.status(), ref).GetResolvedRef(); got != "refs/tags/"+tag {
			return errors.New("it is " + got)
		}
		return nil
	})
}

// tag makes a commit and a tag of it, and pushes the tag only.
func (f *fixture) tag(name string, annotated bool) string {
	f.t.Helper()
	f.repo.Work("commit", "--quiet", "--allow-empty", "-m", name)
	if annotated {
		f.repo.Work("tag", "-a", "-m", name, name)
	} else {
		f.repo.Work("tag", name)
	}
	f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), name)
	return f.repo.Work("rev-parse", "HEAD")
}

func TestARangeFollowsTheHighestVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	first := f.tag("v1.0.0", false)
	f.tag("v2.0.0", false)
	f.console.setService("web", "semver:1.x")
	dir := t.TempDir()
	n := f.start(dir, nil)
	f.resolved("semver:1.x", "v1.0.0", first)
	f.problem()
	n.resolve("semver:1.x", "deploy")

	f.tag("v1.3.0-rc.1", false)
	fetches := f.git.Count("fetch")
	f.tag("nightly", true)
	n.poll()
	if got := f.git.Count("fetch"); got != fetches {
		t.Errorf("%d fetches for tags that are not in the range", got-fetches)
	}
	second := f.tag("v1.10.0", true)
	n.refresh()
	f.resolved("semver:1.x", "v1.10.0", second)
	n.resolve("semver:1.x", "deploy")

	// Another tag of the same commit is news, too.
	f.repo.Work("tag", "v1.11.0", second)
	f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "v1.11.0")
	n.refresh()
	f.resolved("semver:1.x", "v1.11.0", second)

	n.stop()
	f.git.SetFault(gittest.Status(500))
	n = f.start(dir, nil)
	n.resolve("semver:1.x", "deploy")
}

func TestARangeWithoutATagSaysWhatThereIs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	main := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	f.console.setService("web", "semver:^3")
	n := f.one()
	f.problem(`no tag is in the range "semver:^3"`, `service "web"`, "no tag is named like a version")
	f.published("HEAD", main)
	f.tag("v2.4.0", false)
	n.refresh()
	f.problem(`the highest version is "v2.4.0"`)
	third := f.tag("v3.0.0", false)
	n.refresh()
	f.resolved("semver:^3", "v3.0.0", third)
	f.problem()

	f.console.setService("web", "semver:latest")
	f.problem(`ref "semver:latest" of service "web"`, `"latest" is not a range of versions`)
}

func TestADeletedTagTakesNoRangeBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	f.tag("v1.0.0", false)
	second := f.tag("v1.1.0", true)
	f.console.setService("web", "semver:~1")
	dir := t.TempDir()
	n := f.start(dir, nil)
	f.resolved("semver:~1", "v1.1.0", second)
	f.repo.Bare("update-ref", "-d", "refs/tags/v1.1.0")
	n.refresh()
	f.problem(`tag "v1.1.0"`, `"semver:~1" of service "web"`, "gone upstream",
		`the highest in the range is now "v1.0.0"`, second[:8]+" is kept")
	f.resolved("semver:~1", "v1.1.0", second)

	// Nor does it for an owner that was not there when the tag was.
	n.stop()
	n = f.start(t.TempDir(), nil)
	n.poll()
	f.resolved("semver:~1", "v1.1.0", second)
	f.problem("gone upstream")

	f.repo.Bare("update-ref", "-d", "refs/tags/v1.0.0")
	n.refresh()
	f.problem("no other tag is in the range")
	third := f.tag("v1.1.1", false)
	n.refresh()
	f.resolved("semver:~1", "v1.1.1", third)
	f.problem()
}
