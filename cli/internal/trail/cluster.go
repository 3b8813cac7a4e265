package trail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/plural"
)

// deliveryStep is whether the cluster's agent asks for work.
func (t *Trail) deliveryStep() step {
	name, c := t.Service.GetSpec().GetCluster(), t.Cluster
	s := step{Name: "DELIVERY", Mark: markOK}
	if spec := t.Service.GetSpec(); spec.GetCatalog() {
		s.addLine("to the catalog, with the rights of service account %s", spec.GetServiceAccount())
		return s
	}
	if c == nil {
		s.Mark = markNone
		s.addLine("nothing is known of cluster %s (%s)", name, t.noCluster)
		if t.hiddenCluster {
			s.lackGrant("cluster " + name)
		}
		return s
	}
	status := c.GetStatus()
	state, message := t.ClusterState(c)
	line := fmt.Sprintf("cluster %s, %s", name, strings.ToLower(state))
	if seen := t.AgoText(status.GetLastSeenTime()); seen != "" {
		line += ", seen " + seen
	}
	if next := status.GetNextPollTime(); view.IsSet(next) {
		if next.AsTime().After(t.Now) {
			line += fmt.Sprintf(", asks %s or when it is nudged", t.UntilText(next))
		} else if !status.GetConnected() {
			line += ", should have asked " + t.AgoText(next)
		}
	}
	s.addLine("%s", line)
	if status.GetAgentVersion() != "" {
		s.addLine("agent %s, Kubernetes %s", status.GetAgentVersion(),
			cmp.Or(status.GetKubernetesVersion(), "not known"))
	}
	if status.GetSkew() != "" {
		s.addLine("the agent is %s", status.GetSkew())
	}
	if message == "" {
		return s
	}
	if status.GetConnected() {
		s.addLine("%s", message)
		if problem := status.GetClusterProblem(); problem != "" {
			s.Mark, s.cause = markFail, fmt.Sprintf("the agent can do nothing in cluster %s (%s)", name, problem)
			s.next = "see how its API server is, and what the agent's log says"
		}
		return s
	}
	s.Mark, s.cause, s.since = markFail, fmt.Sprintf("cluster %s is not connected", name), status.GetLastSeenTime()
	s.next = "see that its agent runs and reaches the hub: its log says why it does not"
	if left := status.GetLeaveTime(); view.IsSet(left) {
		s.cause, s.since = fmt.Sprintf("cluster %s has left", name), left
		s.next = fmt.Sprintf("`fairlead cluster join-token %s` lets an agent join again", name)
		return s
	}
	if !view.IsSet(status.GetJoinTime()) {
		s.Mark, s.cause, s.since = markWait, fmt.Sprintf("no agent has joined cluster %s", name),
			c.GetMetadata().GetCreateTime()
		s.next = fmt.Sprintf("run `fairlead cluster join-token %s`", name)
	}
	return s
}

// clusterStep is what the cluster said last. If it is not connected nobody knows whether it still holds.
func (t *Trail) clusterStep() step {
	hub, truth := t.Service.GetStatus().GetHub(), t.Service.GetStatus().GetCluster()
	r := truth.GetReport()
	s := step{Name: "CLUSTER", Mark: markWait, since: r.GetObservedTime()}
	things := "objects"
	if t.Service.GetSpec().GetCatalog() {
		s.Name, things = "CATALOG", "resources"
	}
	if r == nil {
		s.since = hub.GetResolveTime()
		s.cause, s.next = fmt.Sprintf("the %s has not reported on it yet", strings.ToLower(s.Name)), t.lookHint()
		s.addLine("has not reported on it yet")
		return s
	}
	said := fmt.Sprintf("%s, %d of %d %s are healthy", catalogyaml.Short(r.GetPhase()), r.GetObjectsHealthy(),
		r.GetObjectsTotal(), things)
	s.addLine("%s", t.SinceText(said, r.GetObservedTime()))
	if r.GetAppliedDigest() != "" {
		s.addLine("applied: %s", t.TruthText(r.GetAppliedDigest(), view.RunningCommit(t.Service.GetStatus()), r.GetAppliedTime(), "", nil))
	}
	if r.GetMessage() != "" {
		s.addLine("%s", r.GetMessage())
	}
	s.objects = append(slices.Clone(r.GetObjects()), guardedObjects(r.GetGuard())...)
	t.judgeReport(&s, hub, r)
	if c := t.Cluster; c != nil && !c.GetStatus().GetConnected() {
		s.Mark = markNone
		s.addLine("said %s; not connected since, so nobody knows", cmp.Or(t.AgoText(truth.GetReceiveTime()), "once"))
	}
	return s
}

// judgeReport marks what a cluster says about what the hub hands out.
func (t *Trail) judgeReport(s *step, hub *consolev1.HubTruth, r *deliveryv1.ServiceReport) {
	failed := r.GetPhase() == deliveryv1.Phase_PHASE_FAILED || r.GetPhase() == deliveryv1.Phase_PHASE_DEGRADED
	switch {
	case r.GetDigest() != hub.GetDigest():
		s.cause, s.next, s.since = fmt.Sprintf("the %s has not taken %s in yet", strings.ToLower(s.Name),
			view.ShortHash(hub.GetRevision().GetCommit())), t.lookHint(), hub.GetResolveTime()
		s.addLine("%s", s.cause)
	case failed:
		s.Mark = markFail
		s.cause = cmp.Or(r.GetMessage(), firstObject(r), fmt.Sprintf("%s %s healthy",
			plural.Part(r.GetObjectsHealthy(), r.GetObjectsTotal(), "object"), plural.Are(r.GetObjectsTotal())))
		s.next = t.nextOfFailure(r)
	case r.GetPhase() == deliveryv1.Phase_PHASE_HEALTHY && r.GetAppliedDigest() == hub.GetDigest():
		s.Mark = markOK
	default:
		s.cause, s.next = cmp.Or(r.GetMessage(), catalogyaml.Short(r.GetPhase())+" still"), t.lookHint()
		name := t.Service.GetMetadata().GetName()
		if next := t.nextOfHold(r); next != "" {
			s.next = next
		}
		if r.GetGuard() != nil {
			s.next = fmt.Sprintf("`fairlead confirm prune %s %s`, or put the manifests back and push", name,
				r.GetGuard().GetId())
		}
	}
}

// nextOfFailure returns the step after a failure. The report of a degraded service says what is wrong, and a push fixes
// it. The report of a failed apply ends with an advice: to push, to do something else, or none but that the agent tries
// it again. A folder whose service account lacks a right needs a grant and no push.
func (t *Trail) nextOfFailure(r *deliveryv1.ServiceReport) string {
	message := r.GetMessage()
	degraded := r.GetPhase() == deliveryv1.Phase_PHASE_DEGRADED
	if grant := access.LackedGrant(message); grant != "" && t.Service.GetSpec().GetCatalog() {
		return fmt.Sprintf("an administrator can add %s for service account %s with `fairlead apply`, and the folder "+
			"is tried again by itself, or %s", grant, t.Service.GetSpec().GetServiceAccount(), t.lookInto())
	}
	if degraded || t.Service.GetSpec().GetCatalog() || message == "" || strings.Contains(message, "and push") {
		return fmt.Sprintf("put it right in %s of source %s and push, or %s",
			folderPath(t.Service), catalog.SourceOf(t.Service.GetSpec()), t.lookInto())
	}
	before, _, again := strings.Cut(message, "It is tried again")
	if advised := strings.Contains(strings.TrimSpace(before), ". "); again && !advised {
		return t.lookHint()
	}
	return "do as the message says, or " + t.lookInto()
}

// testsStep is how the latest run of the tests went. A failure from before something newer came is reported, and stops
// nothing.
func (t *Trail) testsStep() step {
	tests, name := t.Service.GetStatus().GetCluster().GetReport().GetTests(), t.Service.GetMetadata().GetName()
	s := step{Name: "TESTS", Mark: markOK, since: cmp.Or(tests.GetEndTime(), tests.GetStartTime())}
	s.addLine("%s", t.SinceText("run "+tests.GetId()+" "+view.SummarizeTests(tests), s.since))
	if !view.OfCurrent(t.Service, tests) {
		s.addLine("with what was handed out before")
		return s
	}
	if s.cause = view.FailedTests(t.Service); s.cause != "" {
		s.Mark, s.next = markFail, fmt.Sprintf("see `fairlead test results service %s`", name)
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
		return strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", view.ObjectName(o), strings.ToLower(o.GetHealth()), o.GetMessage()), ": ")
	}
	return ""
}

func (t *Trail) lookHint() string { return "wait, or " + t.lookInto() }

func (t *Trail) lookInto() string {
	if t.Service.GetSpec().GetCatalog() {
		return fmt.Sprintf("look at what happened: fairlead history service %s", t.Service.GetMetadata().GetName())
	}
	return fmt.Sprintf("look into the cluster: fairlead kubeconfig %s", t.Service.GetSpec().GetCluster())
}

func folderPath(s *consolev1.Service) string {
	if s.GetSpec().GetPath() == "" {
		return "the root"
	}
	return fmt.Sprintf("%q", s.GetSpec().GetPath())
}

// VerdictText says where the service stands, and what to do next. The first step that failed is the cause of the
// failures after it.
func (t *Trail) VerdictText(steps []step) string {
	for _, m := range []mark{markFail, markWait} {
		for _, s := range steps {
			if s.Mark == m && s.cause != "" {
				return t.describeStep(s)
			}
		}
	}
	commit := view.ShortHash(view.RunningCommit(t.Service.GetStatus()))
	runs := fmt.Sprintf("%s runs in cluster %s and is healthy", commit, t.Service.GetSpec().GetCluster())
	if t.Service.GetSpec().GetCatalog() {
		runs = commit + " is in the catalog"
	}
	for _, s := range steps {
		switch s.Mark {
		case markStale:
			return runs + "; but " + t.describeStep(s)
		case markNone:
			if s.cause != "" {
				return fmt.Sprintf("%s; but %s. Next: %s.", runs, s.cause, s.next)
			}
			return fmt.Sprintf("%s; but nobody answers for %s. Next: run `fairlead check`.", runs, s.Name)
		}
	}
	for _, s := range steps {
		if s.Mark == markHeld {
			return fmt.Sprintf("%s; but it is %s. Next: %s.", runs, s.cause, s.next)
		}
	}
	return runs + ": nothing to do."
}

func (t *Trail) describeStep(s step) string {
	lasting := ""
	if view.IsSet(s.since) {
		lasting = " for " + table.FormatAge(t.Now, s.since.AsTime())
	}
	verb := "it stands at"
	if s.Mark == markStale {
		verb = "nothing newer comes from"
	}
	return fmt.Sprintf("%s %s%s: %s. Next: %s.", verb, s.Name, lasting, strings.TrimSuffix(s.cause, "."), s.next)
}
