package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/platform/recordlog"
	"fairlead.dev/services/distributor/internal/plan"
)

func open(t testing.TB, dir string) (*Ledger, map[string]plan.Content) {
	t.Helper()
	l, last, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l, paths(last)
}

// paths are contents by their folder's path.
func paths(m plan.Memory) map[string]plan.Content {
	got := map[string]plan.Content{}
	for _, c := range m.Contents {
		got[c.Want.Path] = *c
	}
	return got
}

func content(path, commit string) plan.Content {
	return plan.Content{
		Ref: "HEAD", Want: plan.Want{Source: "s", SourceUID: "u", Commit: commit, Path: path, Include: "a\nb"},
		Revision: plan.Revision{Commit: commit, Time: time.Unix(1e9, 0).UTC(), Subject: "a \"subject\"\nof two lines"},
		Artifact: plan.Artifact{Digest: "sha256:x", Size: 1, Files: 2},
	}
}

func delivered(path, commit string) plan.Delivered {
	c := content(path, commit)
	return plan.Delivered{Content: &c}
}

func gone(path string) plan.Key {
	c := content(path, "any")
	return c.Key()
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
	record(t, l, plan.Change{Delivered: []plan.Delivered{
		delivered("a", "1"), delivered("b", "1"),
		delivered("c", "1"),
	}})
	record(t, l, plan.Change{
		Delivered: []plan.Delivered{delivered("a", "2")},
		Gone:      []plan.Key{gone("b"), gone("never there")},
	})
	// No Close: a kill.
	want := map[string]plan.Content{"a": content("a", "2"), "c": content("c", "1")}
	for range 2 {
		if _, got := open(t, dir); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestLedgerIsRewrittenWhenItIsMostlyHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := open(t, dir)
	for i := range 4 * recordlog.Slack {
		if i%500 == 0 { // in few writes
			record(t, l, plan.Change{Delivered: history(i, 500)})
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("\n")); n > recordlog.Slack+2 {
		t.Errorf("%d lines for one folder", n)
	}
	if _, got := open(t, dir); got["a"].Revision.Commit != fmt.Sprint(4*recordlog.Slack-1) {
		t.Errorf("got %v", got)
	}
}

func history(from, n int) []plan.Delivered {
	var out []plan.Delivered
	for i := range n {
		out = append(out, delivered("a", fmt.Sprint(from+i)))
	}
	return out
}

func TestWriteThatFailsBeginsANewFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, _ := open(t, dir)
	record(t, l, plan.Change{Delivered: []plan.Delivered{delivered("a", "1")}})
	if err := l.Close(); err != nil { // and the disk goes away under it
		t.Fatal(err)
	}
	path := filepath.Join(dir, fileName)
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := l.Record(plan.Change{Delivered: []plan.Delivered{delivered("b", "1")}}); err == nil {
		t.Fatal("no error")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	record(t, l, plan.Change{Delivered: []plan.Delivered{delivered("c", "1")}})
	if _, got := open(t, dir); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

// A disk that does not give back what it took is no reason not to start.
func TestLedgerThatCantBeReadIsBegunAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	if err := os.Mkdir(path, 0o700); err != nil { // the folder can be opened, and not read
		t.Fatal(err)
	}
	l, got := open(t, dir)
	if len(got) > 0 {
		t.Errorf("got %v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	record(t, l, plan.Change{Delivered: []plan.Delivered{delivered("a", "1")}})
	if _, got := open(t, dir); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestLedgerAgainstModel(t *testing.T) {
	t.Parallel()
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir() // another one each time
		l, _ := open(t, dir)
		model, apart, earlier := map[string]plan.Content{}, map[string]plan.Apart{}, map[string]plan.Earlier{}
		take := func(t *rapid.T, c plan.Change) {
			if err := l.Record(c); err != nil {
				t.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				c := content(name.Draw(t, "folder"), rapid.String().Draw(t, "commit"))
				take(t, plan.Change{Delivered: []plan.Delivered{{Content: &c}}})
				model[c.Want.Path] = c
			},
			"supersede": func(t *rapid.T) {
				c := content(name.Draw(t, "folder"), "1")
				c.Good = rapid.Int64().Draw(t, "good")
				take(t, plan.Change{Superseded: []*plan.Content{&c}})
				model[c.Want.Path] = c
			},
			"earlier": func(t *rapid.T) {
				e := plan.Earlier{Service: name.Draw(t, "service"), UID: "1", Artifact: "sha256:x", Digests: []string{"sha256:y"}}
				take(t, plan.Change{Earlier: []plan.Earlier{e}})
				earlier[e.Service] = e
			},
			"no earlier": func(t *rapid.T) {
				n := name.Draw(t, "service")
				take(t, plan.Change{Earlier: []plan.Earlier{{Service: n}}})
				delete(earlier, n)
			},
			"gone": func(t *rapid.T) {
				n := name.Draw(t, "folder")
				take(t, plan.Change{Gone: []plan.Key{gone(n)}})
				delete(model, n)
			},
			"apart": func(t *rapid.T) {
				a := plan.Apart{Service: name.Draw(t, "service"), UID: "1"}
				if rapid.Bool().Draw(t, "nothing") {
					c := content("p", "1")
					a.Content = &c
				}
				take(t, plan.Change{Apart: []plan.Apart{a}})
				apart[a.Service] = a
			},
			"over": func(t *rapid.T) {
				n := name.Draw(t, "service")
				take(t, plan.Change{Apart: []plan.Apart{{Service: n, Over: true}}})
				delete(apart, n)
			},
			"restart": func(rt *rapid.T) {
				again, last, err := Open(dir, slog.New(slog.DiscardHandler))
				if err != nil {
					rt.Fatal(err)
				}
				l = again
				if got := paths(last); !maps.Equal(got, model) || !reflect.DeepEqual(last.Apart, apart) || !reflect.DeepEqual(last.Earlier, earlier) {
					rt.Fatalf("got %v, %v and %v, want %v, %v and %v", got, last.Apart, last.Earlier, model, apart, earlier)
				}
			},
		})
	})
}

// The lines are those that were written before recordlog was: disks of every release can be read.
func TestLinesAreThoseOfEarlierReleases(t *testing.T) {
	t.Parallel()
	const lines = `6085d6a7 {"content":{"ref":"HEAD","want":{"source":"s","source_uid":"u","commit":"1","path":"a","include":"a\nb"},"revision":{"commit":"1","time":"2001-09-09T01:46:40Z","subject":"a \"subject\"\nof two lines"},"artifact":{"digest":"sha256:x","size":1,"files":2}}}
e426bbf5 {"apart":{"service":"x","uid":"1"}}
`
	const ended = `b5f4226f {"gone":{"Ref":"HEAD","Want":{"source":"s","source_uid":"u","commit":"","path":"a","include":"a\nb"}}}
5f38834c {"apart":{"service":"x","uid":"","over":true}}
`
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	l, last, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil || len(last.Contents) != 1 || last.Apart["x"].UID != "1" {
		t.Fatalf("got %v, %v", last, err)
	}
	record(t, l, plan.Change{Gone: []plan.Key{gone("a")}, Apart: []plan.Apart{{Service: "x", Over: true}}})
	got, err := os.ReadFile(path)
	if err != nil || string(got) != lines+ended {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("{}"))
	change := plan.Change{Delivered: []plan.Delivered{delivered("a", "1")}, Gone: []plan.Key{gone("b")}, Earlier: []plan.Earlier{{Service: "a"}}}
	for e := range entries(change) {
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		line := fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)), text)
		if err := os.WriteFile(filepath.Join(dir, fileName), line, 0o600); err != nil {
			t.Fatal(err)
		}
		_, last, err := Open(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Error(err)
		}
		for key, c := range last.Contents {
			if c == nil || c.Key() != key {
				t.Error("no content")
			}
		}
	})
}
