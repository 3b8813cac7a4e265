package mirror

import (
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
		if !utf8.ValidString(c.Subject) || !utf8.ValidString(c.Author) || len(c.Subject) > maxSubjectBytes ||
			len(c.Author) > maxAuthorBytes {
			t.Errorf("not fit to be shown: %q by %q", c.Subject, c.Author)
		}
		if c.Time.After(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)) {
			t.Errorf("time %s", c.Time)
		}
	})
}
