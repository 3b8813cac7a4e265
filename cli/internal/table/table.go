// Package table prints rows in columns for people: aligned, and without anything in a cell that a terminal
// would take for a command, because cells hold what Git and clusters say.
package table

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// gap stands between columns.
const gap = "  "

// Table is a head and rows. The last column is not padded.
type Table struct {
	rows [][]string
	// MaxCell bounds a cell in characters; 0: no bound.
	MaxCell int
}

// New returns a table with the given head.
func New(head ...string) *Table { return &Table{rows: [][]string{head}} }

// Row adds a row.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = t.cell(c)
	}
	t.rows = append(t.rows, row)
}

func (t *Table) cell(text string) string {
	text = Clean(text)
	if text == "" {
		return "-"
	}
	if t.MaxCell > 0 && utf8.RuneCountInString(text) > t.MaxCell {
		return string([]rune(text)[:t.MaxCell-1]) + "…"
	}
	return text
}

// Write prints the table.
func (t *Table) Write(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)) + gap)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Clean makes one line of a text and takes out what a terminal would not show as text.
func Clean(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		default:
			return r
		}
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// Age says how long ago a time was, as kubectl does: 12s, 3m, 5h, 2d.
func Age(now, then time.Time) string {
	age := max(0, now.Sub(then))
	switch {
	case age < 2*time.Minute:
		return fmt.Sprintf("%ds", int(age.Seconds()))
	case age < 2*time.Hour:
		return fmt.Sprintf("%dm", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%dh", int(age.Hours()))
	default:
		return fmt.Sprintf("%dd", int(age.Hours()/24))
	}
}

// Bytes says how much that is: 812 B, 1.2 KiB, 3.4 GiB.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	size, i := float64(n)/unit, 0
	for size >= unit && i < len(units)-1 {
		size /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", size, units[i])
}

const units = "KMGTPE"
