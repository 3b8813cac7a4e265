package artifact_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"fairlead.dev/platform/artifact"
)

// Real disks that are full or fail: a small file system of our own, and a kernel that gives errors
// instead of doing what it was asked to.

// smallDisk is a folder that holds size bytes, as mount understands them.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk can't be mounted here (that takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// upstream gives out contents and counts how often.
type upstream struct {
	contents map[artifact.Digest][]byte
	fetches  atomic.Int32
}

func (u *upstream) fetch(_ context.Context, d artifact.Digest) (io.ReadCloser, error) {
	u.fetches.Add(1)
	b, ok := u.contents[d]
	if !ok {
		return nil, artifact.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func newUpstream(contents ...[]byte) *upstream {
	u := &upstream{contents: map[artifact.Digest][]byte{}}
	for _, b := range contents {
		u.contents[digestOf(b)] = b
	}
	return u
}

// ballast fills a disk up to its last bytes.
func ballast(t *testing.T, dir string) (remove func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
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
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskServesOnAndFetchesOnce(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "4m")
	s, err := artifact.OpenStore(dir, artifact.Options{Memory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	stored, late, large := noise(1, 300_000), noise(2, 300_000), noise(3, 5<<20)
	u := newUpstream(stored, late, large)
	url := serve(t, s.FillHandler(allowAll, u.fetch))
	get := func(b []byte) {
		t.Helper()
		if got := download(t, url, digestOf(b)); !bytes.Equal(got, b) {
			t.Fatalf("%d bytes came, want %d", len(got), len(b))
		}
	}
	get(stored)
	s.Pin([]artifact.Digest{digestOf(stored)})
	remove := ballast(t, dir)

	get(stored) // an artifact that is there stays
	var many sync.WaitGroup
	for range 20 {
		many.Go(func() { get(late) })
	}
	many.Wait()
	get(late)
	if n := u.fetches.Load(); n != 2 || s.OnDisk(digestOf(late)) || !s.Has(digestOf(late)) {
		t.Errorf("%d fetches of two artifacts; on disk: %v", n, s.OnDisk(digestOf(late)))
	}
	get(large) // neither the disk nor memory takes it: it is passed through
	if s.Has(digestOf(large)) || s.Stats().Full == 0 {
		t.Errorf("%+v", s.Stats())
	}

	remove()
	s.RetryNow()
	get(late)
	if !s.OnDisk(digestOf(late)) {
		t.Error("the disk has room again and is not used")
	}
	get(late)
	if n := u.fetches.Load(); n != 4 { // large: to store it, and to pass it through
		t.Errorf("%d fetches", n)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	mustRead(t, openStore(t, dir, 0), stored)
}

func TestOnAFullDiskBadFilesAndOldArtifactsMakeRoom(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "4m")
	s := openStore(t, dir, 0)
	bad := put(t, s, noise(1, 1<<20))
	rot(t, s.FileOf(bad))
	if _, err := read(s, bad); err == nil {
		t.Fatal("rot is not seen")
	}
	pinned := noise(2, 1<<20)
	s.Pin([]artifact.Digest{put(t, s, pinned)})
	for i := range uint64(10) {
		b := noise(10+i, 1<<20)
		put(t, s, b)
		mustRead(t, s, b)
	}
	mustRead(t, s, pinned)
	if kept, err := os.ReadDir(filepath.Join(dir, "quarantine")); err != nil || len(kept) > 0 {
		t.Errorf("in quarantine: %v, %v", kept, err)
	}
}

// faultEnv makes a test do its work in this folder, with a kernel that fails.
const faultEnv = "FAIRLEAD_TEST_STORE_ON_FAILING_DISK"

// underFaults runs the test of this name again, under strace, which makes a call of the kernel fail as
// inject says, and if path is not empty, only for that file in the folder. underFaults gives the folder in which the
// test is to work; empty: the test has worked there, and nothing is left to do.
func underFaults(t *testing.T, inject, path string) string {
	t.Helper()
	if dir := os.Getenv(faultEnv); dir != "" {
		return dir
	}
	needStrace(t)
	dir := t.TempDir()
	args := []string{"-f", "-o", os.DevNull, "-e", "inject=" + inject}
	if path != "" {
		args = append(args, "-P", filepath.Join(dir, path))
	}
	args = append(args, os.Args[0], "-test.run", "^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	cmd := exec.CommandContext(t.Context(), "strace", args...)
	cmd.Env = append(os.Environ(), faultEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if _, missing := os.Stat(filepath.Join(dir, metFault)); err != nil || missing != nil {
		t.Errorf("%v, %v: %s", err, missing, out)
	}
	return ""
}

func needStrace(t *testing.T) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "strace", "-o", os.DevNull, "true").Run(); err != nil {
		t.Skipf("strace can't be used here: %v", err)
	}
}

// metFault is the file by which a test under faults says that it met one and went well.
const metFault = "met"

func meetFault(t *testing.T, dir string) {
	t.Helper()
	if t.Failed() {
		return
	}
	if err := os.Mkdir(filepath.Join(dir, metFault), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestADiskThatFailsServesOn(t *testing.T) {
	t.Parallel()
	for name, inject := range map[string]string{
		"fsync":  "fsync:error=EIO",
		"write":  "write:error=EIO",
		"full":   "write:error=ENOSPC",
		"rename": "renameat:error=EIO",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := underFaults(t, inject, "")
			if dir == "" {
				return
			}
			s, err := artifact.OpenStore(dir, artifact.Options{Memory: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			b := noise(1, 100_000)
			u := newUpstream(b)
			fillAndRead(t, s, u, b)
			if n := u.fetches.Load(); n != 1 {
				t.Errorf("%d fetches", n)
			}
			if s.OnDisk(digestOf(b)) || s.Stats().Full == 0 {
				t.Errorf("the fault was not met: %+v", s.Stats())
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*.zst")); len(left) > 0 {
				t.Errorf("on the disk: %v", left)
			}
			meetFault(t, dir)
		})
	}
}

func TestAFileThatCanNotBeReadIsFetchedAgainIntoMemory(t *testing.T) {
	t.Parallel()
	for name, inject := range map[string]string{
		"read": "pread64:error=EIO",
		"open": "openat:error=EIO",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := noise(1, 100_000)
			dir := underFaults(t, inject, digestOf(b).Hex()+".tar.zst")
			if dir == "" {
				return
			}
			put(t, openStore(t, dir, 0), b)
			s, err := artifact.OpenStore(dir, artifact.Options{Memory: 1 << 20}) // which has not looked at it yet
			if err != nil {
				t.Fatal(err)
			}
			u := newUpstream(b)
			fillAndRead(t, s, u, b)
			if n := u.fetches.Load(); n != 1 || s.OnDisk(digestOf(b)) || s.Stats().Corrupt != 1 {
				t.Errorf("%d fetches, %+v", n, s.Stats())
			}
			meetFault(t, dir)
		})
	}
}

// fillAndRead does so five times.
func fillAndRead(t *testing.T, s *artifact.Store, u *upstream, want []byte) {
	t.Helper()
	for range 5 {
		blob, err := s.Fill(t.Context(), digestOf(want), u.fetch)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(blob); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		_ = blob.Close()
	}
}

// Killed exactly between write and fsync, or between fsync and rename, a store loses what it was about
// to store and nothing else.
func TestKilledAtAStepLeavesOnlyWholeArtifacts(t *testing.T) {
	t.Parallel()
	needStrace(t)
	for _, inject := range []string{"fsync:signal=SIGKILL:when=5", "renameat:signal=SIGKILL:when=4"} {
		t.Run(inject, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "strace", "-f", "-o", os.DevNull, "-e", "inject="+inject,
				os.Args[0], "-test.run", "^TestKilledProcessLeavesOnlyWholeArtifacts$")
			cmd.Env = append(os.Environ(), killEnv+"="+dir)
			out, err := cmd.CombinedOutput()
			stored := bytes.Count(out, []byte("stored "))
			if err == nil || stored == 0 {
				t.Fatalf("it was not killed, or too early: %v: %s", err, out)
			}
			s := openStore(t, dir, 0)
			for i := range stored {
				mustRead(t, s, noise(uint64(i), 20_000))
			}
			if st := s.Stats(); st.Corrupt != 0 || st.Artifacts > stored+1 {
				t.Errorf("%d were stored: %+v", stored, st)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
