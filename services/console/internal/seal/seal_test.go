package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestOpensWhatItSealed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	box, err := Ensure(path)
	if err != nil {
		t.Fatal(err)
	}
	sealed := box.Seal("secret/git", []byte("hunter2"))
	if bytes.Contains(sealed, []byte("hunter2")) {
		t.Fatal("the secret can be read")
	}
	if bytes.Equal(sealed, box.Seal("secret/git", []byte("hunter2"))) {
		t.Fatal("the same nonce twice")
	}
	again, err := Ensure(path) // as after a restart
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := again.Open("secret/git", sealed); err != nil || string(plain) != "hunter2" {
		t.Fatalf("got %q, %v", plain, err)
	}
	if _, err := again.Open("secret/other", sealed); !errors.Is(err, ErrSealed) {
		t.Fatalf("opened for another purpose: %v", err)
	}
	for i := range sealed {
		broken := bytes.Clone(sealed)
		broken[i] ^= 1
		if _, err := again.Open("secret/git", broken); !errors.Is(err, ErrSealed) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v, %v", info.Mode(), err)
	}
}

func TestFirstKeySealsAndAllOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	line := func(b byte) string {
		return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, keyBytes)) + "\n"
	}
	load := func(text string) *Box {
		path := filepath.Join(dir, "key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		box, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	old := load(line(1))
	sealed := old.Seal("x", []byte("v"))
	both := load("# new\n" + line(2) + "\n# old\n" + line(1))
	if plain, err := both.Open("x", sealed); err != nil || string(plain) != "v" {
		t.Fatalf("old key does not open: %q, %v", plain, err)
	}
	if _, err := old.Open("x", both.Seal("x", []byte("v"))); !errors.Is(err, ErrSealed) ||
		!strings.Contains(err.Error(), "was sealed with master key") {
		t.Fatalf("the old key still seals: %v", err)
	}
}

func TestConcurrentStartsAgreeOnOneKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.key")
	boxes := make([]*Box, 8)
	var wg sync.WaitGroup
	for i := range boxes {
		wg.Go(func() {
			var err error
			if boxes[i], err = Ensure(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, box := range boxes {
		if box == nil || box.first != boxes[0].first {
			t.Fatal("two keys")
		}
	}
	if left, _ := filepath.Glob(path + ".tmp*"); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestBadKeyFileIsRefusedWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "# only words\n", "hunter2\n", base64.StdEncoding.EncodeToString([]byte("hunter2")),
	} {
		_, err := parse([]byte(text))
		if err == nil || strings.Contains(err.Error(), "hunter2") ||
			text != "" && strings.Contains(err.Error(), strings.TrimSpace(text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	box, err := parse([]byte(base64.StdEncoding.EncodeToString(make([]byte, keyBytes))))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(box.Seal("p", []byte("v")))
	f.Add([]byte{})
	f.Add([]byte{direct})
	f.Add([]byte{envelope})
	good := string(box.Seal("p", []byte("other")))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if plain, err := box.Open("other purpose", sealed); err == nil {
			t.Fatalf("%x opened as %q (%x is good)", sealed, plain, good)
		}
	})
}

// A value that earlier releases sealed opens, and is renewed like one that an older key has sealed.
func TestRenewsWhatIsOlder(t *testing.T) {
	t.Parallel()
	key := func(b byte) string {
		return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, keyBytes)) + "\n"
	}
	parsed := func(text string) *Box {
		t.Helper()
		box, err := parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	old, both, now := parsed(key(1)), parsed(key(2)+key(1)), parsed(key(2))
	direct := old.keys[old.first].Seal(append([]byte{direct}, old.first...), nil, []byte("hunter2"), []byte("p"))
	for name, sealed := range map[string][]byte{"direct": direct, "envelope": old.Seal("p", []byte("hunter2"))} {
		if plain, err := both.Open("p", sealed); err != nil || string(plain) != "hunter2" {
			t.Errorf("%s: got %q, %v", name, plain, err)
		}
		next, err := both.Renew("p", sealed)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := now.Open("p", next); err != nil || string(plain) != "hunter2" {
			t.Errorf("%s renewed: got %q, %v", name, plain, err)
		}
		if _, err := now.Open("other", next); !errors.Is(err, ErrSealed) {
			t.Errorf("%s renewed opens for another purpose: %v", name, err)
		}
		if again, err := both.Renew("p", next); again != nil || err != nil {
			t.Errorf("%s is renewed again: %v", name, err)
		}
		if _, err := now.Renew("p", sealed); !errors.Is(err, ErrSealed) {
			t.Errorf("%s: renewed without its key: %v", name, err)
		}
	}
}
