package ledger

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/services/distributor/internal/plan"
)

func open(t testing.TB, dir string) (*Ledger, map[string]plan.Delivery) {
	t.Helper()
	l, last, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]plan.Delivery{}
	for _, d := range last {
		got[d.Service] = *d
	}
	return l, got
}

func delivered(service, commit string) *plan.Delivery {
	return &plan.Delivery{
		Service: service, UID: "uid", Want: plan.Want{Source: "s", SourceUID: "u", Commit: commit, Path: "p"}, Namespace: "n",
		Revision: plan.Revision{Commit: commit, Time: time.Unix(1e9, 0).UTC(), Subject: "a \"subject\"\nof two lines"},
		Artifact: plan.Artifact{Digest: "sha256:x", Size: 1, Files: 2},
	}
}

func record(t testing.TB, l *Ledger, c plan.Change) {
	t.Helper()
	if err := l.Record(c); err != nil {
		t.Fatal(err)
	}
}

func TestLedgerGivesBackTheLastOfEach(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := open(t, dir)
	record(t, l, plan.Change{Delivered: []*plan.Delivery{delivered("a", "1"), delivered("b", "1"), delivered("c", "1")}})
	record(t, l, plan.Change{Delivered: []*plan.Delivery{delivered("a", "2")}, Gone: []string{"b", "never there"}})
	// No Close: a kill.
	want := map[string]plan.Delivery{"a": *delivered("a", "2"), "c": *delivered("c", "1")}
	for range 2 {
		if _, got := open(t, dir); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// A file that ends anywhere, or has a bad byte anywhere, costs only the lines that are hit.
func TestDamageCostsOnlyWhatItHits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := open(t, dir)
	record(t, l, plan.Change{Delivered: []*plan.Delivery{delivered("a", "1"), delivered("b", "1"), delivered("c", "1")}})
	whole, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for n := range whole {
		got, _, err := read(bytes.NewReader(whole[:n]))
		ended := bytes.Count(whole[:n+1], []byte("\n"))
		if err != nil || len(got) != ended && len(got) != bytes.Count(whole[:n], []byte("\n")) {
			t.Fatalf("cut at %d: %d deliveries, %v", n, len(got), err)
		}
		flipped := bytes.Clone(whole)
		flipped[n] ^= 1
		got, bad, err := read(bytes.NewReader(flipped))
		if err != nil || len(got) < 1 || bad == 0 {
			t.Fatalf("flipped at %d: %d deliveries, %d bad, %v", n, len(got), bad, err)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestLedgerIsRewrittenWhenItIsMostlyHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := open(t, dir)
	for i := range 4 * slack {
		if i%500 == 0 { // in few writes
			record(t, l, plan.Change{Delivered: history(i, 500)})
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("\n")); n > slack+2 {
		t.Errorf("%d lines for one service", n)
	}
	if _, got := open(t, dir); got["a"].Revision.Commit != fmt.Sprint(4*slack-1) {
		t.Errorf("got %v", got)
	}
}

func history(from, n int) []*plan.Delivery {
	var out []*plan.Delivery
	for i := range n {
		out = append(out, delivered("a", fmt.Sprint(from+i)))
	}
	return out
}

func TestWriteThatFailsBeginsANewFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := open(t, dir)
	record(t, l, plan.Change{Delivered: []*plan.Delivery{delivered("a", "1")}})
	_ = l.file.Close() // the disk goes away under it
	if err := l.Record(plan.Change{Delivered: []*plan.Delivery{delivered("b", "1")}}); err == nil {
		t.Fatal("no error")
	}
	record(t, l, plan.Change{Delivered: []*plan.Delivery{delivered("c", "1")}})
	if _, got := open(t, dir); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestLedgerAgainstModel(t *testing.T) {
	t.Parallel()
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir() // another one each time
		l, _ := open(t, dir)
		model := map[string]plan.Delivery{}
		rt.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				d := delivered(name.Draw(t, "service"), rapid.String().Draw(t, "commit"))
				if err := l.Record(plan.Change{Delivered: []*plan.Delivery{d}}); err != nil {
					t.Fatal(err)
				}
				model[d.Service] = *d
			},
			"gone": func(t *rapid.T) {
				n := name.Draw(t, "service")
				if err := l.Record(plan.Change{Gone: []string{n}}); err != nil {
					t.Fatal(err)
				}
				delete(model, n)
			},
			"restart": func(rt *rapid.T) {
				var got map[string]plan.Delivery
				if l, got = open(t, dir); !maps.Equal(got, model) {
					rt.Fatalf("got %v, want %v", got, model)
				}
			},
		})
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("00000000 {}\n"))
	var good bytes.Buffer
	if err := encode(&good, entry{Delivery: delivered("a", "1")}); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		live, _, err := read(bytes.NewReader(b))
		if err != nil {
			t.Error(err)
		}
		for _, d := range live {
			if d == nil {
				t.Error("no delivery")
			}
		}
	})
}
