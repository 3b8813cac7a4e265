package gitserver_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"fairlead.dev/platform/gitserver"
	"fairlead.dev/platform/localca"
)

// serve serves until the test ends.
func serve(t *testing.T, s *gitserver.Server) {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func start(t *testing.T) (*gitserver.Server, string, <-chan string) {
	t.Helper()
	pushed := make(chan string, 16)
	dir := filepath.Join(t.TempDir(), "git")
	s, err := gitserver.New(gitserver.Config{
		Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		AfterPush: func(name string) { pushed <- name },
	})
	if err != nil {
		t.Fatal(err)
	}
	seed := fstest.MapFS{"apps/hello/config.yaml": {Data: []byte("Hello\n")}}
	for range 2 { // The second time it is there already.
		if err := s.Create(t.Context(), "sample", seed); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, s)
	return s, dir, pushed
}

func TestAFolderMayBeRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := gitserver.New(gitserver.Config{
		Dir: "repositories", Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), "sample", fstest.MapFS{"README.md": {Data: []byte("Hello\n")}}); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, ".", "clone", "--quiet", s.URL("sample"), clone)
	if _, err := os.Stat(filepath.Join(clone, "README.md")); err != nil {
		t.Error(err)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git",
		append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestCloneAndPush(t *testing.T) {
	t.Parallel()
	s, dir, pushed := start(t)
	clone := t.TempDir()
	git(t, clone, "clone", "--quiet", s.URL("sample"), ".")
	if got, err := os.ReadFile(filepath.Join(clone, "apps/hello/config.yaml")); err != nil || string(got) != "Hello\n" {
		t.Fatalf("cloned %q, %v", got, err)
	}
	if branch := git(t, clone, "branch", "--show-current"); branch != "main" {
		t.Errorf("on branch %q", branch)
	}
	for _, size := range []int{10, 3 << 20} { // Git sends the larger one chunked.
		data := make([]byte, size)
		_, _ = rand.Read(data)
		if err := os.WriteFile(filepath.Join(clone, "file"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, clone, "add", ".")
		git(t, clone, "commit", "--quiet", "-m", "change")
		git(t, clone, "push", "--quiet", "origin", "HEAD")
		if name := <-pushed; name != "sample" {
			t.Errorf("told of a push to %q", name)
		}
		if there, here := git(t, filepath.Join(dir, "sample.git"), "rev-parse",
			"main"), git(t, clone, "rev-parse", "HEAD"); there != here {
			t.Errorf("pushed %s, the server has %s", here, there)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWhatIsNotGitOnThisMachineIsRefused(t *testing.T) {
	t.Parallel()
	s, dir, pushed := start(t)
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(s.URL("sample"), "/sample.git")
	const push = "application/x-git-receive-pack-request"
	for name, c := range map[string]struct {
		method, path, contentType, origin, site, host string
		want                                          int
	}{
		"good":      {path: "/sample.git/info/refs?service=git-upload-pack", want: 200},
		"localhost": {path: "/sample.git/info/refs?service=git-upload-pack", host: "localhost:1", want: 200},
		"web page": {
			path: "/sample.git/info/refs?service=git-upload-pack", origin: "https://evil.example.com", want: 403,
		},
		"image of a web page": {path: "/new.git/info/refs?service=git-receive-pack", site: "cross-site", want: 403},
		"rebound name": {
			path: "/sample.git/info/refs?service=git-upload-pack", host: "evil.example.com", want: 403,
		},
		"no service":      {path: "/sample.git/info/refs", want: 404},
		"another service": {path: "/sample.git/info/refs?service=git-upload-archive", want: 404},
		"plain file":      {path: "/sample.git/HEAD", want: 404},
		"form of a web page": {
			method: "POST", path: "/sample.git/git-receive-pack", contentType: "text/plain", want: 404,
		},
		"push from a web page": {
			method: "POST", path: "/sample.git/git-receive-pack", contentType: push, origin: "null", want: 403,
		},
		"no repository":     {path: "/other.git/info/refs?service=git-upload-pack", want: 404},
		"file beside":       {path: "/secret", want: 404},
		"out of the folder": {path: "/../sample.git/info/refs?service=git-upload-pack", want: 404},
		"out, escaped":      {path: "/%2e%2e%2fsample.git/info/refs?service=git-upload-pack", want: 404},
		"option":            {path: "/-sample.git/info/refs?service=git-upload-pack", want: 404},
		"deeper":            {path: "/sample.git/../sample.git/info/refs?service=git-upload-pack", want: 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method := c.method
			if method == "" {
				method = "GET"
			}
			req, err := http.NewRequestWithContext(t.Context(), method, base+c.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			if c.site != "" {
				req.Header.Set("Sec-Fetch-Site", c.site)
			}
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("got %s, want %d", resp.Status, c.want)
			}
		})
	}
	if len(pushed) > 0 {
		t.Error("told of a push that was none")
	}
}

func TestAnAccountLetsOtherMachinesIn(t *testing.T) {
	t.Parallel()
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	account := &gitserver.Account{
		User: "git", Password: "very secret", CertFile: files.CertFile, KeyFile: files.KeyFile,
	}
	s, err := gitserver.New(gitserver.Config{
		Dir: t.TempDir(), Listen: "0.0.0.0:0", Log: slog.New(slog.DiscardHandler), Account: account,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), "sample", fstest.MapFS{"a": {}}); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	_, port, err := net.SplitHostPort(strings.Split(s.URL("sample"), "/")[2])
	if err != nil {
		t.Fatal(err)
	}
	try := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), "git",
			append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_SSL_CAINFO="+files.CAFile, "GIT_TERMINAL_PROMPT=0",
			"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
		return nil
	}
	at := func(credentials string) string { return "https://" + credentials + "127.0.0.1:" + port + "/sample.git" }
	tree := filepath.Join(t.TempDir(), "tree")
	for _, args := range [][]string{
		{"clone", "--quiet", at("git:very%20secret@"), tree},
		{"-C", tree, "commit", "--quiet", "--allow-empty", "--message=more"},
		{"-C", tree, "push", "--quiet"},
	} {
		if err := try(args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, credentials := range []string{"", "git:wrong@", "other:very%20secret@", "git:@"} {
		if err := try("ls-remote", at(credentials)); err == nil || strings.Contains(err.Error(), "certificate") {
			t.Errorf("%q: %v", credentials, err)
		}
	}
	account.Password = ""
	if _, err := gitserver.New(gitserver.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), Account: account,
	}); err == nil {
		t.Error("serves an account without a password")
	}
}

func TestOnlyLoopbackAndGoodNames(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{":7480", "0.0.0.0:7480", "192.0.2.1:1", "example.com:1", "127.0.0.1"} {
		if _, err := gitserver.New(gitserver.Config{
			Dir: t.TempDir(), Listen: listen, Log: slog.New(slog.DiscardHandler),
		}); err == nil {
			t.Errorf("would listen at %s", listen)
		}
	}
	s, _, _ := start(t)
	for _, name := range []string{"", "..", "a/b", "-a", "A", "a.git", strings.Repeat("a", 64)} {
		if err := s.Create(t.Context(), name, fstest.MapFS{"a": {}}); err == nil {
			t.Errorf("created %q", name)
		}
	}
}

func TestTheVersionOfTheProtocolIsTheClients(t *testing.T) {
	t.Parallel()
	s, _, _ := start(t)
	for version, want := range map[string]string{
		"version=2": "000eversion 2\n", "version=1": "001e# service=git-upload-pack\n0000000eversion 1\n",
		"": "001e# service=git-upload-pack\n0000", "version=3; x": "001e# service=git-upload-pack\n0000",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			s.URL("sample")+"/info/refs?service=git-upload-pack", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Git-Protocol", version)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.HasPrefix(string(body), want) {
			t.Errorf("asked for %q it says %q, %v", version, body, err)
		}
	}
}

func TestTheFirstPushMakesARepository(t *testing.T) {
	t.Parallel()
	pushed := make(chan string, 16)
	s, err := gitserver.New(gitserver.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), CreateOnPush: true,
		AfterPush: func(name string) { pushed <- name },
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	work := t.TempDir()
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@example.com", "GIT_TERMINAL_PROMPT=0")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=trunk"}, {"commit", "--quiet", "--allow-empty", "--message=first"},
	} {
		if out, err := git(args...); err != nil {
			t.Fatal(out, err)
		}
	}
	if out, err := git("ls-remote", s.URL("shop")); err == nil {
		t.Errorf("a repository is there that nobody pushed to: %s", out)
	}
	if out, err := git("push", "--quiet", s.URL("shop"), "trunk"); err != nil {
		t.Fatal(out, err)
	}
	if name := <-pushed; name != "shop" {
		t.Errorf("told of %q", name)
	}
	out, err := git("ls-remote", "--symref", s.URL("shop"), "HEAD")
	if err != nil || !strings.HasPrefix(out, "ref: refs/heads/trunk\tHEAD\n") {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := git("push", "--quiet", s.URL("Not_A_Name"), "trunk"); err == nil {
		t.Errorf("a name is taken that is none: %s", out)
	}
}

// git shows a person what the server says to its first request.
func TestAPushToAWrongNameSaysWhichNamesThereAre(t *testing.T) {
	t.Parallel()
	s, _, _ := start(t)
	base := strings.TrimSuffix(s.URL("sample"), "sample.git")
	for path, want := range map[string]string{
		"Shop_x.git":      `repositories here are called NAME.git, without folders: NAME has lower-case letters, digits and '-', and "Shop_x" has others`,
		"a/b.git":         `"a/b" has others`,
		"shop":            "repositories here are called NAME.git: write shop.git",
		"sample.git/tree": `"sample.git/tree" has others`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			base+path+"/info/refs?service=git-receive-pack", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusNotFound || !strings.Contains(string(said), want) {
			t.Errorf("%s: %d %s, %v", path, resp.StatusCode, said, err)
		}
	}
}
