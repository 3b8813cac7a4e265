package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/plural"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	// DeclaredLabel says of which service's folder a resource comes.
	DeclaredLabel = "fairlead.dev/declared-by"
	// maxNesting is how deep folders may declare services with folders of their own.
	maxNesting = 4
	// folderRetry is how soon a folder that was refused is tried again, as what it needs may be there by then; each
	// time twice as long passes, up to folderRetryMost.
	folderRetry, folderRetryMost = 30 * time.Second, 5 * time.Minute
	// folderTime is how long a folder may take to be written: nobody else writes meanwhile, and the store gives up
	// after three times that.
	folderTime = 5 * time.Second
	// folderSoon is how soon to ask again when one of both sides is behind.
	folderSoon = 2 * time.Second
	// shownRemovals of a guard.
	shownRemovals = 20
	// maxReason is as much as is told of what is wrong with a folder, in bytes.
	maxReason = 4 << 10
)

const adoptNever = "ADOPTION_NEVER"

// Delivered is a folder for the catalog, as a distributor has it.
type Delivered struct {
	Service, UID string
	// ServiceRevision is of the service that the digest was made of.
	ServiceRevision int64
	Digest          string
	Revision        state.Revision
}

// Content is what such a folder holds.
type Content struct {
	Edits []Edit
	// Refusal is why it can't be read, or not all of it; empty: it can. Edits are then what can be read, so that what
	// is wrong with them is told, too.
	Refusal string
	// Locate says of refusals where in the folder they are about. If not all can be read it says that, too.
	Locate func([]refusal.Fault) string
}

// Answer is what a distributor does next.
type Answer struct {
	// Settled: nothing. Wanted: it brings the content. Else it asks again after Retry.
	Settled, Wanted bool
	Retry           time.Duration
}

// folders are those that were refused.
type folders struct {
	mu     sync.Mutex // guards what follows
	before map[string]retry
}

// retry is when a folder is tried again, and how long that was after it was refused last.
type retry struct {
	due   time.Time
	after time.Duration
}

// wait is how long a folder is not tried.
func (f *folders) wait(d Delivered, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.before[d.key()].due.Sub(now)
}

// refused says when a folder is tried again, and forgets those that nobody has brought since.
func (f *folders) refused(d Delivered, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.before, func(_ string, r retry) bool { return now.Sub(r.due) > 2*folderRetryMost })
	if f.before == nil {
		f.before = map[string]retry{}
	}
	after := min(max(folderRetry, 2*f.before[d.key()].after), folderRetryMost)
	f.before[d.key()] = retry{now.Add(after), after}
	return after
}

func (d *Delivered) key() string { return fmt.Sprintf("%s %d %s", d.UID, d.ServiceRevision, d.Digest) }

// AskFolder says whether the content of a folder is wanted.
func (c *Catalog) AskFolder(ctx context.Context, d Delivered) (a Answer, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		_, a, err = c.folderOf(ctx, v, d)
		return err
	})
	if err != nil || a != (Answer{}) {
		return a, err
	}
	return Answer{Wanted: true}, nil
}

// folderOf returns the service of a folder, or the answer if what is delivered is not what the catalog wants now.
func (c *Catalog) folderOf(ctx context.Context, v store.View, d Delivered) (s state.Service, a Answer, err error) {
	if wait := c.folders.wait(d, c.now()); wait > 0 {
		return s, Answer{Retry: wait}, nil
	}
	row, err := v.Get(ctx, store.KindService, d.Service)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.UID != d.UID {
		return s, Answer{Retry: folderSoon}, nil // the distributor will hear of it
	}
	if err != nil {
		return s, a, err
	}
	list, err := c.Services(ctx, v, []store.Resource{row})
	if err != nil {
		return s, a, err
	}
	s = list[0]
	head := s.FollowedTruth().Head
	if !s.Spec.Catalog || row.Revision != d.ServiceRevision || head == nil || head.Revision.Commit != d.Revision.Commit || s.Status.Hub.Digest != d.Digest {
		return s, Answer{Retry: folderSoon}, nil
	}
	if r := s.Status.Cluster.Report; r != nil && r.Digest == d.Digest && r.Phase != state.PhaseFailed {
		return s, Answer{Settled: true}, nil
	}
	return s, a, nil
}

// bringing is a folder on its way into the catalog.
type bringing struct {
	catalog   *Catalog
	by        By
	service   state.Service
	delivered Delivered
	content   Content

	written []Written
	kept    int          // resources that left the folder and stay
	guard   *state.Guard // nil: nothing is to be confirmed
	dry     bool
}

// errGuarded undoes what has to be confirmed first.
var errGuarded = errors.New("has to be confirmed")

// ApplyFolder brings a folder into the catalog, all of it or nothing, and notes in the same transaction how that went.
func (c *Catalog) ApplyFolder(ctx context.Context, d Delivered, content Content, traceID string) (a Answer, err error) {
	b := &bringing{catalog: c, delivered: d, content: content}
	var refused error
	err = c.store.Write(ctx, "console", func(ctx context.Context, tx *store.Tx) (err error) {
		if b.service, a, err = c.folderOf(ctx, tx.View, d); err != nil || a != (Answer{}) {
			return err
		}
		account := platform.ServiceAccount(b.service.Spec.ServiceAccount)
		b.by = By{
			Identity: account, Subject: account.Subject(), TraceID: traceID, Time: c.now(),
			Reason: fmt.Sprintf("for service %q at %s", d.Service, state.Short(d.Revision.Commit)),
		}
		mode := b.service.Spec.Wishes().Mode
		held := mode == state.ModeHold || mode == state.ModeSuspend
		b.dry = mode == state.ModeDryRun
		if !held {
			refused, err = tx.Try(ctx, b.by.Subject, b.bring)
		}
		if err != nil {
			return err
		}
		report, err := b.report(tx.Now(), held, refused)
		if err != nil {
			return err
		}
		a = Answer{Settled: true}
		if report.Phase == state.PhaseFailed && content.Refusal == "" {
			a = Answer{Retry: c.folders.refused(d, c.now())} // before another one brings the same
		}
		return b.note(ctx, tx, report)
	})
	if err == nil && refused == nil {
		c.tell(ctx, b.by, b.written)
	}
	return a, err
}

// bring writes what the folder holds, and deletes what it held.
func (b *bringing) bring(ctx context.Context, tx *store.Tx) error {
	unread := b.content.Refusal != ""
	if unread && len(b.content.Edits) == 0 {
		return refusal.New(refusal.Invalid, "%s", b.content.Refusal)
	}
	if len(b.content.Edits) == 0 {
		return refusal.New(refusal.Invalid, "the folder holds no resources of Fairlead: nothing is deleted for that. Delete the service if that is what is meant")
	}
	row, err := tx.Get(ctx, store.KindServiceAccount, b.service.Spec.ServiceAccount)
	if err != nil {
		return err
	}
	account, err := resource.ServiceAccounts().Decode(row)
	if err != nil {
		return err
	}
	if account.Spec.Disabled {
		return refusal.New(refusal.Forbidden, "service account %q is disabled: enable it, or name another one in spec.serviceAccount", row.Name)
	}
	ctx = platform.NewContext(ctx, b.by.Identity)
	edits, said, err := b.prepare(ctx, tx)
	if err != nil {
		return err
	}
	if unread {
		if _, err := b.catalog.PutIn(ctx, b.write(tx), edits); err != nil && !errors.Is(err, errLate) {
			return err
		}
		return refusal.New(refusal.Invalid, "%s", b.content.Refusal)
	}
	going, err := b.going(ctx, tx)
	if err != nil {
		return err
	}
	gone, err := leave(ctx, tx, going, b.kept > 0)
	if err != nil {
		return err
	}
	edits = append(edits, gone...)
	if b.written, err = b.catalog.PutIn(ctx, b.write(tx), edits); err != nil {
		return err
	}
	if b.dry {
		return errDry
	}
	for i, text := range said {
		if err := tx.Say(ctx, b.written[i].After.UID, text); err != nil {
			return err
		}
	}
	return nil
}

func (b *bringing) write(tx *store.Tx) Write {
	return Write{Tx: tx, By: b.by, End: b.catalog.now().Add(folderTime), Declarer: b.service.Meta.Name}
}

// prepare looks at what the folder may declare, and returns it with what it says of how services are synced, by index,
// where that is something else than before.
func (b *bringing) prepare(ctx context.Context, tx *store.Tx) ([]Edit, map[int]string, error) {
	name := b.service.Meta.Name
	above, err := declarers(ctx, tx.View, name)
	if err != nil {
		return nil, nil, err
	}
	current, err := b.current(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	var uids []string
	for _, r := range current {
		uids = append(uids, r.UID)
	}
	last, err := tx.Said(ctx, uids)
	if err != nil {
		return nil, nil, err
	}
	edits, said := slices.Clone(b.content.Edits), map[int]string{}
	for i := range edits {
		e := &edits[i]
		var is *store.Resource
		if r, ok := current[e.ref()]; ok {
			is = &r
		}
		if e.broken != nil {
			continue
		}
		if err := b.mayDeclare(ctx, e, is, above); err != nil {
			refused, ok := errors.AsType[*refusal.Error](err)
			if !ok {
				return nil, nil, err
			}
			*e = Broken(e.draft.Kind, e.draft.Name, refused)
			continue
		}
		e.Label(DeclaredLabel, name)
		if spec, ok := e.spec.(state.ServiceSpec); ok {
			text, err := state.LeverText(spec)
			if err != nil {
				return nil, nil, err
			}
			was := ""
			if is != nil {
				was = last[is.UID]
			}
			if e.said = &was; text != was {
				said[i] = text
			}
		}
	}
	return edits, said, nil
}

// current are the resources that the folder names and that exist.
func (b *bringing) current(ctx context.Context, tx *store.Tx) (map[store.Ref]store.Resource, error) {
	names := map[store.Kind][]string{}
	for i := range b.content.Edits {
		ref := b.content.Edits[i].ref()
		names[ref.Kind] = append(names[ref.Kind], ref.Name)
	}
	out := map[store.Ref]store.Resource{}
	for kind, of := range names {
		found, err := tx.Named(ctx, kind, of)
		if err != nil {
			return nil, err
		}
		for name, r := range found {
			out[store.Ref{Kind: kind, Name: name}] = r
		}
	}
	return out, nil
}

// mayDeclare refuses what has no place in this folder. The rights of the account are judged when the resource is
// written.
func (b *bringing) mayDeclare(ctx context.Context, e *Edit, current *store.Resource, above []string) error {
	ref, name := e.ref(), b.service.Meta.Name
	if ref.Kind == store.KindSecret {
		return refusal.New(refusal.Invalid,
			"a folder in Git is no place for secrets: apply it by hand, or take the values from a Backend")
	}
	if spec, ok := e.spec.(resource.Configured); ok {
		for key, set := range spec.Settings() {
			if set.Secret {
				return refusal.New(refusal.Invalid, "%s[%q].secret: a folder in Git is no place for secrets: refer to a Secret or a Backend", settingsField(ref.Kind), key)
			}
		}
	}
	if spec, ok := e.spec.(state.ServiceSpec); ok {
		switch {
		case ref.Name == name:
			return refusal.New(refusal.Invalid, "service %q declares itself: take it out of its own folder", name)
		case slices.Contains(above, ref.Name):
			return refusal.New(refusal.Invalid, "service %q comes of it: services can't declare each other in a circle", name)
		case spec.Catalog && len(above)+1 >= maxNesting:
			return refusal.New(refusal.Invalid, "spec.catalog: this would be nested %d deep, and %d is the most: declare it further up", len(above)+2, maxNesting)
		}
	}
	if err := b.inProject(e); err != nil || current == nil {
		return err
	}
	if project := b.service.Spec.Project; project != "" {
		if is, err := resource.ProjectOf(*current); err != nil || is != project {
			return cmp.Or(err, taken(ref))
		}
	}
	if b.catalog.guard.MayTouch(ctx, b.by, ref, current) != nil {
		return nil //nolint:nilerr // writing it is refused, in words that tell nothing
	}
	switch owner := current.Labels[DeclaredLabel]; {
	case owner == name:
		return nil
	case owner != "":
		return refusal.New(refusal.Precondition, "%s %q is declared by service %q already: it can be in one folder only", ref.Kind, ref.Name, owner)
	case current.Labels[GlobalLabel] != "":
		return refusal.New(refusal.Precondition, "%s %q comes of global service %q: rename one of them", ref.Kind, ref.Name, current.Labels[GlobalLabel])
	case b.service.Spec.Wishes().Adoption == adoptNever:
		return refusal.New(refusal.Precondition, "%s %q exists already, and spec.sync.adoption of service %q is never: rename it, or let it be taken over", ref.Kind, ref.Name, name)
	}
	return nil
}

// inProject holds what a service of a project declares within it.
func (b *bringing) inProject(e *Edit) error {
	project := b.service.Spec.Project
	if project == "" {
		return nil
	}
	text, err := json.Marshal(e.spec)
	if err != nil {
		return fmt.Errorf("encode %s %q: %w", e.draft.Kind, e.draft.Name, err)
	}
	is, err := resource.ProjectOf(store.Resource{Kind: e.draft.Kind, Name: e.draft.Name, Spec: text})
	switch {
	case err != nil:
		return err
	case e.draft.Kind == store.KindProject, is == "":
		return refusal.New(refusal.Forbidden, "service %q is of project %q, and declares only what is of it: services, global services and configuration sets with this project", b.service.Meta.Name, project)
	case is != project:
		return refusal.New(refusal.Forbidden, "is of project %q: service %q is of project %q, and declares only what is of it", is, b.service.Meta.Name, project)
	}
	return nil
}

// going returns what left the folder, unless it is to be deleted and a person has to confirm that first.
func (b *bringing) going(ctx context.Context, tx *store.Tx) ([]store.Resource, error) {
	all, err := tx.Labelled(ctx, DeclaredLabel, b.service.Meta.Name)
	if err != nil {
		return nil, err
	}
	stays := make(map[store.Ref]bool, len(b.content.Edits))
	for i := range b.content.Edits {
		stays[b.content.Edits[i].ref()] = true
	}
	going := slices.DeleteFunc(slices.Clone(all), func(r store.Resource) bool { return stays[store.Ref{Kind: r.Kind, Name: r.Name}] })
	prune := b.service.Spec.Wishes().Prune
	if prune.Disabled {
		b.kept = len(going)
		return going, nil
	}
	lost, err := withTaken(ctx, tx.View, going)
	if err != nil {
		return nil, err
	}
	total := len(all) + len(lost) - len(going)
	free := len(lost) <= 1 || len(lost) <= prunedFreely && len(lost)*10 <= total
	if most := prune.MaxPercent; most != nil {
		free = len(lost)*100 <= total**most
	}
	guard := guardOf(lost, total)
	if free || b.dry || prune.Confirmed == guard.ID {
		return going, nil
	}
	b.guard = guard
	return nil, errGuarded
}

// guardOf is what is to be confirmed.
func guardOf(going []store.Resource, total int) *state.Guard {
	sum := sha256.New()
	g := &state.Guard{Removing: int32(len(going)), ObjectsTotal: int32(total)}
	for i, r := range going {
		fmt.Fprintf(sum, "%s %s %s\n", r.Kind, r.Name, r.UID)
		if i < shownRemovals {
			g.Sample = append(g.Sample, state.ManagedObject{Group: "fairlead.dev", Version: "v1", Kind: string(r.Kind), Name: r.Name, UID: r.UID})
		}
	}
	g.ID = hex.EncodeToString(sum.Sum(nil)[:16])
	return g
}

// withTaken returns resources that are to be deleted with those that go with them, each once.
func withTaken(ctx context.Context, v store.View, list []store.Resource) ([]store.Resource, error) {
	out, there := slices.Clone(list), map[string]bool{}
	for _, r := range list {
		there[r.UID] = true
	}
	for i := 0; i < len(out); i++ {
		of, err := takenBy(ctx, v, out[i])
		if err != nil {
			return nil, err
		}
		for _, r := range of {
			if !there[r.UID] {
				out, there[r.UID] = append(out, r), true
			}
		}
	}
	return out, nil
}

// takenBy are the resources that a deletion takes along: what a folder declares, and what global services made.
func takenBy(ctx context.Context, v store.View, r store.Resource) ([]store.Resource, error) {
	if r.Kind != store.KindService {
		made, stay, err := madeFor(ctx, v, r)
		if stay {
			made = nil
		}
		return made, err
	}
	spec, err := catalogSpec(&r)
	if err != nil || spec == nil || spec.KeepsObjects() {
		return nil, err
	}
	return v.Labelled(ctx, DeclaredLabel, r.Name)
}

// catalogSpec is the spec of a service whose folder goes to the catalog; nil: it is another resource.
func catalogSpec(r *store.Resource) (*state.ServiceSpec, error) {
	if r == nil || r.Kind != store.KindService {
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	var spec state.ServiceSpec
	if err := state.Decode(*r, &spec); err != nil || !spec.Catalog {
		return nil, err
	}
	return &spec, nil
}

// declarers are the services that a service comes of, the nearest first.
func declarers(ctx context.Context, v store.View, name string) (above []string, err error) {
	for len(above) <= maxNesting {
		row, err := v.Get(ctx, store.KindService, name)
		if errors.Is(err, store.ErrNotFound) {
			return above, nil
		}
		if err != nil {
			return nil, err
		}
		if name = row.Labels[DeclaredLabel]; name == "" {
			return above, nil
		}
		above = append(above, name)
	}
	return above, nil
}

// report says how it went.
func (b *bringing) report(now time.Time, held bool, refused error) (state.Report, error) {
	d, before := b.delivered, b.service.Status.Cluster.Report
	r := state.Report{Service: d.Service, Digest: d.Digest, Commit: d.Revision.Commit, ObservedTime: now, Traceparent: d.Revision.Traceparent, Sequence: 1}
	if before != nil {
		r.Sequence = before.Sequence + 1
		r.AppliedDigest, r.AppliedCommit, r.AppliedTime = before.AppliedDigest, before.AppliedCommit, before.AppliedTime
		r.ObjectsTotal, r.ObjectsHealthy = before.ObjectsTotal, before.ObjectsHealthy
	}
	why, isRefusal := errors.AsType[*refusal.Error](refused)
	switch {
	case held:
		r.Phase, r.Message = state.PhaseHeld, b.service.Spec.Wishes().Reason
	case errors.Is(refused, errDry):
		r.Phase = state.PhaseHealthy
		if change := summary(b.written); change != "" {
			r.Phase, r.Message = state.PhaseDiffers, "The catalog differs from Git: "+change+"."
			break
		}
		r.AppliedDigest, r.AppliedCommit, r.AppliedTime = d.Digest, d.Revision.Commit, now
	case errors.Is(refused, errGuarded):
		r.Phase, r.Guard = state.PhaseWaiting, b.guard
		r.Message = fmt.Sprintf("%s would be deleted from the catalog, and nothing of %s is applied before. If that is meant: fairlead confirm prune %s %s",
			plural.Part(b.guard.Removing, b.guard.ObjectsTotal, "resource"), state.Short(d.Revision.Commit), d.Service, b.guard.ID)
	case errors.Is(refused, errLate):
		r.Phase = state.PhaseFailed
		r.Message = fmt.Sprintf("Nothing of it was applied: writing its %s takes more than %s, in which nobody else can write. Make several services of it, of a folder each.",
			plural.Of(len(b.content.Edits), "resource"), folderTime)
	case isRefusal:
		r.Phase, r.Message = state.PhaseFailed, "Nothing of it was applied:"+b.told(why)
	case refused != nil:
		return r, refused
	default:
		r.Phase, r.AppliedDigest, r.AppliedCommit, r.AppliedTime = state.PhaseHealthy, d.Digest, d.Revision.Commit, now
		r.ObjectsTotal = int32(len(b.content.Edits))
		r.ObjectsHealthy = r.ObjectsTotal
		if b.kept > 0 {
			left := "The resource that left the folder stays, on its own"
			if b.kept > 1 {
				left = fmt.Sprintf("%d resources that left the folder stay, on their own", b.kept)
			}
			r.Message = left + ", for spec.sync.prune.disabled is set."
		}
	}
	return r, nil
}

// told is a refusal, with where in the folder it is about: behind a space, or if it is about several things each on a
// line of its own.
func (b *bringing) told(why *refusal.Error) string {
	text := why.Message
	if unread := b.content.Refusal; unread != "" && unread != text {
		text = unread + "\n" + text
	}
	if len(why.Faults) > 0 && b.content.Locate != nil {
		if located := b.content.Locate(why.Faults); located != "" {
			text = located
		}
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines { // pages that show them as one line show sentences
		if !strings.HasSuffix(line, ".") && !strings.HasSuffix(line, "?") {
			lines[i] += "."
		}
	}
	if len(lines) == 1 {
		return " " + lines[0]
	}
	return "\n" + strings.Join(lines, "\n")
}

// summary says what a write did, in words.
func summary(written []Written) string {
	counts := map[Outcome]int{}
	for _, w := range written {
		counts[w.Outcome]++
	}
	var parts []string
	for _, of := range []struct {
		outcome Outcome
		words   string
	}{{Created, "would be created"}, {Updated, "would be changed"}, {Removed, "would be deleted"}} {
		if n := counts[of.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, of.words))
		}
	}
	return strings.Join(parts, ", ")
}

// note keeps a report, if it says anything new.
func (b *bringing) note(ctx context.Context, tx *store.Tx, r state.Report) error {
	before := b.service.Status.Cluster.Report
	if before != nil && before.Digest == r.Digest && before.Phase == r.Phase && before.Message == r.Message &&
		before.AppliedDigest == r.AppliedDigest && r.Guard == nil {
		return nil
	}
	row, err := state.EncodeReport(b.service.Meta.UID, "", r)
	if err != nil {
		return err
	}
	if b.catalog.observer != nil {
		tx.Tell(b.catalog.observer.Gather(b.catalog.observer.ClusterSaid(b.service, before, r))...)
	}
	return tx.PutReport(ctx, row, StepsOf(row.Service, r))
}
