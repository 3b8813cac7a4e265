package mirror

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// All heads of a source are one message to the console, which refuses one of more than 4 MiB. The subject of a
// combination names the commits of its sources, which are looked for in it.
func TestLongSubjectsAreCut(t *testing.T) {
	t.Parallel()
	const tree = "tree 1111111111111111111111111111111111111111\n"
	for name, c := range map[string]struct {
		by, subject string
		bytes       int // at least
		cut         bool
	}{
		"short":           {"Ada", "Add a chart", 11, false},
		"just fits":       {"Ada", strings.Repeat("a", maxSubjectBytes), maxSubjectBytes, false},
		"long":            {"Ada", strings.Repeat("a", maxSubjectBytes+1), maxSubjectBytes, true},
		"wide characters": {"Ada", strings.Repeat("界", maxSubjectBytes), maxSubjectBytes - 3, true},
		"a combination": {
			CombinedBy, "chart " + strings.Repeat("a", maxSubjectBytes) + " 1234abcd", maxSubjectBytes + 15, false,
		},
	} {
		of, err := parseCommit([]byte(tree + "committer " + c.by + " <a@b> 1700000000 +0000\n\n" + c.subject + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		short, isCut := strings.CutSuffix(of.Subject, "…")
		if isCut != c.cut || !strings.HasPrefix(c.subject, short) || !utf8.ValidString(of.Subject) ||
			len(of.Subject) < c.bytes || !c.cut && short != c.subject || c.cut && len(of.Subject) > maxSubjectBytes {
			t.Errorf("%s: %q, %d bytes", name, of.Subject, len(of.Subject))
		}
	}
}
