package acceptance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/registrytest"
)

// tokens exchanges API tokens, as the console does.
type tokens struct {
	consolev1connect.UnimplementedTokenServiceHandler

	sign      func(identity.Identity) (string, identity.Identity, error)
	known     map[string]identity.Identity // by API token
	exchanges atomic.Int32
	away      atomic.Bool
}

func (s *tokens) ExchangeToken(
	_ context.Context, req *consolev1.ExchangeTokenRequest,
) (*consolev1.ExchangeTokenResponse, error) {
	s.exchanges.Add(1)
	if s.away.Load() {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
	}
	id, ok := s.known[req.GetToken()]
	if !ok {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("no such token"))
	}
	token, signed, err := s.sign(id)
	return &consolev1.ExchangeTokenResponse{Token: token, ExpireTime: timestamppb.New(signed.ExpiresAt)}, err
}

func grant(user, cluster string) *consolev1.Change {
	spec := &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: user}}}, Role: "viewer",
		Clusters: &consolev1.GrantClusters{Names: []string{cluster}},
	}
	return &consolev1.Change{Change: &consolev1.Change_Grant{Grant: &consolev1.Grant{Metadata: consoletest.Meta(user), Spec: spec}}}
}

func user(name string) identity.Identity {
	return identity.Identity{Kind: identity.KindUser, Name: name}
}

// readers is a world with the service hello at edge-1, which ada may view, and bob may not.
func readers(t *testing.T) (*world, *edge) {
	t.Helper()
	w := newWorld(t)
	w.ship()
	w.console.Put(grant("ada", "edge-1"), grant("bob", "edge-2"))
	e := w.start()
	e.agent("edge-1").awaitCommit("hello", commit("1"))
	return w, e
}

// reader asks a distributor as a client of registries does.
type reader struct {
	e    *edge
	auth string // the header
}

func (e *edge) reader(id identity.Identity) *reader { return &reader{e, "Bearer " + e.as(id).token} }

func (r *reader) ask(method, path string, headers ...string) (*http.Response, []byte) {
	r.e.w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.e.url+path, http.NoBody)
	if err != nil {
		r.e.w.t.Fatal(err)
	}
	if r.auth != "" {
		req.Header.Set("Authorization", r.auth)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.e.w.client.Do(req)
	if err != nil {
		r.e.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.e.w.t.Fatal(err)
	}
	return resp, body
}

func (r *reader) get(path string, headers ...string) (*http.Response, []byte) {
	r.e.w.t.Helper()
	return r.ask(http.MethodGet, path, headers...)
}

// latestLayer is the digest of the layer of hello at its latest tag.
func (r *reader) latestLayer() string {
	r.e.w.t.Helper()
	resp, text := r.get("/v2/services/hello/manifests/latest")
	var m struct{ Layers []struct{ Digest string } }
	if err := json.Unmarshal(text, &m); err != nil || len(m.Layers) != 1 {
		r.e.w.t.Fatalf("latest manifest: %s %s", resp.Status, text)
	}
	return m.Layers[0].Digest
}

// wantRefusal holds an answer against the form of errors that OCI gives.
func wantRefusal(t *testing.T, what string, resp *http.Response, body []byte, status int, code string) {
	t.Helper()
	var said struct {
		Errors []struct{ Code, Message string }
	}
	err := json.Unmarshal(body, &said)
	if resp.StatusCode != status || err != nil || len(said.Errors) != 1 ||
		said.Errors[0].Code != code || said.Errors[0].Message == "" {
		t.Errorf("%s: %s %s, want %d %s", what, resp.Status, body, status, code)
	}
}

// oras is ORAS as somebody with a password.
func (e *edge) oras(password string) *registrytest.Registry {
	e.w.t.Helper()
	ca, err := os.ReadFile(e.w.ca.CAFile)
	if err != nil {
		e.w.t.Fatal(err)
	}
	return registrytest.At(e.w.t, strings.TrimPrefix(e.url, "https://"), string(ca), "any", password)
}

func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// ORAS' client pulls by tag and digest what agents are delivered, from any replica the same.
func TestORASPullsWhatAServiceIsDelivered(t *testing.T) {
	t.Parallel()
	w, e := readers(t)
	second := *w
	second.dir = t.TempDir()
	other := second.start()
	ag := e.agent("edge-1")
	ag.awaitCommit("hello", commit("1"))
	other.agent("edge-1").awaitCommit("hello", commit("1"))
	want, err := ag.download(ag.got["hello"].GetArtifact().GetDigest())
	if err != nil {
		t.Fatal(err)
	}
	token := e.as(user("ada")).token
	seen := map[string]bool{}
	pull := func(from *edge, reference string) {
		t.Helper()
		to := t.TempDir()
		digest, err := from.oras(token).OrasPull(t, reference, to)
		if err != nil {
			t.Fatal(err)
		}
		seen[digest] = true
		got, err := os.ReadFile(filepath.Join(to, "artifact.tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(gunzip(t, got), want) {
			t.Errorf("%s: the file holds something else", reference)
		}
	}
	for _, from := range []*edge{e, other} {
		pull(from, "services/hello:latest")
		pull(from, "services/hello:"+commit("1"))
	}
	for digest := range seen {
		pull(other, "services/hello@"+digest)
	}
	if len(seen) != 1 {
		t.Errorf("one content has the digests %v", seen)
	}
	for password, want := range map[string]string{e.as(user("bob")).token: "not found", "wrong": "401"} {
		_, err := e.oras(password).OrasPull(t, "services/hello:latest", t.TempDir())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ORAS is told %v, want %s", err, want)
		}
	}
}

// manifestTypes are what Flux' client (go-containerregistry) takes as a manifest, in one header.
const manifestTypes = "application/vnd.docker.distribution.manifest.v1+json," +
	"application/vnd.docker.distribution.manifest.v1+prettyjws,application/vnd.docker.distribution.manifest.v2+json," +
	"application/vnd.oci.image.manifest.v1+json,application/vnd.docker.distribution.manifest.list.v2+json," +
	"application/vnd.oci.image.index.v1+json"

// An OCIRepository of Flux asks for the challenge, for the digest of its tag by HEAD, and for all else by that digest.
// Of the answers it wants the headers, and that lengths and digests are those of the content.
func TestFluxPullsWhatAServiceIsDelivered(t *testing.T) {
	t.Parallel()
	_, e := readers(t)
	ping, _ := (&reader{e, ""}).get("/v2/")
	if scheme := ping.Header.Get("WWW-Authenticate"); ping.StatusCode != http.StatusUnauthorized ||
		!strings.HasPrefix(scheme, "Basic ") {
		t.Fatalf("the challenge: %s %q", ping.Status, scheme)
	}
	login := []byte("flux:" + e.as(user("ada")).token)
	flux := &reader{e, "Basic " + base64.StdEncoding.EncodeToString(login)}
	const at = "/v2/services/hello/"
	for _, tag := range []string{"latest", commit("1")} {
		head, _ := flux.ask(http.MethodHead, at+"manifests/"+tag, "Accept", manifestTypes)
		digest := head.Header.Get("Docker-Content-Digest")
		resp, text := flux.get(at+"manifests/"+digest, "Accept", manifestTypes)
		var m struct {
			Layers []struct {
				MediaType, Digest string
				Size              int64
			}
		}
		if err := json.Unmarshal(text, &m); err != nil || string(digestOf(text)) != digest || len(m.Layers) != 1 ||
			head.ContentLength != int64(len(text)) ||
			head.Header.Get("Content-Type") != resp.Header.Get("Content-Type") {
			t.Fatalf("%s: %v, %v %s", tag, head.Header, resp.Header, text)
		}
		layer := m.Layers[0]
		blob, content := flux.get(at + "blobs/" + layer.Digest)
		if string(digestOf(content)) != layer.Digest || blob.ContentLength != layer.Size ||
			int64(len(content)) != layer.Size || !strings.HasSuffix(layer.MediaType, "tar+gzip") {
			t.Errorf("%s: the layer %+v: %v, %d bytes", tag, layer, blob.Header, len(content))
		}
		if files := filesOf(t, content); len(files) == 0 || !filepath.IsLocal(files[0]) {
			t.Errorf("%s: the files are %q", tag, files)
		}
	}
	if _, tags := flux.get(at + "tags/list?n=1000"); !strings.Contains(string(tags), `"latest"`) {
		t.Errorf("the tags are %s", tags)
	}
}

// filesOf are the names of the files in a layer, as tar has them.
func filesOf(t *testing.T, layer []byte) (names []string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(gunzip(t, layer))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			names = append(names, h.Name)
		}
	}
}

// What there is for a caller without a right looks as if it did not exist.
func TestRepositoriesOfOthersDoNotExist(t *testing.T) {
	t.Parallel()
	_, e := readers(t)
	ada, bob := e.reader(user("ada")), e.reader(user("bob"))
	layer := ada.latestLayer()
	for _, path := range []string{
		"manifests/latest", "manifests/" + commit("1"), "blobs/" + layer, "tags/list", "referrers/" + layer,
	} {
		hidden, text := bob.get("/v2/services/hello/" + path)
		wantRefusal(t, path, hidden, text, http.StatusNotFound, "NAME_UNKNOWN")
		none, same := bob.get("/v2/services/none/" + path)
		hidden.Header.Del("Date")
		none.Header.Del("Date")
		if none.StatusCode != hidden.StatusCode || !bytes.Equal(text, same) ||
			fmt.Sprint(none.Header) != fmt.Sprint(hidden.Header) {
			t.Errorf("%s: %v %s differs from %v %s", path, hidden.Header, text, none.Header, same)
		}
		if resp, _ := ada.get("/v2/services/hello/" + path); resp.StatusCode != http.StatusOK {
			t.Errorf("with a right, %s: %s", path, resp.Status)
		}
	}
	for _, path := range []string{
		"hello/manifests/latest", "services/hello", "_catalog", "services/hello/uploads/x",
		"services/hello/tags/all",
	} {
		resp, text := ada.get("/v2/" + path)
		wantRefusal(t, path, resp, text, http.StatusNotFound, "NAME_UNKNOWN")
	}
	for name, auth := range map[string]string{
		"nothing": "", "a bad token": "Bearer x", "a bad password": "Basic YTpi", "no password": "Basic YTo=",
		"half a header": "Basic",
	} {
		resp, text := (&reader{e, auth}).get("/v2/")
		wantRefusal(t, name, resp, text, http.StatusUnauthorized, "UNAUTHORIZED")
		if got := resp.Header.Get("WWW-Authenticate"); got != `Basic realm="fairlead"` {
			t.Errorf("%s: challenge %q", name, got)
		}
	}
	// An agent's token is worth nothing without the proof, and with it opens what agents use.
	agent := e.reader(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"})
	resp, text := agent.get("/v2/services/hello/manifests/latest")
	wantRefusal(t, "an agent", resp, text, http.StatusUnauthorized, "UNAUTHORIZED")
	resp, text = ada.ask(http.MethodPut, "/v2/services/hello/manifests/latest")
	wantRefusal(t, "a push", resp, text, http.StatusMethodNotAllowed, "UNSUPPORTED")
}

// An agent's token with its proof opens what agents use, and no repository.
func TestTokensOfAgentsOpenNoRepository(t *testing.T) {
	t.Parallel()
	_, e := readers(t)
	layer := e.reader(user("ada")).latestLayer()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.mustHave()
	for _, path := range []string{
		"", "services/hello/manifests/latest", "services/hello/tags/list",
		"services/hello/blobs/" + layer,
	} {
		resp, text := (&reader{e, "Bearer " + a.token}).get("/v2/"+path, identity.ProofHeader, a.proof())
		wantRefusal(t, path, resp, text, http.StatusUnauthorized, "UNAUTHORIZED")
	}
}

func TestManifestsAndBlobsAnswerAsTheSpecificationHasIt(t *testing.T) {
	t.Parallel()
	_, e := readers(t)
	ada := e.reader(user("ada"))
	const version = "Docker-Distribution-Api-Version"
	if resp, _ := ada.get("/v2/"); resp.StatusCode != http.StatusOK || resp.Header.Get(version) != "registry/2.0" {
		t.Errorf("/v2/: %s %v", resp.Status, resp.Header)
	}
	at := "/v2/services/hello/"
	resp, text := ada.get(at + "manifests/latest")
	digest := string(digestOf(text))
	if resp.Header.Get("Docker-Content-Digest") != digest ||
		resp.Header.Get("Content-Type") != "application/vnd.oci.image.manifest.v1+json" {
		t.Errorf("manifest: %v %s", resp.Header, text)
	}
	layer := ada.latestLayer()
	blob, whole := ada.get(at + "blobs/" + layer)
	if string(digestOf(whole)) != layer || blob.Header.Get("Docker-Content-Digest") != layer {
		t.Errorf("blob: %v", blob.Header)
	}
	for path, size := range map[string]int{
		"manifests/latest": len(text), "manifests/" + digest: len(text), "blobs/" + layer: len(whole),
	} {
		head, none := ada.ask(http.MethodHead, at+path)
		if head.StatusCode != http.StatusOK || len(none) > 0 || head.ContentLength != int64(size) {
			t.Errorf("HEAD %s: %s, %d bytes of %d", path, head.Status, head.ContentLength, size)
		}
		again, _ := ada.get(at+path, "If-None-Match", head.Header.Get("Etag"))
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s that the caller has: %s", path, again.Status)
		}
	}
	part, some := ada.get(at+"blobs/"+layer, "Range", "bytes=10-99")
	if part.StatusCode != http.StatusPartialContent || !bytes.Equal(some, whole[10:100]) {
		t.Errorf("a range: %s, %d bytes", part.Status, len(some))
	}
	if _, got := ada.get(at + "blobs/" + string(digestOf([]byte("{}")))); string(got) != "{}" {
		t.Errorf("the config is %s", got)
	}
	if _, got := ada.get(at + "tags/list"); string(got) != `{"name":"services/hello","tags":["`+commit("1")+
		`","latest"]}` {
		t.Errorf("the tags are %s", got)
	}
	page, got := ada.get(at + "tags/list?n=1")
	if link := page.Header.Get("Link"); string(got) != `{"name":"services/hello","tags":["`+commit("1")+`"]}` ||
		link != `</v2/services/hello/tags/list?last=`+commit("1")+`&n=1>; rel="next"` {
		t.Errorf("a page: %s, %s", got, link)
	}
	if _, got := ada.get(at + "tags/list?n=1&last=" + commit("1")); string(got) != `{"name":"services/hello","tags":["latest"]}` {
		t.Errorf("the next page: %s", got)
	}
	if _, got := ada.get(at + "referrers/" + digest); !strings.Contains(string(got), `"manifests":[]`) {
		t.Errorf("referrers: %s", got)
	}
	for path, code := range map[string]string{
		"manifests/v1": "MANIFEST_UNKNOWN", "manifests/" + layer: "MANIFEST_UNKNOWN", "blobs/" + digest: "BLOB_UNKNOWN",
		"blobs/x": "DIGEST_INVALID", "tags/list?n=-1": "PAGINATION_NUMBER_INVALID",
	} {
		status := http.StatusNotFound
		if strings.HasSuffix(code, "_INVALID") {
			status = http.StatusBadRequest
		}
		resp, body := ada.get(at + path)
		wantRefusal(t, path, resp, body, status, code)
	}
}

// A tag moves with what is delivered. What was delivered before stays to be had by digest, for a client that is about
// to download it.
func TestTagsMoveWithWhatIsDelivered(t *testing.T) {
	t.Parallel()
	w, e := readers(t)
	ada, ag := e.reader(user("ada")), e.agent("edge-1")
	at := "/v2/services/hello/"
	first, _ := ada.get(at + "manifests/latest")
	old, oldLayer := first.Header.Get("Docker-Content-Digest"), ada.latestLayer()

	w.git.commit(t, commit("2"), "apps/hello", "one") // the same content
	w.console.Put(shop("HEAD", commit("2")))
	await.True(w.t, "the tag of the second commit is there", func() bool {
		resp, _ := ada.get(at + "manifests/" + commit("2"))
		return resp.StatusCode == http.StatusOK
	})
	if now, _ := ada.get(at + "manifests/latest"); now.Header.Get("Docker-Content-Digest") != old {
		t.Error("a commit that changes nothing has another manifest")
	}
	resp, text := ada.get(at + "manifests/" + commit("1"))
	wantRefusal(t, "the commit before", resp, text, http.StatusNotFound, "MANIFEST_UNKNOWN")

	w.git.commit(t, commit("3"), "apps/hello", "three")
	w.console.Put(shop("HEAD", commit("3")))
	ag.awaitCommit("hello", commit("3"))
	now, _ := ada.get(at + "manifests/" + commit("3"))
	if now.StatusCode != http.StatusOK || now.Header.Get("Docker-Content-Digest") == old {
		t.Errorf("other content: %s %v", now.Status, now.Header)
	}
	for _, path := range []string{"manifests/" + old, "blobs/" + oldLayer} {
		if resp, _ := ada.get(at + path); resp.StatusCode != http.StatusOK {
			t.Errorf("what was delivered before, %s: %s", path, resp.Status)
		}
	}
	w.git.commit(t, commit("4"), "apps/hello", "four")
	w.console.Put(shop("HEAD", commit("4")))
	ag.awaitCommit("hello", commit("4"))
	resp, text = ada.get(at + "manifests/" + old)
	wantRefusal(t, "what was delivered two changes ago", resp, text, http.StatusNotFound, "MANIFEST_UNKNOWN")
}

// The console lends a token for an API token once, and what was lent counts while the console is away. Wrong tokens are
// asked about a few times only.
func TestAPITokensOpenRepositories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	const good = "fairlead_good_0123456789"
	lender := &tokens{sign: w.console.Sign, known: map[string]identity.Identity{good: user("ada")}}
	mux := http.NewServeMux()
	mux.Handle("/", w.console.handler())
	mux.Handle(consolev1connect.NewTokenServiceHandler(lender))
	w.consoleServer = w.serve(mux)
	w.console.Put(grant("ada", "edge-1"))
	e := w.start()
	e.agent("edge-1").awaitCommit("hello", commit("1"))
	ada := &reader{e, "Bearer " + good}
	for range 3 {
		if resp, body := ada.get("/v2/services/hello/manifests/latest"); resp.StatusCode != http.StatusOK {
			t.Fatalf("with an API token: %s %s", resp.Status, body)
		}
	}
	if _, err := e.oras(good).OrasPull(t, "services/hello:latest", t.TempDir()); err != nil {
		t.Error(err)
	}
	if n := lender.exchanges.Load(); n != 1 {
		t.Errorf("the console was asked %d times about one token", n)
	}
	lender.away.Store(true)
	if resp, _ := ada.get("/v2/services/hello/manifests/latest"); resp.StatusCode != http.StatusOK {
		t.Errorf("with the console away: %s", resp.Status)
	}
	resp, body := (&reader{e, "Bearer fairlead_other_0123456789"}).get("/v2/")
	wantRefusal(t, "a token that nobody can judge", resp, body, http.StatusServiceUnavailable, "UNAVAILABLE")
	lender.away.Store(false)
	before, turnedAway := lender.exchanges.Load(), 0
	for i := range 20 {
		if resp, _ := (&reader{e, fmt.Sprintf("Bearer fairlead_guess%d_0123456789", i)}).get("/v2/"); resp.StatusCode == http.StatusTooManyRequests {
			turnedAway++
		}
	}
	if n := lender.exchanges.Load() - before; turnedAway == 0 || n > 10 {
		t.Errorf("20 wrong tokens: the console was asked %d times, %d were turned away", n, turnedAway)
	}
	if resp, _ := ada.get("/v2/services/hello/manifests/latest"); resp.StatusCode != http.StatusOK {
		t.Errorf("a good token after wrong ones from its address: %s", resp.Status)
	}
}

// trail keeps what a distributor records.
type trail struct {
	consolev1connect.UnimplementedAuditServiceHandler

	mu    sync.Mutex // guards lines
	lines []string
}

func (s *trail) RecordAuditEvents(
	_ context.Context, req *consolev1.RecordAuditEventsRequest,
) (*consolev1.RecordAuditEventsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range req.GetEvents() {
		of := fmt.Sprintf("%s %s %s", e.GetResource(), e.GetName(), fmt.Sprint(e.GetCode()))
		s.lines = append(s.lines, e.GetActor().GetName()+" "+e.GetAction()+" "+e.GetVerb()+" "+of)
	}
	return &consolev1.RecordAuditEventsResponse{}, nil
}

// all is every line so far.
func (s *trail) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// Who downloads content, and who may not and tries to, is in the audit trail. A poll without news is not.
func TestDownloadsOfLayersAreWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	w.console.Put(grant("ada", "edge-1"), grant("bob", "edge-2"))
	mux, written := http.NewServeMux(), &trail{}
	mux.Handle("/", w.console.handler())
	mux.Handle(consolev1connect.NewAuditServiceHandler(written))
	w.consoleServer = w.serve(mux)
	e := w.start()
	e.agent("edge-1").awaitCommit("hello", commit("1"))
	ada, bob := e.reader(user("ada")), e.reader(user("bob"))
	layer := ada.latestLayer()
	at := "/v2/services/hello/blobs/" + layer
	ada.ask(http.MethodHead, at)
	ada.get(at, "If-None-Match", `"`+layer+`"`)
	ada.get(at)
	bob.get("/v2/services/none/manifests/latest")
	bob.get("/v2/services/hello/manifests/latest")
	want := []string{
		"ada artifact.read GET service@" + layer + " hello 200",
		"bob artifact.refused GET service hello  404",
	}
	await.True(w.t, "both are in the trail", func() bool { return strings.Count(written.all(), "artifact.") >= 2 })
	for _, line := range want {
		if !strings.Contains(written.all(), line) {
			t.Errorf("no line %q in\n%s", line, written.all())
		}
	}
	if n := strings.Count(written.all(), "artifact."); n != 2 {
		t.Errorf("%d events of artifacts:\n%s", n, written.all())
	}
}
