package recordlog

import (
	"bytes"
	"errors"
	"hash/crc32"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// value is a record: the last one of a name counts, and an empty text ends the name.
type value struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"`
}

// store is what values come to.
type store map[string]string

func (s store) put(v value) {
	if s[v.Name] = v.Text; v.Text == "" {
		delete(s, v.Name)
	}
}

func (s store) values() iter.Seq[value] {
	return func(yield func(value) bool) {
		for name, text := range s {
			if !yield(value{name, text}) {
				return
			}
		}
	}
}

const maxLine = 4 << 10

// options are those of a user's log.
func options(sync bool) Options {
	o := Options{Sum: crc32.IEEETable, Sync: sync, MaxLine: maxLine, Log: slog.New(slog.DiscardHandler)}
	if sync {
		o.Sum = crc32.MakeTable(crc32.Castagnoli)
	}
	return o
}

func fileIn(t testing.TB) string { return filepath.Join(t.TempDir(), "log") }

// open opens a log of a store, and gives the values of its file in their order.
func open(t testing.TB, path string, o Options) (l *Log[value], s store, replayed []value) {
	t.Helper()
	s = store{}
	replay := func(v value) {
		s.put(v)
		replayed = append(replayed, v)
	}
	l, err := Open(path, o, replay, func() iter.Seq[value] { return s.values() })
	if err != nil {
		t.Fatal(err)
	}
	return l, s, replayed
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recall gives the values that a file of these bytes has.
func recall(t testing.TB, o Options, file []byte) []value {
	t.Helper()
	path := fileIn(t)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	var values []value
	l := &Log[value]{path: path, options: o}
	if _, err := l.replayFile(func(v value) { values = append(values, v) }); err != nil {
		t.Fatal(err)
	}
	return values
}

// drawFile appends values, and gives the file and the ends of its lines.
func drawFile(t *rapid.T, o Options) (values []value, file []byte, ends []int) {
	values = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) value {
		return value{rapid.String().Draw(t, "name"), rapid.String().Draw(t, "text")}
	}), 1, 6).Draw(t, "values")
	for _, v := range values {
		line, err := EncodeLine(o.Sum, v)
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, line...)
		ends = append(ends, len(file))
	}
	return values, file, ends
}

func TestLineIsChecksumAndJSON(t *testing.T) {
	t.Parallel()
	for sync, want := range map[bool]string{false: "ca46e9cc", true: "f4264b98"} {
		path := fileIn(t)
		l, s, _ := open(t, path, options(sync))
		v := value{"a", "one\ntwo"}
		s.put(v)
		if err := l.Append(v); err != nil {
			t.Fatal(err)
		}
		if got := string(read(t, path)); got != want+` {"name":"a","text":"one\ntwo"}`+"\n" {
			t.Errorf("synced %v: got %q", sync, got)
		}
	}
}

func TestEveryPrefixOfAFileHoldsAPrefixOfTheRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := options(rapid.Bool().Draw(rt, "sync"))
		values, file, ends := drawFile(rt, o)
		n := rapid.IntRange(0, len(file)).Draw(rt, "length")
		whole := 0
		for whole < len(ends) && ends[whole]-1 <= n { // a line may lack its end
			whole++
		}
		if got := recall(t, o, file[:n]); !slices.Equal(got, values[:whole]) {
			rt.Fatalf("of %d bytes: got %q, want %q", n, got, values[:whole])
		}
	})
}

// A flipped byte costs its record, and the next one if it was the end of a line.
func TestFlippedByteLosesItsRecordAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := options(rapid.Bool().Draw(rt, "sync"))
		values, file, ends := drawFile(rt, o)
		at := rapid.IntRange(0, len(file)-1).Draw(rt, "at")
		file[at] ^= rapid.ByteRange(1, 255).Draw(rt, "flip")
		hit := slices.IndexFunc(ends, func(end int) bool { return at < end })
		after := hit + 1
		if at == ends[hit]-1 {
			after++
		}
		want := slices.Concat(values[:hit], values[min(after, len(values)):])
		if got := recall(t, o, file); !slices.Equal(got, want) {
			rt.Fatalf("flipped at %d: got %q, want %q", at, got, want)
		}
	})
}

func TestLongLineIsSkipped(t *testing.T) {
	t.Parallel()
	o := options(false)
	line := func(v value) []byte {
		b, err := EncodeLine(o.Sum, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b := value{"a", "1"}, value{"b", "2"}
	for _, size := range []int{maxLine - 100, maxLine, 3 * maxLine} {
		long := value{"long", strings.Repeat("x", size)}
		want := []value{a, b}
		if size < maxLine-50 {
			want = []value{a, long, b}
		}
		if got := recall(t, o, slices.Concat(line(a), line(long), line(b))); !slices.Equal(got, want) {
			t.Errorf("%d bytes: %d records", size, len(got))
		}
	}
}

// Whatever fails, what a synced log has appended is on the disk, and a log that is not synced loses nothing once the
// disk takes a new file.
func TestLogAgainstModel(t *testing.T) {
	t.Parallel()
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(rt *rapid.T) {
		o := options(rapid.Bool().Draw(rt, "sync"))
		path := fileIn(t)
		away := path + ".away"
		l, s, _ := open(t, path, o)
		added := func(rt *rapid.T) value {
			v := value{name.Draw(rt, "name"), rapid.String().Draw(rt, "text")}
			s.put(v)
			return v
		}
		check := func(rt *rapid.T) {
			got := store{}
			for _, v := range recall(t, o, read(t, path)) {
				got.put(v)
			}
			if !maps.Equal(got, s) {
				rt.Fatalf("got %q, want %q", got, s)
			}
		}
		appendOne := func(rt *rapid.T) {
			if err := l.Append(added(rt)); err != nil {
				rt.Fatal(err)
			}
			check(rt)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": appendOne,
			"history": func(rt *rapid.T) {
				var values []value
				for range rapid.IntRange(1, Slack).Draw(rt, "lines") {
					values = append(values, value{"a", "old"})
				}
				v := added(rt)
				if err := l.Append(append(values, value{"a", s["a"]}, v)...); err != nil {
					rt.Fatal(err)
				}
				if n := bytes.Count(read(t, path), []byte("\n")); n > 2*len(s)+Slack+8 {
					rt.Fatalf("%d lines for %d records", n, len(s))
				}
				check(rt)
			},
			// A full disk takes a part of a line.
			"full disk": func(rt *rapid.T) {
				v := added(rt)
				line, err := EncodeLine(o.Sum, v)
				if err != nil {
					rt.Fatal(err)
				}
				part := line[:rapid.IntRange(0, len(line)-1).Draw(rt, "part")]
				file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					rt.Fatal(err)
				}
				_, err = file.Write(part)
				if err = errors.Join(err, file.Close(), l.Close()); err != nil {
					rt.Fatal(err)
				}
				l.file = file // takes nothing more
				if err := l.Append(v); err == nil {
					rt.Fatal("no error")
				}
				appendOne(rt)
			},
			// A disk that is away takes no line and no new file.
			"no disk": func(rt *rapid.T) {
				if err := errors.Join(l.Close(), os.Rename(path, away), os.Mkdir(path, 0o700)); err != nil {
					rt.Fatal(err)
				}
				for range rapid.IntRange(1, 3).Draw(rt, "times") {
					if err := l.Append(added(rt)); err == nil {
						rt.Fatal("no error")
					}
				}
				if err := errors.Join(os.Remove(path), os.Rename(away, path)); err != nil {
					rt.Fatal(err)
				}
				appendOne(rt)
			},
			"restart": func(rt *rapid.T) {
				before := s
				l, s, _ = open(t, path, o) // no Close: a kill
				if !maps.Equal(before, s) {
					rt.Fatalf("got %q, want %q", s, before)
				}
			},
		})
	})
}

// openTorn opens a log of one record and a torn one, whose folder goes away as a new file is to be made. bringBack
// brings it back, and says whether it goes again.
func openTorn(t *testing.T, o Options) (path string, l *Log[value], s store, bringBack func(goes bool)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "folder", "log")
	line, err := EncodeLine(o.Sum, value{"a", "1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700),
		os.WriteFile(path, slices.Concat(line, line[:len(line)/2]), 0o600)); err != nil {
		t.Fatal(err)
	}
	isAway, goes := false, true
	move := func(to bool) {
		from, there := filepath.Dir(path), filepath.Dir(path)+".away"
		if !to {
			from, there = there, from
		}
		if err := os.Rename(from, there); err != nil {
			t.Fatal(err)
		}
		isAway = to
	}
	bringBack = func(next bool) {
		if isAway {
			move(false)
		}
		goes = next
	}
	s = store{}
	l, err = Open(path, o, s.put, func() iter.Seq[value] {
		if goes && !isAway {
			move(true)
		}
		return s.values()
	})
	if err != nil {
		t.Fatal(err)
	}
	return path, l, s, bringBack
}

// A new file that fails leaves the old one in use; only a synced log tries again with every line.
func TestNewFileThatFailsLeavesTheOldOne(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{false, true} {
		o := options(sync)
		path, l, s, bringBack := openTorn(t, o)
		put := func(text string, lines int) error {
			v := value{"b", text}
			s.put(v)
			return l.Append(slices.Repeat([]value{v}, lines)...)
		}
		bringBack(true)
		if err := put("1", 1); (err != nil) != sync {
			t.Fatalf("synced %v, with a new file that is due: %v", sync, err)
		}
		bringBack(true)
		if got := recall(t, o, read(t, path)); !slices.Equal(got, []value{{"a", "1"}, {"b", "1"}}) {
			t.Fatalf("synced %v: behind a torn line are %v", sync, got)
		}
		if err := put("2", 3*Slack); err == nil {
			t.Fatal("no error")
		}
		bringBack(false)
		if err := put("3", 1); err != nil {
			t.Fatal(err)
		}
		want := map[bool]int{false: 3*Slack + 3, true: 2}[sync]
		if got := recall(t, o, read(t, path)); len(got) != want || !slices.Contains(got, value{"b", "3"}) {
			t.Errorf("synced %v: %d records", sync, len(got))
		}
	}
}

func TestFileThatCantBeReadStopsNoStart(t *testing.T) {
	t.Parallel()
	path := fileIn(t)
	if err := os.Mkdir(path, 0o700); err != nil { // can be opened, and not read
		t.Fatal(err)
	}
	var text bytes.Buffer
	o := options(true)
	o.Log = slog.New(slog.NewTextHandler(&text, nil))
	l, s, replayed := open(t, path, o)
	for _, words := range []string{"can't be read", "can't be written"} {
		if len(replayed) > 0 || !strings.Contains(text.String(), words) {
			t.Errorf("got %v, logged %s", replayed, text.String())
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	v := value{"a", "1"}
	s.put(v)
	if err := l.Append(v); err != nil {
		t.Fatal(err)
	}
	if got := recall(t, o, read(t, path)); !slices.Equal(got, []value{v}) {
		t.Errorf("got %v", got)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("00000000 {}\n"))
	f.Add(bytes.Repeat([]byte("x"), 3*maxLine))
	good, err := EncodeLine(crc32.IEEETable, value{"a", "1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(slices.Concat(good, good[:10], []byte("\n"), good))
	f.Fuzz(func(t *testing.T, file []byte) {
		values := recall(t, options(false), slices.Concat(good, file, []byte("\n"), good))
		want := value{"a", "1"}
		if len(values) < 2 || values[0] != want || values[len(values)-1] != want {
			t.Errorf("got %q", values)
		}
	})
}
