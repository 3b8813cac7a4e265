package audit_test

import (
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// A follower goes on behind the last event that was shown, and ends with an error that another try does not mend.
func TestFollowersGoOnAfterARestartOfTheHub(t *testing.T) {
	t.Parallel()
	over := connect.NewError(connect.CodeUnauthenticated, errors.New("the token is revoked"))
	stops := connect.NewError(connect.CodeUnavailable, errors.New("the console stops: dial again"))
	const refused = "HUB does not accept the token in FAIRLEAD_TOKEN (the token is revoked). " +
		"Make a new one: fairlead token create"
	const stopped = "the hub is asked again: the console stops: dial again\n"
	const broken = "the hub is asked again: HUB can't be reached: stream error: stream ID 5; INTERNAL_ERROR; " +
		"received from peer. Is the hub running there (`fairlead up`)?\n"
	events := func(fails error) []hubtest.Answer {
		one := func(id, token string) []*consolev1.WatchEventsResponse {
			e := &consolev1.Event{Id: id, Time: clitest.Before(0), Type: "source.fetched", Message: id}
			return []*consolev1.WatchEventsResponse{{ResumeToken: token, Events: []*consolev1.Event{e}}}
		}
		return []hubtest.Answer{
			hubtest.Returns[consolev1.ListEventsRequest](
				consolev1connect.EventServiceListEventsProcedure, &consolev1.ListEventsResponse{ResumeToken: "1"}),
			hubtest.OnStreams(consolev1connect.EventServiceWatchEventsProcedure,
				func(req *consolev1.WatchEventsRequest) ([]*consolev1.WatchEventsResponse, error) {
					if req.GetResumeToken() == "1" {
						return one("a", "2"), fails
					}
					return one("b", "3"), over
				}),
		}
	}
	const happened = `ListEvents {"pageSize":100}
WatchEvents {"resumeToken":"1"}
WatchEvents {"resumeToken":"2"}
`
	const lines = "2026-03-01 12:00:00 unspecified source.fetched         a\n" +
		"2026-03-01 12:00:00 unspecified source.fetched         b\n"
	audited := func(id, token string) []*consolev1.WatchAuditEventsResponse {
		e := &consolev1.AuditEvent{Id: id, Time: clitest.Before(0), Action: "token.refused", Reason: id}
		return []*consolev1.WatchAuditEventsResponse{{ResumeToken: token, Events: []*consolev1.AuditEvent{e}}}
	}
	hubtest.Run(t, map[string]hubtest.Case{
		"events": {
			Line: "events --watch", Hub: events(stops), Asked: happened, Stdout: lines, Stderr: stopped, Err: refused,
		},
		"events, and the connection breaks": {
			Line: "events --watch", Hub: events(http.ErrAbortHandler), Asked: happened,
			Stdout: lines, Stderr: broken, Err: refused,
		},
		"events, and the stream ends": {
			Line: "events --watch", Hub: events(nil), Asked: happened, Stdout: lines, Err: refused,
			Stderr: "the hub is asked again: the hub has ended the stream\n",
		},
		"the audit trail": {
			Line: "audit --follow",
			Hub: []hubtest.Answer{
				hubtest.Returns[consolev1.ListAuditEventsRequest](
					listAudit, &consolev1.ListAuditEventsResponse{ResumeToken: "1"}),
				hubtest.OnStreams(consolev1connect.AuditServiceWatchAuditEventsProcedure,
					func(req *consolev1.WatchAuditEventsRequest) ([]*consolev1.WatchAuditEventsResponse, error) {
						if req.GetResumeToken() == "1" {
							return audited("a", "2"), stops
						}
						return audited("b", "3"), over
					}),
			},
			Asked: `ListAuditEvents {"filter":{},"pageSize":100}
WatchAuditEvents {"filter":{},"resumeToken":"1"}
WatchAuditEvents {"filter":{},"resumeToken":"2"}
`,
			Stdout: "2026-03-01 12:00:00.000 : token.refused: a\n2026-03-01 12:00:00.000 : token.refused: b\n",
			Stderr: stopped, Err: refused,
		},
	})
}
