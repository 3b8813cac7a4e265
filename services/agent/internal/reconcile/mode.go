package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/accounts"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/diff"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/mode"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

const (
	// dependencyLook is between two looks at the services that one waits for: in memory, at no request.
	dependencyLook = time.Second
	// diffAgain is when a diff that waits is made anew, since the cluster may have changed.
	diffAgain = 10 * time.Minute
	// compareRetry is when a comparison that failed is tried again, where nothing new waits for it.
	compareRetry = 30 * time.Second
	// clockLook is how long windows are not looked at again at most: clocks are set.
	clockLook = 10 * time.Minute
	// overrideLasts is how long after a person asked for it a sync is let through windows that are closed: an agent
	// that hears of it later, or can't serve it until then, waits as if nobody had overridden anything.
	overrideLasts = time.Hour
)

// Details takes long lists about services. Set returns when the list can't be lost any more.
type Details interface {
	Set(detail *deliveryv1.ServiceDetail) error
	Told(service, kind string) bool
	Forget(service string) error
}

// stance is what a keeper may do, and what it told about what it does not do.
type stance struct {
	verdict mode.Verdict
	// same: what is applied was made from what is wanted; only how it is synced may differ.
	same bool
	// compared is what the last diff is about, and when it was made.
	compared string
	at       time.Time
	diff     *deliveryv1.Diff
	// listed is the state of the inventory that the hub was told of.
	listed string
	// due: single objects that a sync names are applied now, whatever the verdict says of the rest.
	due bool
	// named: the last request is for single objects, and let through. shut says why it is not.
	named bool
	shut  refusal
	// windows are what the verdict saw of them.
	windows window.State
}

// askedFor is the content that the last request for a sync is about, as the inventory knows it, or else as the hub's
// answer came with it. A request that an agent finds with a service that is new to its disk may be months old: if all
// of the service was applied since, that served it.
func askedFor(service desired.Service, record inventory.Record) string {
	switch {
	case record.Asked.Request == service.RequestID():
		return record.Asked.Content
	case service.AskedBefore && !service.Sync.GetRequestTime().AsTime().After(record.Applied.Time):
		return ""
	}
	return service.AskedFor
}

// noteAsked writes down in the cluster what a request for a sync is about, where something can keep new content back:
// before the request is served, or when the service is kept back first. Elsewhere a request applies all that there is,
// and its own outcome is note enough.
func (s *site) noteAsked(ctx context.Context, service desired.Service, record inventory.Record) (inventory.Record, error) {
	id, set := service.RequestID(), service.Sync.GetMode()
	open := !service.Manual && len(service.Windows) == 0 && (set == deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED || set == deliveryv1.SyncMode_SYNC_MODE_AUTO)
	if id == "" || id == record.Asked.Request || open {
		return record, nil
	}
	record.Asked = inventory.Asked{Request: id, Content: askedFor(service, record)}
	return record, s.controller.Inventory.Save(ctx, record)
}

// overridesClosing tells whether the last request for a sync is let through what closes the service now.
func overridesClosing(service desired.Service, now time.Time) bool {
	asked := service.Sync.GetRequestTime().AsTime()
	return service.Sync.GetRequestOverride() && now.Sub(asked) < overrideLasts && window.Overridden(service.Windows, service.Sync.GetRequestOverrides(), asked, now)
}

// gatherFacts gathers what a verdict is about.
func (s *site) gatherFacts(service desired.Service, record inventory.Record) mode.Facts {
	c := s.controller
	now, asked := time.Now(), service.Asked(askedFor(service, record))
	f := mode.Facts{
		Manual: service.Manual, Windows: s.windows.Judge(service.Windows, now),
		Asked: asked != "" && asked != record.Applied.Asked,
		Begun: !record.Complete && !record.Some && record.Begun != "" && record.Begun == setOf(service).String(),

		Sync:    service.Sync,
		Applied: mode.State{Content: cmp.Or(record.Applied.Set, record.Applied.Digest), Commit: record.Applied.Commit},
		Wanted:  mode.State{Content: setOf(service).String(), Commit: service.Commit},
		Depends: map[string]string{},
	}
	f.Override = f.Asked && f.Windows.Closed && overridesClosing(service, now)
	switch {
	case record.Has(service.Digest):
		f.Applied.Content = f.Wanted.Content
	case !record.Complete && f.Applied.Content != "":
		f.Applied.Content += " and parts of another"
	}
	notes, known := c.Watcher.Annotations(service.Name)
	if !known {
		notes = c.Inventory.Annotations(service.Name)
	}
	if reason, held := notes[object.HoldAnnotation]; held {
		f.Held = &reason
	}
	for _, name := range service.Sync.GetDependsOn() {
		if why := c.describeUnready(name); why != "" {
			f.Depends[name] = why
		}
	}
	return f
}

// describeUnready says why a service is not applied and healthy in its newest state; empty: it is.
func (c *Controller) describeUnready(name string) string {
	service, what := c.Desired.Get(name)
	report := c.Reports.Latest(name)
	switch {
	case what != desired.Apply:
		return "is not meant for this cluster"
	case report.GetPhase() == deliveryv1.Phase_PHASE_FAILED:
		return "failed"
	case report.GetAppliedDigest() != service.Digest:
		return "is not applied in its newest state"
	case report.GetPhase() != deliveryv1.Phase_PHASE_HEALTHY:
		return "is not healthy"
	}
	return ""
}

// judgeService finds out what may be done now.
func (w *worker) judgeService(service desired.Service, record inventory.Record) {
	f := w.site.gatherFacts(service, record)
	only := f.Asked && len(service.Sync.GetRequestOnly()) > 0
	verdict := mode.Decide(f)
	w.stance.named, w.stance.shut = only && verdict.Apply, refusal{}
	w.stance.due = w.stance.named && w.refusal.isDue(service)
	if only && !verdict.Apply {
		w.stance.shut = refusal{request: service.RequestID(), text: fitProblem(w.site.maskText(service, verdict.Text))}
	}
	if !only && !w.refusal.isLasting(service, record) {
		w.refusal = refusal{}
	}
	f.Asked = f.Asked && !only
	w.stance.verdict, w.stance.same, w.stance.windows = mode.Decide(f), f.Applied.Content == f.Wanted.Content, f.Windows
}

// windowsLook says when the windows of a service are to be looked at again.
func (w *worker) windowsLook() time.Duration {
	switch w := w.stance.windows; {
	case !w.Any:
		return idle
	case w.Change.IsZero():
		return clockLook
	default:
		return min(max(time.Until(w.Change), 0), clockLook)
	}
}

// addVerdict puts a verdict into a report on health.
func (w *worker) addVerdict(service desired.Service, record inventory.Record, report *deliveryv1.ServiceReport) {
	v := w.stance.verdict
	if report.SyncProblem = w.syncProblem(service, record); report.GetSyncProblem() != fitProblem(w.site.maskText(service, v.Text)) { // else it is said below
		report.Message = strings.TrimSpace(report.GetMessage() + " " + report.GetSyncProblem())
	}
	if v.Apply || report.GetPhase() == deliveryv1.Phase_PHASE_FAILED || report.GetPhase() == deliveryv1.Phase_PHASE_REMOVED {
		return
	}
	if w.stance.same {
		report.AppliedDigest, report.AppliedCommit = service.Digest, cmp.Or(report.GetAppliedCommit(), service.Commit)
	}
	text := v.Text
	if v.Phase == deliveryv1.Phase_PHASE_DIFFERS {
		text += " " + summarizeDiff(w.stance.diff)
	}
	switch v.Phase {
	case deliveryv1.Phase_PHASE_UNSPECIFIED:
		if v.Diff && countChanges(w.stance.diff) > 0 { // suspended, and others changed what is applied
			text += " " + summarizeDiff(w.stance.diff)
			if report.GetPhase() == deliveryv1.Phase_PHASE_HEALTHY {
				report.Phase = deliveryv1.Phase_PHASE_DIFFERS
			}
		}
	case deliveryv1.Phase_PHASE_DIFFERS:
		if countChanges(w.stance.diff) > 0 {
			report.Phase = v.Phase
		}
	default:
		report.Phase = v.Phase
	}
	report.Message = strings.TrimSpace(text + " " + report.GetMessage())
}

func countChanges(d *deliveryv1.Diff) int32 { return d.GetCreated() + d.GetChanged() + d.GetRemoved() }

// summarizeDiff is a diff in a sentence.
func summarizeDiff(d *deliveryv1.Diff) string {
	if countChanges(d) == 0 {
		return "Nothing would change."
	}
	refused := slices.DeleteFunc(slices.Clone(d.GetObjects()), func(o *deliveryv1.ObjectDiff) bool {
		return o.GetChange() != deliveryv1.Change_CHANGE_REFUSED
	})
	text := fmt.Sprintf("Of %d objects %d would be created, %d changed and %d removed.",
		countChanges(d)+d.GetUnchanged(), d.GetCreated(), max(int(d.GetChanged())-len(refused), 0), d.GetRemoved())
	if len(refused) == 0 {
		return text
	}
	first := refused[0]
	key := object.Key{Group: first.GetGroup(), Kind: first.GetKind(), Namespace: first.GetNamespace(), Name: first.GetName()}
	return fmt.Sprintf("%s %d would be refused: %s: %s", text, len(refused), key, first.GetMessage())
}

// compareWanted tells the hub what applying would change, and says when it is to be told again.
func (w *worker) compareWanted(ctx, patience context.Context, service desired.Service, record inventory.Record) (time.Duration, *problem) {
	// The digest is another one when somebody asks for a sync.
	about := service.Digest + " " + setOf(service).String() + " " + record.Applied.Digest + " " + strconv.FormatBool(w.stance.verdict.Repair) + w.damageSum()
	isDecided := w.site.controller.decisions.has(w.site.name, setOf(service).String())
	if left := diffAgain - time.Since(w.stance.at); w.stance.compared == about && left > 0 && isDecided {
		return left, nil
	}
	if err := w.site.controller.Artifacts.Prepare(patience, service); err != nil {
		return 0, retriedProblem(err).withState(staysAsItWas(record))
	}
	release, ok := w.site.slot(patience)
	if !ok {
		return 0, nil
	}
	defer release()
	objects, failure := w.site.openWanted(ctx, patience, service, record, w.stance.verdict)
	if failure != nil {
		return 0, failure
	}
	defer func() { _ = objects.Close() }()
	if err := w.site.awaitInheritance(service, objects); err != nil {
		return 0, retriedProblem(err).withState(staysAsItWas(record))
	}
	out, err := diff.Of(patience, diff.Deps{
		API: w.site.controller.Compare, Explain: apply.Explain, Recreates: apply.Recreates,
		Mask: w.site.secretMask(service), Sent: w.unchangedItems(record),
		Ignored: func(item set.Item, obj *unstructured.Unstructured) []string {
			return apply.Ignored(service.Sync, item, obj)
		},
		Stays: service.Sync.GetPrune().GetDisabled(),
	}, objects, record)
	if patience.Err() != nil {
		return 0, nil
	}
	if err != nil {
		return 0, retriedProblem(err).withState(staysAsItWas(record))
	}
	w.listObjects(service, record) // first, because what a sync of single objects applied would change no more
	if err := w.site.controller.Details.Set(&deliveryv1.ServiceDetail{Service: w.site.name, Digest: service.Digest, Detail: &deliveryv1.ServiceDetail_Diff{Diff: out}}); err != nil {
		return 0, retriedProblem(err).withState(staysAsItWas(record))
	}
	w.stance.compared, w.stance.at, w.stance.diff = about, time.Now(), out
	w.backoff.Reset()
	return diffAgain, nil
}

// unchangedItems says which items need no look: while what others change is undone, those whose manifest is applied.
func (w *worker) unchangedItems(record inventory.Record) func(set.Item) bool {
	if !w.stance.verdict.Repair {
		return nil
	}
	applied := make(map[object.Key]object.Sum, len(record.Entries))
	for _, entry := range record.Entries {
		applied[entry.Key] = entry.Sum
	}
	return func(item set.Item) bool { return item.Sum != 0 && applied[item.Key] == item.Sum }
}

// listMade tells the hub which objects the service has after an attempt that failed midway, as after a hook that
// failed.
func (w *worker) listMade(service desired.Service, record inventory.Record) {
	if w.made == nil {
		return // no object was sent, and the last list holds
	}
	record.Entries = slices.Clone(record.Entries)
	for i, entry := range record.Entries {
		if now, ok := w.made[entry.Key]; ok {
			record.Entries[i] = now
		}
	}
	record.Entries = slices.DeleteFunc(record.Entries, func(entry inventory.Entry) bool { return entry.UID == "" })
	w.listObjects(service, record)
}

// listObjects tells the hub which objects the service has, when that has changed.
func (w *worker) listObjects(service desired.Service, record inventory.Record) {
	const limit = 20_000
	state := fmt.Sprint(record.Applied.Digest, record.Applied.Time.Unix(), len(record.Entries), len(w.looks.leaving))
	if w.stance.listed == state {
		return
	}
	why := map[object.Key]string{}
	for _, left := range w.looks.leaving {
		why[left.Entry.Key] = left.Why
	}
	entries := slices.SortedFunc(slices.Values(record.Entries), func(a, b inventory.Entry) int {
		return cmp.Or(cmp.Compare(a.Wave, b.Wave), object.Compare(a.Key, b.Key))
	})
	out := &deliveryv1.ObjectList{}
	for _, entry := range entries[:min(len(entries), limit)] {
		out.Objects = append(out.Objects, &deliveryv1.ManagedObject{
			Group: entry.Group, Version: entry.Version, Kind: entry.Kind, Namespace: entry.Namespace, Name: entry.Name,
			Uid: string(entry.UID), Wave: entry.Wave, Leaving: why[entry.Key],
		})
	}
	err := w.site.controller.Details.Set(&deliveryv1.ServiceDetail{Service: w.site.name, Digest: record.Applied.Digest, Detail: &deliveryv1.ServiceDetail_Objects{Objects: out}})
	if err == nil && w.stance.diff != nil && w.stance.verdict.Apply && record.Has(service.Digest) {
		// The waiting content is applied.
		err = w.site.controller.Details.Set(&deliveryv1.ServiceDetail{Service: w.site.name, Digest: service.Digest, Detail: &deliveryv1.ServiceDetail_Diff{Diff: &deliveryv1.Diff{Unchanged: int32(len(entries))}}})
		w.stance.diff, w.stance.compared = nil, ""
	}
	if err != nil {
		w.site.log.Error("the objects can't be told to the hub", "err", err)
		return
	}
	w.stance.listed = state
}

// accountProblem is the problem of a service that names no account where it has to, none that there can be, or one that
// it may not be applied as.
func (c *Controller) accountProblem(service desired.Service, account string) *problem {
	switch {
	case account == "" && c.currentNarrower().RequireAccount && !c.RequireImpersonation:
		return &problem{text: "An AgentConfig of the hub has the agent apply a service only as a Kubernetes service account that it names (impersonation.required): set spec.sync.impersonate to namespace/name."}
	case account == "" && c.RequireImpersonation:
		return &problem{final: true, text: "The agent of this cluster applies a service only as a Kubernetes service account that it names (--require-impersonation): set spec.sync.impersonate to namespace/name."}
	case account != "" && !impersonate.Valid(account):
		return &problem{final: true, text: fmt.Sprintf("%q is no Kubernetes service account: set spec.sync.impersonate to namespace/name.", account)}
	case account != "" && !c.allowsAccount(account):
		return &problem{final: true, text: fmt.Sprintf("The agent of this cluster applies no service as the Kubernetes service account %q: set another spec.sync.impersonate, or have the agent's --impersonate-accounts name it.", account)}
	case account != "" && !c.currentNarrower().allowsAccount(account):
		return &problem{text: fmt.Sprintf("An AgentConfig of the hub has the agent apply no service as the Kubernetes service account %q (impersonation.accounts): set another spec.sync.impersonate, or have the AgentConfig name it.", account)}
	case accounts.Refused(service.Rules, service.Namespace, account):
		return &problem{final: true, text: fmt.Sprintf("Project %q does not allow the Kubernetes service account %q: set another spec.sync.impersonate, or have spec.accounts of the project name it.", service.Rules.GetProject(), account)}
	}
	return nil
}

// allowsAccount tells whether the agent applies services as an account.
func (c *Controller) allowsAccount(account string) bool {
	if len(c.Accounts) == 0 {
		return !accounts.Reserved(account)
	}
	return accounts.Allowed(c.Accounts, account)
}
