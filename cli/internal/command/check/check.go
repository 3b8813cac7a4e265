package check

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/probe"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/version"
)

const (
	// tokenShort is when a token's end is worth a word: commands renew it long before.
	tokenShort = time.Hour
	// certificateShort is when a certificate's end is worth a word: what renews them does so long before.
	certificateShort = 14 * 24 * time.Hour
)

func checkCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check that the hub is reachable and well, and what is wrong otherwise",
		Long: `Check that every service of the hub is reachable and ready, that your token is good, that clusters are
connected, that sources can be fetched, sinks take events and backends can be read, and that services are as Git says. A
service is wrong that failed, waits for a person, or is on its way for more than 15 minutes. Administrators also see how
database and Redis answer, and, if the console has a Prometheus (--prometheus-url), which alerts fire: a critical alert is
wrong. The exit code is 1 if something is wrong.

Warnings are no fault: pins and rollbacks, holds that are older than a day, services of the hub, agents and this command in other versions,
certificates that end within two weeks, and disks that are nearly full.`,
		Args: app.WantArgs(0, 0),
		RunE: a.HubCommand(func(ctx context.Context, h *hubclient.Hub, _ []string) error { return runChecks(ctx, a, h) }),
	}
}

func runChecks(ctx context.Context, a *app.App, h *hubclient.Hub) error {
	l := checklist{app: a}
	l.add(probe.OK("client", "%s", version.String()))
	token, away := checkToken(ctx, a, h)
	l.add(token)
	services := probe.CheckServices(ctx, h)
	l.add(services...)
	l.add(checkVersions(services)...)
	l.add(checkCertificates(a, services)...)
	if away {
		l.add(probe.Wrong("catalog", "not asked: the console does not answer"))
	} else if catalog, away := checkCatalog(ctx, a, h); away {
		l.add(catalog...)
	} else {
		l.add(catalog...)
		l.add(checkRemovals(ctx, h)...)
		l.add(checkCondition(ctx, a, h)...)
	}
	l.add(checkCoordination(ctx, a, h)...)
	return l.result()
}

// checklist prints findings as they come.
type checklist struct {
	app        *app.App
	total, bad int
	failed     error // of a write
}

func (l *checklist) add(findings ...probe.Finding) {
	for _, f := range findings {
		mark := "ok  "
		switch {
		case f.Wrong:
			mark = "FAIL"
			l.bad++
		case f.Warns:
			mark = "warn"
		}
		l.total++
		if l.failed == nil {
			l.failed = l.app.Printf("%s  %s: %s\n", mark, f.About, table.CleanLine(f.Text))
		}
	}
}

func (l *checklist) result() error {
	if l.failed == nil && l.bad > 0 {
		return fmt.Errorf("%d of %d checks failed", l.bad, l.total)
	}
	return l.failed
}

// checkToken asks the hub, which knows of a token that was revoked, and of one that is in no context. away says that
// the console did not answer.
func checkToken(ctx context.Context, a *app.App, h *hubclient.Hub) (token probe.Finding, away bool) {
	ctx, cancel := context.WithTimeout(ctx, probe.CheckTimeout)
	defer cancel()
	is, err := h.Access.GetCaller(ctx, &consolev1.GetCallerRequest{})
	if err != nil {
		return probe.Wrong("token", "%v", err), hubclient.IsAway(err)
	}
	about := "token of " + is.GetSubject()
	if !view.IsSet(is.GetExpireTime()) {
		return probe.OK(about, "valid without an end"), false
	}
	ends := is.GetExpireTime().AsTime()
	if ends.Sub(a.Now()) < tokenShort && h.Context.Name != hubclient.FromEnvironment {
		return probe.OK(about, "valid for %s only, and could not be renewed", table.FormatAge(ends, a.Now())), false
	}
	return probe.OK(about, "valid until %s", ends.Local().Format(time.DateTime)), false
}

// checkVersions says which services of the hub are of another version than the first one, and whether this command is.
func checkVersions(services []probe.Finding) (out []probe.Finding) {
	first := ""
	for _, s := range services {
		switch {
		case s.Version == "":
		case first == "":
			if first = s.Version; first != version.String() {
				out = append(out, probe.Warn("client", "is %s, and the hub is %s: get the command of that version", version.String(), first))
			}
		case s.Version != first:
			out = append(out, probe.Warn(s.About, "is version %s, and the console is %s: finish the upgrade", s.Version, first))
		}
	}
	return out
}

// checkCertificates says which certificates end soon.
func checkCertificates(a *app.App, services []probe.Finding) (out []probe.Finding) {
	for _, s := range services {
		if left := s.Ends.Sub(a.Now()); !s.Ends.IsZero() && left < certificateShort {
			out = append(out, probe.Warn(s.About, "its certificate ends in %s, at %s: renew it", table.FormatAge(s.Ends, a.Now()), s.Ends.Local().Format(time.DateTime)))
		}
	}
	return out
}
