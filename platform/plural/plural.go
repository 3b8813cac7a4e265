// Package plural writes numbers of things as people read them: "1 service", "2 services".
package plural

import (
	"fmt"
	"strings"
)

type number interface {
	~int | ~int32 | ~int64 | ~uint64
}

// Of is a number with its noun, which is given as for one.
func Of[N number](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, many(noun))
}

// Part is some of a number of things: "1 of 3 objects", "0 of 1 object".
func Part[N number](n, all N, noun string) string { return fmt.Sprintf("%d of %s", n, Of(all, noun)) }

// Are is the verb behind a number of things.
func Are[N number](n N) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func many(noun string) string {
	if stem, ok := strings.CutSuffix(noun, "y"); ok && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
		return stem + "ies"
	}
	return noun + "s"
}
