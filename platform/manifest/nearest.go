package manifest

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func fieldNames(md protoreflect.MessageDescriptor) []string {
	var names []string
	for i := range md.Fields().Len() {
		if fd := md.Fields().Get(i); !outputOnly(fd) {
			names = append(names, fd.JSONName())
		}
	}
	return names
}

func enumNames(ed protoreflect.EnumDescriptor) []string {
	var names []string
	for i := 1; i < ed.Values().Len(); i++ { // the first says that nothing was said
		names = append(names, short(ed, string(ed.Values().Get(i).Name())))
	}
	return names
}

func suggestFrom(got string, known []string) string {
	if near := nearest(got, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; known are: " + strings.Join(known, ", ")
}

// nearest returns the known name that a person most likely meant; "" if none is near.
func nearest(got string, known []string) string {
	const compared = 64 // Longer names than any of ours are no typos.
	if len(got) > compared {
		return ""
	}
	best, bestDistance := "", 0
	for _, name := range known {
		distance := editDistance(fold(got), fold(name))
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

// editDistance counts insertions, deletions, replacements and swaps of neighbours.
func editDistance(a, b string) int {
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
