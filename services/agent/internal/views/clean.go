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
	userinfo = regexp.MustCompile(`://[^/@\s]+@`)
	// assigned is what looks like a secret with its name, as programs print their configuration.
	assigned = regexp.MustCompile(`(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization|credential)[\w-]*["']?\s*[=:]\s*["']?)(?:(?:bearer|basic)\s+)?[^\s"',;&]+`)
)

// clean returns a text of Kubernetes without what looks like a secret, without control characters and cut to maxText.
func clean(text string) string {
	const looked = 4 * maxText // enough to see what begins before the cut
	text = printable(string(cut([]byte(text), looked)))
	text = userinfo.ReplaceAllString(text, "://")
	text = assigned.ReplaceAllString(text, "${1}(hidden)")
	return string(cut([]byte(text), maxText))
}

// token is a word without white space, control characters and slashes: the key of a row joins tokens by these.
func token(b []byte, most int) string {
	return word([]byte(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' {
			return '_'
		}
		return r
	}, string(cut(b, most)))))
}

// imageOf is the name of an image without the userinfo of a URL and control characters, cut to maxWord.
func imageOf(name string) string {
	return word([]byte(userinfo.ReplaceAllString(printable(name), "://")))
}

// printable returns a text with spaces for control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
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
