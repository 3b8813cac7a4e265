// Package wildcard matches names against patterns in which * stands for any text.
package wildcard

import "strings"

// Match says whether all of text fits the pattern.
func Match(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] { // the first place that fits leaves most to the others
		_, after, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = after
	}
	return true
}

// Any reports whether the text fits one of the patterns.
func Any(patterns []string, text string) bool {
	for _, p := range patterns {
		if Match(p, text) {
			return true
		}
	}
	return false
}
