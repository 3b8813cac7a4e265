package artifact_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"fairlead.dev/platform/artifact"
)

func openStore(t testing.TB, dir string, maxBytes int64) *artifact.Store {
	t.Helper()
	s, err := artifact.OpenStore(dir, artifact.Options{MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// noise is content that does not compress, the same for the same seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func digestOf(b []byte) artifact.Digest {
	sum := sha256.Sum256(b)
	return artifact.SumDigest(sum[:])
}

func put(t testing.TB, s *artifact.Store, b []byte) artifact.Digest {
	t.Helper()
	d := digestOf(b)
	if err := s.Put(context.Background(), d, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	return d
}

// A person deletes the folder under a service that runs: what comes next is kept, also what was there before.
func TestAStoreMakesItsFolderAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "artifacts")
	s, err := artifact.OpenStore(dir, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := noise(1, 1000)
	d := put(t, s, b)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := read(s, d); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("read what was deleted: %v", err)
	}
	put(t, s, b)
	if got, err := read(s, d); err != nil || !bytes.Equal(got, b) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func read(s *artifact.Store, d artifact.Digest) ([]byte, error) {
	b, err := s.Open(d)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(b)
	return got, errors.Join(err, b.Close())
}

func mustRead(t testing.TB, s *artifact.Store, want []byte) {
	t.Helper()
	if got, err := read(s, digestOf(want)); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes, want %d: %v", len(got), len(want), err)
	}
}

func mustMiss(t testing.TB, s *artifact.Store, d artifact.Digest) {
	t.Helper()
	if _, err := read(s, d); !errors.Is(err, artifact.ErrNotFound) || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
}

func TestStoreGivesBackWhatWasPut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	for _, n := range []int{0, 1, 1024, 100_000, 5 << 20} {
		b := noise(uint64(n), n)
		put(t, s, b)
		put(t, s, b) // again
		mustRead(t, s, b)
		mustRead(t, openStore(t, dir, 0), b) // after a restart
	}
	mustMiss(t, s, digestOf([]byte("other")))
	if st := s.Stats(); st.Artifacts != 5 || st.Bytes < 5<<20 {
		t.Errorf("%+v", st)
	}
}

func TestPutRefusesWrongBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	d := digestOf([]byte("right"))
	if err := s.Put(context.Background(), d, strings.NewReader("wrong")); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	boom := errors.New("boom")
	if err := s.Put(context.Background(), d,
		io.MultiReader(strings.NewReader("ri"), errReader{boom})); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	mustMiss(t, s, d)
	mustBeClean(t, s, dir)
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

// mustBeClean finds nothing on the disk and in the accounts.
func mustBeClean(t *testing.T, s *artifact.Store, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	if st := s.Stats(); st.Bytes != 0 || st.Artifacts != 0 {
		t.Errorf("%+v", st)
	}
}

func TestPutRefusesMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := artifact.OpenStore(dir, artifact.Options{Limits: artifact.Limits{Bytes: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	b := noise(1, 1001)
	if err := s.Put(context.Background(), digestOf(b), bytes.NewReader(b)); !errors.Is(err, artifact.ErrRefused) {
		t.Errorf("got %v", err)
	}
	mustBeClean(t, s, dir)
}

func TestBuildStoresUnderTheDigestThatComesOut(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	packed, want := pack(t, mixed())
	sum, err := s.Build(func(w *artifact.Writer) error {
		return artifact.Walk(bytes.NewReader(packed), artifact.Limits{}, func(e artifact.Entry, r io.Reader) error {
			if e.Link != "" {
				return w.Symlink(e.Path, e.Link)
			}
			return w.File(e.Path, e.Executable, e.Size, r)
		})
	})
	if err != nil || sum != want {
		t.Fatalf("got %+v, want %+v: %v", sum, want, err)
	}
	mustRead(t, s, packed)
}

func TestBuildThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	boom := errors.New("boom")
	if _, err := s.Build(func(w *artifact.Writer) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	mustBeClean(t, s, dir)
}

// corruptions are what happens to files on disks.
func corruptions() map[string]func(t *testing.T, name string, other []byte) {
	edit := func(change func([]byte) []byte) func(*testing.T, string, []byte) {
		return func(t *testing.T, name string, _ []byte) {
			t.Helper()
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, change(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return map[string]func(t *testing.T, name string, other []byte){
		"flipped byte":   edit(func(b []byte) []byte { b[len(b)/2] ^= 0x40; return b }),
		"flipped last":   edit(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"truncated":      edit(func(b []byte) []byte { return b[:len(b)/2] }),
		"truncated by 1": edit(func(b []byte) []byte { return b[:len(b)-1] }),
		"emptied":        edit(func([]byte) []byte { return nil }),
		"zeroed":         edit(func(b []byte) []byte { clear(b); return b }),
		"garbage after":  edit(func(b []byte) []byte { return append(b, "garbage"...) }),
		"swapped": func(t *testing.T, name string, other []byte) {
			t.Helper()
			if err := os.WriteFile(name, other, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestBadFileIsQuarantinedAndNotFound(t *testing.T) {
	t.Parallel()
	for name, corrupt := range corruptions() {
		for _, restart := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				s := openStore(t, dir, 0)
				good, kept := noise(1, 10_000), noise(2, 10_000)
				d, other := put(t, s, good), put(t, s, kept)
				otherBytes, err := os.ReadFile(s.FileOf(other))
				if err != nil {
					t.Fatal(err)
				}
				corrupt(t, s.FileOf(d), otherBytes)
				if restart {
					s = openStore(t, dir, 0)
				}
				mustMiss(t, s, d)
				mustRead(t, s, kept)
				bad, err := os.ReadDir(filepath.Join(dir, "quarantine"))
				if st := s.Stats(); err != nil || len(bad) != 1 || st.Corrupt != 1 || st.Artifacts != 1 {
					t.Errorf("quarantine holds %d, stats %+v, %v", len(bad), st, err)
				}
				put(t, s, good)
				mustRead(t, s, good)
			})
		}
	}
}

func TestFileThatSomebodyRemovedIsNotFound(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	d := put(t, s, noise(1, 1000))
	if err := os.Remove(s.FileOf(d)); err != nil {
		t.Fatal(err)
	}
	mustMiss(t, s, d)
	if st := s.Stats(); st.Bytes != 0 || st.Artifacts != 0 {
		t.Errorf("%+v", st)
	}
}

// rot changes a file in a way that its size and time do not tell.
func rot(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("rotten"), info.Size()/2); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), os.Chtimes(name, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

func TestRotIsSeenWhileReading(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	d := put(t, s, noise(1, 300_000))
	rot(t, s.FileOf(d))
	if _, err := read(s, d); err == nil {
		t.Error("read rotten bytes")
	}
	mustMiss(t, s, d)
}

func TestStartSweepsTemporaryFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := noise(1, 1000)
	put(t, openStore(t, dir, 0), b)
	for name, body := range map[string]string{
		"tmp-123": "half", "tmp-": "", "README": "not ours", "zz.tar.zst": "not ours",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, dir, 0)
	mustRead(t, s, b)
	if left, _ := filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if st := s.Stats(); st.Artifacts != 1 {
		t.Errorf("%+v", st)
	}
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 35_000)
	a, b, c, d := noise(1, 10_000), noise(2, 10_000), noise(3, 10_000), noise(4, 10_000)
	put(t, s, a)
	put(t, s, b)
	put(t, s, c)
	mustRead(t, s, a)
	put(t, s, d)
	mustMiss(t, s, digestOf(b))
	for _, kept := range [][]byte{a, c, d} {
		mustRead(t, s, kept)
	}
	if st := s.Stats(); st.Bytes > 35_000 || st.Evicted != 1 {
		t.Errorf("%+v", st)
	}
}

func TestPinnedIsNeverEvicted(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 25_000)
	a, b, c := noise(1, 10_000), noise(2, 10_000), noise(3, 10_000)
	s.Pin([]artifact.Digest{digestOf(a), digestOf(b)})
	put(t, s, a)
	put(t, s, b)
	if err := s.Put(context.Background(), digestOf(c), bytes.NewReader(c)); !errors.Is(err, artifact.ErrNoSpace) {
		t.Errorf("got %v, want ErrNoSpace", err)
	}
	mustRead(t, s, a)
	mustRead(t, s, b)
	s.Pin([]artifact.Digest{digestOf(a)})
	put(t, s, c)
	mustRead(t, s, a)
	mustMiss(t, s, digestOf(b))
}

func TestEvictedArtifactStaysReadableForWhoHasItOpen(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 15_000)
	a := noise(1, 10_000)
	b, err := s.Open(put(t, s, a))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, noise(2, 10_000))
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, a) {
		t.Errorf("%v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// failingFile is a disk that fails after some bytes, or at fsync.
type failingFile struct {
	artifact.TempFile
	room    *atomic.Int64 // bytes until writes fail
	err     error
	syncErr error
}

func (f failingFile) Write(p []byte) (int, error) {
	if f.room.Add(int64(-len(p))) < 0 {
		return 0, &fs.PathError{Op: "write", Path: "x", Err: f.err}
	}
	return f.TempFile.Write(p)
}

func (f failingFile) Sync() error {
	if f.syncErr != nil {
		return &fs.PathError{Op: "sync", Path: "x", Err: f.syncErr}
	}
	return f.TempFile.Sync()
}

func TestFailingDiskIsNoSpaceAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]failingFile{
		"full":            {err: syscall.ENOSPC},
		"quota":           {err: syscall.EDQUOT},
		"I/O error":       {err: syscall.EIO},
		"full at fsync":   {syncErr: syscall.ENOSPC},
		"fails at fsync":  {syncErr: syscall.EIO},
		"turns read-only": {err: syscall.EROFS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openStore(t, dir, 0)
			s.FailWrites(func(real artifact.TempFile) artifact.TempFile {
				f := f
				f.TempFile, f.room = real, &atomic.Int64{}
				if f.err == nil {
					f.room.Store(1 << 40)
				}
				return f
			})
			b := noise(1, 100_000)
			if err := s.Put(context.Background(), digestOf(b),
				bytes.NewReader(b)); !errors.Is(err, artifact.ErrNoSpace) {
				t.Errorf("put: %v", err)
			}
			packed, want := pack(t, mixed())
			sum, err := s.Build(func(w *artifact.Writer) error {
				return artifact.Walk(bytes.NewReader(packed), artifact.Limits{},
					func(e artifact.Entry, r io.Reader) error {
						if e.Link != "" {
							return w.Symlink(e.Path, e.Link)
						}
						return w.File(e.Path, e.Executable, e.Size, r)
					})
			})
			if !errors.Is(err, artifact.ErrNoSpace) || sum != want {
				t.Errorf("build: %+v, %v", sum, err)
			}
			mustBeClean(t, s, dir)
		})
	}
}

// A disk that others fill as well holds less than MaxBytes: old artifacts make room for new ones.
func TestFullDiskEvictsBeforeItGivesUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	old := put(t, s, noise(1, 50_000))
	s.FailWrites(func(real artifact.TempFile) artifact.TempFile {
		room := &atomic.Int64{}
		room.Store(1 << 40)
		return diskWithout{failingFile{TempFile: real, err: syscall.ENOSPC, room: room}, s.FileOf(old)}
	})
	b := noise(2, 50_000)
	put(t, s, b)
	mustRead(t, s, b)
	mustMiss(t, s, old)
}

// diskWithout is full for as long as a file exists.
type diskWithout struct {
	failingFile
	file string
}

func (d diskWithout) Write(p []byte) (int, error) {
	if _, err := os.Stat(d.file); err == nil {
		return 0, d.err
	}
	return d.failingFile.Write(p)
}

func TestFillFetchesOnceForMany(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	b := noise(1, 10_000)
	var fetches atomic.Int32
	started, release := make(chan struct{}, 100), make(chan struct{})
	fetch := func(ctx context.Context, _ artifact.Digest) (io.ReadCloser, error) {
		fetches.Add(1)
		started <- struct{}{}
		<-release
		return io.NopCloser(bytes.NewReader(b)), ctx.Err()
	}
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error)
	go func() {
		_, err := s.Fill(ctx, digestOf(b), fetch)
		first <- err
	}()
	<-started
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			blob, err := s.Fill(context.Background(), digestOf(b), fetch)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.ReadAll(blob); err != nil || !bytes.Equal(got, b) {
				t.Error("wrong bytes", err)
			}
			_ = blob.Close()
		})
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller: %v", err)
	}
	close(release)
	wg.Wait()
	if n := fetches.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

func TestCloseEndsFills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	started := make(chan struct{})
	failed := make(chan error)
	go func() {
		_, err := s.Fill(context.Background(), digestOf(nil),
			func(ctx context.Context, _ artifact.Digest) (io.ReadCloser, error) {
				close(started)
				<-ctx.Done()
				return nil, ctx.Err()
			})
		failed <- err
	}()
	<-started
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Fill(context.Background(), digestOf(nil), nil); !errors.Is(err, artifact.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	mustBeClean(t, s, dir)
}

func TestFillGivesTheFetchersError(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	boom := errors.New("boom")
	_, err := s.Fill(context.Background(), digestOf(nil),
		func(context.Context, artifact.Digest) (io.ReadCloser, error) { return nil, boom })
	if !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	_, err = s.Fill(context.Background(), digestOf(nil), func(context.Context, artifact.Digest) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("x")), nil
	})
	if !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// The store against a model: whatever is done to it and to its files, what it gives out is right, it
// keeps its bounds and its pins, and its accounts agree with the disk.
// closing does something when it is closed.
type closing struct {
	io.Reader
	do func()
}

func (c closing) Close() error {
	c.do()
	return nil
}

// TestWhatIsEvictedAtOnceIsNotSaidToBeMissing: the caller can have it passed through.
func TestWhatIsEvictedAtOnceIsNotSaidToBeMissing(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 100_000)
	b := noise(1, 60_000)
	_, err := s.Fill(t.Context(), digestOf(b), func(context.Context, artifact.Digest) (io.ReadCloser, error) {
		return closing{bytes.NewReader(b), func() { put(t, s, noise(2, 60_000)) }}, nil
	})
	if !errors.Is(err, artifact.ErrNoSpace) || errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestStoreAgainstModel(t *testing.T) {
	t.Parallel()
	const maxBytes = 50_000
	var contents [][]byte
	for n := range 8 {
		contents = append(contents, noise(uint64(n), 1000+4000*n))
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir() // another one each time
		s := openStore(t, dir, maxBytes)
		pinned := map[artifact.Digest]bool{} // pinned and put, and not damaged since
		index := rapid.IntRange(0, len(contents)-1)
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				b := contents[index.Draw(t, "b")]
				if err := s.Put(context.Background(), digestOf(b), bytes.NewReader(b)); err != nil &&
					!errors.Is(err, artifact.ErrNoSpace) {
					t.Fatal(err)
				}
				if _, ok := pinned[digestOf(b)]; ok {
					pinned[digestOf(b)] = s.Has(digestOf(b))
				}
			},
			"read": func(t *rapid.T) {
				b := contents[index.Draw(t, "b")]
				got, err := read(s, digestOf(b))
				if err == nil && !bytes.Equal(got, b) || err != nil && !errors.Is(err, artifact.ErrNotFound) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
				if pinned[digestOf(b)] && err != nil {
					t.Fatal("a pinned artifact is gone")
				}
			},
			"pin": func(t *rapid.T) {
				clear(pinned)
				var ds []artifact.Digest
				for _, i := range rapid.SliceOfN(index, 0, 2).Draw(t, "pinned") {
					b := contents[i]
					ds = append(ds, digestOf(b))
					pinned[digestOf(b)] = s.Has(digestOf(b))
				}
				s.Pin(ds)
			},
			"damage": func(t *rapid.T) {
				d := digestOf(contents[index.Draw(t, "b")])
				if err := os.Truncate(s.FileOf(d), 100); err == nil {
					if pinned[d] {
						pinned[d] = false
					}
					_, _ = read(s, d)
				}
			},
			"restart": func(*rapid.T) {
				clear(pinned)
				s = openStore(t, dir, maxBytes)
			},
			"": func(t *rapid.T) {
				var disk int64
				names, _ := filepath.Glob(filepath.Join(dir, "*"))
				for _, n := range names {
					if info, err := os.Stat(n); err == nil && info.Mode().IsRegular() {
						disk += info.Size()
					}
				}
				if st := s.Stats(); st.Bytes != disk || disk > maxBytes {
					t.Fatalf("disk has %d bytes, stats %+v", disk, st)
				}
			},
		})
	})
}

func TestBuildOnADiskThatTakesNothingStillTellsTheDigest(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir(), 0)
	s.FailCreates(&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC})
	sum, err := s.Build(func(w *artifact.Writer) error { return w.File("a", false, 1, strings.NewReader("x")) })
	_, want := pack(t, map[string]file{"a": {body: "x"}})
	if !errors.Is(err, artifact.ErrNoSpace) || sum != want {
		t.Errorf("got %+v, %v; want %+v", sum, err, want)
	}
}

// killEnv makes the test binary store artifacts in a folder until it is killed.
const killEnv = "FAIRLEAD_TEST_STORE_UNTIL_KILLED"

func TestKilledProcessLeavesOnlyWholeArtifacts(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(killEnv); dir != "" {
		s := openStore(t, dir, 0)
		for i := range 1_000_000 {
			put(t, s, noise(uint64(i), 20_000))
			fmt.Fprintln(os.Stderr, "stored", i)
		}
	}
	dir := t.TempDir()
	for round := range 5 {
		stored := killAfter(t, dir, 3+4*round)
		s := openStore(t, dir, 0)
		for i := range stored {
			mustRead(t, s, noise(uint64(i), 20_000))
		}
		if st := s.Stats(); st.Corrupt != 0 || st.Artifacts < stored {
			t.Errorf("%d were stored: %+v", stored, st)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// killAfter kills a process that stores artifacts, some time after it has stored n, and says how many it
// had.
func killAfter(t *testing.T, dir string, n int) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), killEnv+"="+dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stored, lines := 0, bufio.NewScanner(stderr)
	for stored < n && lines.Scan() {
		stored++
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		stored++
	}
	_ = cmd.Wait() // the process was killed
	if stored < n {
		t.Fatalf("the process stored %d and ended", stored)
	}
	return stored
}
