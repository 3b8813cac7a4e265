package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor/internal/plan"
)

// The manifest of an artifact is for ever: another text changes the digests of all manifests at an upgrade, and every
// client deploys again.
func TestTheManifestOfALayerIsFixed(t *testing.T) {
	t.Parallel()
	layer := artifact.Layer{Digest: digestOf([]byte("layer")), Size: 1234}
	plain := newManifest(layer)
	layer.Base = "deploy/prod"
	based := newManifest(layer)
	const empty = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	want := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",` +
		`"artifactType":"application/vnd.fairlead.artifact.v1",` +
		`"config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"` + empty + `","size":2},` +
		`"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",` +
		`"digest":"` + string(layer.Digest) + `","size":1234,` +
		`"annotations":{"org.opencontainers.image.title":"artifact.tar.gz"}}]`
	if got := string(plain.text); got != want+"}" {
		t.Errorf("the manifest is\n%s", got)
	}
	if got := string(based.text); got != want+`,"annotations":{"dev.fairlead.artifact.folder":"deploy/prod"}}` {
		t.Errorf("the manifest with a folder is\n%s", got)
	}
}

func TestOneCallerHasABoundedNumberOfRequests(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	away := 0
	g := New(Deps{
		Held: func(*http.Request, string) (plan.Held, bool, error) {
			begun <- struct{}{}
			<-release
			return plan.Held{}, false, nil
		},
		Away: func() { away++ },
	})
	ask := func(name string) int {
		r := httptest.NewRequest(http.MethodGet, "/v2/services/x/tags/list", http.NoBody)
		r = r.WithContext(identity.NewContext(r.Context(), identity.Identity{Kind: identity.KindUser, Name: name}))
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		return w.Code
	}
	var open sync.WaitGroup
	for range callsPerCaller {
		open.Go(func() { ask("ada") })
		<-begun
	}
	if code := ask("ada"); code != http.StatusTooManyRequests || away != 1 {
		t.Errorf("one more answers %d, and %d are counted", code, away)
	}
	open.Go(func() { ask("bob") })
	<-begun // bob is served all the same
	close(release)
	open.Wait()
}

// What was delivered before can be pulled by its digests while what is delivered now can't be had.
func TestAnArtifactThatIsAwayIsInNoOthersWay(t *testing.T) {
	t.Parallel()
	now, before := digestOf([]byte("now")), digestOf([]byte("before"))
	var asked []artifact.Digest
	g := New(Deps{Open: func(_ context.Context, d artifact.Digest) (*artifact.Blob, error) {
		asked = append(asked, d)
		return nil, errors.New("away")
	}})
	m := newManifest(artifact.Layer{Digest: digestOf([]byte("layer")), Size: 1})
	g.known.keep(before, m)
	held := plan.Held{Artifact: now, Before: []artifact.Digest{before}}
	if got, err := g.find(t.Context(), held, string(m.digest)); got != m || err != nil {
		t.Errorf("the manifest of before: %v", err)
	}
	if _, err := g.find(t.Context(), held, string(digestOf([]byte("other")))); !errors.Is(err, errAway) {
		t.Errorf("a manifest that may be the one of now: %v", err)
	}
	asked = nil
	r := httptest.NewRequest(http.MethodGet, "/v2/services/x/blobs/y", http.NoBody)
	_ = g.blob(httptest.NewRecorder(), r, "x", held, string(m.layer))
	if len(asked) != 2 || asked[1] != before {
		t.Errorf("opened were %s for the layer of before", asked)
	}
}

// One caller leaves places for the layers of others.
func TestOneCallerHasABoundedNumberOfLayers(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	away := 0
	g := New(Deps{
		Open: func(context.Context, artifact.Digest) (*artifact.Blob, error) {
			begun <- struct{}{}
			<-release
			return nil, errors.New("away")
		},
		Away: func() { away++ },
	})
	ask := func(name string) error {
		r := httptest.NewRequest(http.MethodGet, "/v2/services/x/blobs/y", http.NoBody)
		r = r.WithContext(identity.NewContext(r.Context(), identity.Identity{Kind: identity.KindUser, Name: name}))
		return g.layer(httptest.NewRecorder(), r, "x", "a", "d")
	}
	var open sync.WaitGroup
	begin := func(name string) {
		open.Go(func() {
			if err := ask(name); !errors.Is(err, errAway) {
				t.Errorf("a layer of %s: %v", name, err)
			}
		})
		<-begun
	}
	for range layersPerCaller {
		begin("ada")
	}
	refused := make(chan error, 1)
	go func() { refused <- ask("ada") }()
	select {
	case err := <-refused:
		if !errors.Is(err, errTooMany) || away != 1 {
			t.Errorf("one more: %v, and %d are counted", err, away)
		}
	case <-begun:
		t.Error("one more layer is sent")
	}
	begin("bob")
	close(release)
	open.Wait()
	begun, release = make(chan struct{}, 1), make(chan struct{})
	close(release)
	begin("ada") // the places were given back
	open.Wait()
}

// Callers who keep to their own bound share the places of all.
func TestAllCallersHaveABoundedNumberOfLayers(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	away := 0
	g := New(Deps{
		Open: func(context.Context, artifact.Digest) (*artifact.Blob, error) {
			begun <- struct{}{}
			<-release
			return nil, errors.New("away")
		},
		Away: func() { away++ },
	})
	ask := func(name string) error {
		r := httptest.NewRequest(http.MethodGet, "/v2/services/x/blobs/y", http.NoBody)
		r = r.WithContext(identity.NewContext(r.Context(), identity.Identity{Kind: identity.KindUser, Name: name}))
		return g.layer(httptest.NewRecorder(), r, "x", "a", "d")
	}
	var open sync.WaitGroup
	for _, name := range []string{"ada", "bob", "cleo", "dan"} {
		for range 4 {
			open.Go(func() { _ = ask(name) })
			<-begun
		}
	}
	refused := make(chan error, 1)
	go func() { refused <- ask("eve") }()
	select {
	case err := <-refused:
		if !errors.Is(err, errTooMany) || away != 1 {
			t.Errorf("a 17th: %v, and %d are counted", err, away)
		}
	case <-begun:
		t.Error("a 17th layer is sent")
	}
	w := httptest.NewRecorder()
	fail(w, errTooMany)
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("it is answered with %d", w.Code)
	}
	close(release)
	open.Wait()
}

type verifier map[string]identity.Identity

func (v verifier) Verify(token string) (identity.Identity, error) {
	if id, ok := v[token]; ok {
		return id, nil
	}
	return identity.Identity{}, identity.ErrInvalid
}

func TestALentTokenIsRenewedAtHalfOfItsTime(t *testing.T) {
	t.Parallel()
	now, asked := time.Unix(1e9, 0), 0
	var fails error
	hub := verifier{"lent": {Kind: identity.KindUser, Name: "ada"}}
	tokens := NewTokens(hub, func(context.Context, string) (string, time.Time, error) {
		asked++
		return "lent", now.Add(time.Hour), fails
	})
	tokens.now = func() time.Time { return now }
	try := func(what string, want error, times int) {
		t.Helper()
		id, err := tokens.VerifyFrom("192.0.2.1:1", "fairlead_x")
		if !errors.Is(err, want) || asked != times || err == nil && id.Name != "ada" {
			t.Errorf("%s: %v, asked %d times", what, err, asked)
		}
	}
	try("at first", nil, 1)
	now = now.Add(29 * time.Minute)
	try("soon", nil, 1)
	now = now.Add(2 * time.Minute)
	fails = connect.NewError(connect.CodeUnavailable, errors.New("away"))
	try("after half of its time, with the console away", nil, 2)
	try("at once again", nil, 2)
	now = now.Add(askAgain)
	fails = nil
	try("when the console is back", nil, 3)
	now = now.Add(time.Hour)
	if _, err := tokens.Verify("fairlead_x"); !errors.Is(err, identity.ErrExpired) {
		t.Errorf("a request that runs on for too long: %v", err)
	}
	fails = connect.NewError(connect.CodeUnavailable, errors.New("away"))
	try("after all of its time, with the console away", identity.ErrNotReady, 4)
	fails = connect.NewError(connect.CodeUnauthenticated, errors.New("revoked"))
	try("when it is revoked", identity.ErrInvalid, 5)
}

// A download ends when the console rejects its API token: a token that has expired would let it run on.
func TestARejectedTokenEndsDownloads(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	var fails error
	hub := verifier{"lent": {Kind: identity.KindUser, Name: "ada"}}
	tokens := NewTokens(hub, func(context.Context, string) (string, time.Time, error) { return "lent", now.Add(time.Hour), fails })
	tokens.now = func() time.Time { return now }
	if _, err := tokens.VerifyFrom("192.0.2.1:1", "fairlead_x"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(40 * time.Minute)
	fails = connect.NewError(connect.CodeUnauthenticated, errors.New("revoked"))
	if _, err := tokens.VerifyFrom("192.0.2.1:1", "fairlead_x"); !errors.Is(err, identity.ErrInvalid) {
		t.Fatal(err)
	}
	if _, err := tokens.Verify("fairlead_x"); !errors.Is(err, identity.ErrRevoked) {
		t.Errorf("a download that runs: %v", err)
	}
	fails = nil
	if _, err := tokens.VerifyFrom("192.0.2.1:1", "fairlead_x"); err != nil {
		t.Errorf("the token is good again, and refused: %v", err)
	}
}

// Beyond the bound one token is forgotten, not all of them, and a download whose token is forgotten ends.
func TestTokensThatAreKeptAreBounded(t *testing.T) {
	t.Parallel()
	tokens := NewTokens(verifier{}, nil)
	for i := range mostLent + 1 {
		tokens.keep(tokenHash{byte(i), byte(i >> 8)}, lent{token: "lent", expire: time.Now().Add(time.Hour)})
	}
	if len(tokens.lent) != mostLent {
		t.Errorf("%d tokens are kept", len(tokens.lent))
	}
	if _, err := tokens.Verify("fairlead_x"); !errors.Is(err, identity.ErrRevoked) {
		t.Errorf("a token that is not known: %v", err)
	}
}

// A guess counts before the next one is asked about.
func TestAGuessCountsBeforeItsPlaceIsFree(t *testing.T) {
	t.Parallel()
	tokens := NewTokens(verifier{}, func(context.Context, string) (string, time.Time, error) {
		return "", time.Time{}, connect.NewError(connect.CodeUnauthenticated, errors.New("unknown"))
	})
	tokens.now = func() time.Time { return time.Unix(1e9, 0) }
	for i := range wrongPerNetwork {
		if tokens.throttled("192.0.2.1") {
			t.Fatalf("throttled after %d guesses", i)
		}
		if _, err := tokens.borrow(tokenHash{byte(i)}, "192.0.2.1", "fairlead_x"); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Fatal(err)
		}
	}
	if !tokens.throttled("192.0.2.1") {
		t.Error("the guesses are not counted yet")
	}
}

// Guesses from many addresses are those of one who has many.
func TestGuessesOfAllAddressesAreBounded(t *testing.T) {
	t.Parallel()
	now, asked := time.Unix(1e9, 0), 0
	tokens := NewTokens(verifier{}, func(context.Context, string) (string, time.Time, error) {
		asked++
		return "", time.Time{}, connect.NewError(connect.CodeUnauthenticated, errors.New("unknown"))
	})
	tokens.now = func() time.Time { return now }
	guess := func(i int) error {
		_, err := tokens.VerifyFrom(fmt.Sprintf("192.0.2.%d:1", i), fmt.Sprintf("fairlead_%d", i))
		return err
	}
	for i := range 10 {
		if err := guess(i); !errors.Is(err, identity.ErrInvalid) {
			t.Fatalf("the guess of address %d: %v", i+1, err)
		}
	}
	if err := guess(10); !errors.Is(err, identity.ErrThrottled) || asked != 10 {
		t.Errorf("one more of another address: %v, asked %d times", err, asked)
	}
	now = now.Add(time.Minute)
	if err := guess(11); !errors.Is(err, identity.ErrInvalid) || asked != 11 {
		t.Errorf("a minute later: %v, asked %d times", err, asked)
	}
}

// A token that waited for its turn while the network's last guess was rejected is not asked about.
func TestATokenThatWaitedIsThrottled(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	tokens := NewTokens(verifier{}, func(context.Context, string) (string, time.Time, error) {
		t.Error("the console is asked")
		return "", time.Time{}, errors.New("asked")
	})
	tokens.now = func() time.Time { return now }
	for range wrongPerNetwork {
		tokens.reject(tokenHash{}, "192.0.2.1")
	}
	if _, err := tokens.borrow(tokenHash{1}, "192.0.2.1", "fairlead_x"); !errors.Is(err, identity.ErrThrottled) {
		t.Errorf("got %v", err)
	}
}

// A path leads to one service and one thing of it, or nowhere.
func FuzzParsePath(f *testing.F) {
	for _, path := range []string{
		"/v2/services/web/manifests/latest", "/v2/services/web/tags/list", "/v2/services/../manifests/x",
		"/v2//services/web/blobs/x",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		at, ok := parsePath(path)
		if !ok {
			return
		}
		again := "services/" + at.service + "/" + at.kind + "/" + at.reference
		if at.service == "" || strings.Contains(at.service+at.reference, "/") ||
			again != strings.TrimPrefix(path, Path) {
			t.Errorf("%q is %+v", path, at)
		}
	})
}

// Pages of a list hold its entries in order, each once.
func FuzzPageOf(f *testing.F) {
	f.Add("1", "a")
	f.Add("-1", "")
	f.Fuzz(func(t *testing.T, n, last string) {
		all := []string{"a", "b", "c"}
		page, next, ok := pageOf(all, url.Values{"n": {n}, "last": {last}})
		if !ok {
			return
		}
		rest := all[countUpTo(all, last):]
		if len(page) > len(rest) || strings.Join(page, " ") != strings.Join(rest[:len(page)], " ") {
			t.Errorf("page %q, %q: %q", n, last, page)
		}
		if next != "" && (len(page) == 0 || len(page) == len(rest)) {
			t.Errorf("page %q, %q: there is a next one after %q", n, last, page)
		}
	})
}

// No Authorization header makes a bearer token of anything else than a password.
func FuzzBearer(f *testing.F) {
	f.Add("Basic YTpi")
	f.Add("Bearer x")
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, Path, http.NoBody)
		r.Header["Authorization"] = []string{header}
		got := Bearer(r).Header["Authorization"]
		_, password, basic := r.BasicAuth()
		if len(got) != 1 || basic && got[0] != "Bearer "+password || !basic && got[0] != header {
			t.Errorf("%q became %q", header, got)
		}
	})
}
