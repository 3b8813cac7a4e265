package artifact_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"fairlead.dev/platform/artifact"
)

// A caller that sees at the first byte that a file went bad hangs up. The file must be found bad all the
// same: else nobody would ever get it.
func TestRotIsFoundThoughItsReaderHangsUp(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	want := noise(1, 24<<20) // more than fits on the wire
	put(t, s, want)
	u := newUpstream(want)
	url := serve(t, s.FillHandler(allowAll, u.fetch))
	if got := download(t, url, digestOf(want)); !bytes.Equal(got, want) {
		t.Fatal("it is not served before")
	}
	rot(t, s.FileOf(digestOf(want)))
	for deadline := time.Now().Add(time.Minute); u.fetches.Load() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the bad file is served for ever")
		}
		hangUp(t, url, digestOf(want))
	}
	if got := download(t, url, digestOf(want)); !bytes.Equal(got, want) {
		t.Error("wrong bytes")
	}
}

// hangUp reads the first byte of an artifact as it is stored.
func hangUp(t *testing.T, url string, d artifact.Digest) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+artifact.Path+string(d), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "zstd")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = resp.Body.Read(make([]byte, 1))
	_ = resp.Body.Close()
}
