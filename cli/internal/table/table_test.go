package table_test

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/cli/internal/table"
)

func TestColumnsAlign(t *testing.T) {
	t.Parallel()
	tb := table.New("NAME", "STATE", "MESSAGE")
	tb.MaxCell = 12
	tb.AddRow("shöp", "", "a\x1b[31m b\nc")
	tb.AddRow("longer-name", "Healthy", strings.Repeat("x", 20))
	var b strings.Builder
	if err := tb.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "NAME         STATE    MESSAGE\nshöp         -        a[31m b c\nlonger-name  Healthy  xxxxxxxxxxx…\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestATableWithoutAHeadIsAsWideAsItsRows(t *testing.T) {
	t.Parallel()
	tb := table.New("A-LONG-HEAD", "STATE")
	tb.AddRow("a", "Healthy")
	tb.Headless = true
	var b strings.Builder
	if err := tb.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "a  Healthy\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestColoursTakeNoPlace(t *testing.T) {
	t.Parallel()
	tb := table.New("STATE", "NAME")
	tb.AddRow("Failed", "Failed")
	tb.AddRow("Progressing", "b")
	tb.Colour = func(head, cell string) table.Colour {
		if head == "STATE" && cell == "Failed" {
			return table.Red
		}
		return ""
	}
	var b strings.Builder
	if err := tb.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "STATE        NAME\n\x1b[31mFailed\x1b[0m       Failed\nProgressing  b\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	for age, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m",
		47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := table.FormatAge(now, now.Add(-age)); got != want {
			t.Errorf("%v: %s, want %s", age, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b]0;title\x07\u202eb\u2028c\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range table.CleanLine(text) {
			if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == '\u202e' || r == '\u2028' {
				t.Fatalf("%q is left in %q", r, table.CleanLine(text))
			}
		}
	})
}

// What a terminal takes for an order goes, and so does what turns letters around; lines, tabs and spaces stay.
func TestATextOfSeveralLinesKeepsThem(t *testing.T) {
	t.Parallel()
	const text, want = "a\x1b[31m\tb\u00a0c\r\n  d \u202ee\u2028f\u200b\u009b\n", "a[31m\tb\u00a0c\n  d ef\n"
	if got := table.CleanText(text); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 1 << 62: "4.0 EiB",
	} {
		if got := table.FormatBytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
