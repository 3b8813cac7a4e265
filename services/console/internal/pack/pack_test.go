package pack

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// states are what consoles stored, one a line.
func states(t testing.TB) (list [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "states.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		list = append(list, bytes.TrimSuffix(line, []byte("\n")))
	}
	return list
}

func FuzzATextIsTheSameWhenItIsUnpacked(f *testing.F) {
	for _, state := range states(f) {
		f.Add(state)
	}
	for _, text := range []string{
		"", "{", "\x01", "\x01\x02", "\x00\xff", "é", strings.Repeat("ü", 300), "0", "012345", "123456", "999999999999999999999",
		"2026-11-28T05:15:48.695354124Z", "2026-11-28T05:15:48.6900Z", "2026-11-28T05:15:48.Z", "2026-11-28T05:15:48,5Z", "2026-11-28T05:15:48Z", "2000-01-01T0:00:00Z0",
		"2026-11-28T05:15:48.0000000001Z", "9999-12-31T23:59:59.999999999Z", "2026-11-28T05:15:48+01:00", "1926-11-28T05:15:48Z",
		"2026-13-28T05:15:48Z", "0000-00-00T00:00:00Z", strings.Repeat("ab", 32), strings.Repeat("AB", 32),
		strings.Repeat(strings.Repeat("a1", 20)+"-", 3), strings.Repeat("ab", 33),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		packed := Pack(text)
		if got, err := Unpack(packed); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%q is packed as %q, and unpacked %q, %v", text, packed, got, err)
		}
		if got, err := Unpack(Short(string(text))); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%q is short as %q, and unpacked %q, %v", text, Short(string(text)), got, err)
		}
		if _, err := Unpack(append([]byte{version}, text...)); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("error of any bytes: %v", err)
		}
	})
}

func TestStatesTakeTwoFifths(t *testing.T) {
	t.Parallel()
	var before, after int
	for _, state := range states(t) {
		packed := Pack(state)
		before, after = before+len(state), after+len(packed)
		t.Logf("%d of %d bytes: %q", len(packed), len(state), packed)
	}
	if 5*after > 2*before {
		t.Errorf("states of %d bytes are packed in %d", before, after)
	}
}

// A console reads what one of an earlier version packed: the number of a word and of what follows it stay.
func TestWhatWasPackedIsRead(t *testing.T) {
	t.Parallel()
	const packed = "\x01\x80s1\x81\x08\xc0\x84=\x82\x05\x01\x23\x45\x67\x89\xab\xcd\xef\x88\x06\x81\xc7\xa9\xd8\x06\x03\x0c\x89\x07\x01\x8a\x09\x02ü\xe8"
	const text = `{"service":"s1","sequence":1000000,"phase":"healthy","digest":"sha256:0123456789abcdef","appliedTime":"2026-11-28T05:15:45.012Z` +
		`","observedTime":"2026-11-28T05:15:45.012Z","message":"ü"},{"service":"`
	if got, err := Unpack([]byte(packed)); err != nil || string(got) != text {
		t.Errorf("got %s, %v", got, err)
	}
}

// A console of another version looks for the same bytes, whatever its words are.
func TestADigestAlwaysHasTheSameBytes(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0a", 32)
	if got, want := string(Short(digest)), "\x01sha256:\x02"+strings.Repeat("\x0a", 32); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(Short("healthy")), "healthy"; got != want {
		t.Errorf("got %q, want %q: it is a word", got, want)
	}
}

func TestWhatIsCutIsAnError(t *testing.T) {
	t.Parallel()
	for _, packed := range []string{"\x01\x02abc", "\x01\x06", "\x01\x07\x00", "\x01\x09\x05abc", "\x01\x1f", "\x01\xff", "\x01\x08\xff"} {
		if got, err := Unpack([]byte(packed)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q is unpacked: %q, %v", packed, got, err)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	list := states(b)
	for i := 0; b.Loop(); i++ {
		Pack(list[i%len(list)])
	}
}

func BenchmarkUnpack(b *testing.B) {
	var list [][]byte
	for _, state := range states(b) {
		list = append(list, Pack(state))
	}
	for i := 0; b.Loop(); i++ {
		_, _ = Unpack(list[i%len(list)])
	}
}
