package signed

import (
	"reflect"
	"strings"
	"testing"
)

func TestCBORIsReadInItsShortestForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"\x17": int64(23), "\x18\x18": int64(24), "\x20": int64(-1),
		"\x1b\x7f\xff\xff\xff\xff\xff\xff\xff": int64(1<<63 - 1),
		"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff": int64(-1 << 63),
		"\x41a":                                []byte("a"), "\x62\xc3\xa9": "é", "\x80": []any{},
		"\xa1\x01\xf5": map[any]any{int64(1): true},
		"\xc1\x00":     tagged{1, int64(0)}, "\xf6": nil,
	} {
		if is, err := parseCBOR([]byte(text)); err != nil || !reflect.DeepEqual(is, want) {
			t.Errorf("%x is %v, %v", text, is, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "a long number": "\x18\x17", "a long length": "\x58\x01a", "a length too many": "\x42a",
		"bytes without end": "\x5f\xff", "a list without end": "\x9f\xff",
		"text that is none": "\x61\xff", "a key twice": "\xa2\x01\x01\x01\x01", "a list as key": "\xa1\x80\x01",
		"a fraction": "\xf9\x00\x00", "undefined": "\xf7", "more": "\x01\x01",
		"too large a number": "\x1b\x80\x00\x00\x00\x00\x00\x00\x00", "too deep": strings.Repeat("\x81", 20) + "\x01",
		"too many": "\x98\x41" + strings.Repeat("\x01", 65), "a reserved length": "\x1c",
		"a length of all memory": "\x5b\xff\xff\xff\xff\xff\xff\xff\xff", "a half number": "\x19\x01",
	} {
		if is, err := parseCBOR([]byte(text)); err == nil {
			t.Errorf("%s is %v", name, is)
		}
	}
}

func FuzzCBOR(f *testing.F) {
	f.Add([]byte("\xd2\x84\x43\xa1\x01\x26\xa1\x18\x21\x81\x41a\x41b\x41c"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parseCBOR(text) })
}
