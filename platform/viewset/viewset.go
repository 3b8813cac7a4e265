// Package viewset says which ViewSets the view of a cluster has, and what none may be about.
package viewset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/jsonpath"
)

const (
	// MaxAtCluster is how many sets one cluster may have, and MaxName how long the name of one is, in bytes: Section
	// has to be the name of a section.
	MaxAtCluster, MaxName = 8, 27
	// UsualRows is how many rows a set lists that does not say.
	UsualRows = 50
	// prefix begins the names of sections that are of sets.
	prefix = "set-"
)

// Section is the section of the view that a set is in.
func Section(name string) string { return prefix + name }

// NameOf is the set that a section is of.
func NameOf(section string) (name string, ok bool) { return strings.CutPrefix(section, prefix) }

// Chooses tells whether a set is for a cluster.
func Chooses(s *consolev1.ViewSet, cluster string, labels map[string]string) bool {
	of := s.GetSpec().GetClusters()
	if of.GetAll() || slices.Contains(of.GetNames(), cluster) {
		return true
	}
	for key, value := range of.GetLabels() {
		if is, ok := labels[key]; !ok || is != value {
			return false
		}
	}
	return len(of.GetLabels()) > 0
}

// For is what the view of a cluster has besides: the sets that choose it, in the order of their names.
func For(all []*consolev1.ViewSet, cluster string, labels map[string]string) *deliveryv1.ViewSetDelivery {
	out := &deliveryv1.ViewSetDelivery{}
	for _, s := range all {
		if Chooses(s, cluster, labels) {
			out.Sets = append(out.Sets, &deliveryv1.NamedViewSet{Name: s.GetMetadata().GetName(), Content: Content(s.GetSpec())})
		}
	}
	slices.SortFunc(out.GetSets(), func(a, b *deliveryv1.NamedViewSet) int { return cmp.Compare(a.GetName(), b.GetName()) })
	out.Digest = Digest(out.GetSets())
	return out
}

// Content is what agents are told of a set.
func Content(s *consolev1.ViewSetSpec) *deliveryv1.ViewSetContent {
	return &deliveryv1.ViewSetContent{Of: s.GetOf(), Counts: s.GetCounts(), Conditions: s.GetConditions(), Columns: s.GetColumns(), Rows: s.GetRows()}
}

// Digest names sets by their content; "" for none. Equal sets have equal digests.
func Digest(sets []*deliveryv1.NamedViewSet) string {
	if len(sets) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, set := range sets {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
		if err != nil {
			text = []byte(set.GetName()) // of text that is no UTF-8, which no console takes
		}
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Most is how many rows a set lists.
func Most(c *deliveryv1.ViewSetContent) int {
	if c.GetRows() == nil || c.GetRows().Most == nil {
		return UsualRows
	}
	return int(c.GetRows().GetMost())
}

// IsSecret tells whether a set is about Secrets or ConfigMaps, which no view shows.
func IsSecret(of *deliveryv1.ViewSetOf) bool {
	kind := strings.ToLower(of.GetKind())
	return of.GetGroup() == "" && (kind == "secret" || kind == "configmap")
}

// Hides tells whether a path is to what no view shows: data of an object, annotations (which hold whole objects) and
// the managers of fields.
func Hides(path jsonpath.Path) bool {
	return path.Under("data") || path.Under("stringData") || path.Under("binaryData") ||
		path.Under("metadata", "annotations") || path.Under("metadata", "managedFields") ||
		slices.Equal(path.Fields(), []string{"metadata"})
}
