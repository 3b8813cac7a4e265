package audit_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

const listAudit = consolev1connect.AuditServiceListAuditEventsProcedure

// trail has a request to a cluster, and before that a login: the hub tells the newest first, on two pages.
func trail() []hubtest.Answer {
	pages := func(req *consolev1.ListAuditEventsRequest) (*consolev1.ListAuditEventsResponse, error) {
		if req.GetPageToken() == "" {
			return &consolev1.ListAuditEventsResponse{NextPageToken: "2", Events: []*consolev1.AuditEvent{{
				Id: "2", Time: clitest.Before(time.Minute), Actor: &consolev1.AuditActor{Kind: "user", Name: "kim"},
				Action: "tunnel.request", Verb: "get", Resource: "pods", Name: "web-0", Namespace: "shop", Cluster: "edge-1",
				Code: 200, Duration: durationpb.New(12 * time.Millisecond), BytesSent: 2048,
			}}}, nil
		}
		return &consolev1.ListAuditEventsResponse{Events: []*consolev1.AuditEvent{{
			Id: "1", Time: clitest.Before(time.Hour), Actor: &consolev1.AuditActor{Kind: "agent", Name: "edge-1"},
			Action: "token.refused", Reason: "expired\x1b[31m",
		}}}, nil
	}
	return []hubtest.Answer{hubtest.On(listAudit, pages)}
}

// recordingPages has a recording on the second page, behind those that the person may not view.
func recordingPages(req *consolev1.ListRecordingsRequest) (*consolev1.ListRecordingsResponse, error) {
	if req.GetPageToken() == "" {
		return &consolev1.ListRecordingsResponse{NextPageToken: "2"}, nil
	}
	return &consolev1.ListRecordingsResponse{Recordings: []*consolev1.Recording{{Id: "1"}}}, nil
}

// onlyWithoutAction has events of other actions than the one that is asked for.
func onlyWithoutAction(req *consolev1.ListAuditEventsRequest) (*consolev1.ListAuditEventsResponse, error) {
	res := &consolev1.ListAuditEventsResponse{}
	if req.GetFilter().GetAction() == "" {
		res.Events = []*consolev1.AuditEvent{{Action: "login.password"}, {Action: "access.lent"}, {Action: "login.password"}}
	}
	return res, nil
}

func TestTheAuditTrailIsShown(t *testing.T) {
	t.Parallel()
	none := []hubtest.Answer{hubtest.Returns[consolev1.ListAuditEventsRequest](listAudit,
		&consolev1.ListAuditEventsResponse{})}
	hubtest.Run(t, map[string]hubtest.Case{
		"the newest last": {
			Line: "audit", Hub: trail(),
			Asked: `ListAuditEvents {"filter":{},"pageSize":100}
ListAuditEvents {"filter":{},"pageSize":99,"pageToken":"2"}
`,
			Stdout: `2026-03-01 11:00:00.000 agent:edge-1 token.refused: expired[31m
2026-03-01 11:59:00.000 kim tunnel.request get pods web-0 in shop at edge-1 200 in 12ms, 2.0 KiB
`,
		},
		"one, of an hour": {
			Line: "audit --limit 1 --since 1h --user kim --cluster edge-1 --action tunnel.request", Hub: trail(),
			Asked: `ListAuditEvents {"filter":{"actor":"kim","cluster":"edge-1","action":"tunnel.request","since":"2026-03-01T11:00:00Z"},"pageSize":1}
`,
			Stdout: "2026-03-01 11:59:00.000 kim tunnel.request get pods web-0 in shop at edge-1 200 in 12ms, " +
				"2.0 KiB\n",
		},
		"as JSON": {
			Line: "audit --limit 0 -o json", Hub: trail(),
			Asked: `ListAuditEvents {"filter":{},"pageSize":500}
ListAuditEvents {"filter":{},"pageSize":500,"pageToken":"2"}
`,
			Stdout: `{"id":"1","time":"2026-03-01T11:00:00Z","actor":{"kind":"agent","name":"edge-1"},"action":"token.refused","reason":"expired\u001b[31m"}
{"id":"2","time":"2026-03-01T11:59:00Z","actor":{"kind":"user","name":"kim"},"action":"tunnel.request","cluster":"edge-1","resource":"pods","namespace":"shop","name":"web-0","verb":"get","code":200,"bytesSent":"2048","duration":"0.012s"}
`,
		},
		"there is nothing": {
			Line: "audit --user bob", Hub: none,
			Asked: `ListAuditEvents {"filter":{"actor":"bob"},"pageSize":100}
`,
			Stderr: "no events\n",
		},
		"all of a beginning": {
			Line: "audit --limit 2 --action tunnel.*", Hub: trail(), Any: true,
			Asked: `ListAuditEvents {"filter":{"action":"tunnel"},"pageSize":1,"pageToken":"2"}
ListAuditEvents {"filter":{"action":"tunnel"},"pageSize":2}
`,
			Stdout: `2026-03-01 11:00:00.000 agent:edge-1 token.refused: expired[31m
2026-03-01 11:59:00.000 kim tunnel.request get pods web-0 in shop at edge-1 200 in 12ms, 2.0 KiB
`,
		},
		"a beginning that nothing has": {
			Line: "audit --action acces.", Hub: []hubtest.Answer{hubtest.On(listAudit, onlyWithoutAction)},
			Asked: `ListAuditEvents {"filter":{"action":"acces"},"pageSize":100}
ListAuditEvents {"filter":{},"pageSize":500}
`,
			Stderr: "no events; the newest 3 of all have the actions access.lent, login.password\n",
		},
		"in an unknown form": {
			Line: "audit -o yaml",
			Err:  `unknown form of output "yaml": known are table, json`,
		},
		"with an argument": {
			Line: "audit kim",
			Err:  "use it as `fairlead audit`: see `fairlead audit --help`",
		},
		"exported": {
			Line: "audit export --since 720h", Hub: trail(),
			Asked: `ListAuditEvents {"filter":{"since":"2026-01-30T12:00:00Z"},"pageSize":500}
ListAuditEvents {"filter":{"since":"2026-01-30T12:00:00Z"},"pageSize":500,"pageToken":"2"}
`,
			Stdout: `{"id":"1","time":"2026-03-01T11:00:00Z","actor":{"kind":"agent","name":"edge-1"},"action":"token.refused","reason":"expired\u001b[31m"}
{"id":"2","time":"2026-03-01T11:59:00Z","actor":{"kind":"user","name":"kim"},"action":"tunnel.request","cluster":"edge-1","resource":"pods","namespace":"shop","name":"web-0","verb":"get","code":200,"bytesSent":"2048","duration":"0.012s"}
`,
		},
		"exported into a file": {
			Line: "audit export -o FOLDER/trail.jsonl", Hub: none, Left: map[string]string{"trail.jsonl": ""},
			Asked: `ListAuditEvents {"filter":{},"pageSize":500}
`,
			Stderr: "0 events are in FOLDER/trail.jsonl\n",
		},
		"fewer than none":         {Line: "audit --limit -5", Err: "--limit -5: must be at least 0"},
		"not older than later":    {Line: "audit --since -1h", Err: "--since -1h0m0s: must be at least 0s"},
		"exported, of after now":  {Line: "audit export --since -1h", Err: "--since -1h0m0s: must be at least 0s"},
		"of recordings, fewer":    {Line: "replay --limit -5", Err: "--limit -5: must be at least 0"},
		"of events, fewer":        {Line: "events --limit -5", Err: "--limit -5: must be at least 0"},
		"of events, of after now": {Line: "events --since -1h", Err: "--since -1h0m0s: must be at least 0s"},
		"all recordings": {
			Line: "replay --limit 0 -o json",
			Hub:  []hubtest.Answer{hubtest.On(consolev1connect.RecordingServiceListRecordingsProcedure, recordingPages)},
			Asked: `ListRecordings {"pageSize":500}
ListRecordings {"pageSize":500,"pageToken":"2"}
`,
			Stdout: `{
  "recordings": [
    {
      "id": "1"
    }
  ]
}
`,
		},
		"by somebody who may not": {
			Line: "audit",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.ListAuditEventsRequest, consolev1.ListAuditEventsResponse](
				listAudit, connect.CodePermissionDenied, "ListAuditEvents: it is for administrator")},
			Asked: `ListAuditEvents {"filter":{},"pageSize":100}
`,
			Err: "ListAuditEvents: it is for administrators, who are the members of group fairlead:admins: " +
				"ask one of them",
		},
	})
}

func TestEventsAreShown(t *testing.T) {
	t.Parallel()
	const listEvents = consolev1connect.EventServiceListEventsProcedure
	happened := []hubtest.Answer{hubtest.Returns[consolev1.ListEventsRequest](listEvents, &consolev1.ListEventsResponse{
		Events: []*consolev1.Event{
			{
				Id: "b", Time: clitest.Before(time.Minute), Type: "service.degraded", Severity: consolev1.Severity_SEVERITY_WARNING,
				Service: "shop", Cluster: "edge-1", Message: "Deployment web: 1 of 3 pods is ready.",
			},
			{Id: "a", Time: clitest.Before(time.Hour), Type: "source.fetched", Message: "main is fedcba98."},
		},
	})}
	none := []hubtest.Answer{hubtest.Returns[consolev1.ListEventsRequest](listEvents, &consolev1.ListEventsResponse{})}
	hubtest.Run(t, map[string]hubtest.Case{
		"all": {
			Line: "events", Hub: happened,
			Asked: `ListEvents {"pageSize":100}
`,
			Stdout: `2026-03-01 11:00:00 unspecified source.fetched         main is fedcba98.
2026-03-01 11:59:00 warning service.degraded       service shop at cluster edge-1: Deployment web: 1 of 3 pods is ready.
`,
		},
		"of a service": {
			Line: "events service/shop", Hub: none,
			Asked: `ListEvents {"filter":"service = shop","pageSize":100}
`,
			Stderr: "no events\n",
		},
		"of two": {
			Line: "events service shop web --limit 5", Hub: none,
			Asked: `ListEvents {"filter":"service = shop OR service = web","pageSize":5}
`,
			Stderr: "no events\n",
		},
		"of an hour": {
			Line: "events --filter 'severity >= WARNING' --since 1h", Hub: none,
			Asked: `ListEvents {"filter":"time > 3600s AND (severity >= WARNING)","pageSize":100}
`,
			Stderr: "no events\n",
		},
		"as JSON": {
			Line: "events -o json", Hub: happened,
			Asked: `ListEvents {"pageSize":100}
`,
			Stdout: `{"id":"a","time":"2026-03-01T11:00:00Z","type":"source.fetched","message":"main is fedcba98."}
{"id":"b","time":"2026-03-01T11:59:00Z","type":"service.degraded","severity":"SEVERITY_WARNING","cluster":"edge-1","service":"shop","message":"Deployment web: 1 of 3 pods is ready."}
`,
		},
		"of a kind": {
			Line: "events widget/shop",
			Err: `unknown kind "widget": known are sources, clusters, services, secrets, grants, projects, ` +
				"globalservices, configsets, backends, roles, serviceaccounts, sinks, agentconfigs, alerts, " +
				"viewsets, sessions, logins",
		},
		"in an unknown form": {
			Line: "events -o wide",
			Err:  `unknown form of output "wide": known are table, json`,
		},
		"by a wrong filter": {
			Line: "events --filter 'kind = a'",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.ListEventsRequest, consolev1.ListEventsResponse](
				listEvents, connect.CodeInvalidArgument, `filter: there is no field "kind"`)},
			Asked: `ListEvents {"filter":"kind = a","pageSize":100}
`,
			Err: `filter: there is no field "kind"`,
		},
	})
}

func TestRecordingsAreListedAndPlayed(t *testing.T) {
	t.Parallel()
	const listed, read = consolev1connect.RecordingServiceListRecordingsProcedure,
		consolev1connect.RecordingServiceReadRecordingProcedure
	ended := &consolev1.Recording{
		Id: "019a", Subject: "user:ada", Cluster: "edge-1", Namespace: "shop", Pod: "web-0", Container: "web", Verb: "exec",
		BeginTime: clitest.Before(time.Hour), UpdateTime: clitest.Before(58 * time.Minute),
		EndTime: clitest.Before(58 * time.Minute), Bytes: 2048,
	}
	running := &consolev1.Recording{
		Id: "019b", Subject: "user:kim", Cluster: "edge-1", BeginTime: clitest.Before(time.Minute),
		UpdateTime: clitest.Before(0), Incomplete: "the console was away",
	}
	list := []hubtest.Answer{hubtest.Returns[consolev1.ListRecordingsRequest](listed,
		&consolev1.ListRecordingsResponse{Recordings: []*consolev1.Recording{running, ended}})}
	parts := func(req *consolev1.ReadRecordingRequest) (*consolev1.ReadRecordingResponse, error) {
		if req.GetAfter() == 0 {
			return &consolev1.ReadRecordingResponse{Data: []byte("{\"version\":2}\n[0.0, \"o\", \"one \"]\n"), Next: 7}, nil
		}
		return &consolev1.ReadRecordingResponse{Data: []byte("[0.0, \"o\", \"two\"]\n"), Recording: running}, nil
	}
	cast := []hubtest.Answer{hubtest.On(read, parts)}
	hubtest.Run(t, map[string]hubtest.Case{
		"listed": {
			Line: "replay", Hub: list,
			Asked: `ListRecordings {"pageSize":50}
`,
			Stdout: `ID    SUBJECT   CLUSTER  NAMESPACE  POD    BEGAN    LASTED            SIZE
019b  user:kim  edge-1   -          -      60s ago  1m0s, no end yet  0 B
019a  user:ada  edge-1   shop       web-0  60m ago  2m0s              2.0 KiB
`,
		},
		"listed, of somebody": {
			Line: "replay --user ada --cluster edge-1 -o wide", Hub: list,
			Asked: `ListRecordings {"pageSize":50,"cluster":"edge-1","subject":"user:ada"}
`,
			Stdout: `ID    SUBJECT   CLUSTER  NAMESPACE  POD    BEGAN    LASTED            SIZE     CONTAINER  VERB  INCOMPLETE
019b  user:kim  edge-1   -          -      60s ago  1m0s, no end yet  0 B      -          -     the console was away
019a  user:ada  edge-1   shop       web-0  60m ago  2m0s              2.0 KiB  web        exec  -
`,
		},
		"listed, of a program": {
			Line: "replay --user serviceaccount:ci -o json", Hub: list,
			Asked: `ListRecordings {"pageSize":50,"subject":"serviceaccount:ci"}
`,
			Stdout: `{
  "recordings": [
    {
      "beginTime": "2026-03-01T11:59:00Z",
      "cluster": "edge-1",
      "id": "019b",
      "incomplete": "the console was away",
      "subject": "user:kim",
      "updateTime": "2026-03-01T12:00:00Z"
    },
    {
      "beginTime": "2026-03-01T11:00:00Z",
      "bytes": "2048",
      "cluster": "edge-1",
      "container": "web",
      "endTime": "2026-03-01T11:02:00Z",
      "id": "019a",
      "namespace": "shop",
      "pod": "web-0",
      "subject": "user:ada",
      "updateTime": "2026-03-01T11:02:00Z",
      "verb": "exec"
    }
  ]
}
`,
		},
		"played": {
			Line: "replay 019b", Hub: cast,
			Asked: `ReadRecording {"id":"019b"}
ReadRecording {"id":"019b","after":"7"}
`,
			Stdout: "one two",
			Stderr: "the recording does not hold all that was shown: the console was away\n",
		},
		"written into a file": {
			Line: "replay 019b --output-file FOLDER/a.cast", Hub: cast,
			Left: map[string]string{"a.cast": "{\"version\":2}\n[0.0, \"o\", \"one \"]\n[0.0, \"o\", \"two\"]\n"},
			Asked: `ReadRecording {"id":"019b"}
ReadRecording {"id":"019b","after":"7"}
`,
			Stderr: "the recording does not hold all that was shown: the console was away\n",
		},
		"at no speed": {
			Line: "replay 019b --speed 0",
			Err:  "--speed must be more than 0",
		},
		"at no pauses": {
			Line: "replay 019b --idle-limit -1s",
			Err:  "--idle-limit can't be negative",
		},
		"two of them": {
			Line: "replay 019a 019b",
			Err:  "use it as `fairlead replay [ID]`: see `fairlead replay --help`",
		},
		"one not there": {
			Line: "replay 9z",
			Hub: []hubtest.Answer{hubtest.Refuses[consolev1.ReadRecordingRequest, consolev1.ReadRecordingResponse](
				read, connect.CodeNotFound, `recording "9z" does not exist`)},
			Asked: `ReadRecording {"id":"9z"}
`,
			Err: `recording "9z" does not exist`,
		},
	})
}
