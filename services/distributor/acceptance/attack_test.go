package acceptance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// record keeps what is logged.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

// text is all that was logged.
func (r *record) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// has says whether something was logged.
func (r *record) has(text string) bool { return strings.Contains(r.text(), text) }

// refusals are the "<cluster> <digest>" of artifacts that were refused, at INFO.
func (r *record) refusals(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for line := range strings.Lines(r.buf.String()) {
		var l struct{ Level, Msg, Caller, Digest string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(l.Msg, "refused an artifact") && l.Level == "INFO" {
			all = append(all, strings.TrimPrefix(l.Caller, "agent:")+" "+l.Digest)
		}
	}
	return all
}

// A digest that is meant for others, be it another cluster or another project, was never made, or is on a gitcache
// only, is not found, all alike; and it is written down who asked for what.
func TestDigestsOfOthersAreRefusedAndWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logged := &record{}
	w.logged = logged
	w.ship()
	w.git.commit(t, commit("1"), "apps/other", "of the other cluster")
	w.git.commit(t, commit("9"), "apps/stray", "of no service at all")
	w.git.commit(t, commit("1"), "apps/paid", "of another project, too")
	paid := service("paid", "edge-2", "apps/paid")
	paid.GetService().Spec.Project = "payments"
	w.console.Put(service("other", "edge-2", "apps/other"), paid)
	e := w.start()
	a, b := e.agent("edge-1"), e.agent("edge-2")
	a.awaitCommit("hello", commit("1"))
	b.awaitCommit("other", commit("1"))
	b.awaitCommit("paid", commit("1"))
	mine, others := a.got["hello"].GetArtifact().GetDigest(), b.got["other"].GetArtifact().GetDigest()
	var want []string
	for _, digest := range []string{
		others, b.got["paid"].GetArtifact().GetDigest(),
		string(w.git.folders[commit("9")+" apps/stray"].Digest), string(digestOf([]byte("forged"))),
	} {
		if _, err := a.download(digest); !errors.Is(err, artifact.ErrNotFound) {
			t.Errorf("%s: got %v", digest, err)
		}
		want = append(want, "edge-1 "+digest)
	}
	if _, err := b.download(mine); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("with another cluster's token: got %v", err)
	}
	want = append(want, "edge-2 "+mine)
	if _, err := e.agent("gone").download(mine); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("with the token of a cluster that is gone: got %v", err)
	}
	want = append(want, "gone "+mine)
	a.mustHave()
	if got := logged.refusals(t); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("written down: %q\nwant %q", got, want)
	}
	if text := logged.buf.String(); strings.Contains(text, "Bearer") || strings.Contains(text, "eyJ") {
		t.Error("a token is in the log")
	}
}

// A name that is no digest reaches no file, whoever asks.
func TestForgedNamesAreNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	good := a.got["hello"].GetArtifact().GetDigest()
	for _, name := range []string{
		"", "sha256:", "sha256:..", "%2e%2e/catalog/snapshot", "..%2f..%2fidentity%2ftoken",
		"sha256:" + strings.Repeat("0", 63), strings.ToUpper(good),
		good + "/", good + ".tar.zst", good + "%00", "sha512:" + good[7:], good[7:], "quarantine/" + good[7:],
		good + "," + good,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+artifact.Path+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := a.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%q: %s", name, resp.Status)
		}
	}
}

// Tokens that the console did not sign for an agent, or not any more, open nothing.
func TestForeignTokensOpenNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	agentID := identitytest.Bind(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"})
	revoked, id, err := w.console.Sign(agentID)
	if err != nil {
		t.Fatal(err)
	}
	w.console.Revoke(identity.Revocation{TokenID: id.TokenID, At: time.Now()})
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	foreign, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := foreign.Sign(agentID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	good, _, err := w.console.Sign(agentID)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"another authority": forged,
		"no signature":      parts[0] + "." + parts[1] + ".", "nothing": "x", "revoked": revoked,
	} {
		x := e.with(token)
		_, err := x.rpc.Sync(context.Background(), &deliveryv1.SyncRequest{})
		if code := connect.CodeOf(err); code != connect.CodeUnauthenticated && code != connect.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := x.download(a.got["hello"].GetArtifact().GetDigest()); err == nil {
			t.Errorf("%s: it downloads", name)
		}
	}
}

// Clients that send slowly, read slowly, or too much: the memory stays flat, and others don't notice.
func TestSlowAndHostileClientsCostLittle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.commit(t, commit("1"), "apps/large", noise(1, 16<<20))
	w.console.Put(shop("HEAD", commit("1")), service("large", "edge-1", "apps/large"))
	w.ship()
	p := w.spawn()
	a := p.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.awaitCommit("large", commit("1"))
	if _, err := a.download(a.got["large"].GetArtifact().GetDigest()); err != nil {
		t.Fatal(err)
	}
	before := p.resident()

	const many = 100
	for range many {
		w.trickle(p.edge)                                                 // a request whose head never ends
		a.stall(artifact.Path + a.got["large"].GetArtifact().GetDigest()) // a download that nobody reads
		a.deaf()                                                          // a stream of nudges that nobody reads
	}
	for range 20 {
		_, err := a.rpc.Sync(context.Background(), &deliveryv1.SyncRequest{Digest: strings.Repeat("x", 6<<20)})
		if code := connect.CodeOf(err); code != connect.CodeResourceExhausted && code != connect.CodeInvalidArgument {
			t.Fatalf("6 MiB of a digest: %v", err)
		}
	}
	begun := time.Now()
	for range 20 {
		if resp := a.ask(&deliveryv1.SyncRequest{Digest: a.digest()}); resp.GetNotModified() == nil {
			t.Fatalf("got %v", resp)
		}
	}
	a.mustHave()
	if took := time.Since(begun); took > 45*time.Second { // clients that take nothing are cut after a minute
		t.Errorf("others wait: 20 polls and a download took %s", took)
	}
	grown := p.resident() - before
	t.Logf("%d MiB before, %d MiB for %d slow clients of each kind", before>>20, grown>>20, many)
	if grown > mostGrowth {
		t.Errorf("grew by %d MiB", grown>>20)
	}
}

// trickle opens a connection of its own and sends half of a request's head.
func (w *world) trickle(e *edge) {
	w.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(e.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /v1/artifacts/x HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		w.t.Fatal(err)
	}
}

// stall begins a download over a connection of its own, and reads nothing of it.
func (a *agent) stall(path string) {
	a.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(a.e.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	if tcp, ok := conn.NetConn().(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s: %s\r\nAccept-Encoding: zstd\r\n\r\n", path, a.token, identity.ProofHeader, a.proof())
	if err != nil {
		a.t.Fatal(err)
	}
}

// deaf opens a stream that is never read.
func (a *agent) deaf() {
	a.t.Helper()
	stream, err := a.rpc.Watch(context.Background(), &deliveryv1.WatchRequest{})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = stream.Close() })
}

// A copy of an agent's token is worth nothing without the key that it is bound to, and a proof that the agent sent to
// others is worth nothing here.
func TestCopiedTokenWithoutItsKeyGetsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	digest := a.got["hello"].GetArtifact().GetDigest()
	for name, source := range map[string]identity.TokenSource{
		"the token alone":            identity.StaticToken(a.token),
		"with a proof for gitcaches": identitytest.Prover(a.token, identitytest.AgentKey(), identity.ServiceGitcache),
	} {
		rpc := deliveryv1connect.NewDeliveryServiceClient(w.client, e.url,
			append(client.Options(), client.WithToken(source))...)
		if _, err := rpc.Sync(t.Context(), &deliveryv1.SyncRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s: Sync: %v", name, err)
		}
		stream, err := rpc.Watch(t.Context(), &deliveryv1.WatchRequest{})
		if err == nil {
			stream.Receive()
			err = stream.Err()
		}
		if connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s: Watch: %v", name, err)
		}
		hc := &http.Client{Transport: client.Authorize(w.client.Transport, source)}
		resp, err := hc.Get(e.url + artifact.Path + digest)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: an artifact: %s", name, resp.Status)
		}
	}
	a.mustHave()
}
