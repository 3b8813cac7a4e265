package acceptance

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/platform/await"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// overlays is a fixture whose Git repository has an overlay in deploy/, with bases on another host.
type overlays struct {
	*dependents
	far  *gittest.Server
	base *gittest.Repo
}

func newOverlays(t *testing.T) *overlays {
	t.Helper()
	far := gittest.NewServer(t)
	f := &overlays{dependents: &dependents{fixture: newFixture(t)}, far: far, base: far.NewRepo(t, "base.git")}
	f.allow(hostOf(t, far.URL))
	f.setFolder("web", "deploy")
	return f
}

func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// overlay commits a kustomization with these resources.
func (f *overlays) overlay(resources ...string) string {
	return f.repo.Commit("an overlay", gittest.Files{"deploy/kustomization.yaml": "resources:\n- " +
		strings.Join(resources, "\n- ") + "\n"})
}

// placed is where the artifact has a file of a base's repository.
func placed(t *testing.T, text, file string) string {
	t.Helper()
	b, _, err := remotebase.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return b.Folder() + "/" + file
}

func kustomization(resources string) gittest.Files {
	return gittest.Files{
		"app/kustomization.yaml": "resources: [" + resources + "]\n", "app/a.yaml": "a: 1\n",
		"common/kustomization.yaml": "resources: [c.yaml]\n", "common/c.yaml": "c: 1\n", "unused.yaml": "x: 1\n",
	}
}

// TestBasesOfOtherRepositoriesTravelWithTheFolder: by tag, branch, commit and without any, with bases of their own,
// once for all, and with all hosts down after a restart.
func TestBasesOfOtherRepositoriesTravelWithTheFolder(t *testing.T) {
	t.Parallel()
	f := newOverlays(t)
	parts := f.far.NewRepo(t, "parts.git")
	part := parts.URL() + "//tls"
	pinned := parts.Commit("a part", gittest.Files{
		"tls/kustomization.yaml": "kind: Component\nresources: [p.yaml]\n",
		"tls/p.yaml":             "p: 1\n",
	})
	first := f.base.Commit("base", kustomization("a.yaml, ../common, '"+part+"?ref="+pinned+"'"))
	f.base.Work("push", "--quiet", f.base.URLOnDisk(), "HEAD:refs/tags/v1", "HEAD:refs/heads/release")
	f.base.Commit("moved on", gittest.Files{"app/a.yaml": "a: 2\n"})
	tagged, branch, none := f.base.URL()+"//app?ref=v1", f.base.URL()+
		"/app?ref=release&submodules=0", f.base.URL()+"//app"
	commit := f.overlay(tagged, branch, none)
	dir := t.TempDir()
	n := f.start(dir, nil)
	check := func(files map[string]string) {
		t.Helper()
		for at, want := range map[string]string{
			placed(t, tagged, "app/a.yaml"): "a: 1\n", placed(t, branch, "app/a.yaml"): "a: 1\n",
			placed(t, none, "app/a.yaml"):      "a: 2\n",
			placed(t, tagged, "common/c.yaml"): "c: 1\n", placed(t, part+"?ref="+pinned, "tls/p.yaml"): "p: 1\n",
			placed(t, tagged, "unused.yaml"): "",
		} {
			if files[at] != want {
				t.Errorf("%s is %q, want %q, in %q", at, files[at], want, files)
			}
		}
	}
	check(n.folderAt(commit, "deploy"))
	f.problem()
	h := head(f.console.status(), "base:"+f.base.URL()+"@v1")
	if h.GetCommit() != first {
		t.Errorf("the status has %v", f.console.status().GetHeads())
	}

	// What a branch stood for first stays, and nothing is asked for again.
	f.base.Work("push", "--quiet", "--force", f.base.URLOnDisk(), "HEAD:refs/heads/release")
	before := len(f.far.Log())
	commit = f.repo.Commit("news elsewhere", gittest.Files{"README": "x"})
	n.poll()
	check(n.folderAt(commit, "deploy"))
	if got := len(f.far.Log()) - before; got != 0 {
		t.Errorf("%d requests for what is here", got)
	}
	n.stop()
	f.far.SetFault(gittest.Status(500))
	f.git.SetFault(gittest.Status(500))
	check(f.start(dir, nil).folderAt(commit, "deploy"))
}

// TestABaseThatCantBeHadIsTold with file and line, the folder is refused until then, and others go on.
func TestABaseThatCantBeHadIsTold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		resource string // REPO is the base's repository
		files    gittest.Files
		says     []string
	}{
		"no such ref":       {"REPO//app?ref=v9", nil, []string{"deploy/kustomization.yaml line 2", "no branch and no tag"}},
		"no such commit":    {"REPO//app?ref=" + strings.Repeat("1", 40), nil, []string{"deploy/kustomization.yaml line 2", "no branch of that repository has the commit"}},
		"no such folder":    {"REPO//absent", nil, []string{"deploy/kustomization.yaml line 2", "no such folder"}},
		"no kustomization":  {"REPO", nil, []string{"deploy/kustomization.yaml line 2", "has no kustomization.yaml"}},
		"a file":            {"REPO//app/a.yaml", nil, []string{"it is a file"}},
		"no repository":     {"REPO-absent//app", nil, []string{"deploy/kustomization.yaml line 2", "404"}},
		"another host":      {"https://git.example.com/a/b//c", nil, []string{"does not allow the host git.example.com", "git.allow"}},
		"a file of the web": {"https://example.com/app.yaml", nil, []string{"deploy/kustomization.yaml line 2", "is no folder of a Git repository"}},
		"a file of a disk":  {"file:///etc", nil, []string{"file://"}},
		"a loop":            {"REPO//app", kustomization("'REPO//app'"), []string{"app/kustomization.yaml line 1 of REPO at HEAD", "without an end"}},
		"a way out":         {"REPO//app", kustomization("../../../deploy/secret.yaml"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOverlays(t)
			files := tc.files
			if files == nil {
				files = kustomization("a.yaml")
			}
			url := strings.NewReplacer("REPO", f.base.URL())
			f.base.Commit("base", gittest.Files{
				"app/kustomization.yaml": url.Replace(files["app/kustomization.yaml"]),
				"app/a.yaml":             "a: 1\n",
			})
			f.repo.Commit("plain", gittest.Files{"plain/a.yaml": "a: 1\n", "deploy/secret.yaml": "a: 1\n"})
			commit := f.overlay(url.Replace(tc.resource))
			f.setFolder("plain", "plain")
			n := f.one()
			for _, word := range tc.says {
				f.problem(url.Replace(word))
			}
			if files := n.folderAt(commit, "plain"); files["a.yaml"] == "" {
				t.Errorf("the other folder has %v", files)
			}
			await.NoError(t, "the folder is refused", func() error {
				if message := n.ask(commit, "deploy").GetError().GetMessage(); !strings.Contains(message, "kustomization.yaml line") {
					return errors.New("it is answered with " + message)
				}
				return nil
			})
		})
	}
}

// TestBasesComeWithTheHostThatIsAllowed: without hosts a folder is delivered as it is, and no host is asked.
func TestBasesComeWithTheHostThatIsAllowed(t *testing.T) {
	t.Parallel()
	f := newOverlays(t)
	f.allow()
	f.base.Commit("base", kustomization("a.yaml"))
	base := f.base.URL() + "//app"
	commit := f.overlay(base)
	n := f.one()
	await.NoError(t, "the folder is resolved", func() error {
		if a := n.ask(commit, "deploy"); a.GetError() != nil {
			return errors.New(a.GetError().GetMessage())
		}
		return nil
	})
	if got := len(f.far.Log()); got != 0 {
		t.Errorf("%d requests at a host that is not allowed", got)
	}
	f.allow(hostOf(t, f.far.URL))
	if files := n.folderAt(commit, "deploy"); files[placed(t, base, "app/a.yaml")] == "" {
		t.Errorf("the artifact has %q", files)
	}
	// A host that is allowed no more is told, and what came from it stays.
	f.allow("elsewhere.example.com")
	n.refresh()
	f.problem("does not allow the host " + hostOf(t, f.far.URL))
	if files := n.folderAt(commit, "deploy"); files[placed(t, base, "app/a.yaml")] == "" {
		t.Errorf("the artifact has %q", files)
	}
}

// TestCredentialsGoToBasesOfTheSameOwnerOnly, as with submodules.
func TestCredentialsGoToBasesOfTheSameOwnerOnly(t *testing.T) {
	t.Parallel()
	f := newOverlays(t)
	f.git.RequireLogin("ada", "hush")
	f.console.setSecret("login", map[string]string{"username": "ada", "password": "hush"})
	f.console.mu.Lock()
	f.console.sources[sourceName].Spec.Git.Secret = "login"
	f.console.mu.Unlock()
	f.allow(hostOf(t, f.git.URL), hostOf(t, f.far.URL))
	near := f.git.NewRepo(t, "near.git")
	near.Commit("base", kustomization("a.yaml"))
	f.base.Commit("base", kustomization("a.yaml"))
	own, far := near.URL()+"//app", f.base.URL()+"//app"
	commit := f.overlay(own, far)
	n := f.one()
	files := n.folderAt(commit, "deploy")
	if files[placed(t, own, "app/a.yaml")] == "" || files[placed(t, far, "app/a.yaml")] == "" {
		t.Errorf("the artifact has %q", files)
	}
	for _, r := range f.far.Log() {
		if r.Authorized {
			t.Errorf("%s got credentials of another host", r.Path)
		}
	}
	f.far.RequireLogin("ada", "hush")
	f.overlay(own, f.base.URL()+"//app?ref=main")
	n.refresh()
	f.problem("deploy/kustomization.yaml line 3", "wants credentials", "Make the base readable")
}

// TestALookFetchesTheBasesOfItsFolder, and what can't be had is its answer.
func TestALookFetchesTheBasesOfItsFolder(t *testing.T) {
	t.Parallel()
	f := newOverlays(t)
	f.base.Commit("base", kustomization("a.yaml"))
	plain := f.repo.Commit("plain", gittest.Files{"deploy/a.yaml": "a: 1\n"})
	n := f.one()
	f.published("HEAD", plain)
	f.branch("with", gittest.Files{"deploy/kustomization.yaml": "resources: ['" + f.base.URL() + "//app']\n"})
	if _, files, err := packed(t.Context(), n.sources, "web", "with"); err != nil ||
		files[placed(t, f.base.URL()+"//app", "app/a.yaml")] == "" {
		t.Errorf("got %q, %v", files, err)
	}
	f.branch("absent", gittest.Files{"deploy/kustomization.yaml": "resources: ['" + f.base.URL() + "//app?ref=v9']\n"})
	_, _, err := packed(t.Context(), n.sources, "web", "absent")
	wantCode(t, err, connect.CodeOf(err), "deploy/kustomization.yaml line 1", "no branch and no tag")
}
