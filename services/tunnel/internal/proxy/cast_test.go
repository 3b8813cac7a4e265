package proxy

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// Connections pass in pieces of any length: what is found does not depend on that.
func FuzzFramesAreFoundWhereverTheyAreCut(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x03\x00\x00\x00\x05hello\x80\x03\x00\x02\x00\x00\x00\x02zz\x00\x00\x00\x05\x01\x00\x00\x01!"), uint8(3))
	f.Add([]byte("\x82\x06\x01hello\x89\x01p\x82\x86\x01\x02\x03\x04\x05jgohk\x02\x03\x01ab\x80\x01c"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		for name, newFrames := range map[string]func() frames{"SPDY": func() frames { return &spdyFrames{} }, "WebSocket": func() frames { return &socketFrames{} }} {
			found := func(size int) (all []byte) {
				in := newFrames()
				for part := range slicesOf(stream, size) {
					in.feedFrames(part, func(p []byte, _ bool) { all = append(all, p...) })
				}
				return all
			}
			once, cut := found(len(stream)+1), found(int(size)+1)
			if !bytes.Equal(once, cut) || len(once) > len(stream) {
				t.Errorf("%s: %q at once, %q by %d bytes", name, once, cut, size)
			}
		}
	})
}

func slicesOf(b []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}

func TestFramesHoldWhatWasShown(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		in     frames
		stream string
		want   string
	}{
		"data of SPDY, and no heads":              {&spdyFrames{}, "\x80\x03\x00\x02\x00\x00\x00\x02zz\x00\x00\x00\x03\x00\x00\x00\x05hello\x00\x00\x00\x05\x01\x00\x00\x01!", "hello!"},
		"output and errors, and no pings":         {&socketFrames{}, "\x82\x06\x01hello\x89\x01p\x82\x02\x02!\x82\x03\x03no", "hello!"},
		"a message in two frames, a ping between": {&socketFrames{}, "\x02\x03\x01he\x89\x01p\x80\x03llo", "hello"},
		"masked": {&socketFrames{}, "\x82\x86\x01\x02\x03\x04\x05jfhmj", ""},
	} {
		var got []byte
		tc.in.feedFrames([]byte(tc.stream), func(p []byte, _ bool) { got = append(got, p...) })
		if what == "masked" { // channel 4, unmasked
			if want := []byte{'j' ^ 2, 'f' ^ 3, 'h' ^ 4, 'm' ^ 1, 'j' ^ 2}; !bytes.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
			continue
		}
		if string(got) != tc.want {
			t.Errorf("%s: %q, want %q", what, got, tc.want)
		}
	}
}

func TestTextIsSplitBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, all, rest string }{
		{"plain", "plain", ""},
		{"é", "é", ""},
		{"a\xc3", "a", "\xc3"},
		{"a\xf0\x9f\x98", "a", "\xf0\x9f\x98"},
		{"\xff", "\xff", ""},
		{"", "", ""},
	} {
		if all, rest := splitText([]byte(tc.text)); string(all) != tc.all || string(rest) != tc.rest {
			t.Errorf("%q: %q and %q", tc.text, all, rest)
		}
	}
	var event [3]any
	if line := castLine(1500*time.Millisecond, "o", "a\x00\"\xff\x1b[0m\n"); json.Unmarshal(line, &event) != nil ||
		event[0] != 1.5 || event[2] != "a\x00\"�\x1b[0m\n" {
		t.Errorf("line %s: %v", line, event)
	}
}
