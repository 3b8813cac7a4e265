package catalog

import (
	"bytes"
	"crypto/hmac"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// settingsField is where the settings of a kind are written.
func settingsField(kind store.Kind) string {
	if kind == store.KindConfigSet {
		return "spec.entries"
	}
	return "spec.config"
}

// settingsPurpose binds sealed values to what they are of.
func settingsPurpose(kind store.Kind, name string) string {
	return "config/" + string(kind) + "/" + name
}

// sealSettings puts the secret ones into a draft. Unchanged settings stay as they are sealed, so that an update without
// a change is seen as one. Where they can't be read, they stay while none is written, and are all written anew else.
func (c *Catalog) sealSettings(d *store.Draft, settings state.Settings, current *store.Resource) error {
	before, unread := c.openSettings(current)
	if unread != nil {
		if kept, err := keepSecrets(settings, *current); err != nil || kept {
			d.Sealed = current.Sealed
			return err
		}
	}
	values := map[string]string{}
	for name, s := range settings {
		if !s.Secret {
			continue
		}
		if s.Write == "" && unread != nil {
			return refusal.New(refusal.Invalid, "%s %q: %s[%q].secret: the value that it has can't be read: write all secret ones",
				d.Kind, d.Name, settingsField(d.Kind), name)
		}
		if values[name] = s.Write; s.Write == "" {
			if values[name] = before[name]; values[name] == "" {
				return refusal.New(refusal.Invalid, "%s %q: %s[%q].secret: has no value yet: write one", d.Kind, d.Name, settingsField(d.Kind), name)
			}
		}
	}
	if len(values) == 0 {
		return nil
	}
	plain, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("encode configuration of %s %q: %w", d.Kind, d.Name, err)
	}
	if current != nil && unread == nil {
		old, err := json.Marshal(before)
		if err != nil {
			return fmt.Errorf("encode configuration of %s %q: %w", d.Kind, d.Name, err)
		}
		if hmac.Equal(plain, old) { // in constant time
			d.Sealed = current.Sealed
			return nil
		}
	}
	d.Sealed = c.box.Seal(settingsPurpose(d.Kind, d.Name), plain)
	return nil
}

// openSettings returns the secret settings of a resource by name; nil has none.
func (c *Catalog) openSettings(r *store.Resource) (map[string]string, error) {
	if r == nil || len(r.Sealed) == 0 {
		return nil, nil
	}
	plain, err := c.box.Open(settingsPurpose(r.Kind, r.Name), r.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open configuration of %s %q: %w", r.Kind, r.Name, err)
	}
	values := map[string]string{}
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, fmt.Errorf("open configuration of %s %q: it is damaged", r.Kind, r.Name) // the decoder may quote it
	}
	return values, nil
}

// SettingsOf returns the settings of a resource, and the values of the secret ones by name.
func (c *Catalog) SettingsOf(r store.Resource) (state.Settings, map[string]string, error) {
	settings, err := resource.DecodeSettings(r)
	if err != nil || len(settings) == 0 {
		return nil, nil, err
	}
	values, err := c.openSettings(&r)
	return settings, values, err
}

// keepSecrets says whether settings have the same secret ones as those of a resource, and none is written.
func keepSecrets(settings state.Settings, of store.Resource) (bool, error) {
	names, err := secretNames(of)
	for name, s := range settings {
		if _, has := names[name]; s.Secret && (!has || s.Write != "") {
			return false, err
		}
		delete(names, name)
	}
	return len(names) == 0, err
}

// secretNames are the names of a resource's secret settings.
func secretNames(of store.Resource) (map[string]bool, error) {
	settings, err := resource.DecodeSettings(of)
	names := map[string]bool{}
	for name, s := range settings {
		if s.Secret {
			names[name] = false
		}
	}
	return names, err
}

// ChangedSettings are the secret settings of after, and whether they are not those of before; nil has none.
func (c *Catalog) ChangedSettings(before, after *store.Resource) (map[string]bool, error) {
	if after == nil || after.Kind == store.KindSecret {
		return nil, nil
	}
	if before != nil && len(after.Sealed) > 0 && bytes.Equal(before.Sealed, after.Sealed) {
		return secretNames(*after) // whether they can be read or not
	}
	was, unread := c.openSettings(before)
	is, err := c.openSettings(after)
	if err != nil {
		return nil, err
	}
	changed := make(map[string]bool, len(is))
	for name, value := range is {
		old, ok := was[name]
		changed[name] = unread != nil || ok && old != value
	}
	return changed, nil
}

// SealPurpose is what the sealed part of a resource is bound to.
func SealPurpose(kind store.Kind, name string) string {
	if kind == store.KindSecret {
		return secretPurpose(name)
	}
	return settingsPurpose(kind, name)
}

// sealCredentials puts the secret ones into a draft. A secret of a sink that goes elsewhere has to be given again: a
// subject that may change a sink may not read what it sends.
func (c *Catalog) sealCredentials(d *store.Draft, is resource.SinkSpec, current *store.Resource) error {
	at := "spec." + is.Kind()
	var was resource.SinkSpec
	if current != nil {
		if err := state.Decode(*current, &was); err != nil {
			return err
		}
	}
	for name, s := range is.Credentials {
		if !s.Secret || s.Write != "" {
			continue
		}
		switch {
		case is.Kind() != was.Kind() || !was.Credentials[name].Secret:
			return refusal.New(refusal.Invalid, "%s.%s.secret: has no value: write it once", at, name)
		case is.Target() != was.Target():
			return refusal.New(refusal.Invalid,
				"%s.%s.secret: write it again: it would be for another receiver than before", at, name)
		}
	}
	return c.sealSettings(d, is.Credentials, current)
}

// CredentialsOf returns the values of a sink's credentials by name.
func (c *Catalog) CredentialsOf(r store.Resource, named func(secret string) (store.Resource, error)) (map[string]string, error) {
	settings, values, err := c.SettingsOf(r)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, s := range settings {
		if out[name] = values[name]; s.Ref == nil {
			continue
		}
		row, err := named(s.Ref.Path)
		if err != nil {
			return nil, fmt.Errorf("read secret %q: %w", s.Ref.Path, err)
		}
		secret, err := c.openSecret(row)
		if err != nil {
			return nil, err
		}
		value, ok := secret[s.Ref.Key]
		if !ok {
			return nil, refusal.New(refusal.Precondition, "secret %q has no key %q: it has %s", s.Ref.Path, s.Ref.Key, strings.Join(slices.Sorted(maps.Keys(secret)), ", "))
		}
		out[name] = value
	}
	return out, nil
}
