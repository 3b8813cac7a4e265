package fetch_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	manyRefs = 50_000
	// maxPoll is what a poll of a few refs may take, in bytes, however many others there are.
	maxPoll = 16 << 10
)

// some are the refs that most sources want.
func some() gitwire.Names { return gitwire.Names{Refs: []string{"HEAD", "refs/heads/main"}} }

// listNames lists some refs.
func listNames(t *testing.T, f fetch.Fetcher, r upstream.Remote, names gitwire.Names) *gitwire.Listing {
	t.Helper()
	l, err := f.List(t.Context(), r, names)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return l
}

// wantRefs checks that a listing has exactly these refs, all of one object.
func wantRefs(t *testing.T, l *gitwire.Listing, id string, refs ...string) {
	t.Helper()
	for _, ref := range refs {
		if got := l.Refs[ref].String(); got != id {
			t.Errorf("%s is %s, want %s", ref, got, id)
		}
	}
	if len(l.Refs) != len(refs) {
		t.Errorf("%d refs are listed, want %d", len(l.Refs), len(refs))
	}
}

func TestAPollOfManyRefsBringsTheWantedOnes(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		id := repo.Commit("one", gittest.Files{"a": "1"})
		repo.AddRefs(manyRefs, id)
		r, m := w.remote(t, "shop.git"), newMirror(t)
		names := some()
		names.Refs = append(names.Refs, "refs/tags/build-000007", "refs/heads/none")
		names.Prefixes = []string{"refs/heads/feature/ticket-00000"}
		l := listNames(t, w, r, names)
		for _, ref := range []string{
			"HEAD", "refs/heads/main", "refs/tags/build-000007",
			"refs/heads/feature/ticket-000009",
		} {
			if got := l.Refs[ref].String(); got != id {
				t.Errorf("%s is %s, want %s", ref, got, id)
			}
		}
		t.Logf("%d bytes", l.Bytes)
		if w.name == "binary" { // git ls-remote knows no prefixes
			if !l.Whole() || len(l.Refs) != manyRefs+2 || l.Bytes < 1<<20 {
				t.Errorf("%d refs in %d bytes, whole: %v", len(l.Refs), l.Bytes, l.Whole())
			}
		} else if l.Whole() || len(l.Refs) != 3+10 || l.Bytes > maxPoll {
			t.Errorf("%d refs in %d bytes, whole: %v", len(l.Refs), l.Bytes, l.Whole())
		}
		if n, err := w.Fetch(t.Context(), r, l, ids(id), m); err != nil || n > 1000 {
			t.Errorf("the fetch brought %d bytes, %v", n, err)
		}
		wantCommit(t, m, id, "one")
		if all := w.list(t, r); !all.Whole() || len(all.Refs) != manyRefs+2 {
			t.Errorf("%d of all refs, whole: %v", len(all.Refs), all.Whole())
		}
	})
}

func TestWhatGoesOverTheWireOfAPollIsSmall(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	repo.AddRefs(manyRefs, id)
	f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())
	for i, requests := range []int{2, 1, 1} { // the host's capabilities are asked for once
		before := len(server.Log())
		wantRefs(t, listNames(t, f, r, some()), id, "HEAD", "refs/heads/main")
		log := server.Log()[before:]
		if len(log) != requests {
			t.Errorf("poll %d took %d requests, want %d", i, len(log), requests)
		}
		for _, line := range log {
			if line.Bytes == 0 || line.Bytes > maxPoll {
				t.Errorf("poll %d took %d bytes", i, line.Bytes)
			}
		}
	}
	server.SetFault(gittest.OnlyVersion0())
	old := listNames(t, newFetcher(t, upstream.Options{}), r, some())
	log := server.Log()
	if last := log[len(log)-1]; last.Bytes < 2<<20 || old.Bytes != last.Bytes || !old.Whole() {
		t.Errorf("in version 0 %d bytes were sent, %d were counted", last.Bytes, old.Bytes)
	}
}

func TestAFirstFetchBringsNoTagsThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		first := repo.Commit("one", gittest.Files{"a": "1"})
		repo.Work("tag", "-a", "v1", "-m", "of the very commit that is wanted")
		repo.Work("checkout", "--quiet", "-b", "side")
		repo.Work("commit", "--quiet", "--allow-empty", "-m", "side")
		repo.Work("tag", "-a", "v2", "-m", "elsewhere")
		side := repo.Work("rev-parse", "HEAD")
		repo.Work("push", "--quiet", repo.URLOnDisk(), "v1", "v2", "side")
		r, m := w.remote(t, "shop.git"), newMirror(t)
		if _, err := w.Fetch(t.Context(), r, listNames(t, w, r, some()), ids(first), m); err != nil {
			t.Fatal(err)
		}
		wantCommit(t, m, first, "one")
		o := m.Objects()
		defer o.Close()
		for what, id := range map[string]string{
			"tag v1": repo.Bare("rev-parse", "v1"),
			"tag v2": repo.Bare("rev-parse", "v2"), "branch side": side,
		} {
			if o.Has(git.HashOf(id)) {
				t.Errorf("%s came along", what)
			}
		}
	})
}

func TestNoneOfTheNamesIsNotNothing(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		r := w.remote(t, "shop.git")
		for range 2 { // the second time without a look at what the host can do
			if l := listNames(t, w, r, some()); len(l.Refs) != 0 || !l.Empty() {
				t.Errorf("an empty repository has %v, empty: %v", l.Refs, l.Empty())
			}
		}
		repo.Commit("one", gittest.Files{"a": "1"})
		repo.Bare("branch", "-m", "main", "other")
		repo.Bare("symbolic-ref", "HEAD", "refs/heads/none")
		for range 2 {
			if l := listNames(t, w, r, some()); !l.Refs["HEAD"].IsZero() ||
				!l.Refs["refs/heads/main"].IsZero() || l.Empty() {
				t.Errorf("refs are %v, empty: %v", l.Refs, l.Empty())
			}
		}
		w.wantClean(t)
	})
}

func TestTagsAreFollowedInASmallList(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		id := repo.Commit("one", gittest.Files{"a": "1"})
		repo.Work("tag", "-a", "main", "-m", "called like the branch")
		repo.Work("push", "--quiet", repo.URLOnDisk(), "refs/tags/main")
		l := listNames(t, w, w.remote(t, "shop.git"), gitwire.Names{Refs: []string{"refs/tags/main", "refs/heads/main"}})
		tag := repo.Bare("rev-parse", "refs/tags/main")
		if got, ok := l.Commit("refs/tags/main"); !ok || got.String() != id ||
			l.Refs["refs/tags/main"].String() != tag || l.Refs["refs/heads/main"].String() != id {
			t.Errorf("the tag is %s, of %s; refs are %v", l.Refs["refs/tags/main"], got, l.Refs)
		}
	})
}

func TestForcePushDeletionAndAnotherHeadAreSeenInASmallList(t *testing.T) {
	t.Parallel()
	everyWay(t, upstream.Options{}, func(t *testing.T, w *way) {
		repo := w.newRepo(t, "shop.git")
		first := repo.Commit("one", gittest.Files{"a": "1"})
		r := w.remote(t, "shop.git")
		names := some()
		names.Refs = append(names.Refs, "refs/heads/next")
		wantRefs(t, listNames(t, w, r, names), first, "HEAD", "refs/heads/main")
		repo.Work("checkout", "--quiet", "--orphan", "again")
		second := repo.Commit("again", gittest.Files{"a": "2"})
		wantRefs(t, listNames(t, w, r, names), second, "HEAD", "refs/heads/main")
		repo.Bare("branch", "next", first)
		repo.Bare("symbolic-ref", "HEAD", "refs/heads/next")
		repo.Bare("update-ref", "-d", "refs/heads/main")
		wantRefs(t, listNames(t, w, r, names), first, "HEAD", "refs/heads/next")
	})
}

// withoutPrefixes is a fault: a host that does not know of prefixes.
func withoutPrefixes(_ http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || gittest.Service(r) != "list" {
		return false
	}
	body, _ := io.ReadAll(r.Body)
	var kept bytes.Buffer
	for len(body) > 0 {
		var n int
		_, _ = fmt.Sscanf(string(body[:4]), "%04x", &n)
		n = max(n, 4)
		if !bytes.Contains(body[:n], []byte("ref-prefix ")) {
			kept.Write(body[:n])
		}
		body = body[n:]
	}
	r.Body, r.ContentLength = io.NopCloser(&kept), int64(kept.Len())
	return false
}

func TestHostThatIgnoresPrefixesIsFilteredAndBounded(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	repo.AddRefs(manyRefs, id)
	server.SetFault(withoutPrefixes)
	r := remote(t, repo.URL())
	l := listNames(t, newFetcher(t, upstream.Options{}), r, some())
	wantRefs(t, l, id, "HEAD", "refs/heads/main")
	if l.Bytes < 2<<20 {
		t.Errorf("all refs came in %d bytes", l.Bytes)
	}
	before := len(server.Log())
	_, err := newFetcher(t, upstream.Options{Limits: upstream.Limits{ListBytes: 1 << 20}}).List(t.Context(), r, some())
	wantError(t, err, upstream.KindContent, "list of refs is larger than the limit of 1 MiB")
	if got := len(server.Log()) - before; got != 2 {
		t.Errorf("the poll took %d requests, want 2: in version 0 there would be more of it", got)
	}
}

func TestWhatAHostSaysOfVersion2IsBounded(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", listType)
		_, err := io.WriteString(w, "000eversion 2\n")
		for more := []byte(strings.Repeat("0009more\n", 1<<10)); err == nil; {
			_, err = w.Write(more)
		}
		return true
	})
	_, err := newFetcher(t, upstream.Options{}).List(t.Context(), remote(t, server.URL+"/shop.git"), some())
	wantError(t, err, upstream.KindContent, "its capabilities have no end")
}

func TestHostOfVersion0IsAskedOncePerPoll(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	server.SetFault(gittest.OnlyVersion0())
	f, r, m := newFetcher(t, upstream.Options{}), remote(t, repo.URL()), newMirror(t)
	for range 3 {
		l := listNames(t, f, r, some())
		wantRefs(t, l, id, "HEAD", "refs/heads/main")
		if _, err := f.Fetch(t.Context(), r, l, ids(id), m); err != nil {
			t.Fatal(err)
		}
	}
	if lists, fetches := server.Count("list"), server.Count("fetch"); lists != 3 || fetches != 3 {
		t.Errorf("%d lists and %d fetches", lists, fetches)
	}
}

// commands is a fault: commands of version 2 get this answer.
func commands(service string, answer func(http.ResponseWriter)) gittest.Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.Header.Get("Git-Protocol") != "version=2" || gittest.Service(r) != service {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w)
		return true
	}
}

func says(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = io.WriteString(w, text)
	}
}

func fails(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { http.Error(w, http.StatusText(code), code) }
}

func TestHostWhoseVersion2IsBrokenIsAskedInVersion0(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"400": fails(400), "404": fails(404), "405": fails(405), "500": fails(500), "501": fails(501),
		"nothing": says(""), "garbage": says("what?"), "another protocol": says("0008NAK\n0000"),
		"an error":         says("0013ERR no ls-refs"),
		"no end":           says("0032" + strings.Repeat("1", 40) + " HEAD\n"),
		"a web page":       func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
		"a tag of nothing": says("003c" + strings.Repeat("1", 40) + " HEAD peeled:xyz\n0000"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := gittest.NewServer(t)
			repo := server.NewRepo(t, "shop.git")
			id := repo.Commit("one", gittest.Files{"a": "1"})
			server.SetFault(commands("list", answer))
			f, r, m := newFetcher(t, upstream.Options{}), remote(t, repo.URL()), newMirror(t)
			for i, requests := range []int{3, 1, 1} { // the host does not pay twice
				before := len(server.Log())
				l := listNames(t, f, r, some())
				wantRefs(t, l, id, "HEAD", "refs/heads/main")
				if got := len(server.Log()) - before; got != requests {
					t.Errorf("poll %d took %d requests, want %d", i, got, requests)
				}
				if _, err := f.Fetch(t.Context(), r, l, ids(id), m); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestHostThatTakesNoHeaderIsAskedWithout(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Git-Protocol") == "" {
			return false
		}
		http.Error(w, "what is that?", http.StatusBadRequest)
		return true
	})
	f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())
	for range 3 {
		wantRefs(t, listNames(t, f, r, some()), id, "HEAD", "refs/heads/main")
	}
	if n := len(server.Log()); n != 4 {
		t.Errorf("3 polls took %d requests, want 4", n)
	}
}

func TestHostThatIsOnlyInTroubleIsNotTakenForAnOldOne(t *testing.T) {
	t.Parallel()
	for code, kind := range map[int]upstream.Kind{
		401: upstream.KindCredentials, 403: upstream.KindCredentials,
		429: upstream.KindThrottled, 502: upstream.KindServer, 503: upstream.KindServer,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			server := gittest.NewServer(t)
			repo := server.NewRepo(t, "shop.git")
			id := repo.Commit("one", gittest.Files{"a": "1"})
			f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())
			for range 2 { // after a look at what the host can do, and without
				server.SetFault(commands("list", fails(code)))
				before := len(server.Log())
				_, err := f.List(t.Context(), r, some())
				wantError(t, err, kind, fmt.Sprint(code))
				if got := len(server.Log()) - before; got > 2 {
					t.Errorf("a poll that failed took %d requests", got)
				}
				if code == 429 { // the host is left alone
					return
				}
				server.SetFault(nil)
				if l := listNames(t, f, r, some()); l.Whole() {
					t.Error("all refs were asked for")
				} else {
					wantRefs(t, l, id, "HEAD", "refs/heads/main")
				}
			}
		})
	}
}

func TestHostThatChangesIsFoundOut(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())
	moved := func(w http.ResponseWriter, r *http.Request) bool {
		if path, ok := strings.CutPrefix(r.URL.RequestURI(), "/shop.git"); ok {
			http.Redirect(w, r, "/new.git"+path, http.StatusMovedPermanently)
			return true
		}
		return false
	}
	wantRefs(t, listNames(t, f, r, some()), id, "HEAD", "refs/heads/main")
	server.SetFault(gittest.OnlyVersion0())
	if l := listNames(t, f, r, some()); !l.Whole() || l.Refs["refs/heads/main"].String() != id {
		t.Errorf("an older server lists %v", l.Refs)
	}
	server.SetFault(nil)
	wantRefs(t, listNames(t, f, r, some()), id, "HEAD", "refs/heads/main")
	other := server.NewRepo(t, "new.git").Commit("other", gittest.Files{"b": "1"})
	server.SetFault(moved)
	l := listNames(t, f, r, some())
	wantRefs(t, l, other, "HEAD", "refs/heads/main")
	if _, err := f.Fetch(t.Context(), r, l, ids(other), newMirror(t)); err != nil {
		t.Error(err)
	}
	server.SetFault(nil)
	wantRefs(t, listNames(t, f, r, some()), id, "HEAD", "refs/heads/main")
}

func TestHostThatCannotFetchInVersion2IsAskedInVersion0(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"400": fails(400), "404": fails(404), "405": fails(405), "500": fails(500), "501": fails(501),
		"another section": says("0013acknowledgments\n0000"), "another protocol": says("0008NAK\n0000"),
		"nothing": says(""), "garbage": says("what?"),
		"a web page": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := gittest.NewServer(t)
			repo := server.NewRepo(t, "shop.git")
			id := repo.Commit("one", gittest.Files{"a": "1"})
			server.SetFault(commands("fetch", answer))
			f, r, m := newFetchers(t, upstream.Options{Git: fetch.GitBuiltin}), remote(t, repo.URL()), newMirror(t)
			if _, err := f.Fetch(t.Context(), r, listNames(t, f, r, some()), ids(id), m); err != nil {
				t.Fatal(err)
			}
			wantCommit(t, m, id, "one")
			before := len(server.Log())
			l := listNames(t, f, r, some())
			if _, err := f.Fetch(t.Context(), r, l, ids(id), newMirror(t)); err != nil ||
				len(server.Log()) != before+2 {
				t.Errorf("the next time it took %d requests: %v", len(server.Log())-before, err)
			}
			other := remote(t, server.NewRepo(t, "other.git").URL())
			if l := listNames(t, f, other, some()); l.Whole() {
				t.Error("another source of the host is asked in version 0, too")
			}
		})
	}
}

func TestAFetchThatTheHostRefusesIsNotTriedInVersion0(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		kind   upstream.Kind
		says   string
	}{
		"in words": {says("0014ERR not our ref\n"), upstream.KindContent, "upstream says: not our ref"},
		"401":      {fails(401), upstream.KindCredentials, "401"},
		"502":      {fails(502), upstream.KindServer, "502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := gittest.NewServer(t)
			repo := server.NewRepo(t, "shop.git")
			id := repo.Commit("one", gittest.Files{"a": "1"})
			f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())
			l := listNames(t, f, r, some())
			server.SetFault(commands("fetch", c.answer))
			before := len(server.Log())
			_, err := f.Fetch(t.Context(), r, l, ids(id), newMirror(t))
			wantError(t, err, c.kind, c.says)
			if got := len(server.Log()) - before; got != 1 {
				t.Errorf("the fetch took %d requests, want 1", got)
			}
		})
	}
}

func TestAShallowUpstreamIsFetchedInVersion2(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"http", "ssh"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWay(t, name, upstream.Options{})
			repo := w.newRepo(t, "shop.git")
			repo.Commit("one", gittest.Files{"a": "1"})
			id := repo.Commit("two", gittest.Files{"a": "2"})
			if err := os.WriteFile(filepath.Join(repo.URLOnDisk(), "shallow"), []byte(id+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			r, m := w.remote(t, "shop.git"), newMirror(t)
			if _, err := w.Fetch(t.Context(), r, listNames(t, w, r, some()), ids(id), m); err != nil {
				t.Fatal(err)
			}
			wantCommit(t, m, id, "two")
			w.newRepo(t, "other.git")
			for _, source := range []string{"shop.git", "other.git"} {
				if l := listNames(t, w, w.remote(t, source), some()); l.Whole() {
					t.Errorf("%s is listed in version 0", source)
				}
			}
		})
	}
}

func TestAConnectionThatTheHostClosedFailsNoPoll(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())
	wantRefs(t, listNames(t, f, r, some()), id, "HEAD", "refs/heads/main")
	closed := false
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		if closed {
			return false
		}
		closed = true // while the next request is on its way
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
		return true
	})
	wantRefs(t, listNames(t, f, r, some()), id, "HEAD", "refs/heads/main")
	if !closed {
		t.Error("no connection was closed")
	}
}

func TestPrefixesAreFew(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	repo.AddRefs(4000, id)
	f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())
	var body []byte
	server.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			body, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		return false
	})
	for refs, most := range map[int]int{100: 101, 2000: 2} {
		names := gitwire.Names{Refs: []string{"HEAD"}}
		for i := range refs {
			names.Refs = append(names.Refs, fmt.Sprintf("refs/heads/feature/ticket-%06d", i))
		}
		slices.Reverse(names.Refs)
		l := listNames(t, f, r, names)
		wantRefs(t, l, id, names.Refs...)
		if got := bytes.Count(body, []byte("ref-prefix ")); got != most {
			t.Errorf("%d refs are asked for by %d prefixes, want %d: %.300s", refs, got, most, body)
		}
	}
}

func TestSSHHostWhoseVersion2IsBrokenIsAskedInVersion0(t *testing.T) {
	t.Parallel()
	w := newWay(t, "ssh", upstream.Options{})
	repo := w.newRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	r := w.remote(t, "shop.git")
	w.fault(`if [ "$GIT_PROTOCOL" = version=2 ]; then printf '000eversion 2\n0000what?'; exec cat >/dev/null; fi`)
	for range 2 {
		l := listNames(t, w, r, some())
		if !l.Whole() {
			t.Error("the list is in version 2")
		}
		wantRefs(t, l, id, "HEAD", "refs/heads/main")
	}
	if n := w.sessions(); n != 3 {
		t.Errorf("2 polls took %d sessions, want 3", n)
	}
}

func TestSSHHostThatTakesNoVariablesIsAskedInVersion0(t *testing.T) {
	t.Parallel()
	w := newWay(t, "ssh", upstream.Options{})
	repo := w.newRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	r, m := w.remote(t, "shop.git"), newMirror(t)
	w.fault(`unset GIT_PROTOCOL`)
	for range 2 {
		l := listNames(t, w, r, some())
		wantRefs(t, l, id, "HEAD", "refs/heads/main")
		if _, err := w.Fetch(t.Context(), r, l, ids(id), m); err != nil || !l.Whole() {
			t.Errorf("whole: %v; fetch: %v", l.Whole(), err)
		}
	}
	if n := w.sessions(); n != 4 {
		t.Errorf("2 polls and fetches took %d sessions, want 4", n)
	}
}
