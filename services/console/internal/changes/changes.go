// Package changes puts every change of the catalog into the audit trail: who, what, before and after, in the
// transaction of the change. There is no change without its event, and no event without its change.
package changes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

// maxBytes is how much of a resource an event keeps whole.
const maxBytes = 64 << 10

// Recorder is the hook. The recorder comes last: writes of other hooks have events of their own.
type Recorder struct{ Catalog *catalog.Catalog }

// Wrote implements catalog.Hook.
func (r Recorder) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	act := audit.Act{Action: "catalog.update", Verb: w.Action()}
	switch {
	case before == nil:
		act.Action = "catalog.create"
	case after == nil:
		act.Action = "catalog.delete"
	}
	of := after
	if of == nil {
		of = before
	}
	act.Resource, act.Name = string(of.Kind), of.Name
	was, is, err := r.texts(before, after)
	if err != nil {
		return err
	}
	act.Before, act.After, act.Cluster = encode(was), encode(is), cluster(of)
	if act.Reason = w.By.Reason; w.By.Self() {
		act.Reason = "for " + w.By.Subject
	}
	return w.Tx.Audit(ctx, audit.Event(audit.Who{Identity: w.By.Identity, Remote: w.By.Remote, TraceID: w.By.TraceID}, w.Tx.Now(), act))
}

func cluster(r *store.Resource) string {
	if r.Kind == store.KindCluster {
		return r.Name
	}
	var spec struct{ Cluster string }
	_ = json.Unmarshal(r.Spec, &spec) // a spec of another form is about no cluster
	return spec.Cluster
}

// texts are what is told of a resource before and after a change. Secret values are in neither.
func (r Recorder) texts(before, after *store.Resource) (was, is map[string]any, err error) {
	if was, err = text(before); err != nil {
		return nil, nil, err
	}
	if is, err = text(after); err != nil {
		return nil, nil, err
	}
	if before != nil && before.Kind == store.KindSecret || after != nil && after.Kind == store.KindSecret {
		changed, err := r.Catalog.ChangedKeys(before, after)
		if err != nil {
			return nil, nil, err
		}
		hide(was, nil)
		hide(is, changed)
	} else if is != nil {
		changed, err := r.Catalog.ChangedSettings(before, after)
		if err != nil {
			return nil, nil, err
		}
		mark(is, changed)
	}
	if size(was) > maxBytes || size(is) > maxBytes {
		onlyDifferent(was, is)
	}
	return was, is, nil
}

func text(r *store.Resource) (map[string]any, error) {
	if r == nil {
		return nil, nil
	}
	var spec map[string]any
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return nil, fmt.Errorf("decode %s %q: %w", r.Kind, r.Name, err)
	}
	out := map[string]any{"spec": spec}
	if len(r.Labels) > 0 {
		out["labels"] = r.Labels
	}
	return out, nil
}

// hide writes the keys of a secret as its data.
func hide(told map[string]any, changed map[string]bool) {
	if told == nil {
		return
	}
	spec, _ := told["spec"].(map[string]any)
	keys, _ := spec["keys"].([]any)
	data := map[string]string{}
	for _, key := range keys {
		name := fmt.Sprint(key)
		data[name] = "***"
		if changed[name] {
			data[name] = "*** (changed)"
		}
	}
	delete(told, "spec")
	told["data"] = data
}

// mark says which secret settings changed.
func mark(told map[string]any, changed map[string]bool) {
	spec, _ := told["spec"].(map[string]any)
	for _, field := range []string{"config", "entries"} {
		settings, _ := spec[field].(map[string]any)
		for name, is := range changed {
			if setting, ok := settings[name].(map[string]any); ok && is {
				setting["secret"] = "*** (changed)"
			}
		}
	}
}

func encode(told map[string]any) string {
	if told == nil {
		return ""
	}
	out, _ := json.Marshal(told) // the value came from JSON
	return string(out)
}

func size(told map[string]any) int { return len(encode(told)) }

// onlyDifferent leaves the fields of the spec that differ, and of those that are too long only that they do.
func onlyDifferent(was, is map[string]any) {
	before, _ := was["spec"].(map[string]any)
	after, _ := is["spec"].(map[string]any)
	same := func(key string) bool {
		a, okA := before[key]
		b, okB := after[key]
		textA, _ := json.Marshal(a)
		textB, _ := json.Marshal(b)
		return okA == okB && bytes.Equal(textA, textB)
	}
	for key := range maps.Clone(before) {
		if same(key) {
			delete(before, key)
			delete(after, key)
		}
	}
	for _, spec := range []map[string]any{before, after} {
		for key, value := range spec {
			if text, _ := json.Marshal(value); len(text) > maxBytes/8 {
				spec[key] = fmt.Sprintf("(%d bytes)", len(text))
			}
		}
	}
}
