package artifact_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"fairlead.dev/platform/artifact"
)

// A file that was read and found good a moment ago is sent by the kernel, unread. The kernel must not send it unread
// once somebody has touched it, even if its size and time are as before, and even in the middle of an answer.
func TestTouchedFileIsReadBeforeItsEndIsSent(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	want := noise(1, 24<<20) // more than fits on the wire
	put(t, s, want)
	d := digestOf(want)
	u := newUpstream(want)
	url := serve(t, s.FillHandler(allowAll, u.fetch))
	trust(t, s, url, d)

	resp := stored(t, url, d)
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	rot(t, s.FileOf(d))
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("got a whole answer of %d bytes from a bad file", n+1)
	}
	_ = resp.Body.Close()
	if got := download(t, url, d); !bytes.Equal(got, want) || u.fetches.Load() != 1 {
		t.Errorf("wrong bytes, or fetched %d times", u.fetches.Load())
	}

	trust(t, s, url, d)
	rot(t, s.FileOf(d))
	resp = stored(t, url, d)
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("a bad file was trusted")
	}
	_ = resp.Body.Close()
	if got := download(t, url, d); !bytes.Equal(got, want) || u.fetches.Load() != 2 {
		t.Errorf("wrong bytes, or fetched %d times", u.fetches.Load())
	}
}

// trust asks until the file is one that is sent unread.
func trust(t *testing.T, s *artifact.Store, url string, d artifact.Digest) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !s.Trusts(d); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the file is never trusted")
		}
		resp := stored(t, url, d)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	resp := stored(t, url, d)
	defer resp.Body.Close()
	file, err := os.ReadFile(s.FileOf(d))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, file) {
		t.Fatalf("a trusted file is sent wrong: %v", err)
	}
}

// stored asks for an artifact as it is on the disk.
func stored(t *testing.T, url string, d artifact.Digest) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+artifact.Path+string(d), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "zstd")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	return resp
}

func TestASmallRangeOfAGoodArtifactReadsLittle(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	d := put(t, s, noise(1, 8<<20))
	for deadline := time.Now().Add(time.Minute); !s.Trusts(d); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a range that was read to the end confirms nothing")
		}
		if read, err := s.RangeCost(d, "bytes=0-0"); err != nil || read < 8<<20 {
			t.Fatalf("%d bytes were read of a file that nobody has looked at: %v", read, err)
		}
	}
	if read, err := s.RangeCost(d, "bytes=0-0"); err != nil || read > 1<<20 {
		t.Errorf("%d bytes were read for one: %v", read, err)
	}
	rot(t, s.FileOf(d))
	if _, err := s.RangeCost(d, "bytes=0-0"); err == nil {
		t.Error("a file that somebody has touched was trusted")
	}
}
