// Package leak looks for secrets that a test has planted, in what was said and written.
package leak

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
)

// In names a secret that stands in a text: as it is, in base64 (whatever stands before it), in hex as databases dump
// bytes, or escaped for a URL. Empty: none does. Secrets are by what they are called.
func In(secrets map[string]string, text []byte) string {
	for name, value := range secrets {
		for _, form := range forms(value) {
			if bytes.Contains(text, form) {
				return name
			}
		}
	}
	return ""
}

func forms(value string) [][]byte {
	out := [][]byte{[]byte(value), []byte(hex.EncodeToString([]byte(value))), []byte(url.QueryEscape(value))}
	for shift := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), value...))
		// Its ends hang on what stands before and behind.
		from, to := (shift*8+5)/6, len(encoded)-1
		out = append(out, []byte(encoded[from:to]))
	}
	return out
}
