package ticket_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/ticket"
	"fairlead.dev/platform/hubsecret"
)

// A ticket opens one artifact to one cluster for a while, where the same secret is known.
func TestTicketIsForOneClusterAndOneArtifact(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tickets := ticket.Signer{Secret: hubsecret.Text("the hub's secret"), Now: func() time.Time { return now }}
	mine, other := digestOf([]byte("mine")), digestOf([]byte("other"))
	madeFor := func(cluster string) func(artifact.Digest) string {
		f, err := tickets.For(cluster)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	valid := func(text, cluster string, d artifact.Digest) (ok bool) {
		hc := ticket.Show(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			ok = tickets.Valid(r, cluster, d)
			return nil, io.EOF
		})}, text)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := hc.Do(req); err == nil {
			_ = resp.Body.Close()
		}
		return ok
	}
	good := madeFor("edge-1")(mine)
	if !valid(good, "edge-1", mine) {
		t.Error("it opens nothing")
	}
	for name, ok := range map[string]bool{
		"another cluster":  valid(good, "edge-2", mine),
		"another artifact": valid(good, "edge-1", other),
		"no cluster":       valid(madeFor("")(mine), "", mine),
		"no ticket":        valid("", "edge-1", mine),
		"cut":              valid(good[:20], "edge-1", mine),
		"more":             valid(good+"A", "edge-1", mine),
		"a later end":      valid("9"+good, "edge-1", mine),
		"no end":           valid(good[strings.Index(good, "."):], "edge-1", mine),
		"without its end":  valid(good[strings.Index(good, ".")+1:], "edge-1", mine),
	} {
		if ok {
			t.Errorf("opened by %s", name)
		}
	}
	if text := madeFor("")(mine); text != "" {
		t.Errorf("a ticket for no cluster: %s", text)
	}
	const day = 24 * time.Hour
	if now = now.Add(7*day - time.Minute); !valid(good, "edge-1", mine) {
		t.Error("it ends before the agent's token")
	}
	if now = now.Add(day + 2*time.Minute); valid(good, "edge-1", mine) {
		t.Error("it does not end")
	}
	now = now.Add(-8 * day)
	tickets.Secret = hubsecret.Text("another secret of the hub\nthe hub's secret")
	if !valid(good, "edge-1", mine) {
		t.Error("not opened while the secret before is accepted")
	}
	tickets.Secret = hubsecret.Text("another secret of the hub")
	if valid(good, "edge-1", mine) {
		t.Error("made with another secret")
	}
	tickets.Secret = hubsecret.Open(filepath.Join(t.TempDir(), "gone"))
	if valid(good, "edge-1", mine) {
		t.Error("opened without a secret")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func digestOf(b []byte) artifact.Digest {
	sum := sha256.Sum256(b)
	return artifact.SumDigest(sum[:])
}
