// Package authz decides who may see and change what in the catalog, by its grants and roles. Writes are judged within
// their own transaction, whichever way they come, so that none is forgotten.
//
// Grants are known from memory. A right that was granted counts at once, one that was taken away ends within
// staleAfter.
package authz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/kind"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	// staleAfter is how long rules are used before the database is asked whether there are others.
	staleAfter = 250 * time.Millisecond
	// pageSize is how many resources are read at once.
	pageSize = 1000
	// joiningLabel marks a cluster whose agent has not joined yet; grants have no reason to choose by it.
	joiningLabel = "fairlead.dev/joining"
)

// Rules knows the rules.
type Rules struct {
	store *store.Store
	now   func() time.Time

	mu    sync.Mutex // guards what follows, and is held over a question to the database: one is enough
	state string     // of the database when rules were read
	asked time.Time  // when the database had nothing newer
	rules *rules
}

// rules are those of one moment. Immutable.
type rules struct {
	access.Rules
	labels map[string]map[string]string // of clusters
}

// New returns the rules in a store. now is the clock; nil: time.Now.
func New(s *store.Store, now func() time.Time) *Rules {
	if now == nil {
		now = time.Now
	}
	return &Rules{store: s, now: now}
}

// get returns rules that are not older than most.
func (k *Rules) get(ctx context.Context, most time.Duration) (*rules, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	began := k.now()
	if k.rules != nil && began.Sub(k.asked) < most {
		return k.rules, nil
	}
	err := k.store.Read(ctx, func(ctx context.Context, v store.View) error {
		version, err := v.State(ctx, store.KindGrant, store.KindRole, store.KindCluster)
		if err != nil || k.rules != nil && version == k.state {
			return err
		}
		fresh, err := readRules(ctx, v)
		if err == nil {
			k.rules, k.state = fresh, version
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	k.asked = began
	return k.rules, nil
}

func readRules(ctx context.Context, v store.View) (*rules, error) {
	out := &rules{labels: map[string]map[string]string{}}
	err := all(ctx, v, store.KindGrant, func(r store.Resource) error {
		var spec resource.GrantSpec
		err := json.Unmarshal(r.Spec, &spec)
		out.Grants = append(out.Grants, &consolev1.Grant{Metadata: &consolev1.Metadata{Name: r.Name}, Spec: Grant(spec)})
		return err
	})
	if err != nil {
		return nil, err
	}
	err = all(ctx, v, store.KindRole, func(r store.Resource) error {
		var spec resource.RoleSpec
		err := json.Unmarshal(r.Spec, &spec)
		out.Roles = append(out.Roles, &consolev1.Role{Metadata: &consolev1.Metadata{Name: r.Name}, Spec: Role(spec)})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, all(ctx, v, store.KindCluster, func(r store.Resource) error {
		out.labels[r.Name] = r.Labels
		return nil
	})
}

func all(ctx context.Context, v store.View, kind store.Kind, take func(store.Resource) error) error {
	for after := ""; ; {
		rows, err := v.List(ctx, kind, after, pageSize)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := take(r); err != nil {
				return fmt.Errorf("decode %s %q: %w", kind, r.Name, err)
			}
			after = r.Name
		}
		if len(rows) < pageSize {
			return nil
		}
	}
}

// Grant is a grant's spec as the API has it.
func Grant(spec resource.GrantSpec) *consolev1.GrantSpec {
	out := &consolev1.GrantSpec{
		Role: spec.Role, Projects: spec.Projects,
		Clusters: &consolev1.GrantClusters{Names: spec.Clusters.Names, Labels: spec.Clusters.Labels, All: spec.Clusters.All},
	}
	if !spec.Until.IsZero() {
		out.UntilTime = timestamppb.New(spec.Until)
	}
	for _, name := range spec.Users {
		out.Subjects = append(out.Subjects, &consolev1.GrantSubject{Subject: &consolev1.GrantSubject_User{User: name}})
	}
	for _, name := range spec.Groups {
		out.Subjects = append(out.Subjects, &consolev1.GrantSubject{Subject: &consolev1.GrantSubject_Group{Group: name}})
	}
	for _, name := range spec.ServiceAccounts {
		out.Subjects = append(out.Subjects, &consolev1.GrantSubject{Subject: &consolev1.GrantSubject_ServiceAccount{ServiceAccount: name}})
	}
	return out
}

// Role is a role's spec as the API has it.
func Role(spec resource.RoleSpec) *consolev1.RoleSpec {
	out := &consolev1.RoleSpec{Description: spec.Description, Kubernetes: spec.Kubernetes}
	for _, r := range spec.Rules {
		out.Rules = append(out.Rules, &consolev1.RoleRule{Verbs: r.Verbs, Kinds: r.Kinds})
	}
	return out
}

// named is a kind of the store as rights name it; empty: there is no such kind.
func named(k store.Kind) string {
	of, ok := kind.Named(string(k))
	if !ok {
		return ""
	}
	return of.Name()
}

// target is what rights depend on.
func (r *rules) target(of store.Resource) (access.Target, error) {
	at := access.Target{Kind: named(of.Kind), Name: of.Name}
	switch of.Kind {
	case store.KindCluster:
		at.Cluster, at.ClusterLabels = of.Name, of.Labels
		return at, nil
	case store.KindProject:
		at.Project = of.Name
		return at, nil
	case store.KindGlobalService: // is of the project of its services
		project, err := resource.ProjectOf(of)
		at.Project = project
		return at, err
	}
	var spec struct{ Project, Cluster string }
	if err := json.Unmarshal(of.Spec, &spec); err != nil {
		return at, fmt.Errorf("decode %s %q: %w", of.Kind, of.Name, err)
	}
	at.Project, at.Cluster, at.ClusterLabels = spec.Project, spec.Cluster, r.labels[spec.Cluster]
	return at, nil
}

// Target is a resource for May.
func (k *Rules) Target(ctx context.Context, of store.Resource) (access.Target, error) {
	rules, err := k.get(ctx, staleAfter)
	if err != nil {
		return access.Target{}, err
	}
	return rules.target(of)
}

// Find completes a target by the resource of its name, if there is one that the caller sees.
func (k *Rules) Find(ctx context.Context, at access.Target) (access.Target, error) {
	of, ok := kind.Named(at.Kind)
	if at.Kind == access.Cluster && at.Cluster == "" {
		at.Cluster = at.Name
	}
	if !ok || of.Name() != at.Kind || at.Name == "" {
		return at, nil
	}
	sees, err := k.Sees(ctx)
	if err != nil {
		return at, err
	}
	var r store.Resource
	err = k.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		r, err = v.Get(ctx, store.Kind(of.Singular()), at.Name)
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && sees != nil && !sees(r) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	return k.Target(ctx, r)
}

// Decide says whether somebody may do something with a resource, and by which rule. The labels of its cluster need not
// be given.
func (k *Rules) Decide(ctx context.Context, who platform.Identity, verb access.Verb, at access.Target) (access.Decision, error) {
	return k.decide(ctx, who, verb, at, 0)
}

// decide is Decide by rules that are no older than most, if they refuse: nobody is refused by rules that were not those
// of the request.
func (k *Rules) decide(ctx context.Context, who platform.Identity, verb access.Verb, at access.Target, most time.Duration) (access.Decision, error) {
	if who.Has(platform.RoleHub) && verb == access.View || who.Has(platform.RoleConsole) {
		return access.Decision{Allowed: true, Rule: who.Subject()}, nil
	}
	var out access.Decision
	for _, most := range []time.Duration{staleAfter, min(most, staleAfter)} {
		rules, err := k.get(ctx, most)
		if err != nil {
			return out, err
		}
		if out = (Judge{rules}).May(who, verb, at); out.Allowed {
			break
		}
	}
	return out, nil
}

// May refuses what the caller may not do, in words that name the rule.
func (k *Rules) May(ctx context.Context, verb access.Verb, at access.Target) error {
	who, _ := platform.FromContext(ctx)
	return k.check(ctx, catalog.By{Identity: who}, verb, at)
}

func (k *Rules) check(ctx context.Context, by catalog.By, verb access.Verb, at access.Target) error {
	decision, err := k.decide(ctx, by.Identity, verb, at, k.since(by))
	if err != nil || decision.Allowed {
		return err
	}
	return refusal.New(refusal.Forbidden, "%s", decision.Reason)
}

// since is how long ago a request came: a batch asks the database once.
func (k *Rules) since(by catalog.By) time.Duration {
	if by.Time.IsZero() {
		return 0
	}
	return max(k.now().Sub(by.Time), 0)
}

// MayView implements catalog.Reader.
func (k *Rules) MayView(ctx context.Context, r store.Resource) error {
	sees, err := k.Sees(ctx)
	if err != nil || sees == nil || sees(r) {
		return err
	}
	who, _ := platform.FromContext(ctx)
	return k.absent(ctx, catalog.By{Identity: who}, store.Ref{Kind: r.Kind, Name: r.Name})
}

// Missing implements catalog.Reader.
func (k *Rules) Missing(ctx context.Context, ref store.Ref) error {
	who, ok := platform.FromContext(ctx)
	if !ok || who.Has(platform.RoleHub) {
		return refusal.Missing(ref.Kind, ref.Name)
	}
	return k.absent(ctx, catalog.By{Identity: who}, ref)
}

// absent says the same of what does not exist and of what somebody may not see: nothing in it depends on what there is.
func (k *Rules) absent(ctx context.Context, by catalog.By, ref store.Ref) error {
	at := access.Target{Kind: named(ref.Kind), Name: ref.Name}
	switch ref.Kind {
	case store.KindCluster:
		at.Cluster, at.ClusterLabels = ref.Name, map[string]string{} // and not those that it may have
	case store.KindProject:
		at.Project = ref.Name
	}
	decision, err := k.decide(ctx, by.Identity, access.View, at, k.since(by))
	if err != nil {
		return err
	}
	if decision.Allowed {
		return refusal.Missing(ref.Kind, ref.Name)
	}
	return refusal.New(refusal.NotFound, "%s %q does not exist as far as you may see: %s", ref.Kind, ref.Name, decision.Reason)
}

// MayTouch implements catalog.Reader.
func (k *Rules) MayTouch(ctx context.Context, by catalog.By, ref store.Ref, r *store.Resource) error {
	if by.Self() || by.Identity.Has(platform.RoleAdmin) {
		return nil
	}
	if r != nil {
		at, err := k.Target(ctx, *r)
		if err != nil {
			return err
		}
		for _, verb := range access.Verbs() {
			decision, err := k.decide(ctx, by.Identity, verb, at, k.since(by))
			if err != nil || decision.Allowed {
				return err
			}
		}
	}
	return k.absent(ctx, by, ref)
}

// MayMake implements catalog.Reader.
func (k *Rules) MayMake(ctx context.Context, by catalog.By, r store.Resource) error {
	return k.Wrote(ctx, &catalog.Write{By: by}, nil, &r)
}

// Sees implements catalog.Reader, by the rules of now. Without a caller it is the console's own work.
func (k *Rules) Sees(ctx context.Context) (func(store.Resource) bool, error) {
	who, ok := platform.FromContext(ctx)
	if !ok || who.Has(platform.RoleHub|platform.RoleAdmin) {
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	rules, err := k.get(ctx, 0)
	if err != nil {
		return nil, err
	}
	mine, own := rules.of(who)
	return func(r store.Resource) bool {
		if r.Kind == store.KindGrant && own[r.Name] {
			return true
		}
		at, err := rules.target(r)
		return err == nil && mine.Allows(who, access.View, at)
	}, nil
}

// of returns the rules with nothing but somebody's own grants, which judge that person in the same way, and the names
// of these: a list judges each of its rows, and an installation may have far more grants than a person.
func (r *rules) of(who platform.Identity) (mine *access.Rules, own map[string]bool) {
	mine, own = &access.Rules{Grants: r.Of(who), Roles: r.Roles, Now: r.Now}, map[string]bool{}
	for _, g := range mine.Grants {
		own[g.GetMetadata().GetName()] = true
	}
	return mine, own
}

// Grants are those that are for somebody.
func (k *Rules) Grants(ctx context.Context, who platform.Identity) ([]*consolev1.Grant, error) {
	rules, err := k.get(ctx, 0)
	if err != nil {
		return nil, err
	}
	return rules.Of(who), nil
}

// HasRole tells whether there is a role of that name besides those that are always there.
func (k *Rules) HasRole(ctx context.Context, name string) (bool, error) {
	rules, err := k.get(ctx, 0)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(rules.Roles, func(r *consolev1.Role) bool { return r.GetMetadata().GetName() == name }), nil
}

// Named are the groups that grants name.
func (k *Rules) Named(ctx context.Context) (map[string]bool, error) {
	rules, err := k.get(ctx, 0)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, g := range rules.Grants {
		for _, s := range g.GetSpec().GetSubjects() {
			out[s.GetGroup()] = true
		}
	}
	return out, nil
}

// Judge decides by the rules of one moment: a list asks the database once, not for each of its rows.
type Judge struct{ rules *rules }

// Judge returns the rules of now.
func (k *Rules) Judge(ctx context.Context) (Judge, error) {
	rules, err := k.get(ctx, 0)
	return Judge{rules}, err
}

// May says whether a person may do something with a resource, and by which rule. The labels of its cluster need not be
// given.
func (j Judge) May(who platform.Identity, verb access.Verb, at access.Target) access.Decision {
	return j.rules.May(who, verb, j.labelled(at))
}

// Allows is May without a word of why.
func (j Judge) Allows(who platform.Identity, verb access.Verb, at access.Target) bool {
	return j.rules.Allows(who, verb, j.labelled(at))
}

func (j Judge) labelled(at access.Target) access.Target {
	if at.ClusterLabels == nil {
		at.ClusterLabels = j.rules.labels[at.Cluster]
	}
	return at
}

// MayLend says whether a person may decide about a request for a role at a cluster.
func (j Judge) MayLend(who platform.Identity, role, cluster string) access.Decision {
	at := &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: cluster, Labels: j.rules.labels[cluster]}}
	return j.rules.MayLend(who, role, at)
}

// AtCluster says whether somebody may do something at the Kubernetes API of a cluster.
func (k *Rules) AtCluster(ctx context.Context, who platform.Identity, class string, cluster string) (access.Decision, error) {
	rules, err := k.get(ctx, 0)
	if err != nil {
		return access.Decision{}, err
	}
	at := &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: cluster, Labels: rules.labels[cluster]}}
	known, ok := access.Class(class)
	if !ok {
		return access.Decision{}, refusal.New(refusal.Invalid, "verb %q: at the Kubernetes API of a cluster there are read, write, exec and secrets", class)
	}
	return rules.AtCluster(who, known, at), nil
}

// Wrote implements catalog.Hook: whoever changes a resource needs the right to at what it was and at what it becomes,
// so that none is moved out of, or into, what is somebody else's.
func (k *Rules) Wrote(ctx context.Context, w *catalog.Write, before, after *store.Resource) error {
	switch {
	case w.By.Self():
	case w.By.Identity.Has(platform.RoleAdmin):
		if err := k.mayDirect(ctx, w.Tx, w.By, before, after); err != nil {
			return err
		}
	default:
		if err := k.mayWrite(ctx, w.Tx, w.By, before, after); err != nil {
			return err
		}
	}
	return mayGrant(w.By, after)
}

// mayWrite is what grants say of a write.
func (k *Rules) mayWrite(ctx context.Context, tx *store.Tx, by catalog.By, before, after *store.Resource) error {
	verb := access.Edit
	switch {
	case after == nil:
		verb = access.Delete
	case before != nil && onlyLevers(before, after):
		verb = access.Deploy
	}
	for _, r := range []*store.Resource{before, after} {
		if r == nil {
			continue
		}
		at, err := k.Target(ctx, *r)
		if err != nil {
			return err
		}
		if err := k.check(ctx, by, verb, at); err != nil {
			return err
		}
	}
	if err := k.mayRelabel(ctx, by, before, after); err != nil {
		return err
	}
	if verb == access.Deploy {
		if err := k.mayPin(ctx, tx, by, *before, *after); err != nil {
			return err
		}
	}
	if err := k.mayDirect(ctx, tx, by, before, after); err != nil {
		return err
	}
	return k.mayUse(ctx, by, before, after)
}

// mayRelabel refuses to change the labels of a cluster by a grant with an end: labels choose the grants, projects and
// services that are about the cluster, and the change would outlast what was lent. A cluster that is made has had no
// labels: otherwise it could be deleted and made again with others. The label that marks a join under way does not
// count: a join may be made by a grant with an end.
func (k *Rules) mayRelabel(ctx context.Context, by catalog.By, before, after *store.Resource) error {
	if after == nil || after.Kind != store.KindCluster {
		return nil
	}
	var was map[string]string
	if before != nil {
		was = maps.Clone(before.Labels)
	}
	is := maps.Clone(after.Labels)
	delete(was, joiningLabel)
	delete(is, joiningLabel)
	if maps.Equal(was, is) {
		return nil
	}
	rules, err := k.get(ctx, min(k.since(by), staleAfter))
	if err != nil {
		return err
	}
	for _, r := range []*store.Resource{before, after} {
		if r == nil {
			continue
		}
		at, err := rules.target(*r)
		if err != nil {
			return err
		}
		if !rules.Lasting(by.Identity).Allows(by.Identity, access.Edit, at) {
			return refusal.New(refusal.Forbidden, "cluster %q: its labels choose the grants and services that are about it, and a change takes the right to edit the cluster by a grant without an end: "+
				"what is lent would be outlasted. %s", after.Name, access.Help)
		}
	}
	return nil
}

// mayGrant refuses rights that outlive the token that they are made with.
func mayGrant(by catalog.By, after *store.Resource) error {
	if after == nil || !slices.Contains([]store.Kind{store.KindGrant, store.KindRole, store.KindServiceAccount}, after.Kind) {
		return nil
	}
	if err := by.Identity.MayMake(platform.Right); err != nil {
		return refusal.New(refusal.Forbidden, "%s %q: %s", after.Kind, after.Name, err)
	}
	return nil
}

// mayPin refuses to pin a service to a commit that neither its ref leads to nor a cluster was given, from a caller who
// may not edit the service: a Git host hands out any object of a repository's forks, so what it hands out allows
// nothing.
func (k *Rules) mayPin(ctx context.Context, tx *store.Tx, by catalog.By, before, after store.Resource) error {
	var was, is state.ServiceSpec
	if err := errors.Join(json.Unmarshal(before.Spec, &was), json.Unmarshal(after.Spec, &is)); err != nil {
		return fmt.Errorf("decode service %q: %w", after.Name, err)
	}
	pin := is.EffectiveRef()
	if pin == is.Ref || pin == was.EffectiveRef() {
		return nil
	}
	at, err := k.Target(ctx, after)
	if err != nil {
		return err
	}
	refused := k.check(ctx, by, access.Edit, at)
	if refused == nil || tx == nil {
		return refused
	}
	known, err := catalog.Reached(ctx, tx.View, before, pin)
	if err != nil || known {
		return err
	}
	return refusal.New(refusal.Forbidden, "service %q: spec.sync.pin %q is not the commit that the service's ref points to, and was delivered neither to it nor to another service of that ref: "+
		"name one that was (`fairlead history service %s`), with all its letters; other commits take the right to edit: %s", after.Name, pin, after.Name, refused)
}

// mayUse refuses to send a secret elsewhere from who may not see it: whoever chooses the URL of a source, or configures
// a service, gets its values.
func (k *Rules) mayUse(ctx context.Context, by catalog.By, before, after *store.Resource) error {
	if after == nil {
		return nil
	}
	switch after.Kind {
	case store.KindSource:
	case store.KindBackend:
		return k.mayConnect(ctx, by, before, *after)
	default:
		return k.mayConfigure(ctx, by, before, after)
	}
	var was, is state.SourceSpec
	err := json.Unmarshal(after.Spec, &is)
	if before != nil {
		err = errors.Join(err, json.Unmarshal(before.Spec, &was))
	}
	if err != nil {
		return fmt.Errorf("decode source %q: %w", after.Name, err)
	}
	now, then := is.Upstream(), was.Upstream()
	if name := now.WebhookSecret; name != "" && name != then.WebhookSecret {
		// A webhook's sender learns by the answer whether a guess of the secret is right.
		if err := k.MayName(ctx, by, store.Ref{Kind: store.KindSecret, Name: name}); err != nil {
			return err
		}
	}
	if err := mayLogIn(by, after.Name, now, then); err != nil {
		return err
	}
	if now.Secret == "" || now.Secret == then.Secret && now.SendsAs(then) {
		return nil
	}
	return k.MayName(ctx, by, store.Ref{Kind: store.KindSecret, Name: now.Secret})
}

// mayLogIn refuses to have the hub log in at a cloud as itself, and to change where such a login goes: a proxy and a
// secret with an authority of the caller's own would read it.
func mayLogIn(by catalog.By, name string, now, then state.Upstream) error {
	auth := now.Registry.Auth
	known := auth == then.Registry.Auth && now.Secret == then.Secret && now.SendsAs(then)
	if auth == "" || known || by.Self() || by.Identity.Has(platform.RoleAdmin) {
		return nil
	}
	return refusal.New(refusal.Forbidden, "source %q: auth: %s logs in as the hub itself at the cloud, so only administrators may set it, and change "+
		"the source's url, secret, proxy and mirrors. Name a secret instead of auth, or ask an administrator", name, auth)
}

// MayName implements catalog.Reader: who names a secret gets its values sent somewhere.
func (k *Rules) MayName(ctx context.Context, by catalog.By, ref store.Ref) error {
	if ref.Kind != store.KindSecret || by.Self() || by.Identity.Has(platform.RoleAdmin) {
		return nil
	}
	return k.check(ctx, by, access.View, access.Target{Kind: access.Secret, Name: ref.Name})
}

// mayConnect refuses to have a backend send a secret to where it was not sent before, from who may not see it.
func (k *Rules) mayConnect(ctx context.Context, by catalog.By, before *store.Resource, after store.Resource) error {
	is, err := resource.Backends().Decode(after)
	if err != nil || is.Spec.Secret() == "" {
		return err
	}
	if before != nil {
		was, err := resource.Backends().Decode(*before)
		if err != nil || was.Spec.Secret() == is.Spec.Secret() && was.Spec.Target() == is.Spec.Target() {
			return err
		}
	}
	return k.MayName(ctx, by, store.Ref{Kind: store.KindSecret, Name: is.Spec.Secret()})
}

// mayConfigure refuses configuration of secrets and backends that the caller may not have values of, but for those that
// it had where it was: what moves to another project or cluster takes secrets to others.
func (k *Rules) mayConfigure(ctx context.Context, by catalog.By, before, after *store.Resource) error {
	is, err := resource.RefsOfSettings(after)
	if err != nil {
		return err
	}
	was, err := resource.RefsOfSettings(before)
	if err != nil {
		return err
	}
	if len(is) == 0 {
		return nil
	}
	elsewhere, moved, err := moves(before, after)
	if err != nil {
		return err
	}
	if after.Kind == store.KindSink && before != nil {
		if elsewhere, err = resource.MovesCredentials(*before, *after); err != nil {
			return err
		}
	}
	for _, ref := range is {
		known := slices.Contains(was, ref)
		switch {
		case ref.Kind == store.KindSecret && (!known || elsewhere):
			err = k.MayName(ctx, by, ref)
		case ref.Kind == store.KindBackend && (!known || moved || newPlaces(before, after, ref.Name)):
			err = k.mayTake(ctx, by, ref)
		}
		if err == nil && ref.Kind == store.KindBackend && newPlains(before, after, ref.Name) {
			err = k.mayShow(ctx, by, ref)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newPlaces tells whether configuration takes something of a backend that it did not take before.
func newPlaces(before, after *store.Resource, backend string) bool {
	was, errWas := resource.PlacesOf(before)
	is, errIs := resource.PlacesOf(after)
	return errors.Join(errWas, errIs) != nil || slices.ContainsFunc(is, func(at resource.Import) bool {
		return at.Backend == backend && !slices.ContainsFunc(was, func(old resource.Import) bool { return old.Backend == at.Backend && old.Path == at.Path })
	})
}

// newPlains tells whether configuration shows something of a backend that it did not show before.
func newPlains(before, after *store.Resource, backend string) bool {
	was, errWas := resource.PlacesOf(before)
	is, errIs := resource.PlacesOf(after)
	return errors.Join(errWas, errIs) != nil || slices.ContainsFunc(is, func(at resource.Import) bool {
		return at.Plain && at.Backend == backend && !slices.Contains(was, at)
	})
}

// mayShow refuses to call values of a backend no secret, and so to show them, from a caller who may not change the
// backend.
func (k *Rules) mayShow(ctx context.Context, by catalog.By, ref store.Ref) error {
	err := k.check(ctx, by, access.Edit, access.Target{Kind: access.Backend, Name: ref.Name})
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return refusal.New(refused.Reason, "plain: true would show values of backend %q: leave it out, or have it set with the right to change the backend: %s", ref.Name, refused.Message)
	}
	return err
}

// mayTake refuses values of a backend that is for no projects in particular, from who may not change the backend. Of
// others the catalog sees to it that they are for the project.
func (k *Rules) mayTake(ctx context.Context, by catalog.By, ref store.Ref) error {
	var projects []string
	err := k.store.Read(ctx, func(ctx context.Context, v store.View) error {
		row, err := v.Get(ctx, ref.Kind, ref.Name)
		if errors.Is(err, store.ErrNotFound) {
			return nil // or written along with this: then not by who may not
		}
		if err != nil {
			return err
		}
		backend, err := resource.Backends().Decode(row)
		projects = backend.Spec.Projects
		return err
	})
	if err != nil || len(projects) > 0 {
		return err
	}
	return k.check(ctx, by, access.Edit, access.Target{Kind: access.Backend, Name: ref.Name})
}

// moves says whether a resource goes to another project or cluster, and whether to another project.
func moves(before, after *store.Resource) (elsewhere, project bool, err error) {
	if before == nil {
		return false, false, nil
	}
	from, errFrom := resource.ProjectOf(*before)
	to, errTo := resource.ProjectOf(*after)
	var was, is struct{ Cluster string }
	if err := errors.Join(errFrom, errTo, json.Unmarshal(before.Spec, &was), json.Unmarshal(after.Spec, &is)); err != nil {
		return false, false, fmt.Errorf("decode %s %q: %w", after.Kind, after.Name, err)
	}
	return from != to || was != is, from != to, nil
}

// MayWrite implements catalog.Reader.
func (k *Rules) MayWrite(ctx context.Context, by catalog.By, r store.Resource) error {
	if by.Self() || by.Identity.Has(platform.RoleAdmin) {
		return nil
	}
	at, err := k.Target(ctx, r)
	if err != nil {
		return err
	}
	refused := k.check(ctx, by, access.Edit, at)
	if refused != nil && k.check(ctx, by, access.Deploy, at) == nil {
		return nil // a lever that is as it was
	}
	return refused
}

// MayDelete implements catalog.Reader.
func (k *Rules) MayDelete(ctx context.Context, by catalog.By, r store.Resource) error {
	return k.Wrote(ctx, &catalog.Write{By: by}, &r, nil)
}

// Clear implements catalog.Clearer: nobody without the right to delete a resource is told who names it.
func (k *Rules) Clear(ctx context.Context, w *catalog.Write, current store.Resource) error {
	return k.MayDelete(ctx, w.By, current)
}

// onlyLevers tells whether nothing of a service changed but what sync, test, hold, resume, pin and rollback set. A spec
// that is no text of a service changed.
func onlyLevers(before, after *store.Resource) bool {
	only, err := state.OnlyLevers(before, after)
	return err == nil && only
}
