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
	// Headless leaves the head out.
	Headless bool
	// Colour returns the colour of a cell below a head; nil, or an empty colour: as the terminal writes.
	Colour func(head, cell string) Colour
}

// Colour is a sequence of a terminal, such as Red.
type Colour string

// The colours of cells, and reset, which ends each.
const (
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Grey   Colour = "\x1b[90m"
	reset         = "\x1b[0m"
)

// Paint puts a text between a colour and its end.
func Paint(colour Colour, text string) string {
	if colour == "" {
		return text
	}
	return string(colour) + text + reset
}

// New returns a table with the given head.
func New(head ...string) *Table { return &Table{rows: [][]string{head}} }

// AddRow adds a row.
func (t *Table) AddRow(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if row[i] = CleanLine(c); row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// cutCell shortens a cell to MaxCell.
func (t *Table) cutCell(text string) string {
	if t.MaxCell > 0 && utf8.RuneCountInString(text) > t.MaxCell {
		return string([]rune(text)[:t.MaxCell-1]) + "…"
	}
	return text
}

// Write prints the table.
func (t *Table) Write(w io.Writer) error {
	rows := t.rows
	if t.Headless {
		rows = rows[1:]
	}
	widths := t.columnWidths(rows)
	var b strings.Builder
	for n, row := range rows {
		for i, c := range row {
			c = t.cutCell(c)
			padding := ""
			if i < len(row)-1 {
				padding = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)) + gap
			}
			if t.Colour != nil && (n > 0 || t.Headless) && i < len(t.rows[0]) {
				c = Paint(t.Colour(t.rows[0][i], c), c)
			}
			b.WriteString(c + padding)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// PrintList prints each row as lines of a head and its cell.
func (t *Table) PrintList(w io.Writer) error {
	width := 0
	for _, head := range t.rows[0] {
		width = max(width, utf8.RuneCountInString(head))
	}
	var b strings.Builder
	for _, row := range t.rows[1:] {
		for i, c := range row {
			fmt.Fprintf(&b, "%-*s%s%s\n", width, t.rows[0][i], gap, c)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// columnWidths are those of the columns of rows, in characters.
func (t *Table) columnWidths(rows [][]string) (widths []int) {
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(t.cutCell(c)))
		}
	}
	return widths
}

// CleanLine makes one line of a text and takes out what a terminal would not show as text.
func CleanLine(text string) string {
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

// CleanText takes out of a text of several lines what a terminal would take for an order, or what would turn letters
// around: the text may be anybody's. Lines, tabs and spaces stay.
func CleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			return r
		}
		return -1
	}, text)
}

// FormatAge says how long ago a time was, as kubectl does: 12s, 3m, 5h, 2d.
func FormatAge(now, then time.Time) string {
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

// FormatBytes says how much that is: 812 B, 1.2 KiB, 3.4 GiB.
func FormatBytes(n int64) string {
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
