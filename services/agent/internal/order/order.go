// Package order says in which order the objects of a service are applied, and removed. The package only plans.
//
// Namespaces and definitions of kinds come first, whatever their wave. Then wave by wave: what others need
// (accounts, rights, configuration, claims), the rest, and last what intercepts requests. Steps are not waited for
// but where somebody said so: before the next of several waves, before an object that depends on another, and
// around hooks.
//
// Hooks of Helm run one after the other, as Helm sorts them: by weight, by name, by kind. All others run side by side
// with those of their wave. The objects of hooks that have ended well are deleted when all hooks of the moment have.
package order

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// usualTimeout of a gate.
const usualTimeout = 10 * time.Minute

// Step is objects that are sent side by side, or, if it is a gate, waited for.
type Step struct {
	Items []set.Item
	// Gate: nothing is sent. The next step begins when all items are healthy.
	Gate bool
	// Timeout of a gate.
	Timeout time.Duration
	// Hook has the moments that the step is of, if its items are hooks.
	Hook set.Hook
	// Earlier are the hooks that ended before those of a gate began.
	Earlier []set.Item
	// Drop: all hooks of the moment have ended well. Their objects are deleted where their policies say so, in this
	// order.
	Drop bool
}

// rank orders objects of a wave.
type rank int

const (
	foundation rank = iota // Namespaces and definitions of kinds, ahead of all waves.
	needed
	ordinary
	ownKind // Objects of kinds that are defined by the same service: they may have to wait for a moment.
	intercepting
)

func rankOf(kind schema.GroupKind) rank {
	switch kind {
	case schema.GroupKind{Kind: "Namespace"},
		schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return foundation
	case schema.GroupKind{Kind: "ServiceAccount"}, schema.GroupKind{Kind: "Secret"}, schema.GroupKind{Kind: "ConfigMap"},
		schema.GroupKind{Kind: "PersistentVolumeClaim"}, schema.GroupKind{Kind: "PersistentVolume"},
		schema.GroupKind{Kind: "ResourceQuota"}, schema.GroupKind{Kind: "LimitRange"},
		schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}, schema.GroupKind{Group: "scheduling.k8s.io", Kind: "PriorityClass"},
		schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "Role"}, schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"},
		schema.GroupKind{
			Group: "rbac.authorization.k8s.io",
			Kind:  "RoleBinding",
		}, schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:
		return needed
	case schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		return intercepting
	}
	return ordinary
}

// Plan is how to bring the items into a cluster. A hook after the ordinary objects waits until they are healthy if late
// says so, and else begins when they are sent. The error is a *kubeyaml.Error that names a cycle, object by object.
func Plan(items []set.Item, isOwnKind func(schema.GroupKind) bool, late func(set.Item) bool) ([]Step, error) {
	p := planner{isOwnKind: isOwnKind, at: map[object.Key]int{}, gated: map[object.Key]bool{}}
	var first, ordinary []set.Item
	for _, item := range items {
		switch {
		case item.Hook != 0:
			continue
		case rankOf(item.GVK().GroupKind()) == foundation:
			first = append(first, item)
		default:
			p.at[item.Key] = len(ordinary)
			ordinary = append(ordinary, item)
		}
	}
	p.items = ordinary
	p.send(first)
	p.steps = append(p.steps, Hooks(items, object.Before)...)
	if err := p.waves(Hooks(items, object.Sync)); err != nil {
		return nil, err
	}
	early := slices.DeleteFunc(slices.Clone(items), late)
	p.steps = append(p.steps, Hooks(early, object.After)...)
	if after := Hooks(slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool { return !late(item) }), object.After); len(after) > 0 {
		p.gate(slices.Concat(first, ordinary))
		p.steps = append(p.steps, after...)
	}
	return p.steps, nil
}

// Hooks are the steps of the hooks of some moments that are one: wave by wave, and what is started is waited for. Hooks
// that share a name are never in the same step.
func Hooks(items []set.Item, moments set.Hook) []Step {
	var hooks []set.Item
	for _, item := range items {
		if item.Hook&moments != 0 {
			hooks = append(hooks, item)
		}
	}
	slices.SortStableFunc(hooks, inTurn)
	var steps []Step
	var all []set.Item
	for _, group := range chunks(hooks, groupOf) {
		lists := apart(group)
		if group[0].Flags&object.InTurn != 0 {
			lists = chunks(group, func(item set.Item) object.Run { return item.Run() })
		}
		for _, items := range lists {
			steps = append(steps,
				Step{Items: items, Hook: moments, Timeout: timeout(items)},
				Step{Items: items, Hook: moments, Gate: true, Timeout: timeout(items), Earlier: slices.Clone(all)})
			all = append(all, items...)
		}
	}
	if len(all) > 0 {
		slices.Reverse(all)
		steps = append(steps, Step{Items: all, Hook: moments, Drop: true})
	}
	return steps
}

// group is what is started side by side, but for Helm's hooks.
type group struct {
	wave   int32
	inTurn bool
}

func groupOf(item set.Item) group {
	return group{wave: item.Wave, inTurn: item.Flags&object.InTurn != 0}
}

// inTurn sorts hooks: by wave, Helm's after the others, and those by name and kind.
func inTurn(a, b set.Item) int {
	byWave := cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(a.Flags&object.InTurn, b.Flags&object.InTurn))
	if byWave != 0 || a.Flags&object.InTurn == 0 {
		return byWave
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), compareKinds(a.Kind, b.Kind))
}

// compareKinds sorts kinds as Helm installs them: those that it does not know come last, by the alphabet.
func compareKinds(a, b string) int {
	known := []string{
		"PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget", "ServiceAccount",
		"Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition",
		"ClusterRole", "ClusterRoleList", "ClusterRoleBinding", "ClusterRoleBindingList", "Role", "RoleList", "RoleBinding", "RoleBindingList",
		"Service", "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob",
		"IngressClass", "Ingress", "APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
	}
	i, j := slices.Index(known, a), slices.Index(known, b)
	switch {
	case i < 0 && j < 0:
		return cmp.Compare(a, b)
	case i < 0 || j < 0:
		return cmp.Compare(j, i) // -1 comes last
	}
	return cmp.Compare(i, j)
}

// apart spreads items over lists in which no name is twice.
func apart(items []set.Item) [][]set.Item {
	var lists [][]set.Item
	count := map[object.Key]int{}
	for _, item := range items {
		at := count[item.Key]
		count[item.Key]++
		if at == len(lists) {
			lists = append(lists, nil)
		}
		lists[at] = append(lists[at], item)
	}
	return lists
}

// chunks splits a sorted list where the key changes.
func chunks[T any, K comparable](list []T, key func(T) K) [][]T {
	var parts [][]T
	for i, one := range list {
		if i == 0 || key(list[i-1]) != key(one) {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], one)
	}
	return parts
}

func timeout(items []set.Item) time.Duration {
	longest := time.Duration(0)
	for _, item := range items {
		longest = max(longest, cmp.Or(item.Timeout, usualTimeout))
	}
	return longest
}

type planner struct {
	isOwnKind func(schema.GroupKind) bool
	items     []set.Item
	at        map[object.Key]int // index in items
	gated     map[object.Key]bool
	steps     []Step
}

func (p *planner) send(items []set.Item) {
	if len(items) > 0 {
		p.steps = append(p.steps, Step{Items: items})
	}
}

func (p *planner) gate(items []set.Item) {
	items = slices.DeleteFunc(slices.Clone(items), func(item set.Item) bool { return p.gated[item.Key] })
	for _, item := range items {
		p.gated[item.Key] = true
	}
	if len(items) > 0 {
		p.steps = append(p.steps, Step{Items: items, Gate: true, Timeout: timeout(items)})
	}
}

// waves plans the items, and the hooks that go with their waves.
func (p *planner) waves(hooks []Step) error {
	sorted := slices.Clone(p.items)
	slices.SortStableFunc(sorted, func(a, b set.Item) int { return cmp.Compare(a.Wave, b.Wave) })
	waves := chunks(sorted, func(item set.Item) int32 { return item.Wave })
	for i, wave := range waves {
		for len(hooks) > 0 && hooks[0].Items[0].Wave < wave[0].Wave {
			p.steps, hooks = append(p.steps, hooks[0]), hooks[1:]
		}
		if err := p.wave(wave); err != nil {
			return err
		}
		for len(hooks) > 0 && hooks[0].Items[0].Wave == wave[0].Wave {
			p.steps, hooks = append(p.steps, hooks[0]), hooks[1:]
		}
		if i < len(waves)-1 {
			p.gate(wave)
		}
	}
	p.steps = append(p.steps, hooks...)
	return nil
}

// wave plans the items of one wave: always the lowest rank of what has all that it depends on.
func (p *planner) wave(items []set.Item) error {
	waiting := make(map[object.Key]bool, len(items))
	for _, item := range items {
		waiting[item.Key] = true
	}
	for len(items) > 0 {
		var ready, rest []set.Item
		lowest := intercepting
		for _, item := range items {
			if p.ready(item, waiting) {
				lowest = min(lowest, p.rank(item))
			}
		}
		for _, item := range items {
			if p.rank(item) == lowest && p.ready(item, waiting) {
				ready = append(ready, item)
			} else {
				rest = append(rest, item)
			}
		}
		if len(ready) == 0 {
			return p.cycle(items)
		}
		p.gate(p.needs(ready))
		p.send(ready)
		for _, item := range ready {
			delete(waiting, item.Key)
		}
		items = rest
	}
	return nil
}

func (p *planner) rank(item set.Item) rank {
	kind := item.GVK().GroupKind()
	if p.isOwnKind(kind) {
		return ownKind
	}
	return rankOf(kind)
}

// ready tells that all that the item depends on was planned before.
func (p *planner) ready(item set.Item, waiting map[object.Key]bool) bool {
	for _, key := range item.Depends {
		if i, ok := p.at[key]; ok && (waiting[key] || p.items[i].Wave > item.Wave) {
			return false
		}
	}
	return true
}

// needs are the objects that the items depend on: those of the service, and others by their name only.
func (p *planner) needs(items []set.Item) []set.Item {
	var needs []set.Item
	seen := map[object.Key]bool{}
	for _, item := range items {
		for _, key := range item.Depends {
			if seen[key] {
				continue
			}
			seen[key] = true
			need := set.Item{Ref: object.Ref{Key: key}, Timeout: item.Timeout}
			if i, ok := p.at[key]; ok {
				need = p.items[i]
			}
			needs = append(needs, need)
		}
	}
	return needs
}

// cycle finds a way from an item back to itself, or into a later wave.
func (p *planner) cycle(items []set.Item) error {
	waiting := map[object.Key]bool{}
	for _, item := range items {
		waiting[item.Key] = true
	}
	way := []set.Item{items[0]}
	for {
		last := way[len(way)-1]
		var next set.Item
		for _, key := range last.Depends {
			i, ok := p.at[key]
			if ok && p.items[i].Wave > last.Wave {
				return &kubeyaml.Error{Position: last.Position, Line: last.Position.Line, Problem: fmt.Sprintf(
					"%s depends on %s, which is of a later wave (%d, its own is %d). Mend the annotations %s or %s",
					last.Key, key, p.items[i].Wave, last.Wave, object.WaveAnnotation, object.DependsAnnotation)}
			}
			if ok && waiting[key] {
				next = p.items[i]
			}
		}
		if from := slices.IndexFunc(way, func(item set.Item) bool { return item.Key == next.Key }); from >= 0 {
			var names []string
			for _, item := range append(way[from:], next) {
				names = append(names, item.Key.String())
			}
			return &kubeyaml.Error{Position: next.Position, Line: next.Position.Line, Problem: fmt.Sprintf(
				"objects depend on each other in a circle: %s. Mend the annotation %s", strings.Join(names, " -> "), object.DependsAnnotation)}
		}
		way = append(way, next)
	}
}

// Removal is the reverse order: what is to go first comes first. Objects of kinds that are defined by the same entries
// go before the others of their wave, so that an operator among these still runs and takes off its finalizers.
func Removal(entries []inventory.Entry) [][]inventory.Entry {
	sorted, own := slices.Clone(entries), map[string]bool{} // own are the groups of those kinds
	for _, entry := range entries {
		if entry.Group == "apiextensions.k8s.io" && entry.Kind == "CustomResourceDefinition" {
			_, group, _ := strings.Cut(entry.Name, ".") // the name is that of the resource and the group
			own[group] = group != ""
		}
	}
	type place struct {
		foundation bool
		wave       int32
		rank       rank
	}
	of := func(entry inventory.Entry) place {
		switch rank := rankOf(entry.GVK().GroupKind()); {
		case rank == foundation:
			return place{foundation: true}
		case own[entry.Group]:
			return place{wave: entry.Wave, rank: ownKind}
		default:
			return place{wave: entry.Wave, rank: rank}
		}
	}
	slices.SortStableFunc(sorted, func(x, y inventory.Entry) int {
		a, b := of(x), of(y)
		if a.foundation != b.foundation {
			if a.foundation {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(b.wave, a.wave), cmp.Compare(b.rank, a.rank))
	})
	return chunks(sorted, of)
}
