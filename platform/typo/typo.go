// Package typo finds the known name that a person probably meant by an unknown one.
package typo

import (
	"fmt"
	"strings"
)

// mostListed is how many names an error lists: more are no help in a sentence.
const mostListed = 40

// Suggest ends an error about a name that is none of the known ones: with the name that was probably meant, else with
// all of them, unless they are many.
func Suggest(got string, known []string) string {
	if near := Nearest(got, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(known) > mostListed {
		return ""
	}
	return "; known are: " + strings.Join(known, ", ")
}

// Nearest returns the known name that was probably meant; empty: none is near.
func Nearest(got string, known []string) string {
	const compared = 64 // Longer names than any of ours are no typos.
	if len(got) > compared {
		return ""
	}
	best, bestDistance := "", 0
	for _, name := range known {
		distance := Distance(fold(got), fold(name))
		if distance <= max(1, len(name)/3) && (best == "" || distance < bestDistance) {
			best, bestDistance = name, distance
		}
	}
	return best
}

// fold makes page_size, page-size, pageSize and PageSize the same.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// Distance counts insertions, deletions, replacements and swaps of neighbours.
func Distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
