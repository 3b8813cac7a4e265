package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	// GlobalLabel says which global service a service comes of.
	GlobalLabel = "fairlead.dev/global"
	// ownLabels are those that mean something to Fairlead.
	ownLabels = "fairlead.dev/"
	// guardWindow is how far back the guard counts deletions.
	guardWindow = 10 * time.Minute
	// hashHex ends names that would be too long.
	hashHex = 6
)

// nameAt is the name of the service at a cluster.
func nameAt(global, cluster string) string {
	name := global + "-" + cluster
	if len(name) <= 63 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:63-1-hashHex] + "-" + hex.EncodeToString(sum[:])[:hashHex]
}

// PlannedAction is what a global service does to a service.
type PlannedAction string

// The actions.
const (
	PlanCreate PlannedAction = "create"
	PlanUpdate PlannedAction = "update"
	PlanDelete PlannedAction = "delete"
	PlanDetach PlannedAction = "detach"
	PlanKeep   PlannedAction = "keep"
)

// Planned is a service that a global service is about to touch.
type Planned struct {
	Name, Cluster string
	Action        PlannedAction
	// Before is nil if there is none, After if it goes.
	Before, After *store.Resource
	// Problem says why it can't be.
	Problem string

	edit Edit
	// followed: the cluster was chosen before the write, so the service followed the global service, and is not held
	// back.
	followed bool
}

// Globals is a Hook: it keeps the services of global services as these and the clusters want them, in the
// transaction of the write that causes it.
type Globals struct{ Catalog *Catalog }

// Wrote follows global services and clusters, and refuses changes past them of the services.
func (g Globals) Wrote(ctx context.Context, w *Write, before, after *store.Resource) error {
	r := after
	if r == nil {
		r = before
	}
	switch {
	case r.Kind == store.KindService && !w.By.Self() && !w.Confirmed:
		return ownedByGlobal(before, after)
	case r.Kind == store.KindCluster && after != nil:
		if before != nil && maps.Equal(before.Labels, after.Labels) {
			return nil
		}
		return g.clusterWrote(ctx, w, before, *after)
	case r.Kind == store.KindGlobalService && after != nil:
		return g.globalWrote(ctx, w, before, *after)
	}
	return nil
}

// ownedByGlobal refuses what would be undone: only how it is synced is a service's own.
func ownedByGlobal(before, after *store.Resource) error {
	var owner string
	for _, r := range []*store.Resource{before, after} {
		if r != nil && r.Labels[GlobalLabel] != "" {
			owner = r.Labels[GlobalLabel]
		}
	}
	switch {
	case owner == "":
		return nil
	case before == nil || before.Labels[GlobalLabel] == "":
		return refusal.New(refusal.Invalid, "metadata.labels[%q]: is the console's own: leave it out", GlobalLabel)
	case after == nil:
		return refusal.New(refusal.Precondition, "service %q comes of global service %q: change which clusters that chooses", before.Name, owner)
	}
	was, errWas := state.FilesOf(*before)
	is, errIs := state.FilesOf(*after)
	if err := errors.Join(errWas, errIs); err != nil {
		return err
	}
	is.Sync, is.UnpinAfter = was.Sync, was.UnpinAfter
	if maps.Equal(before.Labels, after.Labels) && state.SameFiles(was, is) {
		return nil
	}
	return refusal.New(refusal.Precondition,
		"service %q comes of global service %q: change that, or its overrides", before.Name, owner)
}

// clusterWrote brings the services of one cluster in line, but for those of global services that the write changes, too:
// what such a global service chooses is known only then.
func (g Globals) clusterWrote(ctx context.Context, w *Write, before *store.Resource, after store.Resource) error {
	if before != nil {
		w.relabelled[after.Name] = *before
	}
	rows, err := w.Tx.List(ctx, store.KindGlobalService, "", MaxReferrers)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if w.changing[row.Name] {
			continue
		}
		global, err := resource.GlobalServices().Decode(row)
		if err != nil {
			return err
		}
		was := before != nil && global.Spec.Clusters.Fits(before.Name, before.Labels)
		if !was && !global.Spec.Clusters.Fits(after.Name, after.Labels) {
			continue
		}
		service, err := w.Tx.Named(ctx, store.KindService, []string{nameAt(global.Meta.Name, after.Name)})
		if err != nil {
			return err
		}
		plan := plan(global, &global.Spec, []store.Resource{after}, service, w.relabelled)
		if err := g.carryOut(ctx, w, row, global, plan); err != nil {
			return err
		}
	}
	return nil
}

// globalWrote brings the services of all clusters in line.
func (g Globals) globalWrote(ctx context.Context, w *Write, before *store.Resource, after store.Resource) error {
	global, old, err := decodeGlobals(before, after)
	if err != nil {
		return err
	}
	planned, err := planAll(ctx, w.Tx.View, global, old, w.relabelled, nil)
	if err != nil {
		return err
	}
	return g.carryOut(ctx, w, after, global, planned)
}

// decodeGlobals returns a global service and what it was before; nil: it was not.
func decodeGlobals(before *store.Resource, after store.Resource) (global resource.GlobalService, old *resource.GlobalSpec, err error) {
	if global, err = resource.GlobalServices().Decode(after); err != nil || before == nil {
		return global, nil, err
	}
	was, err := resource.GlobalServices().Decode(*before)
	return global, &was.Spec, err
}

// planAll says what a global service does to all services, as far as a caller sees them and their clusters; sees is nil
// where that is all. relabelled are the clusters whose labels change with it, as they were, by name.
func planAll(ctx context.Context, v store.View, global resource.GlobalService, old *resource.GlobalSpec,
	relabelled map[string]store.Resource, sees func(store.Resource) bool,
) ([]Planned, error) {
	clusters, err := v.List(ctx, store.KindCluster, "", MaxReferrers)
	if err != nil {
		return nil, err
	}
	if sees != nil {
		clusters = slices.DeleteFunc(clusters, func(r store.Resource) bool { return !sees(r) })
	}
	names := make([]string, len(clusters))
	for i, c := range clusters {
		names[i] = nameAt(global.Meta.Name, c.Name)
	}
	services, err := v.Named(ctx, store.KindService, names)
	if err != nil {
		return nil, err
	}
	if sees == nil {
		return plan(global, old, clusters, services, relabelled), nil
	}
	maps.DeleteFunc(services, func(_ string, r store.Resource) bool { return !sees(r) })
	return slices.DeleteFunc(plan(global, old, clusters, services, relabelled), func(p Planned) bool { return p.After != nil && !sees(*p.After) }), nil
}

// plan says what is to be done at clusters, whose services are given by name. A service whose cluster was not chosen
// before either is held back by the guard, and stays.
func plan(global resource.GlobalService, old *resource.GlobalSpec, clusters []store.Resource, services, relabelled map[string]store.Resource) []Planned {
	var out []Planned
	for _, cluster := range clusters {
		name := nameAt(global.Meta.Name, cluster.Name)
		before, moved := relabelled[cluster.Name]
		if !moved {
			before = cluster
		}
		p := Planned{Name: name, Cluster: cluster.Name}
		p.followed = old != nil && old.Clusters.Fits(before.Name, before.Labels)
		current, exists := services[name]
		if exists {
			p.Before = &current
		}
		ours := exists && current.Labels[GlobalLabel] == global.Meta.Name
		switch chosen := global.Spec.Clusters.Fits(cluster.Name, cluster.Labels); {
		case chosen && exists && !ours:
			p.Action, p.Problem = PlanKeep, fmt.Sprintf("service %q exists already, and is not of global service %q: rename one of them", name, global.Meta.Name)
		case chosen:
			p.wanted(global, old, cluster)
		case ours && p.followed:
			p.leaves(global)
		case ours:
			p.Action = PlanKeep
		default:
			continue
		}
		out = append(out, p)
	}
	return out
}

// wanted plans the service of a chosen cluster.
func (p *Planned) wanted(global resource.GlobalService, old *resource.GlobalSpec, cluster store.Resource) {
	spec := global.Spec.At(cluster)
	labels := map[string]string{GlobalLabel: global.Meta.Name}
	for key, value := range global.Meta.Labels {
		if !strings.HasPrefix(key, ownLabels) { // a set is one of what was applied
			labels[key] = value
		}
	}
	if p.Before != nil {
		is, err := state.FilesOf(*p.Before)
		if err == nil && p.followed && !sameSync(is, old.Template) {
			spec.Sync, spec.UnpinAfter = is.Sync, is.UnpinAfter // an operator has changed how the service is synced
		}
	}
	s := state.Service{Meta: state.Meta{Name: p.Name, Labels: labels}, Spec: spec}
	e, err := DraftService(&s, Expectation{AllowMissing: true})
	if err != nil {
		p.Action, p.Problem = PlanKeep, err.Error()
		return
	}
	p.edit = e
	p.edit.planned = true
	err = e.keepTestRequest(p.Before) // as the write does
	if err == nil {
		err = e.keepLevers(p.Before)
	}
	if err == nil {
		err = p.checkNamespace(e, old, cluster)
	}
	if err != nil {
		p.Action, p.Problem = PlanKeep, err.Error()
		return
	}
	text, _ := json.Marshal(e.spec) // specs can be written
	if p.Before != nil && state.SameJSON(p.Before.Spec, text) {
		text = p.Before.Spec
	}
	p.After = &store.Resource{Kind: store.KindService, Name: p.Name, Labels: labels, Spec: text}
	switch {
	case p.Before == nil:
		p.Action = PlanCreate
	case string(p.Before.Spec) == string(text) && maps.Equal(p.Before.Labels, labels):
		p.Action = PlanKeep
	default:
		p.Action = PlanUpdate
	}
}

// checkNamespace checks what the service at one cluster gets. A global service that was stored with the fault, by an
// earlier console, keeps no cluster out.
func (p *Planned) checkNamespace(e Edit, old *resource.GlobalSpec, cluster store.Resource) error {
	if old != nil {
		if before := old.At(cluster); resource.LacksNamespace(&before) {
			return nil
		}
	}
	if err := e.checkNamespace(p.Before); err != nil {
		return about(store.KindService, p.Name, err)
	}
	return nil
}

// sameSync says whether files say the same of how two services are synced, but for what the hub takes out.
func sameSync(a, b state.ServiceSpec) bool {
	p, err := state.PartsOf(state.ServiceSpec{Sync: b.Sync, UnpinAfter: b.UnpinAfter, Levers: &state.Levers{}})
	return err == nil && state.SameFiles(state.ServiceSpec{Sync: a.Sync, UnpinAfter: a.UnpinAfter}, state.ServiceSpec{Sync: p.Files.Sync, UnpinAfter: p.Files.UnpinAfter})
}

// leaves plans the service of a cluster that is not chosen any more.
func (p *Planned) leaves(global resource.GlobalService) {
	if !global.Spec.Detach {
		p.Action, p.edit = PlanDelete, Removal(store.KindService, p.Name, "")
		return
	}
	p.Action, p.edit, p.After = PlanDetach, Detach(*p.Before), p.Before
}

// Detach takes a service from its global service.
func Detach(r store.Resource) Edit {
	labels := maps.Clone(r.Labels)
	delete(labels, GlobalLabel)
	var spec state.ServiceSpec
	if err := state.Decode(r, &spec); err != nil {
		return Broken(r.Kind, r.Name, err)
	}
	return Edit{draft: store.Draft{Kind: r.Kind, Name: r.Name, Labels: labels}, spec: spec, pulls: true}.naming(refsOfStored(&spec))
}

// carryOut does what is planned, but for deletions beyond the guard.
func (g Globals) carryOut(ctx context.Context, w *Write, row store.Resource, global resource.GlobalService, planned []Planned) error {
	var edits []Edit
	var leaving []Planned
	for _, p := range planned {
		switch {
		case p.Problem != "":
			return refusal.New(refusal.Precondition, "global service %q: %s", global.Meta.Name, p.Problem)
		case p.Action == PlanDelete:
			leaving = append(leaving, p)
		case p.Action != PlanKeep:
			edits = append(edits, p.edit)
		}
	}
	if len(leaving) > 0 {
		free, err := budget(ctx, w.Tx.View, row.UID, global, w.Tx.Now())
		if err != nil {
			return err
		}
		if err := g.tellHeld(ctx, w, global, len(leaving), free); err != nil {
			return err
		}
		free = min(len(leaving), free)
		held := make([]string, 0, len(leaving)-free)
		for _, p := range leaving[free:] {
			held = append(held, p.Before.UID)
		}
		if err := g.noteKept(ctx, w, row, len(held)); err != nil {
			return err
		}
		if err := w.Tx.HoldBack(ctx, held); err != nil {
			return err
		}
		for _, p := range leaving[:free] {
			edits = append(edits, p.edit)
		}
		if err := w.Tx.CountDeletions(ctx, row.UID, free, w.Tx.Now().Add(-guardWindow)); err != nil {
			return err
		}
	}
	return putSelf(ctx, w, edits)
}

// noteKept answers who writes that the guard keeps services.
func (g Globals) noteKept(ctx context.Context, w *Write, global store.Resource, kept int) error {
	if kept == 0 || w.By.Self() {
		return nil // no person waits for the note
	}
	sees, err := g.Catalog.Sees(ctx)
	if err != nil {
		return err
	}
	const why = "more services leave than may at once: of "
	what := plural.Of(kept, "service") + " " + plural.Are(kept) + " kept until "
	if sees != nil && !sees(global) {
		w.Note(why + "a global service that you may not see, " + what + "a person who may confirms it")
		return nil
	}
	w.Note(fmt.Sprintf("%sglobal service %q, %s`fairlead confirm global %s`", why, global.Name, what, global.Name))
	return nil
}

// tellHeld tells that the guard does not let all go that leave, unless it holds something back already.
func (g Globals) tellHeld(ctx context.Context, w *Write, global resource.GlobalService, leaving, free int) error {
	if leaving <= free || g.Catalog.observer == nil {
		return nil
	}
	all, err := ofGlobal(ctx, w.Tx.View, global.Meta.Name)
	if err != nil {
		return err
	}
	held, err := heldBack(ctx, w.Tx.View, global, all)
	if err == nil && len(held) == leaving {
		w.Tx.Tell(g.Catalog.observer.GlobalHeld(w.By, global, leaving-free)...)
	}
	return err
}

// putSelf writes what a global service wants, as the console itself.
func putSelf(ctx context.Context, w *Write, edits []Edit) error {
	if len(edits) == 0 {
		return nil
	}
	self := Self(w.By.Subject)
	self.Remote, self.TraceID = w.By.Remote, w.By.TraceID
	return w.Put(ctx, self, edits)
}

// budget is how many services the guard lets go now.
func budget(ctx context.Context, v store.View, uid string, global resource.GlobalService, now time.Time) (int, error) {
	gone, err := v.Deletions(ctx, uid, now.Add(-guardWindow))
	if err != nil {
		return 0, err
	}
	most := global.Spec.MaxDeletions
	if most == 0 {
		all, err := ofGlobal(ctx, v, global.Meta.Name)
		if err != nil {
			return 0, err
		}
		most = max(1, (len(all)+gone)/10)
	}
	return max(0, most-gone), nil
}

// ofGlobal are the services of a global service.
func ofGlobal(ctx context.Context, v store.View, name string) ([]store.Resource, error) {
	rows, err := v.Labelled(ctx, GlobalLabel, name)
	var out []store.Resource
	for _, r := range rows {
		if r.Kind == store.KindService {
			out = append(out, r)
		}
	}
	return out, err
}

// Clear takes the services of a cluster or a global service away that is about to be deleted: they can't stay, or
// name it.
func (g Globals) Clear(ctx context.Context, w *Write, r store.Resource) error {
	services, stay, err := madeFor(ctx, w.Tx.View, r)
	if err != nil {
		return err
	}
	edits := make([]Edit, len(services))
	for i, s := range services {
		if stay {
			edits[i] = Detach(s)
		} else {
			edits[i] = Removal(s.Kind, s.Name, "")
		}
	}
	return putSelf(ctx, w, edits)
}

// madeFor are the services that a global service made, or that global services made for a cluster, and whether they
// stay, on their own, when it is deleted.
func madeFor(ctx context.Context, v store.View, r store.Resource) (services []store.Resource, stay bool, err error) {
	switch r.Kind {
	case store.KindGlobalService:
		global, err := resource.GlobalServices().Decode(r)
		if err != nil {
			return nil, false, err
		}
		services, err := ofGlobal(ctx, v, r.Name)
		return services, global.Spec.Detach, err
	case store.KindCluster:
		globals, err := v.List(ctx, store.KindGlobalService, "", MaxReferrers)
		if err != nil {
			return nil, false, err
		}
		names := make([]string, len(globals))
		for i, global := range globals {
			names[i] = nameAt(global.Name, r.Name)
		}
		found, err := v.Named(ctx, store.KindService, names)
		for i, global := range globals { // another global service may have made that name for another cluster
			if s, ok := found[names[i]]; ok && s.Labels[GlobalLabel] == global.Name {
				services = append(services, s)
			}
		}
		return services, false, err
	}
	return nil, false, nil
}

// GlobalStatus is how the services of a global service are.
type GlobalStatus struct {
	Clusters, Healthy int
	// HeldBack are the services that the guard keeps.
	HeldBack []string
	// HeldBackSince is when the guard began to hold back the first of those whose beginning was recorded: earlier hubs
	// recorded none. Zero: none was.
	HeldBackSince time.Time
}

// GlobalStatuses returns the statuses of global services, in their order.
func (c *Catalog) GlobalStatuses(ctx context.Context, list []resource.GlobalService) ([]GlobalStatus, error) {
	out := make([]GlobalStatus, len(list))
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return nil, err
	}
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		for i, global := range list {
			rows, err := ofGlobal(ctx, v, global.Meta.Name)
			if err != nil {
				return err
			}
			if sees != nil {
				rows = slices.DeleteFunc(rows, func(r store.Resource) bool { return !sees(r) })
			}
			held, err := heldBack(ctx, v, global, rows)
			if err != nil {
				return err
			}
			services, err := c.Services(ctx, v, rows)
			if err != nil {
				return err
			}
			for _, s := range services {
				if s.Status.State == state.Healthy {
					out[i].Healthy++
				}
			}
			out[i].Clusters = len(rows) - len(held)
			uids := make([]string, len(held))
			for j, r := range held {
				out[i].HeldBack, uids[j] = append(out[i].HeldBack, r.Name), r.UID
			}
			if out[i].HeldBackSince, err = v.HeldBackSince(ctx, uids); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// heldBack are those services whose cluster is not chosen.
func heldBack(ctx context.Context, v store.View, global resource.GlobalService, rows []store.Resource) ([]store.Resource, error) {
	at, names := make([]string, len(rows)), map[string]bool{}
	for i, r := range rows {
		var spec state.ServiceSpec
		if err := state.Decode(r, &spec); err != nil {
			return nil, err
		}
		at[i], names[spec.Cluster] = spec.Cluster, true
	}
	clusters, err := v.Named(ctx, store.KindCluster, state.TrueKeys(names))
	var held []store.Resource
	for i, r := range rows {
		if !global.Spec.Clusters.Fits(at[i], clusters[at[i]].Labels) {
			held = append(held, r)
		}
	}
	return held, err
}

// Preview is what writing a global service would do.
type Preview struct {
	Services []Planned
	// HeldBack says that the guard would not let all of it go, or keeps some already.
	HeldBack bool
	// Confirmation lets go what is held back already; empty: nothing is.
	Confirmation string
}

// PreviewGlobal says what writing a global service would do, and writes nothing. The plan is made from what the caller
// sees alone: a global service, a service or a cluster that the caller does not see changes nothing of the answer.
func (c *Catalog) PreviewGlobal(ctx context.Context, by By, in resource.GlobalService) (p Preview, err error) {
	e, err := Draft(resource.GlobalServices(), in, Expectation{AllowMissing: true})
	if err != nil {
		return p, err
	}
	spec, err := json.Marshal(e.spec)
	if err != nil {
		return p, fmt.Errorf("encode global service %q: %w", in.Meta.Name, err)
	}
	after := store.Resource{Kind: store.KindGlobalService, Name: in.Meta.Name, Labels: in.Meta.Labels, Spec: spec}
	if err := c.guard.MayView(ctx, after); err != nil {
		return p, err
	}
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return p, err
	}
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		var before *store.Resource
		current, err := v.Get(ctx, store.KindGlobalService, in.Meta.Name)
		switch {
		case err == nil && (sees == nil || sees(current)):
			before = &current
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		}
		global, old, err := decodeGlobals(before, after)
		if err != nil {
			return err
		}
		if p.Services, err = planAll(ctx, v, global, old, nil, sees); err != nil || before == nil {
			return err
		}
		stake, held, err := c.heldStake(ctx, v, current)
		if err != nil {
			return err
		}
		leaving := 0
		for _, s := range p.Services {
			if s.Action == PlanDelete {
				leaving++
			}
		}
		free, err := budget(ctx, v, current.UID, global, c.now())
		if err != nil {
			return err
		}
		p.HeldBack = len(held) > 0 || leaving > free
		if len(held) > 0 {
			p.Confirmation = c.desk.Token(by.Subject, stake)
		}
		return nil
	})
	return p, err
}

// heldStake is what is held back, and what a confirmation is about.
func (c *Catalog) heldStake(ctx context.Context, v store.View, row store.Resource) (stake []string, held []store.Resource, err error) {
	global, err := resource.GlobalServices().Decode(row)
	if err != nil {
		return nil, nil, err
	}
	rows, err := ofGlobal(ctx, v, row.Name)
	if err != nil {
		return nil, nil, err
	}
	if held, err = heldBack(ctx, v, global, rows); err != nil {
		return nil, nil, err
	}
	stake = []string{"confirm global", row.Name, row.ETag()}
	for _, r := range held {
		stake = append(stake, r.Name, r.ETag())
	}
	return stake, held, nil
}

// ConfirmGlobal lets go what the guard held back.
func (c *Catalog) ConfirmGlobal(ctx context.Context, by By, name, confirmation string) error {
	if !resource.IsName(name) {
		return refusal.Missing(store.KindGlobalService, name)
	}
	return c.store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		row, err := c.globalRow(ctx, tx, by, name)
		if err != nil {
			return err
		}
		stake, held, err := c.heldStake(ctx, tx.View, row)
		if err != nil {
			return err
		}
		if len(held) == 0 {
			return refusal.New(refusal.Precondition, "global service %q: nothing is held back", name)
		}
		if !c.desk.Holds(confirmation, by.Subject, stake) {
			return refusal.New(refusal.Precondition,
				"global service %q: what is held back is something else by now: preview again", name)
		}
		edits := make([]Edit, len(held))
		for i, r := range held {
			edits[i] = Removal(r.Kind, r.Name, r.ETag())
		}
		// A caller without the right to delete them may not confirm the removal: rights are those of the caller.
		if _, err = c.PutIn(ctx, Write{Tx: tx, By: by, Confirmed: true}, edits); err != nil || c.observer == nil {
			return err
		}
		global, err := resource.GlobalServices().Decode(row)
		tx.Tell(c.observer.GlobalConfirmed(by, global, len(held))...)
		return err
	})
}

// globalRow returns a global service. A global service that the caller may neither see nor write is told of in the same
// words as one that is not there.
func (c *Catalog) globalRow(ctx context.Context, tx *store.Tx, by By, name string) (store.Resource, error) {
	var found *store.Resource
	row, err := tx.Get(ctx, store.KindGlobalService, name)
	switch {
	case err == nil:
		found = &row
	case !errors.Is(err, store.ErrNotFound):
		return row, err
	}
	if err := c.guard.MayTouch(ctx, by, store.Ref{Kind: store.KindGlobalService, Name: name}, found); err != nil {
		return row, err
	}
	if found == nil {
		return row, refusal.Missing(store.KindGlobalService, name)
	}
	return row, nil
}

// DeleteGlobal deletes a global service. Its services go with it, or stay on their own: the caller has to have
// seen that.
func (c *Catalog) DeleteGlobal(ctx context.Context, by By, name, etag, confirmation string) error {
	if !resource.IsName(name) {
		return refusal.Missing(store.KindGlobalService, name)
	}
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return err
	}
	var written []Written
	err = c.store.Write(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
		row, err := c.globalRow(ctx, tx, by, name)
		if err != nil {
			return err
		}
		if err := c.guard.MayDelete(ctx, by, row); err != nil { // before what would go with it is told
			return err
		}
		global, err := resource.GlobalServices().Decode(row)
		if err != nil {
			return err
		}
		services, err := ofGlobal(ctx, tx.View, name)
		if err != nil {
			return err
		}
		stake := []string{"delete global", name, row.ETag()}
		for _, s := range services {
			stake = append(stake, s.Name, s.ETag())
		}
		if len(services) > 0 {
			lines, err := fatesOf(ctx, tx.View, services, global.Spec.Detach, sees)
			if err != nil {
				return err
			}
			if err := c.confirm(by, confirmation, stake, lines, "global service %q has %s", name, plural.Of(len(services), "service")); err != nil {
				return err
			}
		}
		written, err = c.PutIn(ctx, Write{Tx: tx, By: by}, []Edit{Removal(store.KindGlobalService, name, etag)})
		return err
	})
	if err == nil {
		c.tell(ctx, by, written)
	}
	return err
}

// fatesOf says what becomes of services whose global service is deleted, without the names of those that the caller does
// not see; nil: the caller sees all.
func fatesOf(ctx context.Context, v store.View, services []store.Resource, detach bool,
	sees func(store.Resource) bool,
) (lines []string, err error) {
	shown := slices.Clone(services)
	if sees != nil {
		shown = slices.DeleteFunc(shown, func(r store.Resource) bool { return !sees(r) })
	}
	if hidden := len(services) - len(shown); hidden > 0 {
		fate := plural.Are(hidden) + " deleted"
		if detach {
			fate = plural.Are(hidden) + " kept"
		}
		lines = append(lines, plural.Of(hidden, "service")+" that you may not see "+fate)
	}
	specs, clusters := make([]state.ServiceSpec, len(shown)), make([]string, len(shown))
	for i, r := range shown {
		if err := state.Decode(r, &specs[i]); err != nil {
			return nil, err
		}
		clusters[i] = specs[i].Cluster
	}
	left, err := haveLeft(ctx, v, clusters)
	for i := range specs {
		fate := "is deleted, and its objects with it"
		switch {
		case detach:
			fate = "stays, on its own"
		case specs[i].KeepsObjects():
			fate = "is deleted, and its objects stay in the cluster, without its mark"
		case left[specs[i].Cluster]:
			fate = "is deleted, and its objects stay in the cluster, which has left, until an agent joins again"
		}
		lines = append(lines, fmt.Sprintf("service %q %s", shown[i].Name, fate))
	}
	return lines, err
}

// leftOf returns the clusters of services that have left.
func leftOf(ctx context.Context, v store.View, services map[string]store.Resource) (map[string]bool, error) {
	clusters := map[string]bool{}
	for _, r := range services {
		if r.Kind != store.KindService {
			continue
		}
		var spec state.ServiceSpec
		if err := state.Decode(r, &spec); err != nil {
			return nil, err
		}
		clusters[spec.Cluster] = true
	}
	return haveLeft(ctx, v, state.TrueKeys(clusters))
}

// haveLeft returns the clusters that have left, of those that are named, and that no agent has joined again since.
func haveLeft(ctx context.Context, v store.View, clusters []string) (map[string]bool, error) {
	found, err := v.Named(ctx, store.KindCluster, clusters)
	if err != nil {
		return nil, err
	}
	uids := make([]string, 0, len(found))
	for _, r := range found {
		uids = append(uids, r.UID)
	}
	seen, err := v.Seen(ctx, uids)
	left := map[string]bool{}
	for name, r := range found {
		left[name] = !seen[r.UID].LeaveTime.IsZero()
	}
	return left, err
}
