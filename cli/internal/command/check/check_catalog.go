package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/probe"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/plural"
)

// longOnItsWay is how long a service may be on its way: images are pulled and jobs run within it, as a rule.
const longOnItsWay = 15 * time.Minute

// oldHold is from when on a lever is worth a word in a check: an incident is over by then, or the lever is forgotten.
const oldHold = 24 * time.Hour

// trouble is what is wrong with a resource, and what is worth a word; empty: nothing is.
type trouble func(view.View, catalogyaml.Message) (wrong, warning string)

// checkCatalog looks at what is in the catalog, and at how it is. away says that the console does not answer any more.
func checkCatalog(ctx context.Context, a *app.App, h *hubclient.Hub) (findings []probe.Finding, away bool) {
	v := view.View{Now: a.Now()}
	for _, part := range []struct {
		Kind resource.Kind
		of   trouble
	}{
		{resource.ClusterKind(), clusterTrouble},
		{resource.SourceKind(), sourceTrouble},
		{resource.ServiceKind(), serviceTrouble},
		{resource.GlobalServiceKind(), globalTrouble},
		{resource.SinkKind(), sinkTrouble},
		{resource.BackendKind(), backendTrouble},
	} {
		all, err := part.Kind.ReadAll(ctx, h)
		if connect.CodeOf(err) == connect.CodePermissionDenied {
			continue // not for this person to look at
		}
		if err != nil {
			return append(findings, probe.Wrong(part.Kind.Plural(), "not known: %v", err)), hubclient.IsAway(err)
		}
		well := true
		for _, m := range all {
			about := part.Kind.Singular() + " " + m.GetMetadata().GetName()
			bad, warning := part.of(v, m)
			if bad != "" {
				findings = append(findings, probe.Wrong(about, "%s", bad))
			}
			if warning != "" {
				findings = append(findings, probe.Warn(about, "%s", warning))
			}
			well = well && bad == ""
		}
		if well {
			findings = append(findings, probe.OK(part.Kind.Plural(), "%d, all well", len(all)))
		}
	}
	return findings, false
}

func clusterTrouble(v view.View, m catalogyaml.Message) (wrong, warning string) {
	c := m.(*consolev1.Cluster)
	if view.IsSet(c.GetStatus().GetLeaveTime()) { // a person wanted the agent to leave
		_, warning = v.ClusterState(c)
		return "", warning
	}
	if _, wrong = v.ClusterState(c); wrong == "" && c.GetStatus().GetSkew() != "" {
		warning = fmt.Sprintf("its agent is %s", c.GetStatus().GetSkew())
	}
	return wrong, warning
}

func sourceTrouble(v view.View, m catalogyaml.Message) (wrong, warning string) {
	s := m.(*consolev1.Source)
	if !view.SourceFails(s.GetStatus().GetProblem()) {
		return "", ""
	}
	return v.NoteText(view.SourceNote(s)), ""
}

func serviceTrouble(v view.View, m catalogyaml.Message) (wrong, warning string) {
	s := m.(*consolev1.Service)
	name, status := s.GetMetadata().GetName(), s.GetStatus()
	state, since := status.GetState(), status.GetStateSince()
	long := view.IsSet(since) && v.Now.Sub(since.AsTime()) > longOnItsWay
	guard := status.GetCluster().GetReport().GetGuard()
	switch {
	case guard != nil && state == consolev1.ServiceState_SERVICE_STATE_WAITING:
		wrong = v.SinceText(fmt.Sprintf("waits for a person: %s would be removed. See `fairlead trace service %s`, then `fairlead confirm prune %s %s`",
			plural.Part(guard.GetRemoving(), guard.GetObjectsTotal(), "object"), name, name, guard.GetId()), since)
	case state == consolev1.ServiceState_SERVICE_STATE_FAILED, state == consolev1.ServiceState_SERVICE_STATE_DEGRADED,
		state == consolev1.ServiceState_SERVICE_STATE_UNKNOWN,
		long && (state == consolev1.ServiceState_SERVICE_STATE_PROGRESSING ||
			state == consolev1.ServiceState_SERVICE_STATE_WAITING):
		var parts []string
		for _, n := range view.ServiceNotes(s) {
			parts = append(parts, v.NoteText(n))
		}
		wrong = strings.ToLower(view.StateName(state)) + " " + strings.Join(parts, "; ")
	case status.GetWindows().GetFault() != "":
		wrong = status.GetWindows().GetFault()
	}
	return wrong, leverTrouble(v, s)
}

func globalTrouble(v view.View, m catalogyaml.Message) (wrong, warning string) {
	g := m.(*consolev1.GlobalService)
	if n := g.GetStatus().GetHeldBackTotal(); n > 0 {
		wrong = v.SinceText(fmt.Sprintf("the guard keeps %s of clusters that are not chosen any more, until somebody confirms it: `fairlead confirm global %s`",
			plural.Of(n, "service"), g.GetMetadata().GetName()), g.GetStatus().GetHeldBackSince())
	}
	return wrong, ""
}

func sinkTrouble(v view.View, m catalogyaml.Message) (wrong, warning string) {
	s := m.(*consolev1.Sink)
	if p := s.GetStatus().GetProblem(); p.GetMessage() != "" && !s.GetSpec().GetDisabled() {
		wrong = v.SinceText(p.GetMessage(), p.GetSince())
	}
	if s.GetSpec().GetDisabled() {
		warning = "is disabled: its events are not sent"
	}
	return wrong, warning
}

func backendTrouble(v view.View, m catalogyaml.Message) (wrong, warning string) {
	if p := m.(*consolev1.Backend).GetStatus().GetProblem(); p.GetMessage() != "" {
		wrong = v.SinceText(p.GetMessage()+"; services keep the values that they have", p.GetSince())
	}
	return wrong, ""
}

// checkRemovals says whether removals are held because the database was put back. The hub tells it to administrators
// only.
func checkRemovals(ctx context.Context, h *hubclient.Hub) []probe.Finding {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	is, err := h.Admin.GetRemovals(ctx, &consolev1.GetRemovalsRequest{})
	if err != nil {
		return unanswered("removals", err)
	}
	if is.GetId() == "" {
		return nil
	}
	kept := 0
	for _, c := range is.GetClusters() {
		kept += len(c.GetServices())
	}
	return []probe.Finding{probe.Wrong("removals",
		"nothing is removed from clusters (%s): %s %s kept that the catalog does not have. See `fairlead confirm removals`", is.GetReason(), plural.Of(kept, "service"), plural.Are(kept))}
}

// leverTrouble is what a check says of a service's levers: pins, and holds that are older than a day.
func leverTrouble(v view.View, s *consolev1.Service) string {
	var texts []string
	for _, p := range view.ListPulled(s) {
		since := p.SinceTime()
		switch p.Word {
		case "pinned", "rolled back":
		case "resumed", "released":
			continue
		default:
			if p.Lever == nil || view.IsSet(since) && v.Now.Sub(since.AsTime()) < oldHold {
				continue
			}
		}
		texts = append(texts, v.SinceText(v.DescribePulled(p), since))
	}
	return strings.Join(texts, "; ")
}
