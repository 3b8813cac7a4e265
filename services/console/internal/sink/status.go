package sink

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/platform/plural"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

const (
	// maxStatuses is how many statuses are set in a pass, and statusPause the time between two passes while more wait:
	// 60 a minute, where GitHub takes 80.
	maxStatuses, statusPause = 10, 10 * time.Second
	// maxGroups is how many names of statuses a pass reads the services of.
	maxGroups = 100
	// defaultContext is the first part of the names of statuses.
	defaultContext = "fairlead"
)

// statusPlan is what a pass sets at a Git host: the newest state of the services that waiting events are about.
type statusPlan struct {
	set  []commitStatus
	gone []string // contexts of services that were deleted
	// upTo is how many of the waiting events that settles.
	upTo int
	done []store.CommitStatus // set by the sender
}

// group is the services that share a status.
type group struct {
	context, page string
	global        string // name of the global service; empty: one service
	ref           string // of the global service's template: its status has the plain name
	first         int    // place of the first event
	events        []waiting
}

// isStatusEvent says whether the state of a commit may be another one after an event. Which state that is, the catalog
// says.
func isStatusEvent(typ string) bool {
	kind, _, _ := strings.Cut(typ, ".")
	return kind == "service" || kind == "config" || kind == "hold" || kind == "guard"
}

// plan reads what is to be set for the events that wait.
func (d *Deliverer) plan(ctx context.Context, v store.View, b *batch) error {
	b.plan = &statusPlan{upTo: len(b.waiting)}
	groups, err := b.groups(ctx, v)
	if err != nil {
		return err
	}
	contexts := make([]string, len(groups))
	for i, g := range groups {
		contexts[i] = g.context
	}
	last, err := v.CommitStatuses(ctx, b.uid, contexts)
	if err != nil {
		return err
	}
	if err := d.templateRefs(ctx, v, groups); err != nil {
		return err
	}
	for _, g := range groups {
		services, err := d.servicesOf(ctx, v, b.target, g)
		if err != nil {
			return err
		}
		if len(services) == 0 {
			b.plan.gone = append(b.plan.gone, g.context)
			continue
		}
		sources, err := d.sourcesOf(ctx, v, services)
		if err != nil {
			return err
		}
		set := b.changed(g, services, sources, last)
		if len(b.plan.set) > 0 && len(b.plan.set)+len(set) > maxStatuses {
			b.plan.upTo = g.first
			return nil
		}
		for _, s := range set {
			s.link = d.link(g.page)
			b.plan.set = append(b.plan.set, s)
		}
	}
	return nil
}

// link is to a page of the console.
func (d *Deliverer) link(page string) string {
	if d.Pages == nil || d.Pages() == "" {
		return ""
	}
	return strings.TrimRight(d.Pages(), "/") + page
}

// groups are the names of statuses that waiting events are about, in the order of the events. Where there are too many
// the plan is about the first events only.
func (b *batch) groups(ctx context.Context, v store.View) ([]*group, error) {
	var services []string
	for _, e := range b.waiting {
		services = append(services, e.GetService())
	}
	slices.Sort(services)
	rows, err := v.Named(ctx, store.KindService, slices.Compact(services))
	if err != nil {
		return nil, err
	}
	prefix := cmp.Or(b.spec.CommitStatus().Context, defaultContext)
	byContext := map[string]*group{}
	var groups []*group
	for i, e := range b.waiting {
		name := e.GetService()
		g := group{context: prefix + "/" + name, page: "/service/" + url.PathEscape(name), first: i}
		if global := cmp.Or(e.GetGlobalService(), rows[name].Labels[catalog.GlobalLabel]); global != "" { // the event names that of a service that is gone
			g = group{context: prefix + "/global/" + global, page: "/globalservice/" + url.PathEscape(global), first: i, global: global}
		}
		if byContext[g.context] == nil {
			if len(groups) == maxGroups {
				b.plan.upTo = i
				break
			}
			byContext[g.context] = &g
			groups = append(groups, &g)
		}
		of := byContext[g.context]
		of.events = append(of.events, e)
	}
	return groups, nil
}

// templateRefs reads which ref the templates of global services follow.
func (d *Deliverer) templateRefs(ctx context.Context, v store.View, groups []*group) error {
	var globals []string
	for _, g := range groups {
		if g.global != "" {
			globals = append(globals, g.global)
		}
	}
	rows, err := v.Named(ctx, store.KindGlobalService, globals)
	if err != nil {
		return err
	}
	for _, g := range groups {
		row, found := rows[g.global]
		if g.global == "" || !found { // of a global service that was deleted its services may be left for a moment
			continue
		}
		is, err := resource.GlobalServices().Decode(row)
		if err != nil {
			return err
		}
		g.ref = is.Spec.Template.Ref
	}
	return nil
}

// servicesOf are the services of a group that the sink is for, with their statuses, by name.
func (d *Deliverer) servicesOf(ctx context.Context, v store.View, t target, g *group) (list []state.Service, err error) {
	var rows []store.Resource
	if g.global != "" {
		rows, err = v.Labelled(ctx, catalog.GlobalLabel, g.global)
	} else {
		var found map[string]store.Resource
		found, err = v.Named(ctx, store.KindService, []string{g.events[0].GetService()})
		for _, r := range found {
			rows = append(rows, r)
		}
	}
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r store.Resource) bool { return r.Kind != store.KindService })
	return d.loadServices(ctx, v, t, rows)
}

// loadServices loads those services of rows that the sink is for.
func (d *Deliverer) loadServices(ctx context.Context, v store.View, t target, rows []store.Resource) (list []state.Service, err error) {
	loaded, err := d.Catalog.Services(ctx, v, rows)
	if err != nil {
		return nil, err
	}
	for _, s := range loaded {
		if spec := t.spec; (spec.Project == "" || spec.Project == s.Spec.Project) &&
			names(spec.Projects, s.Spec.Project) && names(spec.Clusters, s.Spec.Cluster) && names(spec.Services, s.Meta.Name) {
			list = append(list, s)
		}
	}
	return list, nil
}

// sourceOf is what statuses need of a source.
type sourceOf struct {
	url string // of Git; empty: there is none
	// commits are those that refs point to, of sources of services with several.
	commits map[string]string
}

// sourcesOf returns the sources of services, by name.
func (d *Deliverer) sourcesOf(ctx context.Context, v store.View, services []state.Service) (map[string]sourceOf, error) {
	var wanted, parts []string
	for _, s := range services {
		wanted = append(wanted, s.Spec.Source)
		for _, part := range s.Spec.Sources {
			parts = append(parts, part.Source)
		}
	}
	wanted = append(wanted, parts...)
	slices.Sort(wanted)
	found, err := v.Named(ctx, store.KindSource, slices.Compact(wanted))
	if err != nil {
		return nil, err
	}
	var uids []string
	for _, name := range parts {
		uids = append(uids, found[name].UID)
	}
	slices.Sort(uids)
	heads, err := v.Heads(ctx, slices.Compact(uids))
	if err != nil {
		return nil, err
	}
	sources := map[string]sourceOf{}
	for name, row := range found {
		source, err := state.ReadSource(row)
		if err != nil {
			return nil, err
		}
		is := sourceOf{url: source.Spec.Git.URL, commits: map[string]string{}}
		if of, has := heads[row.UID]; has {
			status, err := state.ReadHeads(of)
			if err != nil {
				return nil, err
			}
			for _, head := range status.Heads {
				is.commits[head.Ref] = head.Revision.Commit
			}
		}
		sources[name] = is
	}
	return sources, nil
}

// changed are the statuses of a group that are not set yet: one for each ref that its services follow.
func (b *batch) changed(g *group, services []state.Service, sources map[string]sourceOf,
	last map[store.CommitStatusKey]store.CommitStatus,
) (out []commitStatus) {
	byRef := map[string][]state.Service{}
	var refs []string
	for _, s := range services {
		if byRef[s.Spec.Ref] == nil {
			refs = append(refs, s.Spec.Ref)
		}
		byRef[s.Spec.Ref] = append(byRef[s.Spec.Ref], s)
	}
	for _, ref := range refs {
		of := unpinned(byRef[ref])
		if platform.IsCombination(ref) {
			out = append(out, b.changedParts(g, of, sources, last)...)
			continue
		}
		key := store.CommitStatusKey{Context: g.context, Ref: ref}
		commit, digest := commitOf(of, g.events, last[key])
		name := g.context
		if g.global != "" && ref != g.ref { // both refs may point to the same commit, and a name must not depend on what other services follow
			name += "/" + ref
		}
		is := store.CommitStatus{CommitStatusKey: key, Repository: b.repository(sources[of[0].Spec.Source].url), Commit: commit, Digest: digest}
		out = b.addStatus(out, is, name, of, last)
	}
	return out
}

// changedParts is changed for services with the same several sources: each repository of Git at the sink's host has a
// status of its own, at the commit that the hub's revision is made of.
func (b *batch) changedParts(g *group, of []state.Service, sources map[string]sourceOf,
	last map[store.CommitStatusKey]store.CommitStatus,
) (out []commitStatus) {
	for _, part := range of[0].Spec.Sources {
		source := sources[part.Source]
		key := store.CommitStatusKey{Context: g.context, Ref: of[0].Spec.Ref + "/" + part.Name}
		commit, digest := commitOfPart(of, part.Name, source.commits[platform.CanonicalRef(part.Ref)], last[key])
		is := store.CommitStatus{CommitStatusKey: key, Repository: b.repository(source.url), Commit: commit, Digest: digest}
		out = b.addStatus(out, is, g.context+"/"+part.Name, of, last)
	}
	return out
}

// addStatus adds a status of services, if it has a commit and is news.
func (b *batch) addStatus(
	out []commitStatus, is store.CommitStatus, name string, of []state.Service, last map[store.CommitStatusKey]store.CommitStatus,
) []commitStatus {
	if is.Repository == "" || is.Commit == "" {
		return out
	}
	var description string
	if is.State, description = outcome(of); b.spec.CommitStatus().Brief {
		description = brief(description)
	}
	is.Description = describe(description, hostOf(b.spec).description)
	if is == last[is.CommitStatusKey] {
		return out
	}
	return append(out, commitStatus{CommitStatus: is, name: name})
}

// unpinned leaves services with a pin out, unless all have one: they stay at another commit than the others.
func unpinned(services []state.Service) []state.Service {
	var free []state.Service
	for _, s := range services {
		if s.Status.Pinned == nil {
			free = append(free, s)
		}
	}
	if len(free) == 0 {
		return services
	}
	return free
}

// newest is the service that the hub has resolved last.
func newest(services []state.Service) *state.Service {
	out := &services[0]
	for i := range services {
		if services[i].Status.Hub.ResolveTime.After(out.Status.Hub.ResolveTime) {
			out = &services[i]
		}
	}
	return out
}

// commitOf is the commit that a status is about, with the digest of what came with it. The commit is the one that the
// hub can't deliver, or the one with which the content came that the hub hands out now: later commits that change
// nothing in the folder get no status.
func commitOf(services []state.Service, events []waiting, last store.CommitStatus) (commit, digest string) {
	for i := range services {
		if s := &services[i]; s.Status.Hub.Problem != nil && s.Followed() != nil {
			return s.Followed().Revision.Commit, ""
		}
	}
	handedOut := func(digest string) bool {
		return digest != "" && slices.ContainsFunc(services, func(s state.Service) bool { return s.Status.Hub.HandsOut(digest) })
	}
	for _, e := range slices.Backward(events) {
		if e.GetType() == event.ServiceDelivered && e.GetCommit() != "" && handedOut(e.GetDigest()) {
			return e.GetCommit(), e.GetDigest()
		}
	}
	// The hub may name the commit of the ref only after it said that the problem is over.
	if last.Digest == "" && slices.ContainsFunc(events, func(e waiting) bool { return e.GetType() == event.ServiceRecovered }) {
		for i := range services {
			if s := &services[i]; s.Followed() != nil && s.Followed().Revision.Commit == last.Commit {
				return last.Commit, s.Status.Hub.Digest
			}
		}
	}
	if handedOut(last.Digest) {
		return last.Commit, last.Digest
	}
	for _, e := range slices.Backward(events) {
		if e.GetCommit() != "" && handedOut(e.GetDigest()) {
			return e.GetCommit(), e.GetDigest()
		}
	}
	hub := newest(services).Status.Hub
	return hub.Revision.Commit, hub.Digest
}

// commitOfPart is commitOf for one of several sources. Revisions name the first letters of commits; head is the one
// that the source's ref points to. The status of a commit that was overtaken stays as it was.
func commitOfPart(services []state.Service, part, head string, last store.CommitStatus) (commit, digest string) {
	hub := newest(services).Status.Hub
	revision, digest := hub.Revision, hub.Digest
	for i := range services {
		if s := &services[i]; s.Status.Hub.Problem != nil && s.Followed() != nil {
			revision, digest = s.Followed().Revision, ""
			break
		}
	}
	if digest != "" && slices.ContainsFunc(services, func(s state.Service) bool { return s.Status.Hub.HandsOut(last.Digest) }) {
		return last.Commit, last.Digest
	}
	for one := range strings.SplitSeq(revision.Subject, " · ") {
		if name, short, ok := strings.Cut(one, " "); ok && name == part && short != "" && strings.HasPrefix(head, short) {
			return head, digest
		}
	}
	return "", ""
}

// outcome is the state of services that share a status, in words.
func outcome(services []state.Service) (word, description string) {
	commit := newest(services).Status.Hub.Revision.Commit
	var applied, healthy, failing int
	var why, held string
	for i := range services {
		s := &services[i]
		at := ""
		if len(services) > 1 {
			at = s.Spec.Cluster + ": "
		}
		problem, phase, said := problemOf(s)
		switch {
		case problem != "":
			failing++
			why = cmp.Or(why, at+problem)
		case s.Status.Hub.Revision.Commit != commit:
		case s.Applied():
			if applied++; phase == state.PhaseHealthy {
				healthy++
			}
		case phase == state.PhaseHeld, phase == state.PhaseWaiting, phase == state.PhaseDiffers:
			held = cmp.Or(held, at+said)
		}
	}
	all := len(services)
	switch {
	case failing > 0 && all > 1:
		return statusFailed, fmt.Sprintf("failed on %d/%d: %s", failing, all, why)
	case failing > 0:
		return statusFailed, "failed: " + why
	case healthy == all:
		return statusHealthy, "healthy"
	case applied > 0:
		word, description = statusApplied, fmt.Sprintf("applied on %d/%d", applied, all)
	default:
		word, description = statusFetched, "fetched"
	}
	if held != "" {
		description += "; not applied: " + held
	}
	return word, description
}

// brief leaves the details out of a description.
func brief(description string) string {
	description, _, _ = strings.Cut(description, "; ")
	description, _, _ = strings.Cut(description, ": ")
	return description
}

// problemOf is why a service failed, in words, or else how far its cluster is.
func problemOf(s *state.Service) (problem string, phase state.Phase, said string) {
	switch r := s.Reported(); {
	case s.Status.Hub.Problem != nil:
		return s.Status.Hub.Problem.Message, "", ""
	case s.Status.ConfigProblem != nil && !event.IsFirstRead(s.Status.ConfigProblem.Message):
		return s.Status.ConfigProblem.Message, "", ""
	case r == nil:
		return "", "", ""
	case r.Phase == state.PhaseFailed:
		return cmp.Or(r.Message, "it could not be applied"), r.Phase, ""
	case r.Phase == state.PhaseDegraded:
		return cmp.Or(r.Message, fmt.Sprintf("%s %s healthy", plural.Part(r.ObjectsHealthy, r.ObjectsTotal, "object"), plural.Are(r.ObjectsTotal))), r.Phase, ""
	default:
		return "", r.Phase, cmp.Or(r.Message, string(r.Phase))
	}
}

// statuses sets what is planned, one after another, as hosts ask for. A status that the host refuses holds up no other:
// it is set with the next change.
func (s *sender) statuses(ctx context.Context, t target, plan *statusPlan) (answer string, problem *failure) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for _, is := range plan.set {
		said, refused, err := s.set(ctx, t, is)
		if err == nil {
			answer = said
			plan.done = append(plan.done, is.CommitStatus)
			continue
		}
		f := asFailure(err)
		f.message = t.shown(f.message)
		if !refused {
			return "", f
		}
		f.taken = true
		problem = cmp.Or(problem, f)
	}
	return t.shown(answer), problem
}

// trial sets a status of its own at the newest commit of a service that the sink is for.
func (d *Deliverer) trial(ctx context.Context, v store.View, t target) (is commitStatus, problem *failure, err error) {
	for after := ""; ; {
		rows, err := v.List(ctx, store.KindService, after, readRows)
		if err != nil {
			return is, nil, err
		}
		services, err := d.loadServices(ctx, v, t, rows)
		if err != nil {
			return is, nil, err
		}
		sources, err := d.sourcesOf(ctx, v, services)
		if err != nil {
			return is, nil, err
		}
		for i := range services {
			s := &services[i]
			repository := t.repository(sources[s.Spec.Source].url)
			if repository == "" || s.Followed() == nil || platform.IsCombination(s.Spec.Ref) {
				continue
			}
			name := cmp.Or(t.spec.CommitStatus().Context, defaultContext) + "/test"
			return commitStatus{name: name, link: d.link("/service/" + url.PathEscape(s.Meta.Name)), CommitStatus: store.CommitStatus{
				Repository: repository, Commit: s.Followed().Revision.Commit, State: statusHealthy, Description: "Fairlead can set statuses here.",
			}}, nil, nil
		}
		if len(rows) < readRows {
			return is, failed("there is no commit to try it at: no service that this sink is for has a source at %s of which a commit was fetched", t.address()), nil
		}
		after = rows[len(rows)-1].Name
	}
}
