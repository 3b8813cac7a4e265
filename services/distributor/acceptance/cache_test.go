package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// cacheFile is where an artifact is in the world's folder.
func (w *world) cacheFile(d string) string {
	return filepath.Join(w.dir, "artifacts", artifact.Digest(d).Hex()+".tar.zst")
}

// noise is text that does not compress.
func noise(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// After any damage to a file of the cache, before a start or while it is served, no agent ever gets other bytes than
// those it asked for: the artifact is fetched again.
func TestDamagedCacheFilesAreNeverServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 2 {
		w.git.commit(t, commit("1"), fmt.Sprint("apps/", i), noise(uint64(i), 200_000))
	}
	w.console.Put(shop("HEAD", commit("1")), service("a", "edge-1", "apps/0"), service("b", "edge-1", "apps/1"))
	e := w.start()
	ag := e.agent("edge-1")
	ag.awaitCommit("a", commit("1"))
	ag.awaitCommit("b", commit("1"))
	digest, other := ag.got["a"].GetArtifact().GetDigest(), ag.got["b"].GetArtifact().GetDigest()
	path := w.cacheFile(digest)
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	damages := []struct {
		name  string
		spoil func(good []byte) []byte
	}{
		{"first byte", flip(0)},
		{"a byte in the middle", flip(100_000)},
		{"truncated", func(b []byte) []byte { return b[:len(b)/2] }},
		{"empty", func([]byte) []byte { return nil }},
		{"zeroed", func(b []byte) []byte { clear(b[1000:]); return b }},
		{"something behind it", func(b []byte) []byte { return append(b, b...) }},
		{"swapped with another artifact", func([]byte) []byte {
			b, err := os.ReadFile(w.cacheFile(other))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}},
	}
	get := func(damage string) {
		t.Helper()
		// Damage that is found while the file is sent cuts the answer: the next one is good.
		await.True(w.t, "it is had in spite of: "+damage, func() bool {
			b, err := ag.download(digest)
			if err == nil && digestOf(b) != artifact.Digest(digest) {
				t.Fatalf("%s: wrong bytes", damage)
			}
			return err == nil
		})
	}
	for _, d := range damages {
		for _, restart := range []bool{false, true} {
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if restart {
				e.stop()
			}
			if err := os.WriteFile(path, d.spoil(bytes.Clone(good)), 0o600); err != nil {
				t.Fatal(err)
			}
			// As after rot: nothing tells from outside that the file changed.
			if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
				t.Fatal(err)
			}
			if restart {
				e = w.start()
				ag.e, ag.http = e, e.agent("edge-1").http
			}
			_, before := w.git.counts()
			get(d.name)
			if _, after := w.git.counts(); after != before+1 {
				t.Errorf("%s: fetched %d times", d.name, after-before)
			}
		}
	}
}

// With no room for a single byte agents get their artifacts all the same, and the distributor fetches no
// more often than it must; what was stored before is served from the disk. With room again it stores.
func TestFullDiskPassesBytesThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	small := filepath.Join(w.dir, "artifacts")
	smallDisk(t, small)
	w.ship()
	w.git.commit(t, commit("1"), "apps/kept", "kept")
	w.git.commit(t, commit("2"), "apps/kept", "kept")
	w.console.Put(service("kept", "edge-1", "apps/kept"))
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.awaitCommit("kept", commit("1"))
	kept := a.got["kept"].GetArtifact().GetDigest()
	free := fill(t, small)

	w.git.commit(t, commit("2"), "apps/hello", noise(1, 1<<20))
	w.console.Put(shop("HEAD", commit("2")))
	a.awaitCommit("hello", commit("2"))
	digest := a.got["hello"].GetArtifact().GetDigest()
	var many sync.WaitGroup
	for range 8 {
		many.Go(func() {
			b, err := a.download(digest)
			if err != nil || digestOf(b) != artifact.Digest(digest) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
	many.Wait()
	_, before := w.git.counts()
	if b, err := a.download(kept); err != nil || digestOf(b) != artifact.Digest(kept) {
		t.Errorf("what was stored: %d bytes, %v", len(b), err)
	}
	if _, after := w.git.counts(); after != before {
		t.Error("what was stored is fetched again")
	}
	if _, err := os.Stat(w.cacheFile(digest)); err == nil {
		t.Fatal("it was stored: this test shows nothing")
	}

	free()
	w.git.commit(t, commit("3"), "apps/hello", "three")
	w.git.commit(t, commit("3"), "apps/kept", "kept")
	w.console.Put(shop("HEAD", commit("3")))
	a.awaitCommit("hello", commit("3"))
	a.mustHave()
	await.True(w.t, "there is room again", func() bool {
		_, err := os.Stat(w.cacheFile(a.got["hello"].GetArtifact().GetDigest()))
		return err == nil
	})
}

// With no room at the start, and nobody else there, it serves what it has.
func TestFullDiskDoesNotKeepItFromStarting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	smallDisk(t, w.dir)
	w.ship()
	e := w.start()
	e.agent("edge-1").awaitCommit("hello", commit("1"))
	e.stop()
	w.consoleServer.stop()
	w.gitServer.stop()
	fill(t, w.dir)
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.mustHave()
}

// Without TLS the kernel sends what is stored and was found good, through all that stands around the handler: by the
// system call that does so.
func TestStoredArtifactsGoFromTheDiskToTheLine(t *testing.T) {
	t.Parallel()
	needStrace(t)
	w := newWorld(t)
	w.git.commit(t, commit("1"), "apps/hello", noise(1, 1<<20))
	w.console.Put(shop("HEAD", commit("1")), service("hello", "edge-1", "apps/hello"))
	plain := *w
	plain.ca.CertFile, plain.ca.KeyFile = "", ""
	calls := filepath.Join(t.TempDir(), "calls")
	p := plain.spawn("strace", "-f", "-o", calls, "-e", "trace=sendfile")
	if p == nil {
		t.Fatal("it ended")
	}
	a := p.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	stored, err := os.ReadFile(w.cacheFile(a.got["hello"].GetArtifact().GetDigest()))
	if err != nil {
		t.Fatal(err)
	}
	line := &http.Client{Transport: client.Authorize(&http.Transport{DisableKeepAlives: true},
		identitytest.Source(a.token, identity.ServiceDistributor))}
	await.True(w.t, "the kernel sends it", func() bool { // the file is trusted when it is a second old
		if got := get(t, line, p.url+artifact.Path+a.got["hello"].GetArtifact().GetDigest()); !bytes.Equal(got, stored) {
			t.Fatalf("%d bytes of %d", len(got), len(stored))
		}
		seen, err := os.ReadFile(calls)
		return err == nil && bytes.Contains(seen, []byte("sendfile("))
	})
}

// get is the body of an artifact as it is stored.
func get(t *testing.T, c *http.Client, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "zstd")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "zstd" {
		t.Fatalf("%s, %v", resp.Status, err)
	}
	return body
}

// smallDisk makes a folder a disk of its own.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small disk can't be mounted here (that takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

// fill leaves no room in a folder.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}
