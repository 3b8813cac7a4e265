package resource

import (
	"fmt"

	"fairlead.dev/services/console/internal/store"
)

// Reference is a resource that a field names.
type Reference struct {
	store.Ref
	// Field is as people write it: spec.source.
	Field string
}

// RefTo is a reference from a field, as people write it: spec.source.
func RefTo(kind store.Kind, name, field string) Reference {
	return Reference{store.Ref{Kind: kind, Name: name}, field}
}

// eachTo is about a list of names.
func eachTo(kind store.Kind, names []string, field string) (refs []Reference) {
	for i, name := range names {
		refs = append(refs, RefTo(kind, name, fmt.Sprintf("%s[%d]", field, i)))
	}
	return refs
}

// Distinct leaves each of the resources once.
func Distinct(refs []Reference) (out []store.Ref) {
	seen := make(map[store.Ref]bool, len(refs))
	for _, r := range refs {
		if !seen[r.Ref] {
			seen[r.Ref] = true
			out = append(out, r.Ref)
		}
	}
	return out
}
