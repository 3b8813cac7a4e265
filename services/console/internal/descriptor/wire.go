package descriptor

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/kind"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// Each encodes, or decodes, the elements of a list.
func Each[T, M any](list []T, encode func(T) M) []M {
	out := make([]M, len(list))
	for i, v := range list {
		out[i] = encode(v)
	}
	return out
}

// Number is the number of a kind in the API.
func Number(k store.Kind) consolev1.Kind {
	of, ok := kind.Named(string(k))
	if !ok {
		return consolev1.Kind_KIND_UNSPECIFIED
	}
	return of.Number()
}

// Numbered is empty for a kind that this console does not know.
func Numbered(number consolev1.Kind) store.Kind {
	of, ok := kind.Numbered(number)
	if !ok {
		return ""
	}
	return store.Kind(of.Singular())
}

// Selector is what a caller says of clusters in a field.
func Selector(field string, s *consolev1.ClusterSelector) (*resource.Selector, error) {
	if s.GetWhere() != "" {
		return nil, refusal.New(refusal.Invalid, "%s.where: not known here yet: use names, labels or all", field)
	}
	if s == nil {
		return nil, nil //nolint:nilnil // none is none
	}
	return &resource.Selector{Names: s.GetNames(), Labels: s.GetLabels(), All: s.GetAll()}, nil
}

// ClusterSelector is that of a resource.
func ClusterSelector(s *resource.Selector) *consolev1.ClusterSelector {
	if s == nil {
		return nil
	}
	return &consolev1.ClusterSelector{Names: s.Names, Labels: s.Labels, All: s.All}
}
