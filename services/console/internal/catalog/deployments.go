package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Cause is what made a deployment.
type Cause string

// The causes.
const (
	CauseCommit   Cause = "commit"
	CauseSpec     Cause = "spec"
	CauseConfig   Cause = "config"
	CauseRollback Cause = "rollback"
	CausePin      Cause = "pin"
)

// rolledBack is what the history calls a rollback.
const rolledBack = "rolled back"

// Deployment is one content of a service on its way into its cluster.
type Deployment struct {
	Number int64  `json:"-"`
	Digest string `json:"-"`
	Cause  Cause  `json:"cause"`
	// Author is that of the commit in Git, or who changed the service.
	Author string         `json:"author,omitempty"`
	Commit state.Revision `json:"commit,omitzero"`
	// Source and Path are where the commit is from; empty: they are not known.
	Source         string    `json:"source,omitempty"`
	Path           string    `json:"path,omitempty"`
	SpecRevision   int64     `json:"specRevision"`
	ConfigRevision string    `json:"configRevision,omitempty"`
	FetchTime      time.Time `json:"fetchTime,omitzero"`
	// Content is the same for deployments that differ in levers at most; empty: it is not known.
	Content string `json:"content,omitempty"`

	// Times are zero for what was not reached. EndTime is when the next one came.
	DeliverTime, ApplyTime, HealthyTime, EndTime time.Time `json:"-"`
	// Outcome is the phase that the cluster told last; empty: nothing yet.
	Outcome state.Phase `json:"-"`
	Message string      `json:"-"`
	// Tests is the last run of its tests; nil: there was none.
	Tests *state.TestSummary `json:"-"`
}

// Delivery is a new digest of a service.
type Delivery struct {
	Service store.Resource
	Spec    *state.ServiceSpec
	Hub     state.HubTruth
	// revision of the service that it was made of, which may have been changed since; 0: the current one.
	Revision int64
}

// Deployed is what became of a delivery.
type Deployed struct {
	Commit state.Revision
	Again  bool // the commit has the content of the one before: it begins no deployment
}

// DraftDeployments returns those that deliveries begin, and what became of each by the service's uid. refs are what is
// said with them.
func (c *Catalog) DraftDeployments(
	ctx context.Context, v store.View, list []*Delivery, refs []state.RefHub,
) ([]store.Deployment, map[string]Deployed, error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	known, err := loadDelivered(ctx, v, list, refs)
	if err != nil {
		return nil, nil, err
	}
	out, became := make([]store.Deployment, len(list)), make(map[string]Deployed, len(list))
	for i, d := range list {
		if out[i], became[d.Service.UID], err = c.draftDeployment(ctx, v, d, known); err != nil {
			return nil, nil, err
		}
	}
	return out, became, nil
}

// delivered is what is known of services that something new is delivered to, and of their sources.
type delivered struct {
	sources  map[string]store.Resource     // by name
	statuses map[string]state.SourceStatus // by the source's uid: many services have few sources
	refs     map[store.HubRef]state.RefHub
	last     map[string]store.Deployment // by the service's uid, as what follows
	configs  map[string]store.Config
	written  map[string]store.Revision
}

func loadDelivered(ctx context.Context, v store.View, list []*Delivery, refs []state.RefHub) (out delivered, err error) {
	var uids, sources []string
	names := map[string]bool{}
	for _, d := range list {
		uids, names[d.Spec.Source] = append(uids, d.Service.UID), true
	}
	if out.sources, err = v.Named(ctx, store.KindSource, state.TrueKeys(names)); err != nil {
		return out, err
	}
	for _, s := range out.sources {
		sources = append(sources, s.UID)
	}
	if out.refs, err = state.RefsOf(ctx, v, slices.Values(sources)); err != nil {
		return out, err
	}
	for _, r := range refs {
		out.refs[store.HubRef{Source: r.Source, Ref: r.Ref}] = r
	}
	heads, err := v.Heads(ctx, sources)
	if err != nil {
		return out, err
	}
	out.statuses = make(map[string]state.SourceStatus, len(heads))
	for uid, h := range heads {
		if out.statuses[uid], err = state.ReadHeads(h); err != nil {
			return out, err
		}
	}
	if out.last, err = v.LastDeployments(ctx, uids); err != nil {
		return out, err
	}
	if out.configs, err = v.Configs(ctx, uids); err != nil {
		return out, err
	}
	out.written, err = v.LastRevisions(ctx, uids)
	return out, err
}

// draftDeployment returns the deployment that a delivery begins. One of the content that the service has takes the place
// of the service's last one.
func (c *Catalog) draftDeployment(ctx context.Context, v store.View, d *Delivery, known delivered) (store.Deployment, Deployed, error) {
	uid := d.Service.UID
	next := Deployment{SpecRevision: cmp.Or(d.Revision, d.Service.Revision), ConfigRevision: known.configs[uid].Revision, Commit: d.Hub.Revision}
	heads := known.statuses[known.sources[d.Spec.Source].UID].Heads
	if d.Hub.Follows() {
		next.Commit = followed(d.Hub, heads, known.refs)
	}
	for _, h := range heads {
		if h.Revision.Commit == next.Commit.Commit && h.Revision.Commit != "" {
			next.Commit, next.FetchTime = h.Revision, h.FetchTime
		}
	}
	became := Deployed{Commit: next.Commit}
	spec, err := specAt(ctx, v, d, next.SpecRevision)
	if err != nil {
		return store.Deployment{}, became, err
	}
	if spec != nil {
		next.Source, next.Path = spec.Source, spec.Path
		if next.Content, err = contentOf(d.Hub, *spec, next.ConfigRevision); err != nil {
			return store.Deployment{}, became, err
		}
	}
	before, replaces := known.last[uid], ""
	became.Again = d.Hub.SameContent(before.Digest, before.Content) // tests were asked for, or how they run was changed
	if was, err := deploymentOf(before); before.State != nil {
		if err != nil {
			return store.Deployment{}, became, err
		}
		if became.Again = became.Again || next.Content != "" && was.Content == next.Content; became.Again { // or a lever was pulled
			replaces = cmp.Or(before.Content, before.Digest)
			was.SpecRevision, was.Content = next.SpecRevision, next.Content
			next = was
		}
	}
	if !became.Again {
		if err := next.explain(d, before, known.written[uid]); err != nil {
			return store.Deployment{}, became, err
		}
	}
	text, err := json.Marshal(next)
	if err != nil {
		return store.Deployment{}, became, fmt.Errorf("encode deployment of service %q: %w", d.Service.Name, err)
	}
	return store.Deployment{
		Service: uid, Digest: d.Hub.Digest, Content: d.Hub.Content, Replaces: replaces, State: text, Value: next, DeliverTime: c.now(),
	}, became, nil
}

// specAt is the spec that a delivery was made of; nil: it is not kept.
func specAt(ctx context.Context, v store.View, d *Delivery, revision int64) (*state.ServiceSpec, error) {
	if revision == d.Service.Revision {
		return d.Spec, nil
	}
	rows, err := v.History(ctx, store.Ref{Kind: store.KindService, Name: d.Service.Name}, revision+1, 1)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || rows[0].UID != d.Service.UID || rows[0].Revision != revision {
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	spec := &state.ServiceSpec{}
	if err := json.Unmarshal(rows[0].Spec, spec); err != nil {
		return nil, fmt.Errorf("decode service %q: %w", d.Service.Name, err)
	}
	return spec, nil
}

// followed is the commit of a service that follows a ref: the ref's newest. Distributors name it only when all that is
// made of it has been told, so what they said last may be of the commit before.
func followed(hub state.HubTruth, heads []state.Head, told map[store.HubRef]state.RefHub) state.Revision {
	for _, h := range heads {
		if h.Ref == hub.Ref && h.Revision.Commit != "" {
			return h.Revision
		}
	}
	return told[store.HubRef{Source: hub.Source, Ref: hub.Ref}].Revision
}

// explain says what made a deployment, and who, by what is other than in the one before, and by what wrote the service
// last.
func (d *Deployment) explain(of *Delivery, before store.Deployment, last store.Revision) error {
	var was Deployment
	if before.State != nil {
		if err := json.Unmarshal(before.State, &was); err != nil {
			return fmt.Errorf("decode deployment of service %q: %w", of.Service.Name, err)
		}
	}
	moved := before.State != nil && was.Commit.Commit != d.Commit.Commit
	switch changed := was.SpecRevision != d.SpecRevision; {
	case changed && last.Action == rolledBack:
		d.Cause = CauseRollback
	case changed && moved && of.Spec.Wishes().Pin != "":
		d.Cause = CausePin
	case changed && moved && last.Action == released && last.Author != releaser:
		d.Cause = CauseSpec // the commit was there before
	case changed && was.Source != "" && was.Source != d.Source:
		d.Cause = CauseSpec // no commit leads from one source to another one
	case moved:
		d.Cause, d.Author = CauseCommit, d.Commit.Author
		return nil
	case !changed && was.ConfigRevision != d.ConfigRevision:
		d.Cause = CauseConfig
		return nil
	default:
		d.Cause = CauseSpec
	}
	d.Author = last.Author
	return nil
}

// StepsOf are what a report says of deployments.
func StepsOf(service string, r state.Report) []store.Step {
	var out []store.Step
	if r.AppliedDigest != "" {
		step := store.Step{Service: service, Digest: r.AppliedDigest, Apply: r.AppliedTime, Trace: r.Traceparent, Outcome: string(r.Phase), Message: r.Message}
		if r.Phase == state.PhaseHealthy && r.Digest == r.AppliedDigest {
			step.Healthy = r.ObservedTime
		}
		out = append(out, step)
	}
	if r.Digest != "" && r.Digest != r.AppliedDigest {
		out = append(out, store.Step{Service: service, Digest: r.Digest, Outcome: string(r.Phase), Message: r.Message})
	}
	return out
}

// KeptSteps are what a kept report says of deployments.
func KeptSteps(row store.Report) ([]store.Step, error) {
	r, err := state.ReadReport(row)
	if err != nil {
		return nil, err
	}
	return StepsOf(row.Service, r), nil
}

// FetchedAt is when the hub had fetched the commit that made a deployment; false: no commit did.
func FetchedAt(row store.Deployment) (time.Time, bool) {
	var err error
	d, made := row.Value.(Deployment)
	if !made {
		d, err = deploymentOf(row)
	}
	return d.FetchTime, err == nil && d.Cause == CauseCommit && !d.FetchTime.IsZero()
}

func deploymentOf(row store.Deployment) (d Deployment, err error) {
	if err := json.Unmarshal(row.State, &d); err != nil {
		return d, fmt.Errorf("decode deployment: %w", err)
	}
	d.Number, d.Digest, d.Outcome, d.Message = row.Number, row.Digest, state.Phase(row.Outcome), row.Message
	d.DeliverTime, d.ApplyTime, d.HealthyTime, d.EndTime = row.DeliverTime, row.ApplyTime, row.HealthyTime, row.EndTime
	if len(row.Tests) > 0 {
		if err := json.Unmarshal(row.Tests, &d.Tests); err != nil {
			return d, fmt.Errorf("decode tests of deployment: %w", err)
		}
	}
	return d, nil
}

// before reads the token of a page of a history.
func (p Page) before() (int64, error) {
	if p.Token == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(p.Token, 10, 64)
	if err != nil || n <= 0 {
		return 0, refusal.New(refusal.Invalid, "page_token: is not one that a list returned")
	}
	return n, nil
}

// Deployments returns a page of what was delivered of a service, the newest first, and the token of the next page.
func (c *Catalog) Deployments(ctx context.Context, name string, page Page) (out []Deployment, next string, err error) {
	before, err := page.before()
	if err != nil {
		return nil, "", err
	}
	service, err := c.GetService(ctx, name)
	if err != nil {
		return nil, "", err
	}
	var rows []store.Deployment
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		rows, err = v.Deployments(ctx, service.Meta.UID, before, page.Limit()+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(rows) > page.Limit() {
		rows = rows[:page.Limit()]
		next = strconv.FormatInt(rows[len(rows)-1].Number, 10)
	}
	for _, row := range rows {
		d, err := deploymentOf(row)
		if err != nil {
			return nil, "", err
		}
		out = append(out, d)
	}
	return out, next, nil
}

// Past is one write of a resource: what was there before, as far as it is kept, and after.
type Past struct {
	store.Revision
	Before, After *store.Resource
}

// resourceOf is the resource as a revision wrote it; nil: it deleted it.
func resourceOf(ref store.Ref, r store.Revision) *store.Resource {
	if r.Action == "deleted" {
		return nil
	}
	return &store.Resource{Kind: ref.Kind, Name: ref.Name, UID: r.UID, Revision: r.Revision, Labels: r.Labels, Spec: r.Spec}
}

// History returns a page of what was written to a resource, the newest first, and the token of the next page. History
// works for resources that are gone, too. Writes where the caller does not see the resource are left out.
func (c *Catalog) History(ctx context.Context, ref store.Ref, page Page) (out []Past, next string, err error) {
	before, err := page.before()
	if err != nil {
		return nil, "", err
	}
	var rows, newest []store.Revision
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if newest, err = v.History(ctx, ref, 0, 2); err != nil {
			return err
		}
		if len(newest) == 0 {
			return store.ErrNotFound
		}
		rows, err = v.History(ctx, ref, before, page.Limit()+1)
		return err
	})
	var last store.Resource
	for _, r := range newest {
		if was := resourceOf(ref, r); was != nil {
			last = *was
			break
		}
	}
	if err := c.shown(ctx, ref, last, err); err != nil {
		return nil, "", err
	}
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return nil, "", err
	}
	for i, r := range rows {
		if i == page.Limit() {
			return out, strconv.FormatInt(rows[i-1].Revision, 10), nil
		}
		past := Past{Revision: r, After: resourceOf(ref, r)}
		if i+1 < len(rows) {
			past.Before = resourceOf(ref, rows[i+1])
		}
		if past.isSeenBy(sees) {
			out = append(out, past)
		}
	}
	return out, "", nil
}

// isSeenBy tells whether a reader may see a write, by where the resource was then, and takes out what it was before if
// that was elsewhere: a move shows a project's readers nothing of the project that the resource came from.
func (p *Past) isSeenBy(sees func(store.Resource) bool) bool {
	if sees == nil {
		return true
	}
	hidden := p.Before != nil && !sees(*p.Before)
	if p.After == nil {
		return !hidden
	}
	if hidden {
		p.Before = nil
	}
	return sees(*p.After)
}

// Rollback is where a service goes back to, and how it stays there.
type Rollback struct {
	// Deployment is its number; 0: the last healthy one with another content than now.
	Deployment   int64
	ETag, Reason string
	// Keep it until somebody releases it; else it ends when the ref moves on.
	Keep  bool
	Until time.Time
}

// RollBack brings a service back to a deployment: its spec and commit of then stand over what files say, until the ref
// points to another commit than now, unless the caller keeps it. A hold would keep the deployment from being applied,
// so the rollback takes its place, and stays.
func (c *Catalog) RollBack(ctx context.Context, by By, name string, r Rollback) (state.Service, Deployment, error) {
	if err := c.checkUntil(r.Until); err != nil {
		return state.Service{}, Deployment{}, err
	}
	now, err := c.GetService(ctx, name)
	if err != nil {
		return state.Service{}, Deployment{}, err
	}
	if r.ETag != "" && r.ETag != now.Meta.ETag {
		return state.Service{}, Deployment{}, refusal.New(refusal.Conflict, "service %q was changed in the meantime: look again, then roll back", name)
	}
	to, err := c.target(ctx, now, r.Deployment)
	if err != nil {
		return state.Service{}, Deployment{}, err
	}
	p, err := state.PartsOf(now.Spec)
	if err != nil {
		return state.Service{}, to, err
	}
	lever, err := c.backTo(ctx, now, to, r, &p)
	if err != nil {
		return state.Service{}, to, err
	}
	p.Levers.Pin = c.pulledBy(by, lever, p.Levers.Pin)
	edit, err := draftPulled(&now, p, rolledBack)
	if err != nil {
		return state.Service{}, to, err
	}
	if c.observer != nil {
		edit.tells = c.observer.RolledBack(by, now, to)
	}
	out, _, err := PutOne(ctx, c, by, edit, c.Services)
	return out, to, err
}

// backTo is the lever of a rollback, which takes the place of a hold.
func (c *Catalog) backTo(
	ctx context.Context, now state.Service, to Deployment, r Rollback, p *state.Parts,
) (state.Lever, error) {
	then, err := c.specOf(ctx, now, to)
	if err != nil {
		return state.Lever{}, err
	}
	l := state.Lever{Commit: to.Commit.Commit, Deployment: to.Number, Reason: r.Reason, Until: r.Until}
	switch mode := now.Spec.Wishes().Mode; mode {
	case state.ModeSuspend, state.ModeDryRun:
		what := map[string]string{state.ModeSuspend: "suspended", state.ModeDryRun: "in dry run"}[mode]
		return l, refusal.New(refusal.Precondition, "service %q is %s, so nothing would be applied: `fairlead resume service %s` first, then roll back", now.Meta.Name, what, now.Meta.Name)
	case state.ModeHold:
		r.Keep = true
		if lever := p.Levers.Mode; lever != nil {
			l.Reason = cmp.Or(l.Reason, lever.Reason)
		}
		if p.Levers.Mode = nil; p.Files.Wishes().Mode == state.ModeHold {
			p.Levers.Mode = &state.Lever{Mode: state.ModeAuto, Since: c.now().UTC()}
		}
	}
	then.ConfigSets, then.Config, then.TestRequest = nil, nil, nil // the present values count
	rest, err := state.WithoutLevers(then)
	if err != nil {
		return l, err
	}
	source, err := c.GetSource(ctx, then.Source)
	if err != nil {
		return l, err
	}
	if head := state.GitTruthOf(&source, then.Ref).Head; head != nil && !r.Keep {
		l.After = head.Revision.Commit
	}
	if rest, err = withoutWindows(rest); err != nil { // the present windows count
		return l, err
	}
	l.Spec = &rest
	return l, nil
}

// target finds the deployment to go back to.
func (c *Catalog) target(ctx context.Context, s state.Service, number int64) (Deployment, error) {
	page := Page{Size: maxPageSize}
	if number > 0 {
		page.Size, page.Token = 1, strconv.FormatInt(number+1, 10)
	}
	list, _, err := c.Deployments(ctx, s.Meta.Name, page)
	if err != nil {
		return Deployment{}, err
	}
	for i, d := range list {
		switch {
		case number == 0 && (i == 0 || d.HealthyTime.IsZero()):
			continue
		case number > 0 && d.Number != number:
			continue
		case d.Commit.Commit == "" && number > 0:
			return d, refusal.New(refusal.Precondition, "service %q: of deployment %d no commit is known: choose another one", s.Meta.Name, d.Number)
		}
		if number == 0 {
			same, err := c.sameDeployed(ctx, s, d, list[0])
			if err != nil {
				return d, err
			}
			if same || d.Commit.Commit == "" {
				continue
			}
		}
		return d, nil
	}
	if number > 0 {
		return Deployment{}, refusal.New(refusal.NotFound, "service %q has no deployment %d: `fairlead history service %s` lists them", s.Meta.Name, number, s.Meta.Name)
	}
	return Deployment{}, refusal.New(refusal.Precondition, "service %q: no deployment before the current one was healthy with another content: name one of `fairlead history service %s`", s.Meta.Name, s.Meta.Name)
}

// sameDeployed says whether two deployments have the same content. Of those that a console of an older version began,
// each lever made one more: they are compared by what they were made of.
func (c *Catalog) sameDeployed(ctx context.Context, s state.Service, a, b Deployment) (bool, error) {
	if a.Digest == b.Digest || a.Content != "" && b.Content != "" {
		return a.Digest == b.Digest || a.Content == b.Content, nil
	}
	if a.Commit.Commit != b.Commit.Commit || a.ConfigRevision != b.ConfigRevision {
		return false, nil
	}
	was, err := c.specOf(ctx, s, a)
	if err != nil {
		return true, nil //nolint:nilerr // nobody can go back to it
	}
	is, err := c.specOf(ctx, s, b)
	if err != nil {
		return false, nil //nolint:nilerr // it differs as far as is known
	}
	return sameContentOf(was, is)
}

// withoutWindows is a spec without its own windows, which say when it is applied and not what.
func withoutWindows(s state.ServiceSpec) (state.ServiceSpec, error) {
	keys, err := state.SyncKeys(s.Sync)
	if err != nil {
		return s, err
	}
	delete(keys, state.KeyWindows)
	s.Sync, err = state.SyncText(keys)
	return s, err
}

// bare is a spec without levers and windows.
func bare(s state.ServiceSpec) (state.ServiceSpec, error) {
	s, err := state.WithoutLevers(s)
	if err != nil {
		return s, err
	}
	return withoutWindows(s)
}

// sameContentOf says whether two specs differ at most in levers, in windows, and in when tests run.
func sameContentOf(a, b state.ServiceSpec) (bool, error) {
	was, errWas := bare(a)
	is, errIs := bare(b)
	was.Tests, is.Tests = nil, nil
	return state.SameFiles(was, is), errors.Join(errWas, errIs)
}

// contentOf names the content of a delivery, whatever levers there are; empty: its artifact is not known.
func contentOf(hub state.HubTruth, spec state.ServiceSpec, config string) (string, error) {
	if hub.Artifact.Digest == "" {
		return "", nil
	}
	rest, err := bare(spec)
	if err != nil {
		return "", err
	}
	// The part of these that counts is in the artifact, and in the revision of the configuration.
	rest.Tests, rest.Config, rest.ConfigSets, rest.Source, rest.Ref, rest.Include, rest.Ignore = nil, nil, nil, "", "", nil, nil
	if len(rest.Sources) > 0 { // where the folder is that is built
		rest.Sources = []state.ServiceSource{{Name: rest.Sources[0].Name, Path: rest.Sources[0].Path}}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return "", fmt.Errorf("encode spec: %w", err)
	}
	var form any // sync options may differ in form
	if err := json.Unmarshal(text, &form); err != nil {
		return "", fmt.Errorf("decode spec: %w", err)
	}
	text, err = json.Marshal([]any{hub.Artifact.Digest, config, form})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// specOf is the spec of a service as a deployment had it.
func (c *Catalog) specOf(ctx context.Context, s state.Service, d Deployment) (spec state.ServiceSpec, err error) {
	ref := store.Ref{Kind: store.KindService, Name: s.Meta.Name}
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		rows, err := v.History(ctx, ref, d.SpecRevision+1, 1)
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].UID != s.Meta.UID || rows[0].Revision != d.SpecRevision {
			return refusal.New(refusal.Precondition, "service %q: its spec of deployment %d is not kept any more: choose a later one", s.Meta.Name, d.Number)
		}
		return json.Unmarshal(rows[0].Spec, &spec)
	})
	if err == nil && spec.Cluster != s.Spec.Cluster {
		err = refusal.New(refusal.Precondition, "service %q: deployment %d was for cluster %q: choose one for %q", s.Meta.Name, d.Number, spec.Cluster, s.Spec.Cluster)
	}
	return spec, err
}

// releaser is who the history says ended a pin that was until the ref moves on.
const releaser = "release"

// Release lets services of a source follow their refs again whose pins are until those move on, in the write that
// brings the commit: nobody has to remember it. Once the write is done, logReleased logs what Release wrote.
func (c *Catalog) Release(ctx context.Context, tx *store.Tx, source string, heads []state.Head) (written []Written, err error) {
	held, err := tx.Releasing(ctx, source)
	if err != nil {
		return nil, err
	}
	for _, row := range held {
		s := state.Service{Meta: state.MetaOf(row)}
		if err := state.Decode(row, &s.Spec); err != nil {
			return nil, err
		}
		if s.Spec.Source != source { // only its files, which wait behind a rollback, name this one
			continue
		}
		at := headOf(heads, s.Spec.Ref)
		if at == "" || at == s.Spec.UnpinAfter {
			continue
		}
		edit, err := draftUnpinned(&s)
		if refused, ok := errors.AsType[*refusal.Error](err); ok {
			edit = Broken(row.Kind, row.Name, refused) // one service that can't be written keeps no commit from the others of the source
		} else if err != nil {
			return nil, err
		}
		by := Self(releaser)
		refused, err := tx.Try(ctx, by.Subject, func(ctx context.Context, tx *store.Tx) error {
			one, err := c.PutIn(ctx, Write{Tx: tx, By: by}, []Edit{edit})
			if err == nil {
				written = append(written, one...)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if refused != nil {
			c.log.WarnContext(ctx, "service stays pinned though its ref has moved on", "service", row.Name, "err", refused)
			continue
		}
		c.log.InfoContext(ctx, "service follows its ref again", "service", row.Name, "commit", at)
	}
	return written, nil
}

// LogReleased logs the services that follow their refs again.
func (c *Catalog) LogReleased(ctx context.Context, written []Written) {
	c.tell(ctx, Self(releaser), written)
}

// draftUnpinned is a service whose pin has ended by itself.
func draftUnpinned(s *state.Service) (Edit, error) {
	p, err := state.PartsOf(s.Spec)
	if err != nil {
		return Edit{}, err
	}
	if p.Levers.Pin != nil {
		p.Levers.Pin = nil
		return draftPulled(s, p, released)
	}
	keys, err := state.SyncKeys(p.Files.Sync) // a file names the pin
	if err != nil {
		return Edit{}, err
	}
	delete(keys, state.KeyPin)
	if state.TextOf(keys[state.KeyMode]) == "" {
		delete(keys, state.KeyReason)
	}
	p.Files.UnpinAfter = ""
	if p.Files.Sync, err = state.SyncText(keys); err != nil {
		return Edit{}, err
	}
	return draftPulled(s, p, released)
}

// headOf is where a ref points, as people write it; empty: nobody knows.
func headOf(heads []state.Head, ref string) string {
	ref = platform.CanonicalRef(ref)
	for _, h := range heads {
		if h.Ref == ref {
			return h.Revision.Commit
		}
	}
	return ""
}

// Releases is a Hook: a pin that waits for a commit which is there by now would wait for the one after.
type Releases struct{}

// Wrote looks at services.
func (Releases) Wrote(ctx context.Context, w *Write, before, after *store.Resource) error {
	if after == nil || after.Kind != store.KindService {
		return nil
	}
	var was, is state.ServiceSpec
	err := state.Decode(*after, &is)
	if before != nil {
		err = errors.Join(err, state.Decode(*before, &was))
	}
	if err != nil || is.UnpinAfter == "" || is.UnpinAfter == was.UnpinAfter {
		return err
	}
	source, err := w.Tx.Get(ctx, store.KindSource, is.Source)
	if err != nil {
		return fmt.Errorf("read source %q: %w", is.Source, err)
	}
	heads, err := w.Tx.Heads(ctx, []string{source.UID})
	if err != nil {
		return err
	}
	status, err := state.ReadHeads(heads[source.UID])
	if err != nil {
		return err
	}
	if at := headOf(status.Heads, is.Ref); at != "" && at != is.UnpinAfter {
		return refusal.New(refusal.Conflict, "service %q: spec.unpinAfter: the ref has moved on to %.8s: look again, then roll back or pin", after.Name, at)
	}
	return nil
}
