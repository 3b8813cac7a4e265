package mirror

import (
	"bytes"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzParseCommit(f *testing.F) {
	f.Add([]byte("tree 1111111111111111111111111111111111111111\nauthor Ada <a@b> 1700000000 +0000\ncommitter Ada <a@b> 1700000000 +0000\n\nsubject\n\nbody\n"))
	f.Add([]byte("tree 1111111111111111111111111111111111111111\nauthor <> 99999999999999999\ncommitter >< x\n\n\xff\x00"))
	f.Add([]byte("tree x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCommit(b)
		if err != nil {
			return
		}
		if !utf8.ValidString(c.Subject) || !utf8.ValidString(c.Author) || len(c.Subject) > maxSubjectBytes || len(c.Author) > maxAuthorBytes {
			t.Errorf("not fit to be shown: %q by %q", c.Subject, c.Author)
		}
		if c.Time.After(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)) {
			t.Errorf("time %s", c.Time)
		}
	})
}

// FuzzIndexPack gives go-git's parser packs whose checksum, which comes first in real life, was right.
func FuzzIndexPack(f *testing.F) {
	header := "PACK\x00\x00\x00\x02\x00\x00\x00"
	blob := "\x31\x78\x9c\x33\x04\x00\x00\x32\x00\x32"
	f.Add([]byte(header + "\x01" + blob))
	f.Add([]byte(header + "\x02" + blob + "\x62\x0a\x78\x9c\x63\x64\x64\x04\x00"))
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Add([]byte(header + "\x01\x7f\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		index, err := indexPack(t.Context(), bytes.NewReader(append(bytes.Clone(b), make([]byte, 20)...)))
		if err != nil && index != nil {
			t.Error("an error and an index")
		}
	})
}

func TestDeltaResultIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	for want, b := range map[int64][]byte{
		0:              {0x05, 0x00},
		300:            {0x05, 0xac, 0x02, 0x99},
		1 << 62:        {0x05},
		maxObjectBytes: {0xff, 0x01, 0x80, 0x80, 0x80, 0x80, 0x01},
	} {
		p := &prefix{}
		_, _ = p.Write(b)
		if got := p.deltaResult(); got != want {
			t.Errorf("%x is %d, want %d", b, got, want)
		}
	}
}
