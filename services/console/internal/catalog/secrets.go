package catalog

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// ChangedKeys are the keys of a secret whose values a write changed or added. before and after may be nil.
func (c *Catalog) ChangedKeys(before, after *store.Resource) (map[string]bool, error) {
	values := func(r *store.Resource) (map[string]string, error) {
		if r == nil {
			return nil, nil
		}
		return c.openSecret(*r)
	}
	was, _ := values(before) // values that can't be read are not those that are written now
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

// secretPurpose binds sealed values to the secret that they are of.
func secretPurpose(name string) string { return "secret/" + name }

// sealInto puts values into a draft. Values that are there already stay as they are sealed, so that
// an update without a change is seen as one. Where they can't be read, all are written anew.
func (c *Catalog) sealInto(d *store.Draft, data map[string]string, current *store.Resource) error {
	var before map[string]string
	var unread error
	if current != nil {
		before, unread = c.openSecret(*current)
	}
	data = maps.Clone(data)
	for key, value := range data {
		if value == "" && unread != nil {
			return refusal.New(refusal.Invalid, "data[%q]: the value that it has can't be read: write all values of the secret", key)
		}
		if value == "" && before[key] == "" {
			return refusal.New(refusal.Invalid, "data[%q]: has no value yet: write one", key)
		}
		if value == "" {
			data[key] = before[key]
		}
	}
	plain, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode secret %q: %w", d.Name, err)
	}
	if current != nil && unread == nil {
		old, err := json.Marshal(before)
		if err != nil {
			return fmt.Errorf("encode secret %q: %w", d.Name, err)
		}
		if hmac.Equal(plain, old) { // in constant time
			d.Sealed = current.Sealed
			return nil
		}
	}
	d.Sealed = c.box.Seal(secretPurpose(d.Name), plain)
	return nil
}

func (c *Catalog) openSecret(r store.Resource) (map[string]string, error) {
	plain, err := c.box.Open(secretPurpose(r.Name), r.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open secret %q: %w", r.Name, err)
	}
	data := map[string]string{}
	if err := json.Unmarshal(plain, &data); err != nil {
		// The error of the decoder may hold a part of the text.
		return nil, fmt.Errorf("open secret %q: it is damaged", r.Name)
	}
	return data, nil
}

// Masked stands for the value of a secret.
const Masked = "***"

// MaskSecret returns the keys of a secret with masks for values, and says which are not those of before (nil: none).
func (c *Catalog) MaskSecret(before *store.Resource, r store.Resource) (map[string]string, error) {
	var old map[string]string
	var unread error
	if before != nil {
		old, unread = c.openSecret(*before)
	}
	data, err := c.openSecret(r)
	if err != nil { // of values that can't be read there are the keys
		s, err := resource.ReadSecret(r)
		for key := range s.Data {
			s.Data[key] = Masked
		}
		return s.Data, err
	}
	for key, value := range data {
		data[key] = Masked
		if was, ok := old[key]; unread != nil || ok && was != value {
			data[key] = Masked + " (changed)"
		}
	}
	return data, nil
}

// AccessSecret returns the values of a secret, and says in the log who asked.
func (c *Catalog) AccessSecret(ctx context.Context, actor, name string) (data map[string]string, revision int64, err error) {
	if !resource.IsName(name) {
		return nil, 0, refusal.Missing(store.KindSecret, name)
	}
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		r, err := v.Get(ctx, store.KindSecret, name)
		if errors.Is(err, store.ErrNotFound) {
			return refusal.Missing(store.KindSecret, name)
		} else if err != nil {
			return err
		}
		// A gitcache needs what sources name, and no backend's, sink's or service's.
		named, err := v.CountReferrers(ctx, store.KindSource, store.KindSecret, []string{name})
		if err != nil {
			return err
		}
		if named[name] == 0 {
			return refusal.New(refusal.Forbidden,
				"secret %q: no source names it: gitcaches read the secrets of sources only", name)
		}
		revision = r.Revision
		data, err = c.openSecret(r)
		return err
	})
	if err == nil {
		c.log.InfoContext(ctx, "secret accessed", "actor", actor, "secret", name, "revision", revision)
	}
	return data, revision, err
}

// ValuesOf opens a Secret of the catalog.
func (c *Catalog) ValuesOf(r store.Resource) (map[string]string, error) { return c.openSecret(r) }
