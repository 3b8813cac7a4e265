package catalog

import "fairlead.dev/services/console/internal/store"

// ChangedKeys are the keys of a secret whose values a write changed or added. before and after may be nil.
func (c *Catalog) ChangedKeys(before, after *store.Resource) (map[string]bool, error) {
	values := func(r *store.Resource) (map[string]string, error) {
		if r == nil {
			return nil, nil
		}
		return c.openSecret(*r)
	}
	was, err := values(before)
	if err != nil {
		return nil, err
	}
	is, err := values(after)
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for key, value := range is {
		if old, ok := was[key]; !ok || old != value {
			changed[key] = before != nil
		}
	}
	return changed, nil
}
