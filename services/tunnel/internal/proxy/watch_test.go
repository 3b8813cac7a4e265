package proxy

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func response(kind string, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}},
		Body: io.NopCloser(body),
	}
}

func lengths(events ...string) string {
	var b []byte
	for _, e := range events {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(e))), e...)
	}
	return string(b)
}

const (
	asJSON  = "application/json;stream=watch"
	asProto = "application/vnd.kubernetes.protobuf;stream=watch"
)

// However the bytes come and whenever the end is asked for, what the reader sees are whole events.
func TestWatchEndsBetweenTwoEvents(t *testing.T) {
	t.Parallel()
	streams := map[string]string{
		asJSON:  `{"a":"}\"{\\","b":[1,{"c":2}]}` + "\n" + "{\n  \"pretty\": {}\n}\n" + `{"d":3}` + "\n",
		asProto: lengths("one", "", strings.Repeat("two", 100), "{"),
	}
	for kind, stream := range streams {
		for at := range len(stream) + 1 {
			w := newWatch(response(kind, iotest.OneByteReader(strings.NewReader(stream))), "edge-1")
			got := make([]byte, 0, len(stream))
			for len(got) < at {
				b := make([]byte, 1)
				n, err := w.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, b[:n]...)
			}
			w.endWatch()
			rest, err := io.ReadAll(w)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rest...)
			if !strings.HasPrefix(stream, string(got)) {
				t.Fatalf("%s, ended after %d bytes: other bytes: %q", kind, at, got)
			}
			if !whole(kind, got) {
				t.Fatalf("%s, ended after %d bytes: half an event: %q", kind, at, got)
			}
		}
	}
}

func whole(kind string, b []byte) bool {
	if kind == asProto {
		for len(b) > 0 {
			if len(b) < 4 || int(binary.BigEndian.Uint32(b)) > len(b)-4 {
				return false
			}
			b = b[4+binary.BigEndian.Uint32(b):]
		}
		return true
	}
	d := json.NewDecoder(bytes.NewReader(b))
	for {
		var v any
		if err := d.Decode(&v); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

func TestWatchThatBreaksOffIsNoCleanEnd(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	w := newWatch(response(asJSON, io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(broken))), "edge-1")
	b := make([]byte, 10)
	if _, err := w.Read(b); err != nil {
		t.Fatal(err)
	}
	w.endWatch()
	if _, err := io.ReadAll(w); !errors.Is(err, broken) {
		t.Errorf("read: %v", err)
	}
}

// Where the end of an event can't be seen, none is made up.
func TestOtherWatchesAreLeftAlone(t *testing.T) {
	t.Parallel()
	zipped := response(asJSON, nil)
	zipped.Header.Set("Content-Encoding", "gzip")
	refused := response(asJSON, nil)
	refused.StatusCode = http.StatusGone
	for name, resp := range map[string]*http.Response{
		"CBOR": response("application/cbor-seq", nil), "zipped": zipped,
		"an error": refused,
	} {
		if newWatch(resp, "edge-1") != nil {
			t.Errorf("%s: can be ended", name)
		}
	}
}

// The ends that are found don't depend on how the bytes come.
func FuzzFraming(f *testing.F) {
	f.Add([]byte(`{"a":"}"}`+"\n"), 3)
	f.Add([]byte(lengths("one", "two")), 5)
	f.Fuzz(func(t *testing.T, p []byte, cut int) {
		for _, make1 := range []func() framing{func() framing { return &jsonEvents{} }, func() framing { return &lengthEvents{} }} {
			at := 0
			if len(p) > 0 {
				at = int(uint(cut) % uint(len(p)))
			}
			once, twice := make1(), make1()
			want := once.feedEvents(p)
			got := twice.feedEvents(p[:at])
			if n := twice.feedEvents(p[at:]); n > 0 {
				got = at + n
			}
			if got != want || want > len(p) || once.betweenEvents() != twice.betweenEvents() {
				t.Errorf("%q cut at %d: %d, not %d", p, at, got, want)
			}
		}
	})
}

func FuzzDecodeUser(f *testing.F) {
	f.Add("eyJuYW1lIjoiYWxpY2UifQ==", false)
	f.Add(base64.StdEncoding.EncodeToString([]byte(`{"name":"alice","as":{"User":"bob","Groups":["a"]}}`)), true)
	f.Fuzz(func(t *testing.T, value string, as bool) {
		name := userHeader
		if as {
			name = impersonationHeader
		}
		var x, back exchange
		if x.readUser(http.Header{name: {value}}) != nil {
			return
		}
		again := http.Header{}
		if err := x.setUser(again); err != nil || x.caller.Validate() != nil || (x.as != nil) != as {
			t.Fatalf("%+v as %+v: %v", x.caller, x.as, err)
		}
		if err := back.readUser(again); err != nil {
			t.Fatalf("%+v as %+v: %v", x.caller, x.as, err)
		}
		third := http.Header{}
		if err := back.setUser(third); err != nil || !reflect.DeepEqual(third, again) {
			t.Errorf("%+v as %+v, then %+v as %+v, %v", x.caller, x.as, back.caller, back.as, err)
		}
	})
}
