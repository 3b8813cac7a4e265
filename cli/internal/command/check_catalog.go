package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
	"fairlead.dev/platform/plural"
)

// longOnItsWay is how long a service may be on its way: images are pulled and jobs run within it, as a rule.
const longOnItsWay = 15 * time.Minute

// trouble is what is wrong with a resource, and what is worth a word; empty: nothing is.
type trouble func(manifest.Message) (wrong, warning string)

// checkCatalog looks at what is in the catalog, and at how it is.
func (a *app) checkCatalog(ctx context.Context, h *hub.Hub) []finding {
	v := view{now: a.Now()}
	var findings []finding
	for _, part := range []struct {
		kind kind
		of   trouble
	}{
		{clusterKind(), v.clusterTrouble},
		{sourceKind(), v.sourceTrouble},
		{serviceKind(), v.serviceTrouble},
		{globalServiceKind(), v.globalTrouble},
		{sinkKind(), v.sinkTrouble},
		{backendKind(), v.backendTrouble},
	} {
		all, err := part.kind.readAll(ctx, h)
		if connect.CodeOf(err) == connect.CodePermissionDenied {
			continue // not for this person to look at
		}
		if err != nil {
			return append(findings, wrong(part.kind.plural(), "not known: %v", err))
		}
		well := true
		for _, m := range all {
			about := part.kind.singular() + " " + m.GetMetadata().GetName()
			bad, warning := part.of(m)
			if bad != "" {
				findings = append(findings, wrong(about, "%s", bad))
			}
			if warning != "" {
				findings = append(findings, warn(about, "%s", warning))
			}
			well = well && bad == ""
		}
		if well {
			findings = append(findings, ok(part.kind.plural(), "%d, all well", len(all)))
		}
	}
	return findings
}

func (v view) clusterTrouble(m manifest.Message) (wrong, warning string) {
	c := m.(*consolev1.Cluster)
	if isSet(c.GetStatus().GetLeaveTime()) { // a person wanted the agent to leave
		_, warning = v.clusterState(c)
		return "", warning
	}
	if _, wrong = v.clusterState(c); wrong == "" && c.GetStatus().GetSkew() != "" {
		warning = fmt.Sprintf("its agent is %s", c.GetStatus().GetSkew())
	}
	return wrong, warning
}

func (v view) sourceTrouble(m manifest.Message) (wrong, warning string) {
	s := m.(*consolev1.Source)
	if !sourceFails(s.GetStatus().GetProblem()) {
		return "", ""
	}
	return v.noteText(sourceNote(s)), ""
}

func (v view) serviceTrouble(m manifest.Message) (wrong, warning string) {
	s := m.(*consolev1.Service)
	name, status := s.GetMetadata().GetName(), s.GetStatus()
	state, since := status.GetState(), status.GetStateSince()
	long := isSet(since) && v.now.Sub(since.AsTime()) > longOnItsWay
	guard := status.GetCluster().GetReport().GetGuard()
	switch {
	case guard != nil && state == consolev1.ServiceState_SERVICE_STATE_WAITING:
		wrong = v.sinceText(fmt.Sprintf("waits for a person: %s would be removed. See `fairlead trace service %s`, then `fairlead confirm prune %s %s`",
			plural.Part(guard.GetRemoving(), guard.GetObjectsTotal(), "object"), name, name, guard.GetId()), since)
	case state == consolev1.ServiceState_SERVICE_STATE_FAILED, state == consolev1.ServiceState_SERVICE_STATE_DEGRADED,
		state == consolev1.ServiceState_SERVICE_STATE_UNKNOWN,
		long && (state == consolev1.ServiceState_SERVICE_STATE_PROGRESSING || state == consolev1.ServiceState_SERVICE_STATE_WAITING):
		var parts []string
		for _, n := range serviceNotes(s) {
			parts = append(parts, v.noteText(n))
		}
		wrong = strings.ToLower(stateName(state)) + " " + strings.Join(parts, "; ")
	case status.GetWindows().GetFault() != "":
		wrong = status.GetWindows().GetFault()
	}
	return wrong, v.leverTrouble(s)
}

func (v view) globalTrouble(m manifest.Message) (wrong, warning string) {
	g := m.(*consolev1.GlobalService)
	if n := g.GetStatus().GetHeldBackTotal(); n > 0 {
		wrong = fmt.Sprintf("the guard keeps %s of clusters that are not chosen any more, until somebody confirms it: `fairlead confirm global %s`", plural.Of(n, "service"), g.GetMetadata().GetName())
	}
	return wrong, ""
}

func (v view) sinkTrouble(m manifest.Message) (wrong, warning string) {
	s := m.(*consolev1.Sink)
	if p := s.GetStatus().GetProblem(); p.GetMessage() != "" && !s.GetSpec().GetDisabled() {
		wrong = v.sinceText(p.GetMessage(), p.GetSince())
	}
	if s.GetSpec().GetDisabled() {
		warning = "is disabled: its events are not sent"
	}
	return wrong, warning
}

func (v view) backendTrouble(m manifest.Message) (wrong, warning string) {
	if p := m.(*consolev1.Backend).GetStatus().GetProblem(); p.GetMessage() != "" {
		wrong = v.sinceText(p.GetMessage()+"; services keep the values that they have", p.GetSince())
	}
	return wrong, ""
}

// checkRemovals says whether removals are held because the database was put back.
func checkRemovals(ctx context.Context, h *hub.Hub) []finding {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	is, err := h.Admin.GetRemovals(ctx, &consolev1.GetRemovalsRequest{})
	if err != nil || is.GetId() == "" {
		return nil // for administrators only; whether the console answers is said above
	}
	kept := 0
	for _, c := range is.GetClusters() {
		kept += len(c.GetServices())
	}
	return []finding{wrong("removals", "nothing is removed from clusters (%s): %s %s kept that the catalog does not have. See `fairlead confirm removals`", is.GetReason(), plural.Of(kept, "service"), plural.Are(kept))}
}
