package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/manifest"
	"fairlead.dev/platform/plural"
)

// deliveryStep is whether the cluster's agent asks for work.
func (t *trail) deliveryStep() step {
	name, c := t.service.GetSpec().GetCluster(), t.cluster
	s := step{name: "DELIVERY", mark: markOK}
	if spec := t.service.GetSpec(); spec.GetCatalog() {
		s.addLine("to the catalog, with the rights of service account %s", spec.GetServiceAccount())
		return s
	}
	if c == nil {
		s.mark = markNone
		s.addLine("nothing is known of cluster %s (%s)", name, t.noCluster)
		return s
	}
	status := c.GetStatus()
	state, message := t.view.clusterState(c)
	line := fmt.Sprintf("cluster %s, %s", name, strings.ToLower(state))
	if seen := t.agoText(status.GetLastSeenTime()); seen != "" {
		line += ", seen " + seen
	}
	if next := status.GetNextPollTime(); isSet(next) {
		if next.AsTime().After(t.now) {
			line += fmt.Sprintf(", asks %s or when it is nudged", t.untilText(next))
		} else if !status.GetConnected() {
			line += ", should have asked " + t.agoText(next)
		}
	}
	s.addLine("%s", line)
	if status.GetAgentVersion() != "" {
		s.addLine("agent %s, Kubernetes %s", status.GetAgentVersion(), cmp.Or(status.GetKubernetesVersion(), "not known"))
	}
	if status.GetSkew() != "" {
		s.addLine("the agent is %s", status.GetSkew())
	}
	if message == "" {
		return s
	}
	s.mark, s.cause, s.since = markFail, fmt.Sprintf("cluster %s is not connected", name), status.GetLastSeenTime()
	s.next = "see that its agent runs and reaches the hub: its log says why it does not"
	if left := status.GetLeaveTime(); isSet(left) {
		s.cause, s.since = fmt.Sprintf("cluster %s has left", name), left
		s.next = fmt.Sprintf("`fairlead cluster join-token %s` lets an agent join again", name)
		return s
	}
	if !isSet(status.GetJoinTime()) {
		s.mark, s.cause, s.since = markWait, fmt.Sprintf("no agent has joined cluster %s", name), c.GetMetadata().GetCreateTime()
		s.next = fmt.Sprintf("run `fairlead cluster join-token %s`", name)
	}
	return s
}

// clusterStep is what the cluster said last. If it is not connected nobody knows whether it still holds.
func (t *trail) clusterStep() step {
	hub, truth := t.service.GetStatus().GetHub(), t.service.GetStatus().GetCluster()
	r := truth.GetReport()
	s := step{name: "CLUSTER", mark: markWait, since: r.GetObservedTime()}
	things := "objects"
	if t.service.GetSpec().GetCatalog() {
		s.name, things = "CATALOG", "resources"
	}
	if r == nil {
		s.since = hub.GetResolveTime()
		s.cause, s.next = fmt.Sprintf("the %s has not reported on it yet", strings.ToLower(s.name)), t.lookHint()
		s.addLine("has not reported on it yet")
		return s
	}
	said := fmt.Sprintf("%s, %d of %d %s are healthy", manifest.Short(r.GetPhase()), r.GetObjectsHealthy(), r.GetObjectsTotal(), things)
	s.addLine("%s", t.sinceText(said, r.GetObservedTime()))
	if r.GetAppliedDigest() != "" {
		s.addLine("applied: %s", t.truthText(r.GetAppliedDigest(), appliedCommit(r), r.GetAppliedTime(), "", nil))
	}
	if r.GetMessage() != "" {
		s.addLine("%s", r.GetMessage())
	}
	s.objects = append(slices.Clone(r.GetObjects()), guardedObjects(r.GetGuard())...)
	t.judgeReport(&s, hub, r)
	if c := t.cluster; c != nil && !c.GetStatus().GetConnected() {
		s.mark = markNone
		s.addLine("said %s; not connected since, so nobody knows", cmp.Or(t.agoText(truth.GetReceiveTime()), "once"))
	}
	return s
}

// judgeReport marks what a cluster says about what the hub hands out.
func (t *trail) judgeReport(s *step, hub *consolev1.HubTruth, r *deliveryv1.ServiceReport) {
	failed := r.GetPhase() == deliveryv1.Phase_PHASE_FAILED || r.GetPhase() == deliveryv1.Phase_PHASE_DEGRADED
	switch {
	case r.GetDigest() != hub.GetDigest():
		s.cause, s.next, s.since = fmt.Sprintf("the %s has not taken %s in yet", strings.ToLower(s.name),
			shortHash(hub.GetRevision().GetCommit())), t.lookHint(), hub.GetResolveTime()
		s.addLine("%s", s.cause)
	case failed:
		s.mark = markFail
		s.cause = cmp.Or(r.GetMessage(), firstObject(r), fmt.Sprintf("%s %s healthy",
			plural.Part(r.GetObjectsHealthy(), r.GetObjectsTotal(), "object"), plural.Are(r.GetObjectsTotal())))
		s.next = fmt.Sprintf("put it right in %s of source %s and push, or %s", folderPath(t.service), catalog.SourceOf(t.service.GetSpec()), t.lookInto())
	case r.GetPhase() == deliveryv1.Phase_PHASE_HEALTHY && r.GetAppliedDigest() == hub.GetDigest():
		s.mark = markOK
	default:
		s.cause, s.next = cmp.Or(r.GetMessage(), manifest.Short(r.GetPhase())+" still"), t.lookHint()
		name := t.service.GetMetadata().GetName()
		switch {
		case r.GetPhase() == deliveryv1.Phase_PHASE_HELD, r.GetPhase() == deliveryv1.Phase_PHASE_DIFFERS:
			s.next = fmt.Sprintf("`fairlead diff service %s` shows what waits, `fairlead resume service %s` ends a hold of the hub", name, name)
		case r.GetGuard() != nil:
			s.next = fmt.Sprintf("`fairlead confirm prune %s %s`, or put the manifests back and push", name, r.GetGuard().GetId())
		}
	}
}

// testsStep is how the latest run of the tests went. A failure from before something newer came is reported, and stops
// nothing.
func (t *trail) testsStep() step {
	tests, name := t.service.GetStatus().GetCluster().GetReport().GetTests(), t.service.GetMetadata().GetName()
	s := step{name: "TESTS", mark: markOK, since: cmp.Or(tests.GetEndTime(), tests.GetStartTime())}
	s.addLine("%s", t.sinceText("run "+tests.GetId()+" "+summarizeTests(tests), s.since))
	if !ofCurrent(t.service, tests) {
		s.addLine("with what was handed out before")
		return s
	}
	if s.cause = failedTests(t.service); s.cause != "" {
		s.mark, s.next = markFail, fmt.Sprintf("see `fairlead test results service %s`", name)
	}
	return s
}

// guardedObjects lists what a guard keeps from being removed.
func guardedObjects(g *deliveryv1.Guard) []*deliveryv1.ObjectReport {
	var list []*deliveryv1.ObjectReport
	for _, o := range g.GetSample() {
		list = append(list, &deliveryv1.ObjectReport{
			Group: o.GetGroup(), Version: o.GetVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(),
			Name: o.GetName(), Health: "Guarded", Message: "would be removed",
		})
	}
	return list
}

// firstObject is what is wrong with the first object that is not healthy.
func firstObject(r *deliveryv1.ServiceReport) string {
	for _, o := range r.GetObjects() {
		return strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", objectName(o), strings.ToLower(o.GetHealth()), o.GetMessage()), ": ")
	}
	return ""
}

func (t *trail) lookHint() string { return "wait, or " + t.lookInto() }

func (t *trail) lookInto() string {
	if t.service.GetSpec().GetCatalog() {
		return fmt.Sprintf("look at what happened: fairlead history service %s", t.service.GetMetadata().GetName())
	}
	return fmt.Sprintf("look into the cluster: fairlead kubeconfig %s", t.service.GetSpec().GetCluster())
}

func folderPath(s *consolev1.Service) string {
	if s.GetSpec().GetPath() == "" {
		return "the root"
	}
	return fmt.Sprintf("%q", s.GetSpec().GetPath())
}

// verdictText says where the service stands, and what to do next. The first step that failed is the cause of the failures
// after it.
func (t *trail) verdictText(steps []step) string {
	for _, m := range []mark{markFail, markWait} {
		for _, s := range steps {
			if s.mark == m && s.cause != "" {
				return t.describeStep(s)
			}
		}
	}
	runs := fmt.Sprintf("%s runs in cluster %s and is healthy",
		shortHash(appliedCommit(t.service.GetStatus().GetCluster().GetReport())), t.service.GetSpec().GetCluster())
	if t.service.GetSpec().GetCatalog() {
		runs = shortHash(appliedCommit(t.service.GetStatus().GetCluster().GetReport())) + " is in the catalog"
	}
	for _, s := range steps {
		switch s.mark {
		case markStale:
			return runs + "; but " + t.describeStep(s)
		case markNone:
			return fmt.Sprintf("%s; but nobody answers for %s. Next: run `fairlead check`.", runs, s.name)
		}
	}
	for _, s := range steps {
		if s.mark == markHeld {
			return fmt.Sprintf("%s; but it is %s. Next: %s.", runs, s.cause, s.next)
		}
	}
	return runs + ": nothing to do."
}

func (t *trail) describeStep(s step) string {
	lasting := ""
	if isSet(s.since) {
		lasting = " for " + table.FormatAge(t.now, s.since.AsTime())
	}
	verb := "it stands at"
	if s.mark == markStale {
		verb = "nothing newer comes from"
	}
	return fmt.Sprintf("%s %s%s: %s. Next: %s.", verb, s.name, lasting, strings.TrimSuffix(s.cause, "."), s.next)
}
