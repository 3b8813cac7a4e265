package build

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/recordlog"
)

// idOf is the n-th of many source_ids.
func idOf(n int) key {
	id, ok := parseKey(fmt.Sprintf("sha256:%064x", 1<<32+n))
	if !ok {
		panic("no source_id")
	}
	return id
}

func recordOf(source string, n int) record {
	return record{Source: source, Record: Record{
		SourceID: idOf(n).String(), Tree: strings.Repeat("ab", 20),
		Digest: artifact.Digest(fmt.Sprintf("sha256:%064x", n)), Size: 1, Files: 1,
	}}
}

func TestTheMemosFileDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a memo at its bound")
	path := filepath.Join(t.TempDir(), "memo")
	m, err := openMemo(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var largest int64
	for i := range 20_000 { // the same ten contents, again and again
		r := recordOf("u1", i%10)
		r.Files = i
		if err := m.putRecord(r); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	longest := recordOf("u1", 0)
	longest.Files = 99_999
	if line := int64(len(encodeRecord(longest))); largest > (recordlog.Slack+20)*line {
		t.Errorf("the file had %d bytes", largest)
	}
	if err := m.closeFile(); err != nil {
		t.Fatal(err)
	}
	if m, err = openMemo(path, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer m.closeFile()
	for i := range 10 {
		if r, ok := m.getRecord(idOf(i)); !ok || r.Files != 19_990+i {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// The lines are those that were written before recordlog was: disks of every release can be read.
func TestLinesAreThoseOfEarlierReleases(t *testing.T) {
	t.Parallel()
	const line = `66cfda84 {"source":"u1","id":"sha256:0000000000000000000000000000000000000000000000000000000100000007","tree":"abababababababababababababababababababab","filter":"-x\n","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000007","size":1,"files":1}
`
	const next = `4de28947 {"source":"u1","id":"sha256:0000000000000000000000000000000000000000000000000000000100000007","tree":"abababababababababababababababababababab","filter":"-x\n","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000007","size":1,"files":2}
`
	path := filepath.Join(t.TempDir(), "memo")
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := openMemo(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.closeFile() })
	want := recordOf("u1", 7)
	want.Filter = "-x\n"
	if r, ok := m.getRecord(idOf(7)); !ok || r != want {
		t.Errorf("got %+v, %v", r, ok)
	}
	want.Files = 2
	if err := m.putRecord(want); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != line+next {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTheMemoIsBoundedInMemory(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a memo at its bound")
	m, err := openMemo(filepath.Join(t.TempDir(), "memo"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer m.closeFile()
	long := recordOf("u1", 0)
	long.Filter = strings.Repeat("-x\n", 30_000)
	for i := range 1000 {
		long.SourceID = idOf(1_000_000 + i).String()
		m.mu.Lock()
		m.addLine(long, len(encodeRecord(long)))
		m.mu.Unlock()
	}
	if m.bytes > maxMemoBytes || len(m.byID) < 100 {
		t.Errorf("%d records of %d bytes", len(m.byID), m.bytes)
	}
	for i := range maxMemos + 100 {
		m.mu.Lock()
		m.addLine(recordOf("u1", i), 300)
		m.mu.Unlock()
	}
	if len(m.byID) > maxMemos || len(m.byDigest) > maxMemos {
		t.Errorf("%d records, %d digests", len(m.byID), len(m.byDigest))
	}
}

func TestTwoContentsMayBecomeOneArtifact(t *testing.T) {
	t.Parallel()
	m, err := openMemo(filepath.Join(t.TempDir(), "memo"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer m.closeFile()
	a, b := recordOf("u1", 1), recordOf("u2", 2)
	b.Digest = a.Digest
	for _, r := range []record{a, b} {
		if err := m.putRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	if all := m.getDigest(a.Digest); len(all) != 2 {
		t.Errorf("%+v", all)
	}
	m.forgetRecord(b.SourceID)
	if all := m.getDigest(a.Digest); len(all) != 1 || all[0].Source != "u1" {
		t.Errorf("%+v", all)
	}
	m.forgetRecord(a.SourceID)
	if len(m.byDigest) != 0 {
		t.Errorf("left: %v", m.byDigest)
	}
}

// With any bytes in the middle of the file, the whole lines around them are known.
func FuzzMemo(f *testing.F) {
	f.Add([]byte("\x00\x00"))
	f.Add(bytes.Repeat([]byte("x"), 3*maxLine))
	f.Add(encodeRecord(recordOf("u1", 7))[:40])
	f.Fuzz(func(t *testing.T, garbage []byte) {
		path := filepath.Join(t.TempDir(), "memo")
		b := encodeRecord(recordOf("u1", 1))
		b = append(append(append(b, garbage...), '\n'), encodeRecord(recordOf("u1", 2))...)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			m, err := openMemo(path, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i < 3; i++ {
				if r, ok := m.getRecord(idOf(i)); !ok || r != recordOf("u1", i) {
					t.Errorf("%d: %+v, %v", i, r, ok)
				}
			}
			if err := m.closeFile(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
