package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
)

// checkHub says how the database is, how the gitcaches agree, and which alerts fire. The hub tells it to administrators only; whether its services answer
// is said of each of them.
func (a *app) checkHub(ctx context.Context, h *hub.Hub) (findings []finding) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if is, err := h.Admin.GetHub(ctx, &consolev1.GetHubRequest{Condition: true}); err == nil {
		if is.GetDatabase() != nil {
			findings = append(findings, a.databaseFinding(is.GetDatabase()))
		}
		findings = append(findings, a.alertFindings(is.GetAlerts())...)
	}
	is, err := atGitcache(ctx, h, checkTimeout, func(ctx context.Context, g hub.Gitcache) (*gitcachev1.GetCoordinationResponse, error) {
		return g.Shards.GetCoordination(ctx, &gitcachev1.GetCoordinationRequest{})
	})
	if err == nil && isSet(is.GetSince()) {
		findings = append(findings, a.coordinationFinding(is))
	}
	return findings
}

func (a *app) databaseFinding(is *consolev1.DatabaseState) finding {
	v := view{now: a.Now()}
	if is.GetProblem() != "" {
		return wrong("database", "%s: %s", is.GetKind(), v.sinceText(is.GetProblem(), is.GetSince()))
	}
	text := strings.TrimSpace(is.GetKind() + " " + is.GetVersion())
	if is.GetBytes() > 0 {
		text += ", " + table.FormatBytes(is.GetBytes())
	}
	text += fmt.Sprintf(", answers in %s", roundDuration(is.GetRoundTrip().AsDuration()))
	if isSet(is.GetWriteTime()) {
		text += fmt.Sprintf(", the last write took %s", roundDuration(is.GetWriteDuration().AsDuration()))
	}
	return ok("database", "%s", text)
}

func (a *app) coordinationFinding(is *gitcachev1.GetCoordinationResponse) finding {
	if is.GetProblem() != "" {
		v := view{now: a.Now()}
		return wrong("coordination", "%s, at %s: %s", is.GetKind(), is.GetReplica(), v.sinceText(is.GetProblem(), is.GetSince()))
	}
	if is.GetKind() == "memory" {
		return ok("coordination", "in memory: the hub is one process")
	}
	return ok("coordination", "%s answers %s in %s, for %s", is.GetKind(), is.GetReplica(),
		roundDuration(is.GetRoundTrip().AsDuration()), table.FormatAge(a.Now(), is.GetSince().AsTime()))
}

func (a *app) alertFindings(is *consolev1.AlertState) (findings []finding) {
	switch {
	case !is.GetConfigured():
		return nil
	case is.GetProblem() != "":
		return []finding{warn("alerts", "not known: %s", is.GetProblem())}
	case len(is.GetAlerts()) == 0:
		return []finding{ok("alerts", "none fires")}
	}
	v := view{now: a.Now()}
	for _, alert := range is.GetAlerts() {
		say := warn
		if alert.GetSeverity() == "critical" {
			say = wrong
		}
		findings = append(findings, say("alert "+alert.GetName(), "%s", v.sinceText(alert.GetSummary(), alert.GetActiveTime())))
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
