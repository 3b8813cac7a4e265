package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/rpc"
)

// auditService keeps what gitcaches record.
type auditService struct {
	consolev1connect.UnimplementedAuditServiceHandler

	mu     sync.Mutex // guards events
	events []*consolev1.AuditEvent
}

func (s *auditService) RecordAuditEvents(_ context.Context,
	req *consolev1.RecordAuditEventsRequest,
) (*consolev1.RecordAuditEventsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, req.GetEvents()...)
	return &consolev1.RecordAuditEventsResponse{}, nil
}

// lines are the events of an action, without where they came from.
func (s *auditService) lines(action string) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.GetAction() == action && e.GetRemote() == "127.0.0.1" {
			lines = append(lines, fmt.Sprintf("%s %s %s %s %d", e.GetActor().GetName(), e.GetVerb(), e.GetResource(),
				e.GetName(), e.GetCode()))
		}
	}
	return lines
}

// A procedure that changes something, or shows what is in a repository, has an event: a new one fails here until it
// has.
func TestEveryProcedureThatChangesOrReadsARepositoryLeavesAnEvent(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"Resolve":     "distributors and gitcaches ask for artifacts; a download that is refused has an event",
		"CopyMirror":  "gitcaches copy from each other",
		"TakeSource":  "a gitcache hands a source over: by shard.move, or by itself",
		"ListSources": "state that grants show", "GetSource": "state that grants show",
		"WatchSources": "state that grants show", "ListReplicas": "state that grants show",
		"ListShards":      "state that grants show",
		"GetCoordination": "state of the hub",
	}
	actions := rpc.Actions()
	for procedure := range rpc.Policy() {
		if method := procedure[strings.LastIndexByte(procedure, '/')+1:]; (actions[procedure] == "") == (without[method] == "") {
			t.Errorf("%s: it has an action in the audit trail, or a reason here why not", procedure)
		}
	}

	f := newFixture(t)
	commit := f.repo.Commit("one", gittest.Files{"deploy/web.yaml": "a: 1\n"})
	n := f.one()
	f.published("HEAD", commit)
	admin := identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}}
	hc, options := n.as(admin)
	shards := gitcachev1connect.NewShardServiceClient(hc, n.url, options...)
	stranger := n.sourcesAs(identity.Identity{Kind: identity.KindUser, Name: "eve"})
	ctx := t.Context()
	for _, tc := range []struct {
		do           func() error
		code         connect.Code // 0: none
		action, want string
	}{
		{func() error {
			_, err := n.sources.ListCommits(ctx, &gitcachev1.ListCommitsRequest{Source: "shop", Revision: "HEAD"})
			return err
		}, 0, "source.read", "ada ListCommits source@HEAD shop 200"},
		{func() error {
			_, err := n.sources.ListTree(ctx, &gitcachev1.ListTreeRequest{Source: "shop", Path: "deploy"})
			return err
		}, 0, "source.read", "ada ListTree source@/deploy shop 200"},
		{func() error {
			_, err := n.sources.ReadFile(ctx, &gitcachev1.ReadFileRequest{Source: "shop", Path: "deploy/web.yaml"})
			return err
		}, 0, "source.read", "ada ReadFile source@/deploy/web.yaml shop 200"},
		{func() error {
			_, err := stranger.ReadFile(ctx, &gitcachev1.ReadFileRequest{Source: "shop", Path: "deploy/web.yaml"})
			return err
		}, connect.CodePermissionDenied, "source.read", "eve ReadFile source@/deploy/web.yaml shop 403"},
		{func() error {
			_, err := n.sources.RefreshSource(ctx, &gitcachev1.RefreshSourceRequest{Name: "shop"})
			return err
		}, 0, "source.refresh", "ada RefreshSource source shop 200"},
		{func() error {
			_, err := shards.MoveSource(ctx, &gitcachev1.MoveSourceRequest{Source: "shop", Replica: "none"})
			return err
		}, connect.CodeNotFound, "shard.move", "ada MoveSource source shop 404"},
		{func() error {
			_, err := shards.SetDraining(ctx, &gitcachev1.SetDrainingRequest{Replica: "none", Draining: true})
			return err
		}, connect.CodeNotFound, "shard.drain", "ada SetDraining gitcache none 404"},
	} {
		if err := tc.do(); tc.code == 0 && err != nil || tc.code != 0 && connect.CodeOf(err) != tc.code {
			t.Errorf("%s: %v", tc.want, err)
		}
		await.NoError(t, "the trail has "+tc.want, func() error {
			lines := f.console.trail.lines(tc.action)
			if slices.Contains(lines, tc.want) {
				return nil
			}
			return fmt.Errorf("it has %q", lines)
		})
	}
}
