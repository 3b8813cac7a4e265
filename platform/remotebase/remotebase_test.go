package remotebase_test

import (
	"path"
	"strings"
	"testing"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/remotebase"
)

// TestReferencesAreReadAsKustomizeReadsThem: the forms of its documentation.
func TestReferencesAreReadAsKustomizeReadsThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]remotebase.Base{
		"https://github.com/kubernetes-sigs/kustomize//examples/multibases/dev/?timeout=120&ref=v3.3.1": {"https://github.com/kubernetes-sigs/kustomize", "v3.3.1", "examples/multibases/dev"},
		"github.com/kubernetes-sigs/kustomize/examples/multibases?ref=v1.0.6":                           {"https://github.com/kubernetes-sigs/kustomize", "v1.0.6", "examples/multibases"},
		"github.com/org/repo":                                          {"https://github.com/org/repo", "HEAD", ""},
		"github.com:org/repo?version=v2":                               {"https://github.com/org/repo", "v2", ""},
		"https://github.com/org/repo?submodules=0&ref=main&version=no": {"https://github.com/org/repo", "main", ""},
		"git@github.com:org/repo.git/deploy?ref=v1":                    {"git@github.com:org/repo.git", "v1", "deploy"},
		"git@git.example.com:2222/org/repo.git//a":                     {"git@git.example.com:2222/org/repo.git", "HEAD", "a"},
		"ssh://git@git.example.com:2222/org/repo.git//a?ref=v1":        {"ssh://git@git.example.com:2222/org/repo.git", "v1", "a"},
		"https://org@dev.azure.com/org/project/_git/repo/a/b?ref=v1":   {"https://dev.azure.com/org/project/_git/repo", "v1", "a/b"},
		"https://git.example.com/a/b/c//deploy?ref=release/1.2":        {"https://git.example.com/a/b/c", "release/1.2", "deploy"},
		"https://git.example.com/a/b/c.git?ref=pkg@1.0.0":              {"https://git.example.com/a/b/c.git", "pkg@1.0.0", ""},
		"HTTPS://Git.Example.com:8443/a/b.git//./x/../deploy/":         {"https://git.example.com:8443/a/b.git", "HEAD", "deploy"},
		"git::https://git.example.com/a/b?ref=v1":                      {"https://git.example.com/a/b", "v1", ""},
		"http://127.0.0.1:8080/repo//deploy":                           {"http://127.0.0.1:8080/repo", "HEAD", "deploy"},
		"https://git.example.com/a/b//x.yaml?ref=v1":                   {"https://git.example.com/a/b", "v1", "x.yaml"},
	} {
		got, isRemote, err := remotebase.Parse(text)
		if err != nil || !isRemote || got != want {
			t.Errorf("%s: got %+v, %t, %v, want %+v", text, got, isRemote, err, want)
		}
	}
}

func TestPathsAreNotRemote(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "a.yaml", "../base", "./a//b", "/etc/passwd", "a?ref=v1", "repo.git",
		"gitlab.com/a/b", "a:b", "oci://example.com/a", "a@b", "kind: A\nurl: https://example.com/a/b\n",
	} {
		if got, isRemote, err := remotebase.Parse(text); isRemote || err != nil {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

func TestWhatCanBeNoBaseIsRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"https://example.com/a.yaml":                                "is no folder of a Git repository",
		"https://raw.githubusercontent.com/org/repo/v1/app.yaml":    "is no folder of a Git repository",
		"https://example.com":                                       "is no folder of a Git repository",
		"file:///etc":                                               "file://",
		"http://git.example.com/a/b":                                "loopback",
		"https://ada:hush@git.example.com/a/b":                      "password",
		"ssh://git.example.com/a/b":                                 "names no user",
		"https://git.example.com/a/b//../../c":                      "leads out",
		"https://git.example.com/a@b/c":                             "@",
		"https://git.example.com/a/b?ref=-x":                        "Git can't have",
		"https://git.example.com/a/b?ref=a..b":                      "Git can't have",
		"https://git.example.com/a/b?ref=a%20b":                     "Git can't have",
		"https://git.example.com/a/b?ref=%zz":                       "can't be read",
		"https://git.example.com/a/b//" + strings.Repeat("x", 2048): "2048",
	} {
		_, isRemote, err := remotebase.Parse(text)
		if !isRemote || err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.60s: got %t, %v, want %q", text, isRemote, err, says)
		}
	}
}

func TestHostsAreAsListsHaveThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://Git.example.com:443/a/b":  "git.example.com",
		"https://git.example.com:8443/a/b": "git.example.com:8443", "http://127.0.0.1:8080/a/b": "127.0.0.1:8080",
		"ssh://git@git.example.com:22/a/b": "git.example.com", "git@git.example.com:a/b": "git.example.com",
		"ssh://git@git.example.com:2222/a/b": "git.example.com:2222",
	} {
		if b, _, err := remotebase.Parse(text); err != nil || b.Host() != want {
			t.Errorf("%s: %q, %v, want %s", text, b.Host(), err, want)
		}
	}
}

func TestRepositoriesAndRevisionsHaveFoldersOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, text := range []string{
		"https://git.example.com/a/b?ref=v1", "https://git.example.com/a/b?ref=v2",
		"https://git.example.com/a-b/c?ref=v1", "https://git.example.com/a/b-c?ref=v1",
		"git@git.example.com:a/b?ref=v1", "https://git.example.com/" + strings.Repeat("x", 200) + "/b?ref=v1",
		"https://git.example.com/" + strings.Repeat("x", 200) + "/b?ref=v2",
	} {
		b, _, err := remotebase.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[b.Folder()]; ok {
			t.Errorf("%s and %s share %s", text, other, b.Folder())
		}
		seen[b.Folder()] = text
		if path.Dir(b.Folder()) != remotebase.FolderName {
			t.Errorf("%s is at %s", text, b.Folder())
		}
	}
}

// FuzzParse: whatever is written, a base is one that the hub can ask for, in a place of its own below the folder for
// bases.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"https://github.com/a/b//c?ref=v1", "git@github.com:a/b.git/c", "ssh://git@h:22/a.git//b?version=1",
		"https://x@h/o/p/_git/r/a?submodules=0", "git::github.com/a/b", "file:///a", "https:////", "a@:b/c",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, isRemote, err := remotebase.Parse(text)
		if !isRemote || err != nil {
			return
		}
		u, err := giturl.Parse(b.Repository)
		if err != nil || b.Host() == "" || b.Revision == "" {
			t.Errorf("%q is %+v, %v", text, b, err)
			return
		}
		if place := b.Place(); path.Clean(place) != place || !strings.HasPrefix(place+"/", b.Folder()+"/") ||
			strings.Count(b.Folder(), "/") != 1 {
			t.Errorf("%q is at %q", text, place)
		}
		if at := strings.Count(b.Repository, "@"); at > 1 || at == 1 != (u.Scheme == "ssh") {
			t.Errorf("%q: the url %q has another @", text, b.Repository)
		}
	})
}
