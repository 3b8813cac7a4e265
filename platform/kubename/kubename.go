// Package kubename knows the forms of names in Kubernetes. A program compiles no expression for them when it starts:
// those with a bound of 253 take a millisecond each.
package kubename

import "strings"

const (
	longestLabel = 63
	longest      = 253
)

// IsLabel knows DNS labels: names of namespaces, and of all that Fairlead names.
func IsLabel(text string) bool { return len(text) <= longestLabel && isForm(text, "-") }

// IsObject knows names of objects, such as Secrets and service accounts.
func IsObject(text string) bool { return len(text) <= longest && isForm(text, "-.") }

// IsAccount knows service accounts: namespace/name.
func IsAccount(text string) bool {
	namespace, name, _ := strings.Cut(text, "/")
	return IsLabel(namespace) && IsObject(name)
}

// isForm tells whether text has lower-case letters and digits, and inner ones between the first and the last.
func isForm(text, inner string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') &&
			(i == 0 || i == len(text)-1 || strings.IndexByte(inner, c) < 0) {
			return false
		}
	}
	return text != ""
}
