package resource

import (
	"slices"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/console/internal/state"
)

// CheckCluster refuses configuration and windows that no cluster can have.
func CheckCluster(c *state.Cluster) error {
	if !IsName(c.Meta.Name) {
		return RefuseName(c.Meta.Name)
	}
	if err := checkWindows(c.Spec.Windows, "windows"); err != nil {
		return err
	}
	return checkSettings(c.Spec.Config, "config")
}

// checkWindows says which window is none. field is where they are written.
func checkWindows(w state.Windows, field string) error {
	for i, one := range w {
		if err := window.Check(one); err != nil {
			return refusal.New(refusal.Invalid, "spec.%s[%d]: %v", field, i, err)
		}
		same := func(other *deliveryv1.SyncWindow) bool { return other.GetName() == one.GetName() }
		if first := slices.IndexFunc(w, same); one.GetName() != "" && first != i {
			return refusal.New(refusal.Invalid, "spec.%s[%d].name %q: is that of spec.%s[%d], too: messages tell them apart by it", field, i, one.GetName(), field, first)
		}
	}
	return nil
}

// Selector chooses clusters. One of its fields is set.
type Selector struct {
	Names  []string          `json:"names,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	All    bool              `json:"all,omitempty"`
}

// Fits says whether a cluster is chosen.
func (s *Selector) Fits(name string, labels map[string]string) bool {
	if s == nil {
		return false
	}
	if s.All || slices.Contains(s.Names, name) {
		return true
	}
	for key, value := range s.Labels {
		if is, ok := labels[key]; !ok || is != value {
			return false
		}
	}
	return len(s.Labels) > 0
}
