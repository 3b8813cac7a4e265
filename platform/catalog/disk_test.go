package catalog_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
)

// recorded writes a file with a snapshot and changes after it, and returns it with what it holds up to each
// of the lengths at which it grew.
func recorded(t testing.TB, dir string) (file []byte, holds map[int]string) {
	t.Helper()
	con, client := newConsole(t)
	c := open(t, dir, client)
	stop := run(t, c)
	sub := c.Subscribe()
	defer sub.Close()
	w := con.next(t)
	holds = map[int]string{}
	grown := func() {
		deadline := time.After(patience)
		for {
			file, _ = os.ReadFile(c.Saved()) // not there yet: looked for again
			if _, seen := holds[len(file)]; len(file) > 0 && !seen {
				holds[len(file)] = names(c)
				return
			}
			select {
			case <-deadline:
				t.Fatal("nothing was written")
			case <-time.After(time.Millisecond):
			}
		}
	}
	w.say(t, shop()...)
	grown()
	for i, change := range []*consolev1.Change{
		cluster("edge-3"), service("third", "shop", "", "edge-3"), deleted(consolev1.Kind_KIND_SERVICE, "hello", ""),
		secret("more"),
	} {
		w.say(t, changes(fmt.Sprint("t", i+2), change))
		grown()
	}
	stop()
	if file, err := os.ReadFile(c.Saved()); err != nil || bytes.Contains(file, []byte("hunter2")) {
		t.Errorf("the file holds a secret's value: %v", err)
	}
	return file, holds
}

func reopened(t testing.TB, file []byte) *catalog.Catalog {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.snapshot"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	_, client := newConsole(t)
	return open(t, dir, client)
}

// Killed anywhere, in the middle of a write, too, a catalog comes back as it was at some moment before.
func TestTornFileIsTheCatalogOfAMomentBefore(t *testing.T) {
	t.Parallel()
	file, holds := recorded(t, t.TempDir())
	base := len(file)
	for n := range holds {
		base = min(base, n)
	}
	var last string
	for n := range len(file) + 1 {
		if is, ok := holds[n]; ok {
			last = is
		}
		for what, torn := range map[string][]byte{
			"cut":    file[:n],
			"zeroed": append(bytes.Clone(file[:n]), make([]byte, len(file)-n)...),
		} {
			same := 0
			for same < len(torn) && torn[same] == file[same] {
				same++
			}
			services, size, err := catalog.Decode(bytes.NewReader(torn))
			if (err == nil) != (same >= base) {
				t.Fatalf("%s at %d: %v", what, n, err)
			}
			if _, whole := holds[int(size)]; err == nil && (!whole || int(size) > same) {
				t.Fatalf("%s at %d: %d bytes count, with %d services", what, n, size, services)
			}
		}
		if _, ok := holds[n]; ok || n == len(file)-1 {
			c := reopened(t, file[:n])
			if got := names(c); c.Ready() == nil && got != last {
				t.Errorf("cut at %d: %s, want %s", n, got, last)
			}
		}
	}
}

// A damaged byte costs what follows it, and never shows anything that was not.
func TestDamagedFileIsTheCatalogOfAMomentBefore(t *testing.T) {
	t.Parallel()
	file, holds := recorded(t, t.TempDir())
	for n := range file {
		flipped := bytes.Clone(file)
		flipped[n] ^= 0x10
		_, size, err := catalog.Decode(bytes.NewReader(flipped))
		if _, whole := holds[int(size)]; err == nil && (!whole || int(size) > n) {
			t.Fatalf("byte %d: %d bytes count", n, size)
		}
	}
}

func TestTornEndIsCutOffAndWrittenOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, _ := recorded(t, dir)
	path := filepath.Join(dir, "catalog.snapshot")
	if err := os.WriteFile(path, file[:len(file)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	con, client := newConsole(t)
	c := open(t, dir, client)
	sub := c.Subscribe()
	defer sub.Close()
	stop := run(t, c)
	w := con.next(t)
	if w.token != "t4" {
		t.Errorf("resumed at %q", w.token)
	}
	sub.Take()
	w.say(t, changes("t5", secret("more")), changes("t6", cluster("edge-6")))
	await(t, sub, func() bool { _, ok := c.Cluster("edge-6"); return ok })
	stop()
	again := open(t, dir, client)
	if names(again) != names(c) || again.Ready() != nil {
		t.Errorf("got %s, want %s", names(again), names(c))
	}
}

// Changes are added to the file until they are as much as what they change.
func TestFileIsWrittenAnewWhenChangesAreMost(t *testing.T) {
	t.Parallel()
	con, client := newConsole(t)
	dir := t.TempDir()
	c := open(t, dir, client)
	stop := run(t, c)
	w := con.next(t)
	w.say(t, shop()...)
	ref := string(bytes.Repeat([]byte("r"), 250))
	var batch []*consolev1.Change
	for i := range 100 {
		batch = append(batch, service(fmt.Sprint("s", i), "shop", ref+fmt.Sprint(i), "edge-1"))
	}
	size := func() int64 {
		info, err := os.Stat(c.Saved())
		if err != nil {
			return 0 // not there yet
		}
		return info.Size()
	}
	// The saver may be slow, and then writes more at once: each round waits for its own.
	before, deadline := int64(0), time.After(patience)
	for i, rewritten := 0, false; !rewritten; i++ {
		token := fmt.Sprint("n", i)
		w.say(t, changes(token, batch...), changes(token, cluster(fmt.Sprint("edge-n", i))))
		now := size()
		for ; now == before; now = size() {
			select {
			case <-deadline:
				t.Fatalf("nothing is written any more; it has %d bytes", now)
			case <-time.After(time.Millisecond):
			}
		}
		if now > 3<<20 {
			t.Fatalf("the file has grown to %d bytes", now)
		}
		rewritten, before = now < before, now
	}
	stop()
	if again := open(t, dir, client); names(again) != names(c) {
		t.Error("it does not hold what the catalog does")
	}
}

func FuzzSnapshot(f *testing.F) {
	file, _ := recorded(f, f.TempDir())
	f.Add(file)
	f.Add(file[:len(file)-5])
	f.Add([]byte("fairlead catalog 2\n\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, size, err := catalog.Decode(bytes.NewReader(file))
		if err != nil {
			return
		}
		// The part that counts is whole by itself.
		if _, again, err := catalog.Decode(bytes.NewReader(file[:size])); err != nil || again != size {
			t.Errorf("%d bytes count, of those %d: %v", size, again, err)
		}
	})
}
