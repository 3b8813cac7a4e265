package pack_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pack"
)

// Makers of packs by hand, however wrong.

// What packs say of objects that are deltas: of one before, or of a name.
const offsetDelta, namedDelta git.Kind = 6, 7

func entryHead(kind git.Kind, size uint64) []byte {
	var b []byte
	c := byte(kind)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b, c = append(b, c|0x80), byte(size&0x7f)
	}
	return append(b, c)
}

func compressed(content string) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(content))
	_ = z.Close()
	return b.Bytes()
}

// whole is a file.
func whole(content string) []byte {
	return append(entryHead(git.Blob, uint64(len(content))), compressed(content)...)
}

// declaring is an object that says it has size bytes and has few.
func declaring(size uint64) []byte {
	return append(entryHead(git.Blob, size), compressed("few")...)
}

// byPlace is a delta whose base begins back bytes before it.
func byPlace(back uint64, d string) []byte {
	b := entryHead(offsetDelta, uint64(len(d)))
	text := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		text = append([]byte{0x80 | byte(back&0x7f)}, text...)
	}
	return append(append(b, text...), compressed(d)...)
}

func byName(base git.Hash, d string) []byte {
	b := entryHead(namedDelta, uint64(len(d)))
	return append(append(b, base[:]...), compressed(d)...)
}

func delta(from, to uint64, instructions ...string) string {
	b := binary.AppendUvarint(binary.AppendUvarint(nil, from), to)
	return string(b) + strings.Join(instructions, "")
}

func copyOf(from uint32, n uint32) string {
	op, rest := byte(0x80), []byte{}
	for i := range 4 {
		if c := byte(from >> (8 * i)); c != 0 {
			op, rest = op|1<<i, append(rest, c)
		}
	}
	for i := range 3 {
		if c := byte(n >> (8 * i)); c != 0 {
			op, rest = op|1<<(4+i), append(rest, c)
		}
	}
	return string(append([]byte{op}, rest...))
}

func crafted(objects ...[]byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	return append(b, bytes.Join(objects, nil)...)
}

// aDelta is a good pack of two objects.
func aDelta() []byte {
	base := whole("0123456789")
	return crafted(base, byPlace(uint64(len(base)), delta(10, 20, copyOf(0, 10), copyOf(0, 10))))
}

func check(t *testing.T, b []byte) (*pack.Objects, error) {
	t.Helper()
	b = sealed(b)
	dir := t.TempDir()
	objects, err := pack.Check(t.Context(), bytes.NewReader(b), int64(len(b)), dir, pack.UsualBounds())
	left, readErr := os.ReadDir(dir)
	if readErr != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, readErr)
	}
	return objects, err
}

func TestCraftedPacksAreRefused(t *testing.T) {
	t.Parallel()
	blob := whole("0123456789")
	x, y := git.Hash{1}, git.Hash{2}
	for name, b := range map[string][]byte{
		"nothing":                    {},
		"not a pack":                 append([]byte("PUCK\x00\x00\x00\x02"), 0, 0, 0, 0),
		"version 3":                  append([]byte("PACK\x00\x00\x00\x03"), 0, 0, 0, 0),
		"more objects than fit":      append([]byte("PACK\x00\x00\x00\x02\x00\x40\x00\x00"), blob...),
		"fewer objects than it has":  append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), append(bytes.Clone(blob), blob...)...),
		"type 0":                     crafted(append(entryHead(0, 3), compressed("few")...), blob),
		"type 5":                     crafted(append(entryHead(5, 3), compressed("few")...), blob),
		"longer than it says":        crafted(append(entryHead(git.Blob, 2), compressed("few")...), blob),
		"shorter than it says":       crafted(declaring(4), blob),
		"not zlib":                   crafted(append(entryHead(git.Blob, 2), "ABCDEFGHIJKLMN"...), blob),
		"a size without end":         crafted(bytes.Repeat([]byte{0xff}, 30)),
		"a base before the pack":     crafted(blob, byPlace(500, delta(10, 10, copyOf(0, 10)))),
		"a base that is itself":      crafted(blob, byPlace(0, delta(10, 10, copyOf(0, 10)))),
		"a base between two":         crafted(blob, byPlace(5, delta(10, 10, copyOf(0, 10)))),
		"a base that is not there":   crafted(blob, byName(x, delta(10, 10, copyOf(0, 10)))),
		"a circle":                   crafted(blob, byName(x, delta(10, 10, copyOf(0, 10))), byName(y, delta(10, 10, copyOf(0, 10)))),
		"a delta for another size":   crafted(blob, byPlace(uint64(len(blob)), delta(9, 9, copyOf(0, 9)))),
		"a copy past the base":       crafted(blob, byPlace(uint64(len(blob)), delta(10, 10, copyOf(5, 10)))),
		"a delta that makes more":    crafted(blob, byPlace(uint64(len(blob)), delta(10, 5, copyOf(0, 10)))),
		"a delta that makes less":    crafted(blob, byPlace(uint64(len(blob)), delta(10, 11, copyOf(0, 10)))),
		"an insert past the end":     crafted(blob, byPlace(uint64(len(blob)), delta(10, 10, "\x7fabc"))),
		"an unknown instruction":     crafted(blob, byPlace(uint64(len(blob)), delta(10, 10, "\x00"))),
		"a delta without sizes":      crafted(blob, byPlace(uint64(len(blob)), "\x8a")),
		"a copy without its numbers": crafted(blob, byPlace(uint64(len(blob)), delta(10, 10, "\x91"))),
	} {
		if _, err := check(t, b); !errors.Is(err, pack.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALimitIsNamed(t *testing.T) {
	t.Parallel()
	blob := whole("0123456789")
	for want, b := range map[string][]byte{
		"a file of 4097 MiB, over the limit of 4096 MiB":                                    crafted(declaring(pack.MaxObjectBytes+1<<20), blob),
		"a file of 513 MiB, kept as a difference to another, over the limit of 512 MiB for": crafted(blob, byPlace(uint64(len(blob)), delta(10, 513<<20, copyOf(0, 10)))),
		"has 4294967295 objects, more than the limit of 5000000":                            append([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"), blob...),
	} {
		_, err := check(t, b)
		if limit, ok := errors.AsType[*pack.LimitError](err); !ok || !strings.Contains(limit.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// bomb is a small pack whose deltas each make 512 MiB of a base of 64 KiB.
func bomb(deltas int) []byte {
	base := whole(strings.Repeat("b", 64<<10))
	id := pack.Name(git.Blob, []byte(strings.Repeat("b", 64<<10)))
	objects := [][]byte{base}
	for range deltas {
		objects = append(objects, byName(id, delta(64<<10, 512<<20, strings.Repeat(copyOf(0, 64<<10), 8192))))
	}
	return crafted(objects...)
}

func TestAPackThatMakesMuchMoreThanItsSizeIsRefusedBeforeAnyIsMade(t *testing.T) {
	t.Parallel()
	b := bomb(12)
	if len(b) > 16<<10 {
		t.Fatalf("it has %d bytes", len(b))
	}
	_, err := check(t, b)
	if limit, ok := errors.AsType[*pack.LimitError](err); !ok || !strings.Contains(limit.Error(), "more than 4 GiB") {
		t.Errorf("got %v", err)
	}
}

func TestACheckThatTakesTooLongNamesThePack(t *testing.T) {
	t.Parallel()
	b := sealed(bomb(1))
	_, err := pack.Check(t.Context(), bytes.NewReader(b), int64(len(b)), t.TempDir(),
		pack.Bounds{Processor: time.Nanosecond})
	if limit, ok := errors.AsType[*pack.LimitError](err); !ok || !strings.Contains(limit.Error(), "to check") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pack.Check(ctx, bytes.NewReader(b), int64(len(b)), t.TempDir(), pack.Bounds{Processor: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gives up: %v", err)
	}
}

// slowDisk takes an hour for each read.
type slowDisk struct{ io.ReaderAt }

func (d slowDisk) ReadAt(p []byte, at int64) (int, error) {
	<-time.After(time.Hour)
	return d.ReaderAt.ReadAt(p, at)
}

// A replica that is slow says nothing about the pack.
func TestASlowDiskIsNoFaultOfThePack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := sealed(crafted(whole("x")))
		if _, err := pack.Check(t.Context(), slowDisk{bytes.NewReader(b)}, int64(len(b)), t.TempDir(), pack.UsualBounds()); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheExpansionOfAPackIsWhatIsAllowed(t *testing.T) {
	t.Parallel()
	longform.Only(t, "packs that expand to their limit")
	b := sealed(bomb(9)) // 4.5 GiB of some KiB
	_, err := pack.Check(t.Context(), bytes.NewReader(b), int64(len(b)), t.TempDir(), pack.Bounds{Expansion: 1024})
	if limit, ok := errors.AsType[*pack.LimitError](err); !ok ||
		!strings.Contains(limit.Error(), "raise --max-expansion") {
		t.Errorf("got %v", err)
	}
	for _, expansion := range []int64{1 << 20, 0} {
		ctx, cancel := context.WithCancel(t.Context())
		enough := &until{Context: ctx, left: 3, cancel: cancel} // making all of it takes long, and shows nothing
		if _, err := pack.Check(enough, bytes.NewReader(b), int64(len(b)), t.TempDir(), pack.Bounds{Expansion: expansion}); !errors.Is(err, context.Canceled) {
			t.Errorf("with an expansion of %d: %v", expansion, err)
		}
		cancel()
	}
}

// until ends after some questions for its end.
type until struct {
	context.Context

	left   int
	cancel context.CancelFunc
}

func (u *until) Err() error {
	if u.left--; u.left < 0 {
		u.cancel()
	}
	return u.Context.Err()
}

// TestAnObjectTwiceInAPackIsReadThroughTheFirst also if the second is made from what is made from it.
func TestAnObjectTwiceInAPackIsReadThroughTheFirst(t *testing.T) {
	t.Parallel()
	one, two := "0123456789", "9876543210"
	first := whole(one)
	nameOne, nameTwo := pack.Name(git.Blob, []byte(one)), pack.Name(git.Blob, []byte(two))
	toTwo := byName(nameOne, delta(10, 10, "\x0a"+two))
	backToOne := byName(nameTwo, delta(10, 10, "\x0a"+one))
	for _, b := range [][]byte{crafted(first, toTwo, backToOne), crafted(backToOne, toTwo, first)} {
		objects, err := check(t, b)
		if err != nil || objects.Len() != 2 || !objects.Has(nameOne) || !objects.Has(nameTwo) {
			t.Fatalf("%v", err)
		}
		b = sealed(b)
		readAll(t, b, objects)
		var joined bytes.Buffer
		if err := pack.Join(t.Context(), &joined, []*pack.File{store(t, b)}, t.TempDir()); err != nil {
			t.Fatalf("join: %v", err)
		}
		if n := store(t, joined.Bytes()).Index().Len(); n != 2 {
			t.Errorf("joined to %d objects", n)
		}
	}
}

// TestDeltasUponDeltasOfLargeObjectsTakeLittleMemory: a chain whose objects would fill 336 MiB.
func TestDeltasUponDeltasOfLargeObjectsTakeLittleMemory(t *testing.T) { //nolint:paralleltest // looks at the memory of the process
	longform.Only(t, "large objects")
	const size, step = 16 << 20, 4 << 10
	base := whole(strings.Repeat("0", size))
	objects := [][]byte{base}
	last := len(base)
	rest := []string{}
	for at := uint32(step); at < size; at += step {
		rest = append(rest, copyOf(at, step))
	}
	for i := range 20 {
		begin := strings.Repeat("\x40"+strings.Repeat(string(rune('a'+i)), 64), step/64)
		d := byPlace(uint64(last), delta(size, size, append([]string{begin}, rest...)...))
		objects = append(objects, d)
		last = len(d)
	}
	b := sealed(crafted(objects...))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := pack.Check(t.Context(), bytes.NewReader(b), int64(len(b)), t.TempDir(), pack.UsualBounds())
	runtime.ReadMemStats(&after)
	if err != nil || found.Len() != len(objects) {
		t.Fatal(err)
	}
	if grew := (after.HeapSys - before.HeapSys) >> 20; grew > 150 {
		t.Errorf("took %d MiB", grew)
	}
	f := store(t, b)
	at := int64(len(b) - 20 - last)
	kind, content, err := f.Read(at, size, pack.NewCache(1<<20), t.TempDir())
	if err != nil || !found.Has(pack.Name(kind, content)) {
		t.Errorf("read back %d bytes: %v", len(content), err)
	}
}

// TestALargeObjectStreamsThrough: it is never in memory, neither to be checked nor to be joined.
func TestALargeObjectStreamsThrough(t *testing.T) { //nolint:paralleltest // looks at the memory of the process
	const size = 256 << 20
	f, err := os.Create(t.TempDir() + "/large.pack")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	sum := pack.NewSum()
	w := io.MultiWriter(f, sum)
	_, _ = w.Write(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 1))
	_, _ = w.Write(entryHead(git.Blob, size))
	z, _ := zlib.NewWriterLevel(w, zlib.BestSpeed)
	zeros := make([]byte, 1<<20)
	for range size / len(zeros) {
		_, _ = z.Write(zeros)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	objects, err := pack.Check(t.Context(), f, info.Size()+20, t.TempDir(), pack.UsualBounds())
	runtime.ReadMemStats(&after)
	if err != nil || objects.Len() != 1 {
		t.Fatalf("%v", err)
	}
	if grew := (after.TotalAlloc - before.TotalAlloc) >> 20; grew > 100 {
		t.Errorf("allocated %d MiB", grew)
	}
}

// steps counts how often it is asked whether to go on.
type steps struct {
	context.Context //nolint:containedctx // it is one

	n int
}

func (s *steps) Err() error {
	s.n++
	return s.Context.Err()
}

// Work must grow with a pack and not with its square, and end when the caller does.
func TestDeltasUponCopiesOfAnObjectAreFollowedOnce(t *testing.T) {
	t.Parallel()
	const many = 2000
	blob := whole("x")
	id := pack.Name(git.Blob, []byte("x"))
	same, other := byName(id, delta(1, 1, copyOf(0, 1))), byName(id, delta(1, 3, "\x03abc"))
	copies, others := slices.Repeat([][]byte{blob}, many), slices.Repeat([][]byte{other}, many)
	for name, b := range map[string][]byte{
		"whole":     crafted(append(copies, others...)...),
		"by deltas": crafted(slices.Concat([][]byte{same, same}, others, copies)...),
	} {
		b = sealed(b)
		ctx := &steps{Context: t.Context()}
		objects, err := pack.Check(ctx, bytes.NewReader(b), int64(len(b)), t.TempDir(), pack.UsualBounds())
		if err != nil || objects.Len() != 2 {
			t.Fatalf("%s: %v", name, err)
		}
		if ctx.n < many || ctx.n > 10*many {
			t.Errorf("%s: %d steps for %d objects", name, ctx.n, 2*many)
		}
	}
}
