package views

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds a text of Kubernetes, in bytes.
const maxText = 256

var (
	// userinfo is that of a URL, as registries and Git hosts repeat it in errors.
	userinfo = regexp.MustCompile(`://[^/@\s]+@`) //nolint:gochecknoglobals // a constant
	// assigned is what looks like a secret with its name, as programs print their configuration.
	assigned = regexp.MustCompile(`(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization|credential)[\w-]*["']?\s*[=:]\s*["']?)(?:(?:bearer|basic)\s+)?[^\s"',;&]+`) //nolint:gochecknoglobals // a constant
)

// clean returns a text of Kubernetes without what looks like a secret, without control characters and cut to maxText.
func clean(text string) string {
	const looked = 4 * maxText // enough to see what begins before the cut
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, string(cut([]byte(text), looked)))
	text = userinfo.ReplaceAllString(text, "://")
	text = assigned.ReplaceAllString(text, "${1}(hidden)")
	return string(cut([]byte(text), maxText))
}

// cut cuts a text at a whole character.
func cut(text []byte, most int) []byte {
	if len(text) > most {
		text = text[:most]
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		if r, _ := utf8.DecodeLastRune(text); r == utf8.RuneError && len(text) > 0 { // the first byte of the character that was cut
			text = text[:len(text)-1]
		}
	}
	if !utf8.Valid(text) {
		return []byte(strings.ToValidUTF8(string(text), "?"))
	}
	return text
}
