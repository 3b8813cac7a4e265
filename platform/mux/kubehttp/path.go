package kubehttp

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
)

// maxEscapes is how often a path may be escaped over: what the API server proxies to may
// unescape once more than the API server does.
const maxEscapes = 3

// ErrPath: the path is written so that somebody on the way could take it for another one.
var ErrPath = errors.New(`path has "." or ".." segments, control characters or too many escapes`)

// CheckPath refuses paths that could leave the place where they seem to be: dot segments in any
// spelling that some server unescapes, and control characters. The path is given as it came, with
// escapes.
func CheckPath(escaped string) error {
	if !strings.HasPrefix(escaped, "/") {
		return ErrPath
	}
	path := escaped
	for range maxEscapes + 1 {
		if hasTricks(path) {
			return ErrPath
		}
		next, err := url.PathUnescape(path)
		if err != nil {
			if path == escaped {
				return ErrPath // not even the first level is well-formed
			}
			return nil // a percent sign that is meant
		}
		if next == path {
			return nil
		}
		path = next
	}
	return ErrPath
}

func hasTricks(path string) bool {
	if strings.ContainsFunc(path, unicode.IsControl) {
		return true
	}
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		// Some servers take what follows ";" as parameters of the segment.
		segment, _, _ = strings.Cut(segment, ";")
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}
