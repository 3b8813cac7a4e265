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
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
)

// checkCondition says how the database is, and which alerts fire. The hub tells it to administrators only; whether its
// services answer is said of each of them.
func checkCondition(ctx context.Context, a *app.App, h *hubclient.Hub) (findings []probe.Finding) {
	// The console gives a database and a Prometheus that hang some seconds each.
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	is, err := h.Admin.GetHub(ctx, &consolev1.GetHubRequest{Condition: true})
	if err != nil {
		return unanswered("database", err)
	}
	if is.GetDatabase() != nil {
		findings = append(findings, databaseFinding(a, is.GetDatabase()))
	}
	return append(findings, alertFindings(a, is.GetAlerts())...)
}

// unanswered is the finding about what the console did not tell; none if the person may not know it.
func unanswered(about string, err error) []probe.Finding {
	if connect.CodeOf(err) == connect.CodePermissionDenied {
		return nil
	}
	return []probe.Finding{probe.Wrong(about, "not known: %v", err)}
}

// checkCoordination says how the gitcaches agree. They tell it to administrators only.
func checkCoordination(ctx context.Context, a *app.App, h *hubclient.Hub) []probe.Finding {
	is, err := app.AskGitcaches(ctx, h, probe.CheckTimeout, func(ctx context.Context, g hubclient.Gitcache) (*gitcachev1.GetCoordinationResponse, error) {
		return g.Shards.GetCoordination(ctx, &gitcachev1.GetCoordinationRequest{})
	})
	if err != nil || !view.IsSet(is.GetSince()) {
		return nil
	}
	return []probe.Finding{coordinationFinding(a, is)}
}

func databaseFinding(a *app.App, is *consolev1.DatabaseState) probe.Finding {
	v := view.View{Now: a.Now()}
	if is.GetProblem() != "" {
		return probe.Wrong("database", "%s: %s", is.GetKind(), v.SinceText(is.GetProblem(), is.GetSince()))
	}
	text := strings.TrimSpace(is.GetKind() + " " + is.GetVersion())
	if is.GetBytes() > 0 {
		text += ", " + table.FormatBytes(is.GetBytes())
	}
	text += fmt.Sprintf(", answers in %s", roundDuration(is.GetRoundTrip().AsDuration()))
	if view.IsSet(is.GetWriteTime()) {
		text += fmt.Sprintf(", the last write took %s", roundDuration(is.GetWriteDuration().AsDuration()))
	}
	return probe.OK("database", "%s", text)
}

func coordinationFinding(a *app.App, is *gitcachev1.GetCoordinationResponse) probe.Finding {
	if is.GetProblem() != "" {
		v := view.View{Now: a.Now()}
		return probe.Wrong("coordination", "%s, at %s: %s", is.GetKind(), is.GetReplica(),
			v.SinceText(is.GetProblem(), is.GetSince()))
	}
	if is.GetKind() == "memory" {
		return probe.OK("coordination", "in memory: the hub is one process")
	}
	return probe.OK("coordination", "%s answers %s in %s, for %s", is.GetKind(), is.GetReplica(),
		roundDuration(is.GetRoundTrip().AsDuration()), table.FormatAge(a.Now(), is.GetSince().AsTime()))
}

func alertFindings(a *app.App, is *consolev1.AlertState) (findings []probe.Finding) {
	switch {
	case !is.GetConfigured():
		return nil
	case is.GetProblem() != "":
		return []probe.Finding{probe.Warn("alerts", "not known: %s", is.GetProblem())}
	case len(is.GetAlerts()) == 0:
		return []probe.Finding{probe.OK("alerts", "none fires")}
	}
	v := view.View{Now: a.Now()}
	for _, alert := range is.GetAlerts() {
		say := probe.Warn
		if alert.GetSeverity() == "critical" {
			say = probe.Wrong
		}
		findings = append(findings, say("alert "+alert.GetName(), "%s", v.SinceText(alert.GetSummary(), alert.GetActiveTime())))
	}
	return findings
}

// roundDuration returns a duration as a person reads it.
func roundDuration(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
