package artifact_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"fairlead.dev/platform/artifact"
)

func allowAll(*http.Request, artifact.Digest) error { return nil }

func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func request(t testing.TB, method, url string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	resp, body, err := tryRequest(t, method, url, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func tryRequest(t testing.TB, method, url string, headers ...string) (*http.Response, []byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp, body, errors.Join(err, resp.Body.Close())
}

func unpack(t testing.TB, enc string, b []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(b)
	var err error
	switch enc {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestHandlerNegotiatesEncodings(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	body := bytes.Repeat([]byte("kind: Deployment\n"), 20_000)
	d := put(t, s, body)
	url := serve(t, s.Handler(allowAll)) + artifact.Path + string(d)
	for accept, want := range map[string]string{
		"zstd, gzip": "zstd", "gzip": "gzip", "gzip, zstd;q=0.1": "gzip", "": "", "identity": "", "br": "",
		"*": "zstd", "zstd;q=0, *;q=0.5": "gzip", "identity;q=1, zstd;q=0.5": "", "ZSTD": "zstd", "zstd;q=x": "",
	} {
		resp, got := request(t, http.MethodGet, url, "Accept-Encoding", accept)
		enc := resp.Header.Get("Content-Encoding")
		if resp.StatusCode != http.StatusOK || enc != want || !bytes.Equal(unpack(t, enc, got), body) {
			t.Errorf("%q: %s, encoding %q, want %q", accept, resp.Status, enc, want)
		}
		if !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") ||
			!strings.Contains(resp.Header.Get("Vary"), "Accept-Encoding") ||
			!strings.HasSuffix(resp.Header.Get("Etag"), `"`+string(d)+`"`) {
			t.Errorf("headers %v", resp.Header)
		}
		head, none := request(t, http.MethodHead, url, "Accept-Encoding", accept)
		if head.StatusCode != http.StatusOK || len(none) != 0 || head.Header.Get("Etag") != resp.Header.Get("Etag") ||
			want != "gzip" && head.ContentLength != int64(len(got)) {
			t.Errorf("HEAD %q: %s %v", accept, head.Status, head.Header)
		}
	}
}

func TestHandlerAnswersConditionalRequests(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	d := put(t, s, noise(1, 1000))
	url := serve(t, s.Handler(allowAll)) + artifact.Path + string(d)
	for tag, want := range map[string]int{
		`"` + string(d) + `"`: 304, `W/"` + string(d) + `"`: 304, `"x", "` + string(d) + `"`: 304, "*": 304,
		`"x"`: 200, string(d): 200,
	} {
		if resp, _ := request(t, http.MethodGet, url, "If-None-Match", tag); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", tag, resp.Status, want)
		}
	}
}

func TestHandlerServesRangesOfTheTar(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	body := noise(1, 200_000)
	d := put(t, s, body)
	url := serve(t, s.Handler(allowAll)) + artifact.Path + string(d)
	for _, c := range []struct {
		header string
		from   int
		to     int // exclusive; 0: not satisfiable
	}{
		{"bytes=0-0", 0, 1},
		{"bytes=0-", 0, 200_000},
		{"bytes=150000-", 150_000, 200_000},
		{"bytes=-10", 199_990, 200_000},
		{"bytes=100-999999", 100, 200_000},
		{"bytes=70000-140000", 70_000, 140_001},
		{"bytes=-999999", 0, 200_000},
		{"bytes=200000-", 0, 0},
	} {
		resp, got := request(t, http.MethodGet, url, "Range", c.header, "Accept-Encoding", "zstd")
		if c.to == 0 {
			if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable ||
				resp.Header.Get("Content-Range") != "bytes */200000" {
				t.Errorf("%s: %s", c.header, resp.Status)
			}
			continue
		}
		want := fmt.Sprintf("bytes %d-%d/200000", c.from, c.to-1)
		if resp.StatusCode != http.StatusPartialContent || resp.Header.Get("Content-Range") != want ||
			!bytes.Equal(got, body[c.from:c.to]) {
			t.Errorf("%s: %s, %s, %d bytes", c.header, resp.Status, resp.Header.Get("Content-Range"), len(got))
		}
	}
	for _, ignored := range []string{"bytes=1-2,4-5", "bytes=x-", "bytes=5-2", "lines=1-2", "bytes=-0", "bytes=+1-2"} {
		if resp, got := request(t, http.MethodGet, url, "Range", ignored); resp.StatusCode != http.StatusOK ||
			!bytes.Equal(got, body) {
			t.Errorf("%s: %s", ignored, resp.Status)
		}
	}
	if resp, _ := request(t, http.MethodGet, url, "Range", "bytes=0-9", "If-Range",
		`"other"`); resp.StatusCode != http.StatusOK {
		t.Errorf("If-Range: %s", resp.Status)
	}
}

func TestFewRangesAreServedAtOnce(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	body := noise(1, 1000)
	url := serve(t, s.Handler(allowAll)) + artifact.Path + string(put(t, s, body))
	giveBack := s.TakeRanges()
	resp, _ := request(t, http.MethodGet, url, "Range", "bytes=0-0")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" ||
		resp.Header.Get("Etag") != "" {
		t.Errorf("with all places taken: %s, %v", resp.Status, resp.Header)
	}
	if resp, got := request(t, http.MethodGet, url); resp.StatusCode != http.StatusOK || !bytes.Equal(got, body) {
		t.Errorf("the whole artifact: %s", resp.Status)
	}
	giveBack()
	if resp, got := request(t, http.MethodGet, url, "Range",
		"bytes=0-0"); resp.StatusCode != http.StatusPartialContent || len(got) != 1 {
		t.Errorf("with places free again: %s", resp.Status)
	}
}

func TestUnknownAndForbiddenLookAlike(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	secret := put(t, s, noise(1, 1000))
	url := serve(t, s.Handler(func(_ *http.Request, d artifact.Digest) error {
		if d == secret {
			return errors.New("not yours")
		}
		return nil
	})) + artifact.Path
	hidden, hiddenBody := request(t, http.MethodGet, url+string(secret))
	missing, missingBody := request(t, http.MethodGet, url+string(digestOf(nil)))
	bad, badBody := request(t, http.MethodGet, url+"sha256:../../etc/passwd")
	hidden.Header.Del("Date")
	missing.Header.Del("Date")
	if hidden.StatusCode != 404 || missing.StatusCode != 404 || bad.StatusCode != 404 ||
		!bytes.Equal(hiddenBody, missingBody) || !bytes.Equal(badBody, missingBody) ||
		fmt.Sprint(hidden.Header) != fmt.Sprint(missing.Header) {
		t.Errorf("%s %v %q; %s %v %q", hidden.Status, hidden.Header, hiddenBody, missing.Status, missing.Header,
			missingBody)
	}
	if resp, _ := request(t, http.MethodPost, url+string(secret)); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Error(resp.Status)
	}
}

// A body that goes bad while it is served never arrives whole.
func TestRotIsNeverServedWhole(t *testing.T) {
	t.Parallel()
	for _, enc := range []string{"identity", "zstd", "gzip"} {
		for _, size := range []int{100, 100_000} {
			s := openStore(t, t.TempDir(), 0)
			d := put(t, s, noise(1, size))
			url := serve(t, s.Handler(allowAll)) + artifact.Path + string(d)
			rot(t, s.FileOf(d))
			resp, body, err := tryRequest(t, http.MethodGet, url, "Accept-Encoding", enc)
			if err == nil {
				t.Errorf("%s, %d bytes: %s with %d bytes and no error", enc, size, resp.Status, len(body))
			}
			if resp, _ := request(t, http.MethodGet, url); resp.StatusCode != 404 {
				t.Errorf("%s: then %s", enc, resp.Status)
			}
		}
	}
}

func TestFillHandlerFillsMisses(t *testing.T) {
	t.Parallel()
	origin := openStore(t, t.TempDir(), 0)
	body := noise(1, 100_000)
	d := put(t, origin, body)
	originURL := serve(t, origin.Handler(allowAll))
	var fetches atomic.Int32
	fetch := func(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
		fetches.Add(1)
		return artifact.Fetch(ctx, http.DefaultClient, originURL, d, 0)
	}
	edge := openStore(t, t.TempDir(), 0)
	url := serve(t, edge.FillHandler(allowAll, fetch))
	for range 3 {
		if got := download(t, url, d); !bytes.Equal(got, body) {
			t.Fatal("wrong bytes")
		}
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	if _, err := artifact.Fetch(context.Background(), http.DefaultClient, url, digestOf(nil),
		0); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	// A bad file is fetched again, and the caller sees nothing of it.
	corruptions()["truncated"](t, edge.FileOf(d), nil)
	if got := download(t, url, d); !bytes.Equal(got, body) || fetches.Load() != 3 {
		t.Errorf("%d bytes, %d fetches", len(got), fetches.Load())
	}
}

func download(t testing.TB, url string, d artifact.Digest) []byte {
	t.Helper()
	r, err := artifact.Fetch(context.Background(), http.DefaultClient, url, d, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFillHandlerPassesBytesThroughAFullDisk(t *testing.T) {
	t.Parallel()
	body := noise(1, 200_000)
	d := digestOf(body)
	fetch := func(context.Context, artifact.Digest) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(body)), nil
	}
	s := openStore(t, t.TempDir(), 0)
	s.FailWrites(func(real artifact.TempFile) artifact.TempFile {
		return failingFile{TempFile: real, err: syscall.ENOSPC, room: &atomic.Int64{}}
	})
	url := serve(t, s.FillHandler(allowAll, fetch)) + artifact.Path + string(d)
	for _, enc := range []string{"identity", "zstd", "gzip"} {
		resp, got := request(t, http.MethodGet, url, "Accept-Encoding", enc)
		if resp.StatusCode != 200 || !bytes.Equal(unpack(t, enc, got), body) {
			t.Errorf("%s: %s", enc, resp.Status)
		}
	}
	if s.Has(d) {
		t.Error("stored on a full disk")
	}
}

func TestFillHandlerSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	url := serve(t, s.FillHandler(allowAll, func(context.Context, artifact.Digest) (io.ReadCloser, error) {
		return nil, errors.New("dial tcp 10.0.0.7: secret detail")
	}))
	_, err := artifact.Fetch(context.Background(), http.DefaultClient, url, digestOf(nil), 0)
	var status *artifact.StatusError
	if !errors.As(err, &status) || status.Code != 503 || status.RetryAfter != 5*time.Second ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// wideWindow is a zstd frame with one plain block, whose decoder is to keep 2 GiB.
func wideWindow(body []byte) []byte {
	const log, block = 31 - 10, 3 // a window of 2^31; the length stands above three bits
	head := uint32(1 | len(body)<<block)
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, log << 3, byte(head), byte(head >> 8), byte(head >> 16)}, body...)
}

// An answer of a lying or broken server never reads as the artifact.
func TestFetchTrustsNobody(t *testing.T) {
	t.Parallel()
	body := noise(1, 100_000)
	d := digestOf(body)
	zip := func(b []byte) []byte {
		enc, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return enc.EncodeAll(b, nil)
	}
	var gz bytes.Buffer
	gw := gzip.NewWriter(&gz)
	_, _ = gw.Write(make([]byte, 16<<20))
	_ = gw.Close()
	for name, c := range map[string]struct {
		enc  string
		body []byte
		want error // nil: any
	}{ // The bombs are within the maximum and break the ratio.
		"other bytes":       {"", noise(2, 100_000), artifact.ErrCorrupt},
		"truncated":         {"", body[:99_999], artifact.ErrCorrupt},
		"longer":            {"", append(bytes.Clone(body), 0), artifact.ErrCorrupt},
		"empty":             {"", nil, artifact.ErrCorrupt},
		"truncated zstd":    {"zstd", zip(body)[:50_000], nil},
		"not zstd":          {"zstd", body, nil},
		"not gzip":          {"gzip", body, nil},
		"unknown encoding":  {"br", body, nil},
		"zstd bomb":         {"zstd", zip(make([]byte, 16<<20)), artifact.ErrRefused},
		"gzip bomb":         {"gzip", gz.Bytes(), artifact.ErrRefused},
		"window of 2 GiB":   {"zstd", wideWindow(body), nil},
		"above the maximum": {"", make([]byte, 21<<20), artifact.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.enc != "" {
					w.Header().Set("Content-Encoding", c.enc)
				}
				_, _ = w.Write(c.body)
			}))
			r, err := artifact.Fetch(context.Background(), http.DefaultClient, url, d, 20<<20)
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				_ = r.Close()
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// A ConfigMap of one letter packs better than a bomb may, and harms nobody.
func TestFetchTakesASmallFileOfOneLetter(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("x"), 3<<20)
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		_, _ = w.Write(enc.EncodeAll(body, nil))
	}))
	r, err := artifact.Fetch(context.Background(), http.DefaultClient, url, digestOf(body), 20<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// A connection that is cut says nothing about the bytes: they are not called corrupt, wherever the cut is.
func TestFetchTellsACutFromWrongBytes(t *testing.T) {
	t.Parallel()
	body := noise(1, 100_000)
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var gz bytes.Buffer
	gw := gzip.NewWriter(&gz)
	_, _ = gw.Write(body)
	_ = gw.Close()
	for encoding, sent := range map[string][]byte{"": body, "zstd": enc.EncodeAll(body, nil), "gzip": gz.Bytes()} {
		for _, n := range []int{0, 1, 3, 4, 10, len(sent) / 2, len(sent) - 1} {
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if encoding != "" {
					w.Header().Set("Content-Encoding", encoding)
				}
				_, _ = w.Write(sent[:n])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}))
			r, err := artifact.Fetch(t.Context(), http.DefaultClient, url, digestOf(body), 0)
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				_ = r.Close()
			}
			if err == nil || errors.Is(err, artifact.ErrCorrupt) {
				t.Errorf("%q, cut after %d bytes: %v", encoding, n, err)
			}
		}
	}
}

// A redirect could carry the caller's token to another host.
func TestFetchDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	other := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed") }))
	url := serve(t, http.RedirectHandler(other, http.StatusFound))
	var status *artifact.StatusError
	if _, err := artifact.Fetch(context.Background(), http.DefaultClient, url, digestOf(nil),
		0); !errors.As(err, &status) || status.Code != 302 {
		t.Errorf("got %v", err)
	}
}

func TestFetchKeepsUserinfoOutOfErrors(t *testing.T) {
	t.Parallel()
	_, err := artifact.Fetch(context.Background(), http.DefaultClient, "http://user:hunter2@127.0.0.1:1",
		digestOf(nil), 0)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	_, err = artifact.Fetch(context.Background(), http.DefaultClient, "http://user:hunter2@\x00", digestOf(nil), 0)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
