package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// The duties of every Fetcher, over real servers: git http-backend and sshd. Limits on the size of objects are the
// mirror's, which all of them give their packs to.

// way is a Fetcher with a server of its own.
type way struct {
	name string
	fetch.Fetcher
	dir    string // of the Fetcher's temporary files
	secret string
	base   string
	login  upstream.Credentials
	wrong  upstream.Credentials

	newRepo func(t testing.TB, name string) *gittest.Repo
	// Faults. The faults of packs let lists be served.
	hangList, hang, stall, endless func()
	truncate                       func(n int)
	advertise                      func(lines string)
	heal                           func()
	// Of ssh only: shell that runs before git, and how often a command was run.
	fault    func(command string)
	sessions func() int
}

// everyWay runs a test over every Fetcher.
func everyWay(t *testing.T, o upstream.Options, test func(t *testing.T, w *way)) {
	t.Helper()
	for _, name := range []string{"http", "binary", "ssh"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWay(t, name, o))
		})
	}
}

func newWay(t *testing.T, name string, o upstream.Options) *way {
	t.Helper()
	w := &way{name: name, dir: t.TempDir(), secret: "shop-git"}
	o.Dir = filepath.Join(w.dir, "fetch")
	o.Git = map[string]string{"http": fetch.GitBuiltin, "ssh": fetch.GitBuiltin, "binary": fetch.GitBinary}[name]
	if o.Addresses == nil {
		o.Addresses = thisMachine(t)
	}
	f, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	w.Fetcher = f
	if name == "ssh" {
		w.useSSH(t, gittest.NewSSHServer(t))
	} else {
		w.useHTTP(gittest.NewServer(t))
	}
	return w
}

func (w *way) useSSH(t *testing.T, s *gittest.SSHServer) {
	t.Helper()
	w.base, w.newRepo = s.URL, s.NewRepo
	w.login = upstream.Credentials{Identity: s.Identity, KnownHosts: s.KnownHosts}
	w.wrong = w.login
	w.wrong.Identity = gittest.PrivatePEM(t, gittest.NewKey(t, gittest.ED25519), "")
	w.hangList = func() { s.SetFault("exec cat >/dev/null", "") }
	w.hang = func() { s.SetFault(gittest.SSHHangAfterList, "") }
	w.stall = func() { s.SetFault("", s.SSHStall()) }
	w.endless = func() { s.SetFault(gittest.SSHEndlessList, "") }
	w.truncate = func(n int) { s.SetFault("", gittest.SSHTruncate(n)) }
	w.advertise = func(lines string) {
		path := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		s.SetFault("cat '"+path+"'; exec cat >/dev/null", "")
	}
	w.heal = func() { s.SetFault("", "") }
	w.fault = func(command string) { s.SetFault(command, "") }
	w.sessions = func() int { return s.Count("session") }
}

func (w *way) useHTTP(s *gittest.Server) {
	w.base, w.newRepo = s.URL, s.NewRepo
	w.login = upstream.Credentials{Username: "ada", Password: "s3cret"}
	w.wrong = upstream.Credentials{Username: "ada", Password: "wr0ng"}
	s.RequireLogin("ada", "s3cret")
	w.hangList = func() {
		s.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
	}
	w.hang = func() { s.SetFault(gittest.HangOnFetch()) }
	w.stall = func() { s.SetFault(s.StallAfter(60)) }
	w.endless = func() { s.SetFault(gittest.AdvertiseForEver()) }
	w.truncate = func(n int) { s.SetFault(s.TruncateFetch(n)) }
	w.advertise = func(lines string) { s.SetFault(gittest.Advertise(lines)) }
	w.heal = func() { s.SetFault(nil) }
}

func (w *way) remote(t *testing.T, name string) upstream.Remote {
	t.Helper()
	r := remote(t, w.base+"/"+name)
	r.Secret, r.Credentials = w.secret, w.login
	return r
}

func (w *way) list(t *testing.T, r upstream.Remote) *gitwire.Listing {
	t.Helper()
	l, err := w.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return l
}

// bring lists and fetches commits.
func (w *way) bring(t *testing.T, r upstream.Remote, into upstream.Target, commits ...string) int64 {
	t.Helper()
	n, err := w.Fetch(t.Context(), r, w.list(t, r), ids(commits...), into)
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	return n
}

func ids(commits ...string) (list []git.Hash) {
	for _, c := range commits {
		list = append(list, git.HashOf(c))
	}
	return list
}

// wantClean checks that a Fetcher has left no temporary file and no process.
func (w *way) wantClean(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(filepath.Join(w.dir, "fetch")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if left := w.processes(t); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
}

// processes are those that run in the Fetcher's folder.
func (w *way) processes(t *testing.T) (pids []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, w.dir+"/") {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

func wantCommit(t *testing.T, m *mirror.Mirror, id, subject string) {
	t.Helper()
	o := m.Objects()
	defer o.Close()
	if c, err := o.Commit(git.HashOf(id)); err != nil || c.Subject != subject {
		t.Errorf("commit %s is %+v, %v", id, c, err)
	}
}

func TestListAndClone(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		first := repo.Commit("one", gittest.Files{"a": "1"})
		repo.Work("tag", "-a", "v1", "-m", "first")
		repo.Work("push", "--quiet", repo.URLOnDisk(), "v1", "HEAD:refs/heads/side")
		r, m := w.remote(t, "shop.git"), newMirror(t)

		l := w.list(t, r)
		for _, ref := range []string{"HEAD", "refs/heads/main", "refs/heads/side", "refs/tags/v1"} {
			if id, ok := l.Commit(ref); !ok || id.String() != first {
				t.Errorf("%s is %s, want %s", ref, id, first)
			}
		}
		if tag := repo.Bare("rev-parse", "refs/tags/v1"); l.Refs["refs/tags/v1"].String() != tag || len(l.Refs) != 4 ||
			len(l.Peeled) != 1 {
			t.Errorf("refs are %v, peeled %v, tag object %s", l.Refs, l.Peeled, tag)
		}
		if n, err := w.Fetch(t.Context(), r, l, []git.Hash{l.Refs["refs/tags/v1"]}, m); err != nil || n == 0 {
			t.Fatalf("fetch: %d, %v", n, err)
		}
		wantCommit(t, m, first, "one")
		o := m.Objects()
		defer o.Close()
		if id, err := o.Peel(l.Refs["refs/tags/v1"]); err != nil || id.String() != first {
			t.Errorf("the tag stands for %s, %v", id, err)
		}
		w.wantClean(t)
	})
}

func TestEmptyRepositoryHasNoRefs(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		w.newRepo(t, "shop.git")
		if l := w.list(t, w.remote(t, "shop.git")); len(l.Refs) != 0 {
			t.Errorf("refs are %v", l.Refs)
		}
	})
}

func TestFetchIsIncremental(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		first := repo.Commit("one", gittest.Files{"big": string(noise(1 << 20)), "a": "1"})
		r, m := w.remote(t, "shop.git"), newMirror(t)
		if n := w.bring(t, r, m, first); n < 1<<20 {
			t.Errorf("the clone brought %d bytes", n)
		}
		setHead(t, m, first)
		second := repo.Commit("two", gittest.Files{"a": "2"})
		// Commit, tree and blob of the change: three objects in one small pack.
		if n := w.bring(t, r, m, second); n == 0 || n > 600 {
			t.Errorf("the fetch of a commit brought %d bytes", n)
		}
		wantCommit(t, m, second, "two")
	})
}

func noise(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func TestForcePushIsFollowed(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		first := repo.Commit("one", gittest.Files{"a": "1"})
		second := repo.Commit("two", gittest.Files{"a": "2"})
		r, m := w.remote(t, "shop.git"), newMirror(t)
		w.bring(t, r, m, second)
		setHead(t, m, second)
		repo.Work("checkout", "--quiet", "--orphan", "other")
		other := repo.Commit("other", gittest.Files{"b": "1"})
		if l := w.list(t, r); l.Refs["refs/heads/main"].String() != other {
			t.Fatalf("main is %s, want %s", l.Refs["refs/heads/main"], other)
		}
		w.bring(t, r, m, other)
		wantCommit(t, m, other, "other")
		wantCommit(t, m, first, "one")
	})
}

func TestCommitThatIsNoTipCanBeFetched(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		first := repo.Commit("one", gittest.Files{"a": "1"})
		repo.Commit("two", gittest.Files{"a": "2"})
		repo.Bare("config", "uploadpack.allowAnySHA1InWant", "true")
		r, m := w.remote(t, "shop.git"), newMirror(t)
		l := w.list(t, r)
		if !l.AllowsAny() {
			t.Error("the listing says that only tips can be had")
		}
		if _, err := w.Fetch(t.Context(), r, l, ids(first), m); err != nil {
			t.Fatal(err)
		}
		wantCommit(t, m, first, "one")
		_, err := w.Fetch(t.Context(), r, l, ids(strings.Repeat("ab", 20)), m)
		wantError(t, err, upstream.KindContent, "the pack from 127.0.0.1", "not our ref")
	})
}

func TestUnknownRepositoryIsNamed(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		_, err := w.List(t.Context(), w.remote(t, "none.git"), gitwire.Names{})
		t.Log(err)
		scheme, host, _ := strings.Cut(w.base, "://")
		if _, after, ok := strings.Cut(host, "@"); ok {
			host = after
		}
		wantError(t, err, upstream.KindNotFound, "repository "+scheme+"://"+host+"/none.git not found",
			"Check the source's url")
		w.wantClean(t)
	})
}

func TestWrongLoginNamesTheSecret(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		id := repo.Commit("one", gittest.Files{"a": "1"})
		good := w.remote(t, "shop.git")
		bad := good
		bad.Credentials = w.wrong
		_, err := w.List(t.Context(), bad, gitwire.Names{})
		t.Log(err)
		wantError(t, err, upstream.KindCredentials, "127.0.0.1", `secret "shop-git"`)
		_, fetchErr := w.Fetch(t.Context(), bad, w.list(t, good), ids(id), newMirror(t))
		wantError(t, fetchErr, upstream.KindCredentials, `secret "shop-git"`)
		for _, text := range []string{err.Error(), fetchErr.Error(), fmt.Sprintf("%v %+v %#v", bad, bad, bad)} {
			if strings.Contains(text, "wr0ng") || strings.Contains(text, "PRIVATE KEY") {
				t.Errorf("%q gives credentials away", text)
			}
		}
	})
}

func TestHostThatFallsSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	const idle = time.Second
	everyWay(t, upstream.Options{Limits: upstream.Limits{IdleTime: idle}}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		id := repo.Commit("one", gittest.Files{"a": string(noise(1000))})
		r := w.remote(t, "shop.git")
		l := w.list(t, r)
		for name, fault := range map[string]func(){"after the list": w.hang, "in the middle of a pack": w.stall} {
			fault()
			m := newMirror(t)
			_, err := w.Fetch(t.Context(), r, l, ids(id), m)
			t.Log(name, "->", err)
			wantError(t, err, upstream.KindTimeout, "127.0.0.1", "sent nothing for 1s")
			o := m.Objects()
			if o.Has(git.HashOf(id)) {
				t.Error("half a pack was taken")
			}
			o.Close()
			w.wantClean(t)
		}
	})
}

func TestListThatNeverComesIsGivenUp(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{Limits: upstream.Limits{ListTime: time.Second}}, func(t *testing.T, w *way) {
		w.newRepo(t, "shop.git")
		w.hangList()
		_, err := w.List(t.Context(), w.remote(t, "shop.git"), gitwire.Names{})
		wantError(t, err, upstream.KindTimeout, "did not answer within 1s")
		w.wantClean(t)
	})
}

func TestTruncatedPackIsRefused(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		id := repo.Commit("one", gittest.Files{"a": string(noise(5000))})
		r, m := w.remote(t, "shop.git"), newMirror(t)
		l := w.list(t, r)
		for _, n := range []int{0, 8, 30, 200, 4000} {
			w.truncate(n)
			_, err := w.Fetch(t.Context(), r, l, ids(id), m)
			var e *upstream.Error
			if !errors.As(err, &e) || e.Kind != upstream.KindContent {
				t.Errorf("a pack cut after %d bytes: %v", n, err)
			}
			o := m.Objects()
			if o.Has(git.HashOf(id)) {
				t.Errorf("cut after %d bytes, the commit is there", n)
			}
			o.Close()
		}
		w.heal()
		w.bring(t, r, m, id)
		wantCommit(t, m, id, "one")
		w.wantClean(t)
	})
}

func TestCallerThatGivesUpLeavesNothing(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		id := repo.Commit("one", gittest.Files{"a": string(noise(1000))})
		r := w.remote(t, "shop.git")
		l := w.list(t, r)
		for name, fault := range map[string]func(){"hang": w.hang, "stall": w.stall} {
			fault()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err := w.Fetch(ctx, r, l, ids(id), newMirror(t))
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want the context's error", name, err)
			}
			w.wantClean(t)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.List(ctx, r, gitwire.Names{}); !errors.Is(err, context.Canceled) {
			t.Errorf("list: got %v, want the context's error", err)
		}
		w.wantClean(t)
	})
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		var running sync.WaitGroup
		for i := range 2 {
			name := fmt.Sprintf("shop%d.git", i)
			repo := w.newRepo(t, name)
			subject := fmt.Sprint("commit ", i)
			id := repo.Commit(subject, gittest.Files{"a": subject})
			r := w.remote(t, name)
			for range 2 {
				m := newMirror(t)
				running.Go(func() {
					l, err := w.List(t.Context(), r, gitwire.Names{})
					if err == nil {
						_, err = w.Fetch(t.Context(), r, l, ids(id), m)
					}
					if err != nil {
						t.Error(err)
						return
					}
					wantCommit(t, m, id, subject)
				})
			}
		}
		running.Wait()
		w.wantClean(t)
	})
}

func TestEndlessListIsCutOff(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{Limits: upstream.Limits{ListBytes: 1 << 20}}, func(t *testing.T, w *way) {
		w.newRepo(t, "shop.git")
		w.endless()
		_, err := w.List(t.Context(), w.remote(t, "shop.git"), gitwire.Names{})
		wantError(t, err, upstream.KindContent, "list of refs is larger than the limit of 1 MiB")
		w.wantClean(t)
	})
}

func TestPackOverTheLimitIsCutOff(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{Limits: upstream.Limits{PackBytes: 1 << 20}}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		id := repo.Commit("one", gittest.Files{"a": string(noise(2 << 20))})
		r := w.remote(t, "shop.git")
		_, err := w.Fetch(t.Context(), r, w.list(t, r), ids(id), newMirror(t))
		wantError(t, err, upstream.KindContent, "pack is larger than the limit of 1 MiB")
		w.wantClean(t)
	})
}

func TestHostileRefNamesAreLeftOut(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		w.newRepo(t, "shop.git")
		id := strings.Repeat("1", 40)
		var lines bytes.Buffer
		line := func(text string) { fmt.Fprintf(&lines, "%04x%s\n", len(text)+5, text) }
		line(id + " HEAD\x00side-band-64k agent=git/2")
		for _, bad := range []string{
			"refs/heads/../../../etc/passwd", "refs/heads/\x1b[31mred", "refs/heads/a.lock", "refs/heads/.a",
			"refs/heads//a",
			"refs/heads/a\\b", "refs/heads/a@{1}", "/etc/passwd", "-oProxyCommand=id", "refs/heads/a~1",
			"refs/heads/\xff\xfe", "refs/heads/a\u202eb", "main", "refs/heads/a/",
		} {
			line(id + " " + bad)
		}
		line(id + " refs/heads/grün")
		line(id + " refs/heads/main")
		lines.WriteString("0000")
		w.advertise(lines.String())
		l := w.list(t, w.remote(t, "shop.git"))
		for _, good := range []string{"HEAD", "refs/heads/grün", "refs/heads/main"} {
			if _, ok := l.Refs[good]; !ok {
				t.Errorf("%q is left out", good)
			}
		}
		if len(l.Refs) != 3 {
			t.Errorf("refs are %q", l.Refs)
		}
	})
}

func TestForbiddenAddressIsNotDialled(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{Addresses: upstream.NewPolicy(nil)}, func(t *testing.T, w *way) {
		w.newRepo(t, "shop.git").Commit("one", gittest.Files{"a": "1"})
		_, err := w.List(t.Context(), w.remote(t, "shop.git"), gitwire.Names{})
		wantError(t, err, upstream.KindRefused, "127.0.0.1", "loopback", "--allow-addresses")
		w.wantClean(t)
	})
}

func TestUnreachableHostIsNamed(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		r := w.remote(t, "shop.git")
		r.URL.Host = "127.0.0.1:1"
		if w.name == "ssh" {
			r.Credentials.KnownHosts = strings.Replace(r.Credentials.KnownHosts, "[", "[127.0.0.1]:1,[", 1)
		}
		_, err := w.List(t.Context(), r, gitwire.Names{})
		wantError(t, err, upstream.KindUnreachable, "127.0.0.1:1", "connection refused")
	})
}

func TestSHA256IsSaid(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		if err := os.RemoveAll(repo.URLOnDisk()); err != nil {
			t.Fatal(err)
		}
		repo.Work("init", "--quiet", "--bare", "--object-format=sha256", repo.URLOnDisk())
		tree := repo.Bare("hash-object", "-t", "tree", "-w", "--stdin")
		repo.Bare("update-ref", "refs/heads/main", repo.Bare("commit-tree", "-m", "one", tree))
		_, err := w.List(t.Context(), w.remote(t, "shop.git"), gitwire.Names{})
		wantError(t, err, upstream.KindContent, "SHA-256")
	})
}

func TestRepositoryWithHolesIsSaid(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		id := repo.Commit("one", gittest.Files{"a": "1"})
		blob := repo.Bare("rev-parse", "main:a")
		if err := os.Remove(filepath.Join(repo.URLOnDisk(), "objects", blob[:2], blob[2:])); err != nil {
			t.Fatal(err)
		}
		r, m := w.remote(t, "shop.git"), newMirror(t)
		_, err := w.Fetch(t.Context(), r, w.list(t, r), ids(id), m)
		t.Log(err)
		wantError(t, err, upstream.KindContent, "the pack from 127.0.0.1")
		o := m.Objects()
		defer o.Close()
		if o.Has(git.HashOf(id)) {
			t.Error("a commit without its file was taken")
		}
	})
}
