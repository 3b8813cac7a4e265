package check

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/probe"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
)

func TestFindingsOfTheHub(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	a := &app.App{IO: app.IO{Now: func() time.Time { return now }}}
	ago := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }
	alerts := func(list ...*consolev1.HubAlert) []probe.Finding {
		return alertFindings(a, &consolev1.AlertState{Configured: true, Alerts: list})
	}
	for _, tt := range []struct {
		got  []probe.Finding
		want string
	}{
		{[]probe.Finding{databaseFinding(a, &consolev1.DatabaseState{
			Kind: "sqlite", Version: "3.50.4", Bytes: 3 << 19, RoundTrip: durationpb.New(420 * time.Microsecond),
			WriteTime: ago(0), WriteDuration: durationpb.New(12345 * time.Microsecond),
		})}, "ok database: sqlite 3.50.4, 1.5 MiB, answers in 400µs, the last write took 12ms"},
		{
			[]probe.Finding{
				databaseFinding(a, &consolev1.DatabaseState{
					Kind: "postgresql", Problem: "connection refused", Since: ago(5 * time.Minute),
				}),
			},
			"wrong database: postgresql: for 5m: connection refused",
		},
		{
			[]probe.Finding{coordinationFinding(a, &gitcachev1.GetCoordinationResponse{Kind: "memory", Since: ago(0)})},
			"ok coordination: in memory: the hub is one process",
		},
		{
			[]probe.Finding{
				coordinationFinding(a, &gitcachev1.GetCoordinationResponse{
					Kind: "redis", Replica: "gitcache-0", Since: ago(time.Hour),
					RoundTrip: durationpb.New(time.Millisecond),
				}),
			},
			"ok coordination: redis answers gitcache-0 in 1ms, for 60m",
		},
		{
			[]probe.Finding{
				coordinationFinding(a, &gitcachev1.GetCoordinationResponse{
					Kind: "redis", Replica: "gitcache-0", Since: ago(time.Hour), Problem: "redis is full",
				}),
			},
			"wrong coordination: redis, at gitcache-0: for 60m: redis is full",
		},
		{alertFindings(a, nil), ""},
		{alertFindings(a, &consolev1.AlertState{Configured: true, Problem: "away"}), "warn alerts: not known: away"},
		{alerts(), "ok alerts: none fires"},
		{
			alerts(&consolev1.HubAlert{
				Name: "FairleadDown", Severity: "critical", Summary: "it is not there", ActiveTime: ago(time.Minute),
			}, &consolev1.HubAlert{Name: "FairleadSyncSlow", Severity: "warning", Summary: "slow"}),
			"wrong alert FairleadDown: for 60s: it is not there\nwarn alert FairleadSyncSlow: slow",
		},
	} {
		var lines []string
		for _, f := range tt.got {
			kind := "ok"
			switch {
			case f.Wrong:
				kind = "wrong"
			case f.Warns:
				kind = "warn"
			}
			lines = append(lines, kind+" "+f.About+": "+f.Text)
		}
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("got\n%s\nwant\n%s", got, tt.want)
		}
	}
}
