package resource

import (
	"regexp"

	"fairlead.dev/platform/kubename"
	"fairlead.dev/platform/refusal"
)

const longestMediaType = 255

var (
	mediaType = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_-]*/[A-Za-z0-9][A-Za-z0-9.+_-]*$`)
	// kindPattern is a kind, and a group if it is not the core one.
	kindPattern = regexp.MustCompile(`^[A-Za-z*][A-Za-z0-9*]*(\.[a-z0-9*]([-a-z0-9*.]*[a-z0-9*])?)?$`)
)

// IsName tells whether a resource can have a name.
func IsName(name string) bool { return kubename.IsLabel(name) }

// wantSecretName does not repeat what is there instead: it may be the secret itself.
const wantSecretName = "must be the name of a Secret: the values go there, and its name here"

// RefuseName is the error for what IsName does not accept.
func RefuseName(name string) error {
	return refusal.New(refusal.Invalid, "metadata.name %q: must be 1 to 63 lower-case letters, digits or '-', "+
		"beginning and ending with a letter or digit", name)
}
