package agentconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	platform "fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

const (
	// shownChanges and shownClusters bound what a write is told of: changes, and clusters of each.
	shownChanges, shownClusters = 5, 5
)

// Hook says of each write which agents are configured anew, and how.
type Hook struct {
	// Sees tells what the caller sees; nil: everything.
	Sees func(ctx context.Context) (func(store.Resource) bool, error)
}

// Wrote implements catalog.Hook.
func (h Hook) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	if either(after, before).Kind != store.KindAgentConfig {
		return nil
	}
	rows, err := catalog.AllRows(ctx, w.Tx.View, store.KindAgentConfig)
	if err != nil {
		return err
	}
	if before == nil && len(rows) > most {
		return refusal.New(refusal.Precondition, "agentconfig %q: there are %d already, the most that there may be: put some together", after.Name, most)
	}
	if w.By.Self() {
		return nil // no person waits for the note
	}
	now, err := configs(rows)
	if err != nil {
		return err
	}
	was, err := undone(now, before, after)
	if err != nil {
		return err
	}
	sees, err := h.Sees(ctx)
	if err != nil {
		return err
	}
	clusters, err := catalog.AllRows(ctx, w.Tx.View, store.KindCluster)
	if err != nil {
		return err
	}
	if sees != nil {
		clusters = slices.DeleteFunc(clusters, func(r store.Resource) bool { return !sees(r) })
	}
	w.Note(preview(was, now, clusters))
	return nil
}

func either(a, b *store.Resource) *store.Resource {
	if a != nil {
		return a
	}
	return b
}

// undone are the configurations without a write.
func undone(now []*consolev1.AgentConfig, before, after *store.Resource) ([]*consolev1.AgentConfig, error) {
	was := slices.Clone(now)
	if after != nil {
		was = slices.DeleteFunc(was, func(c *consolev1.AgentConfig) bool { return c.GetMetadata().GetName() == after.Name })
	}
	if before == nil {
		return was, nil
	}
	more, err := configs([]store.Resource{*before})
	return append(was, more...), err
}

// preview says what changes at which clusters, equal changes together.
func preview(was, now []*consolev1.AgentConfig, clusters []store.Resource) string {
	var order []string
	of, total := map[string][]string{}, 0
	for _, r := range clusters {
		before, after := platform.For(was, r.Name, r.Labels), platform.For(now, r.Name, r.Labels)
		if before.GetDigest() == after.GetDigest() {
			continue
		}
		is := change(platform.Merge(before.GetLayers()), platform.Merge(after.GetLayers()))
		if of[is] == nil {
			order = append(order, is)
		}
		of[is] = append(of[is], r.Name)
		total++
	}
	if total == 0 {
		return "no agent is configured anew"
	}
	parts := []string{"configures " + plural.Of(total, "agent") + " anew"}
	for _, is := range order[:min(len(order), shownChanges)] {
		parts = append(parts, few(of[is])+": "+is)
	}
	if more := len(order) - shownChanges; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d other changes", more))
	}
	return strings.Join(parts, "; ")
}

// few names some clusters.
func few(names []string) string {
	if more := len(names) - shownClusters; more > 0 {
		return strings.Join(names[:shownClusters], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// change is what is in force after, and was not before.
func change(before, after platform.Settings) string {
	was := map[string]string{}
	for _, v := range before.Values() {
		was[v.Key] = v.Text
	}
	var parts []string
	for _, v := range after.Values() {
		old, had := was[v.Key]
		delete(was, v.Key)
		switch {
		case !had:
			parts = append(parts, v.Key+" "+v.Text)
		case old != v.Text:
			parts = append(parts, v.Key+" "+v.Text+" instead of "+old)
		}
	}
	for _, v := range before.Values() {
		if _, gone := was[v.Key]; gone {
			parts = append(parts, v.Key+" as its flags say")
		}
	}
	if len(parts) == 0 {
		return "nothing that counts: other configurations are as narrow"
	}
	return strings.Join(parts, ", ")
}
