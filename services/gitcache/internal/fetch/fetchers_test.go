package fetch_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func newFetchers(t *testing.T, o upstream.Options) *fetch.Fetchers {
	t.Helper()
	o.Addresses = thisMachine(t)
	f, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// onlyMultiAck is a fault: a host of version 0 that refuses clients without multi_ack, as Azure DevOps does.
func onlyMultiAck(word string) gittest.Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Git-Protocol")
		if r.Method != http.MethodPost {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(word)) {
			return false
		}
		http.Error(w, "TF401041: The Git protocol sent is not as expected (Clients must support "+word+".).",
			http.StatusBadRequest)
		return true
	}
}

func TestHostThatInsistsOnMultiAckNeedsNoGit(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	first := repo.Commit("one", gittest.Files{"a": "1"})
	server.SetFault(onlyMultiAck("multi_ack"))
	f, r, m := newFetchers(t, upstream.Options{Git: fetch.GitBuiltin}), remote(t, repo.URL()), newMirror(t)
	for i, id := range []string{
		first, repo.Commit("two", gittest.Files{"a": "2"}),
		repo.Commit("three", gittest.Files{"a": "3"}),
	} {
		l, err := f.List(t.Context(), r, gitwire.Names{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Fetch(t.Context(), r, l, ids(id), m); err != nil {
			t.Fatal(i, err)
		}
		setHead(t, m, id)
	}
}

func TestHostThatRefusesTheBuiltinIsAskedByGit(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	server.SetFault(onlyMultiAck("thin-pack"))
	r := remote(t, repo.URL())
	f := newFetchers(t, upstream.Options{})
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(t)
	if _, err := f.Fetch(t.Context(), r, l, ids(id), m); err != nil {
		t.Fatal(err)
	}
	wantCommit(t, m, id, "one")
	// The next fetch goes to git at once, and polls stay as cheap as they were.
	before := len(server.Log())
	if l, err = f.List(t.Context(), r, gitwire.Names{}); err != nil || len(server.Log()) != before+1 {
		t.Errorf("list: %v, %d requests", err, len(server.Log())-before)
	}
	mark := len(server.Log())
	if _, err := f.Fetch(t.Context(), r, l, ids(id), newMirror(t)); err != nil {
		t.Fatal(err)
	}
	if first := server.Log()[mark]; first.Service != "list" {
		t.Errorf("the builtin way was tried again: %+v", first)
	}
	builtin := newFetchers(t, upstream.Options{Git: fetch.GitBuiltin})
	_, err = builtin.Fetch(t.Context(), r, l, ids(id), newMirror(t))
	t.Log(err)
	wantError(t, err, upstream.KindContent, "can't be talked to without git", "TF401041", "--git=auto")
}

func TestHostOfVersion2OnlyNeedsNoGit(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	server.SetFault(gittest.OnlyVersion2())
	f, r, m := newFetchers(t, upstream.Options{Git: fetch.GitBuiltin}), remote(t, repo.URL()), newMirror(t)
	for range 2 {
		l, err := f.List(t.Context(), r, gitwire.Names{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Fetch(t.Context(), r, l, ids(id), m); err != nil {
			t.Fatal(err)
		}
		setHead(t, m, id)
		id = repo.Commit("two", gittest.Files{"a": "2"})
	}
}

// onlyGit is a fault: a host that speaks version 2 only, and only with clients that say their name.
func onlyGit(w http.ResponseWriter, r *http.Request) bool {
	r.Header.Set("Git-Protocol", "version=2")
	if r.Method != http.MethodPost {
		return false
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte("agent=git/")) {
		return false
	}
	http.Error(w, "whoever you are", http.StatusBadRequest)
	return true
}

func TestHostThatRefusesTheBuiltinsVersion2IsListedByGit(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	server.SetFault(onlyGit)
	f, r, m := newFetchers(t, upstream.Options{}), remote(t, repo.URL()), newMirror(t)
	for range 2 {
		l, err := f.List(t.Context(), r, gitwire.Names{})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Refs["refs/heads/main"].String(); got != id {
			t.Fatalf("main is %s, want %s", got, id)
		}
		if l.Bytes == 0 {
			t.Error("the list took no bytes")
		}
		if _, err := f.Fetch(t.Context(), r, l, ids(id), m); err != nil {
			t.Fatal(err)
		}
		setHead(t, m, id)
		id = repo.Commit("two", gittest.Files{"a": "2"})
	}
	// Of two polls only the first tried the builtin way.
	looks := 0
	for _, request := range server.Log() {
		if request.Method == http.MethodGet {
			looks++
		}
	}
	if looks != 6 {
		t.Errorf("%d requests for the beginning of an exchange, want 6", looks)
	}
	_, err := newFetchers(t, upstream.Options{Git: fetch.GitBuiltin}).List(t.Context(), r, gitwire.Names{})
	t.Log(err)
	wantError(t, err, upstream.KindContent, "only version 2", "--git=auto")
}

func TestGitIsToldNoSecret(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	w := newWay(t, "binary", upstream.Options{Limits: upstream.Limits{IdleTime: 20 * time.Second}})
	id := w.newRepo(t, "shop.git").Commit("one", gittest.Files{"a": string(noise(1000))})
	r := w.remote(t, "shop.git")
	l := w.list(t, r)
	w.stall()
	done := make(chan error, 1)
	go func() {
		_, err := w.Fetch(t.Context(), r, l, ids(id), newMirror(t))
		done <- err
	}()
	seen := map[string]bool{}
	for len(seen) < 2 { // git, and its helper that talks http
		for _, pid := range w.processes(t) {
			for _, file := range []string{"cmdline", "environ"} {
				b, err := os.ReadFile(filepath.Join("/proc", pid, file))
				if err != nil || len(b) == 0 {
					continue
				}
				seen[pid] = true
				for _, secret := range []string{"s3cret", "ada", "_proxy", "_PROXY", "SSH_AUTH_SOCK", token(t, w)} {
					if bytes.Contains(b, []byte(secret)) {
						t.Errorf("%s of process %s has %q: %q", file, pid, secret, b)
					}
				}
			}
		}
		select {
		case err := <-done:
			t.Fatalf("the fetch ended: %v", err)
		default:
			runtime.Gosched()
		}
	}
	w.heal()
}

// token is the relay's, which stands in a file that only its owner can read.
func token(t *testing.T, w *way) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "fetch", "git-*", "config"))
	if err != nil || len(files) != 1 {
		t.Fatalf("configurations: %v, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the configuration: %v, %v", info, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "Fairlead-Relay: ")
	if !ok {
		t.Fatalf("no token in %s", b)
	}
	text, _, _ := strings.Cut(rest, "\n")
	return text
}

func TestRequestsToUpstreamAreCounted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"http": 3, "binary": 4, "ssh": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWay(t, name, upstream.Options{})
			id := w.newRepo(t, "shop.git").Commit("one", gittest.Files{"a": "1"})
			var n atomic.Int64
			ctx := upstream.WithCounter(t.Context(), &n)
			r := w.remote(t, "shop.git")
			l, err := w.List(ctx, r, gitwire.Names{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Fetch(ctx, r, l, ids(id), newMirror(t)); err != nil {
				t.Fatal(err)
			}
			if n.Load() != want {
				t.Errorf("%d requests were counted, want %d", n.Load(), want)
			}
		})
	}
}

func TestWrongChoiceOfGitIsSaid(t *testing.T) {
	t.Parallel()
	if _, err := fetch.New(upstream.Options{Git: "perhaps"}); err == nil ||
		!strings.Contains(err.Error(), `"perhaps" is none of auto, builtin and binary`) {
		t.Errorf("got %v", err)
	}
}

func TestWithoutGitTheAdviceIsToInstallIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := fetch.New(upstream.Options{Git: fetch.GitBinary}); err == nil ||
		!strings.Contains(err.Error(), "no git in PATH") {
		t.Errorf("got %v", err)
	}
	f := newFetchers(t, upstream.Options{})
	t.Setenv("PATH", "/usr/bin:/bin")
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	repo.Commit("one", gittest.Files{"a": "1"})
	server.SetFault(onlyGit)
	_, err := f.List(t.Context(), remote(t, repo.URL()), gitwire.Names{})
	wantError(t, err, upstream.KindContent, "only version 2", "install git 2.30 or later", "no git in PATH")
}

func TestOldGitIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho git version 2.20.1\n"
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if _, err := fetch.New(upstream.Options{Git: fetch.GitBinary}); err == nil ||
		!strings.Contains(err.Error(), "2.30 or later is needed") {
		t.Errorf("got %v", err)
	}
}

func TestWhatAKilledProcessLeftIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "git-123", "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	newFetchers(t, upstream.Options{Dir: dir})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestFailuresLeaveNothing counts what the process has before and after many fetches that go wrong. The test runs with
// no other test.
func TestFailuresLeaveNothing(t *testing.T) {
	longform.Only(t, "a fetch for each kind of failure")
	if runtime.GOOS != "linux" {
		t.Skip("looks into /proc")
	}
	for _, name := range []string{"http", "binary", "ssh"} {
		t.Run(name, func(t *testing.T) {
			w := newWay(t, name, upstream.Options{Limits: upstream.Limits{IdleTime: 300 * time.Millisecond}})
			id := w.newRepo(t, "shop.git").Commit("one", gittest.Files{"a": string(noise(3000))})
			r := w.remote(t, "shop.git")
			l := w.list(t, r)
			round := func() {
				for _, fault := range []func(){w.stall, func() { w.truncate(100) }} {
					fault()
					if _, err := w.Fetch(t.Context(), r, l, ids(id), newMirror(t)); err == nil {
						t.Error("the fetch went through")
					}
				}
				w.heal()
				w.list(t, r)
			}
			round()
			wantSame(t, round)
			w.wantClean(t)
		})
	}
}

// wantSame runs something a few times, and wants descriptors and goroutines to have grown by less than one a
// round: what a round leaves adds up, while the server's side of the last connection may still be closing.
func wantSame(t *testing.T, do func()) {
	t.Helper()
	const rounds = 8
	count := func() (descriptors, goroutines int) {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open), runtime.NumGoroutine()
	}
	descriptors, goroutines := count()
	for range rounds {
		do()
	}
	deadline := time.After(time.Minute)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		d, g := count()
		if d < descriptors+rounds && g < goroutines+rounds {
			return
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("%d descriptors and %d goroutines after %d rounds, %d and %d before", d, g, rounds, descriptors,
				goroutines)
		}
	}
}
