package artifact_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
)

func FuzzParseDigest(f *testing.F) {
	f.Add("sha256:" + strings.Repeat("0a", 32))
	f.Add("sha256:" + strings.Repeat("/", 64))
	f.Fuzz(func(t *testing.T, s string) {
		d, err := artifact.ParseDigest(s)
		if err == nil && (string(d) != s || strings.Trim(d.Hex(), "0123456789abcdef") != "" || len(d.Hex()) != 64) {
			t.Errorf("%q parsed", s)
		}
	})
}

// No tar causes a panic or a file outside of the root, and what is accepted packs again.
func FuzzExtract(f *testing.F) {
	for _, files := range []map[string]file{
		nil, {"a": {body: "x"}}, {"a/b": {link: "../c"}, "c": {exec: true}}, mixed(),
	} {
		packed, _ := pack(f, files)
		f.Add(packed)
	}
	limits := artifact.Limits{Bytes: 1 << 20, Files: 100}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := walk(bytes.NewReader(b), limits)
		if err != nil {
			return
		}
		if _, err := tryPack(io.Discard, got, limits); err != nil {
			t.Errorf("accepted what can't be packed: %v", err)
		}
		outer := t.TempDir()
		inner := outer + "/root"
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := extract(bytes.NewReader(b), inner); err != nil {
			t.Skip(err) // a disk may refuse more than we do
		}
		if entries, err := os.ReadDir(outer); err != nil || len(entries) != 1 {
			t.Errorf("outside of the root: %v, %v", entries, err)
		}
	})
}

// No answer of a server causes a panic or unbounded output, and its end comes only with the right bytes.
func FuzzFetchBody(f *testing.F) {
	right := []byte("right")
	for _, enc := range []string{"", "identity", "zstd", "gzip", "br"} {
		f.Add(enc, right)
	}
	f.Fuzz(func(t *testing.T, enc string, b []byte) {
		r, err := artifact.Decode(enc)(io.NopCloser(bytes.NewReader(b)), digestOf(right), artifact.Limits{
			Bytes: 1 << 16,
		})
		if err != nil {
			return
		}
		got, err := io.ReadAll(r)
		if err == nil && !bytes.Equal(got, right) || len(got) > 1<<16 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_ = r.Close()
	})
}

func FuzzRequestHeaders(f *testing.F) {
	f.Add("bytes=0-1", "zstd;q=0.5, *;q=0", int64(10))
	f.Fuzz(func(t *testing.T, ranges, accept string, size int64) {
		size &= 1<<40 - 1
		if off, n, ok := artifact.ParseRange(ranges, size); ok && (off < 0 || n <= 0 || off+n > size) {
			t.Errorf("%q of %d: %d+%d", ranges, size, off, n)
		}
		switch artifact.Negotiate(accept) {
		case "zstd", "gzip", "identity":
		default:
			t.Errorf("%q", accept)
		}
	})
}
