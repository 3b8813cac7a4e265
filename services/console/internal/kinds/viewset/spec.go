// Package viewset is the kind ViewSet: kinds of objects that the views of clusters count and list besides those that
// every view has. Package viewset of platform says which cluster has which.
package viewset

import (
	"encoding/json"
	"slices"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/jsonpath"
	"fairlead.dev/platform/refusal"
	platform "fairlead.dev/platform/viewset"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// most is how many sets there may be.
const most = 50

// Spec is what is stored.
type Spec struct {
	Description string             `json:"description,omitempty"`
	Clusters    *resource.Selector `json:"clusters"`
	// Content is a ViewSetContent in protojson.
	Content json.RawMessage `json:"content"`
}

// ViewSet is such a resource.
type ViewSet = resource.Of[Spec]

func kindType() resource.Type[Spec] {
	return resource.Type[Spec]{Kind: store.KindViewSet, Check: func(s *ViewSet) error {
		content, err := contentOf(s.Spec)
		if err != nil {
			return err
		}
		return check(s.Meta.Name, content)
	}}
}

// check finds what the rules of the contract can't say.
func check(name string, c *deliveryv1.ViewSetContent) error {
	refuse := func(format string, args ...any) error { return refusal.New(refusal.Invalid, format, args...) }
	if len(name) > platform.MaxName {
		return refuse("metadata.name: %d bytes: a section of views is called set-NAME, so that the most are %d", len(name), platform.MaxName)
	}
	if platform.IsSecret(c.GetOf()) {
		return refuse("spec.of.kind: no view shows Secrets and ConfigMaps")
	}
	var counts, columns []string
	for _, count := range c.GetCounts() {
		if err := checkPath("counts", count.GetName(), count.GetPath(), &counts); err != nil {
			return err
		}
		if slices.Contains(c.GetConditions(), count.GetName()) {
			return refuse("spec.counts: %s is the name of a condition, too: their figures would be one", count.GetName())
		}
	}
	for _, column := range c.GetColumns() {
		if err := checkPath("columns", column.GetName(), column.GetPath(), &columns); err != nil {
			return err
		}
	}
	return nil
}

// checkPath checks one count or column, and notes its name.
func checkPath(field, name, text string, names *[]string) error {
	refuse := func(format string, args ...any) error {
		return refusal.New(refusal.Invalid, "spec."+field+": "+name+": "+format, args...)
	}
	if slices.Contains(*names, name) {
		return refuse("the name stands there twice")
	}
	*names = append(*names, name)
	path, err := jsonpath.Parse(text)
	if err != nil {
		return refuse("%s", err)
	}
	if platform.Hides(path) {
		return refuse("no view shows %s: data, annotations and managed fields stay in the cluster", text)
	}
	return nil
}
