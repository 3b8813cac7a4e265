package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

func auditEvent(i int, user, action string) *consolev1.AuditEvent {
	return &consolev1.AuditEvent{
		Id: fmt.Sprintf("%016d", i), Time: timestamppb.New(time.Now().Add(time.Duration(i) * time.Millisecond)),
		Action: action,
		Actor:  &consolev1.AuditActor{Kind: "user", Name: user, Groups: []string{"dev"}}, Cluster: "edge-1",
		Resource: "pods/log", Verb: "get", Code: 200, Reason: "quote ' and \"é\u0000", Recorder: "user:forged",
	}
}

func record(t *testing.T, a api, events ...*consolev1.AuditEvent) {
	t.Helper()
	if _, err := a.audit.RecordAuditEvents(t.Context(), &consolev1.RecordAuditEventsRequest{
		Events: events,
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAuditIsRecordedListedAndFollowed(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, db)
			testAudit(t, h.start(t))
		})
	}
}

func testAudit(t *testing.T, r *running) {
	hub, admin := r.service(t, identity.ServiceTunnel), r.admin(t)
	first := auditEvent(1, "ada", "tunnel.request.begin")
	record(t, hub, first, auditEvent(2, "bob", "tunnel.request.end"))
	record(t, hub, first) // again, after an answer that was lost
	list, err := admin.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.GetEvents()) != 1 || list.GetEvents()[0].GetActor().GetName() != "bob" ||
		list.GetNextPageToken() == "" {
		t.Fatalf("first page %v", list)
	}
	rest, err := admin.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{
		PageToken: list.GetNextPageToken(),
		Filter:    &consolev1.AuditFilter{Actor: "ada", Action: "tunnel", Cluster: "edge-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	first.Recorder = "service:tunnel"
	if len(rest.GetEvents()) != 1 || rest.GetNextPageToken() != "" || !proto.Equal(rest.GetEvents()[0], first) {
		t.Fatalf("second page %v, want %v", rest, first)
	}
	for _, beginning := range []string{"tunnel.", "tunnel.*", "tunnel.request.", "tunnel.request"} {
		found, err := admin.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{
			Filter: &consolev1.AuditFilter{Action: beginning},
		})
		if err != nil || len(found.GetEvents()) != 2 {
			t.Errorf("of %q it lists %v, %v", beginning, found.GetEvents(), err)
		}
	}
	for _, odd := range []string{"*.end", ".", "tunnel..", "Tunnel"} {
		_, err := admin.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{
			Filter: &consolev1.AuditFilter{Action: odd},
		})
		wantCode(t, err, connect.CodeInvalidArgument, fmt.Sprintf("filter.action: no action is called %q", odd))
	}
	if _, err := admin.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{
		PageToken: "nonsense",
	}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("page token of nobody: %v", err)
	}

	// An event between the list and the stream is in the stream.
	record(t, hub, auditEvent(3, "ada", "a"), auditEvent(4, "eve", "b"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := admin.audit.WatchAuditEvents(ctx, &consolev1.WatchAuditEventsRequest{
		ResumeToken: list.GetResumeToken(), Filter: &consolev1.AuditFilter{Actor: "user:ada"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var got []string
	for len(got) < 3 && stream.Receive() {
		for _, e := range stream.Msg().GetEvents() {
			got = append(got, e.GetAction())
		}
		if len(got) == 1 {
			record(t, hub, auditEvent(5, "eve", "c"), auditEvent(6, "ada", "d"), auditEvent(7, "ada", "e"))
		}
	}
	if want := []string{"a", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("followed %v, want %v: %v", got, want, stream.Err())
	}
}

func TestAuditRefusesWhatItCanNotKeep(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	hub := r.service(t, identity.ServiceTunnel)
	for name, change := range map[string]func(*consolev1.AuditEvent){
		"no id":       func(e *consolev1.AuditEvent) { e.Id = "" },
		"no time":     func(e *consolev1.AuditEvent) { e.Time = nil },
		"odd action":  func(e *consolev1.AuditEvent) { e.Action = "Drop Table" },
		"odd actor":   func(e *consolev1.AuditEvent) { e.Actor.Kind = "root" },
		"odd cluster": func(e *consolev1.AuditEvent) { e.Cluster = "a/b" },
		"large":       func(e *consolev1.AuditEvent) { e.Reason = strings.Repeat("x", 3000) },
	} {
		e := auditEvent(1, "ada", "x")
		change(e)
		_, err := hub.audit.RecordAuditEvents(t.Context(), &consolev1.RecordAuditEventsRequest{
			Events: []*consolev1.AuditEvent{e},
		})
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
