package catalog

import (
	"fmt"

	"fairlead.dev/services/console/internal/store"
)

// Reference is a resource that a field names.
type Reference struct {
	store.Ref
	// field is as people write it: spec.source.
	field string
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

// once leaves each of the resources once.
func once(refs []Reference) (out []store.Ref) {
	seen := make(map[store.Ref]bool, len(refs))
	for _, r := range refs {
		if !seen[r.Ref] {
			seen[r.Ref] = true
			out = append(out, r.Ref)
		}
	}
	return out
}

// naming completes an edit with what its fields name.
func (e Edit) naming(refs []Reference) Edit {
	e.draft.Refs, e.references = once(refs), refs
	return e
}

// fieldOf is the first field that names a resource.
func (e *Edit) fieldOf(ref store.Ref) string {
	for _, r := range e.references {
		if r.Ref == ref {
			return r.field
		}
	}
	return "spec"
}
