package apply_test

import (
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/hubtest"
	"fairlead.dev/cli/internal/resource"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/kind"
)

func TestDeletionsAreListedThatCanBeUndone(t *testing.T) {
	t.Parallel()
	deleted := func(name, actor string) *consolev1.Event {
		return &consolev1.Event{Service: name, Cluster: "a", Actor: actor, Time: clitest.Before(time.Minute)}
	}
	service := func(name string, labels map[string]string) *consolev1.Resource {
		m := &consolev1.Service{Metadata: clitest.Meta(name), Spec: &consolev1.ServiceSpec{Cluster: "a"}}
		m.Metadata.Labels = labels
		return kind.Wrap(m)
	}
	declared := map[string]string{resource.DeclaredLabel: "platform"}
	past := map[string][]*consolev1.Revision{
		"shop":     {{Revision: 2}, {Revision: 1, Resource: service("shop", nil)}},
		"declared": {{Revision: 2}, {Revision: 1, Resource: service("declared", declared)}},
		"again":    {{Revision: 3, Resource: service("again", nil)}, {Revision: 2}},
	}
	hubtest.Run(t, map[string]hubtest.Case{"undo": {
		Line: "undo",
		Hub: []hubtest.Answer{
			hubtest.Returns[consolev1.ListEventsRequest](consolev1connect.EventServiceListEventsProcedure,
				&consolev1.ListEventsResponse{Events: []*consolev1.Event{
					deleted("shop", "user:serviceaccount:ci"), deleted("declared", "user:ada"), deleted("again", "user:ada"),
					deleted("hidden", "user:ada"),
				}}),
			hubtest.On(consolev1connect.RevisionServiceListRevisionsProcedure,
				func(req *consolev1.ListRevisionsRequest) (*consolev1.ListRevisionsResponse, error) {
					if past[req.GetName()] == nil {
						return nil, connect.NewError(connect.CodeNotFound, errors.New("no"))
					}
					return &consolev1.ListRevisionsResponse{Revisions: past[req.GetName()]}, nil
				}),
		},
		Asked: `ListEvents {"filter":"type = service.deleted AND time > 1h","pageSize":100}
ListRevisions {"kind":"KIND_SERVICE","name":"shop","pageSize":2}
ListRevisions {"kind":"KIND_SERVICE","name":"declared","pageSize":2}
ListRevisions {"kind":"KIND_SERVICE","name":"again","pageSize":2}
ListRevisions {"kind":"KIND_SERVICE","name":"hidden","pageSize":2}
`,
		Stdout: "SERVICE  CLUSTER  DELETED  BY\nshop     a        60s ago  serviceaccount:ci\n",
	}})
}
