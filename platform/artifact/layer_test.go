package artifact_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"fairlead.dev/platform/artifact"
)

// layers serves the layers of a store's artifacts below "/", by the digest of the artifact.
func layers(t testing.TB, s *artifact.Store) string {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := s.Open(artifact.Digest(r.URL.Path[1:]))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		defer func() { _ = b.Close() }()
		artifact.ServeLayer(w, r, b, layerOf(t, s, b.Digest()).Digest)
	})) + "/"
}

func layerOf(t testing.TB, s *artifact.Store, d artifact.Digest) artifact.Layer {
	t.Helper()
	b, err := s.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	l, err := b.Layer()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The form of a layer is for ever: a change here changes the digests of all layers at an upgrade, and every client
// deploys again.
func TestTheFormOfALayerIsFixed(t *testing.T) {
	t.Parallel()
	const abc = "1f8b08000000000000ff" + "010300fcff" + "616263" + "c2412435" + "03000000"
	if got := hex.EncodeToString(artifact.LayerOf([]byte("abc"))); got != abc {
		t.Errorf("the layer of abc is %s", got)
	}
	for size, want := range map[int]string{
		0:       "30e6fa98fb48c2b132824d1ac5e2243c0be9e9082ff32598d34d7687ca7f6c7f",
		65535:   "bfc214b0853a2c9d3aa0757385282ac1f8979d5aba197f5552cbc33564e7d2e5",
		65536:   "ef0e1ea600de7882e200fd4097f9bb527e0653989a07876fdec2b768757fad62",
		1000000: "ace4c5ac600c716a37b7f95f87a7c715a178ec36765162e6904cd11832b0022d",
	} {
		tar := make([]byte, size)
		for i := range tar {
			tar[i] = byte((i*7 + i/251) % 251)
		}
		if got := digestOf(artifact.LayerOf(tar)); got.Hex() != want {
			t.Errorf("the layer of %d bytes is %s", size, got)
		}
	}
}

func TestALayerIsTheTarInGzip(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	url := layers(t, s)
	for _, size := range []int{0, 1, 65_534, 65_535, 65_536, 131_070, 131_071, 500_000} {
		body := noise(uint64(size), size)
		d := put(t, s, body)
		is := layerOf(t, s, d)
		resp, got := request(t, http.MethodGet, url+string(d))
		if resp.StatusCode != http.StatusOK || digestOf(got) != is.Digest ||
			int64(len(got)) != is.Size || resp.ContentLength != is.Size {
			t.Errorf("%d bytes: %s, %d bytes of %d, announced %d", size, resp.Status, len(got), is.Size,
				resp.ContentLength)
		}
		if enc := resp.Header.Get("Content-Encoding"); enc != "" {
			t.Errorf("%d bytes: the layer is encoded as %s besides", size, enc)
		}
		if !bytes.Equal(unpack(t, "gzip", got), body) {
			t.Errorf("%d bytes: other bytes come out", size)
		}
		head, none := request(t, http.MethodHead, url+string(d))
		tag := `"` + string(is.Digest) + `"`
		if head.StatusCode != http.StatusOK || len(none) != 0 || head.ContentLength != is.Size ||
			head.Header.Get("Etag") != tag {
			t.Errorf("HEAD of %d bytes: %s, %v", size, head.Status, head.Header)
		}
		resp, _ = request(t, http.MethodGet, url+string(d), "If-None-Match", tag)
		if resp.StatusCode != http.StatusNotModified {
			t.Errorf("%d bytes that the caller has: %s", size, resp.Status)
		}
	}
}

func TestRangesOfALayer(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	d := put(t, s, noise(1, 200_000))
	url := layers(t, s) + string(d)
	_, whole := request(t, http.MethodGet, url)
	size := len(whole)
	for header, c := range map[string]struct{ from, to int }{
		"bytes=0-0":                           {0, 1},
		"bytes=9-16":                          {9, 17},
		"bytes=65549-65560":                   {65_549, 65_561},
		"bytes=150000-":                       {150_000, size},
		"bytes=-8":                            {size - 8, size},
		fmt.Sprintf("bytes=%d-", size-1):      {size - 1, size},
		fmt.Sprintf("bytes=3-%d", size+5_000): {3, size},
	} {
		resp, got := request(t, http.MethodGet, url, "Range", header)
		want := fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, size)
		if resp.StatusCode != http.StatusPartialContent || resp.Header.Get("Content-Range") != want ||
			!bytes.Equal(got, whole[c.from:c.to]) {
			t.Errorf("%s: %s, %s, %d bytes", header, resp.Status, resp.Header.Get("Content-Range"), len(got))
		}
	}
	beyond, _ := request(t, http.MethodGet, url, "Range", fmt.Sprintf("bytes=%d-", size))
	if beyond.StatusCode != http.StatusRequestedRangeNotSatisfiable ||
		beyond.Header.Get("Content-Range") != fmt.Sprintf("bytes */%d", size) {
		t.Errorf("beyond the end: %s, %s", beyond.Status, beyond.Header.Get("Content-Range"))
	}
	giveBack := s.TakeRanges()
	defer giveBack()
	if resp, _ := request(t, http.MethodGet, url, "Range", "bytes=0-0"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("with all places taken: %s", resp.Status)
	}
}

// A layer of bytes that went bad on the disk is cut off before its end, and a part of it is not given either.
func TestALayerOfBadBytesIsCutOff(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"", "bytes=100000-100009"} {
		s := openStore(t, t.TempDir(), 0)
		d := put(t, s, noise(1, 300_000))
		is := layerOf(t, s, d)
		b, err := s.Open(d)
		if err != nil {
			t.Fatal(err)
		}
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			artifact.ServeLayer(w, r, b, is.Digest)
		}))
		f, err := os.OpenFile(s.FileOf(d), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("rot"), 200_000); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		var headers []string
		if header != "" {
			headers = []string{"Range", header}
		}
		if _, got, err := tryRequest(t, http.MethodGet, url, headers...); err == nil {
			t.Errorf("%q: %d bytes came as if they were good", header, len(got))
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever is in a tar and however it is read, its layer unpacks to it and is as long as it says.
func FuzzLayer(f *testing.F) {
	f.Add([]byte("abc"), 1, 1)
	f.Add(noise(1, 70_000), 7, 5_000)
	f.Fuzz(func(t *testing.T, tar []byte, few, many int) {
		if few < 1 || few > 1<<20 || many < 1 || many > 1<<20 {
			t.Skip()
		}
		whole := artifact.LayerOf(tar)
		zr, err := gzip.NewReader(bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		zr.Multistream(false)
		got, err := io.ReadAll(zr)
		if err != nil || !bytes.Equal(got, tar) || int64(len(whole)) != artifact.LayerSize(int64(len(tar))) {
			t.Fatalf("%d bytes became %d, %v", len(tar), len(got), err)
		}
		if again := artifact.LayerInPieces(tar, few, many); !bytes.Equal(again, whole) {
			t.Error("the layer depends on how it is read")
		}
	})
}
