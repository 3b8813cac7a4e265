package tunnel

import (
	"crypto/rand"
	"crypto/sha256"
	"io"
	"os"
	"testing"
)

func randomFile(t testing.TB, path string, size int64) (sum [sha256.Size]byte) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, hash), rand.Reader, size); err != nil {
		t.Fatal(err)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

func sumOf(t testing.TB, path string) (sum [sha256.Size]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		t.Fatal(err)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
