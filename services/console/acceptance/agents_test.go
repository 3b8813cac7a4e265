package acceptance

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/services/console"
	"fairlead.dev/services/console/internal/store"
)

// renewal renews a token with a request, as an agent with a key does.
func (r *running) renewal(t *testing.T, token string, key *identity.AgentKey,
	request string,
) (*consolev1.Token, error) {
	t.Helper()
	source := identitytest.Prover(token, key, identity.ServiceConsole)
	c := consolev1connect.NewIdentityServiceClient(newHTTPClient(t), r.url,
		append(client.Options(), client.WithToken(source))...)
	resp, err := c.RenewToken(t.Context(), &consolev1.RenewTokenRequest{Key: key.ForRenewal(token, []byte(request))})
	return resp.GetToken(), err
}

func (a api) edge(t *testing.T) *consolev1.ClusterStatus {
	t.Helper()
	resp, err := a.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetCluster().GetStatus()
}

// A token of an agent is renewed once. An agent that asks again with the same request had no answer; one that asks with
// another request has a copy of the agent's data folder, and everybody is told.
func TestSecondRenewalOfATokenRaisesTheAlarm(t *testing.T) {
	t.Parallel()
	bothDatabases(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putCluster(t, "edge-1")
		key := identitytest.AgentKey()
		first := admin.join(t, "edge-1")
		request, another := rand.Text(), rand.Text()
		second, err := r.renewal(t, first, key, request)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.renewal(t, first, key, request)
		if err != nil || again.GetId() != second.GetId() {
			t.Fatalf("the answer that was lost: %v, %v, want %s", again, err, second.GetId())
		}
		third, err := r.renewal(t, again.GetToken(), key, another)
		if err != nil || third.GetId() == second.GetId() {
			t.Fatalf("renewed to %v, %v", third, err)
		}
		if s := admin.edge(t); s.GetTokenReuseTime() != nil {
			t.Fatalf("an alarm before anything happened: %v", s)
		}
		for _, copied := range []string{first, second.GetToken()} {
			_, err = r.renewal(t, copied, key, rand.Text())
			wantCode(t, err, connect.CodeUnauthenticated, "renewed before", "fairlead cluster leave edge-1")
		}
		if s := admin.edge(t); s.GetTokenReuseTime() == nil || !strings.Contains(s.GetTokenReuse(), "from 127.0.0.1") {
			t.Errorf("status %v", s)
		}
		if told := listEvents(t, r.events(t, r.adminToken(t)),
			"type = cluster.token_reused"); len(told) != 1 || told[0].GetCluster() != "edge-1" ||
			told[0].GetSeverity() != consolev1.Severity_SEVERITY_ERROR {
			t.Errorf("events %v", told)
		}
		if trail := admin.trail(t, "token.reuse", "edge-1"); len(trail) != 2 {
			t.Errorf("in the trail: %v", trail)
		}
		// The agent that was first goes on.
		fourth, err := r.renewal(t, third.GetToken(), key, rand.Text())
		if err != nil {
			t.Fatal(err)
		}
		// People end the line, by any of its tokens.
		if _, err := admin.identity.RevokeTokens(t.Context(), &consolev1.RevokeTokensRequest{
			Which: &consolev1.RevokeTokensRequest_TokenId{TokenId: second.GetId()},
		}); err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{first, second.GetToken(), fourth.GetToken()} {
			_, err = r.renewal(t, token, key, rand.Text())
			wantCode(t, err, connect.CodeUnauthenticated, "revoked")
		}
		if s := admin.edge(t); s.GetTokenReuseTime() != nil {
			t.Errorf("the alarm goes on: %v", s)
		}
	})
}

func TestLeavingEndsTheAlarmAndTheCopies(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	key, token := identitytest.AgentKey(), admin.join(t, "edge-1")
	next, err := r.renewal(t, token, key, rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.renewal(t, token, key, rand.Text())
	wantCode(t, err, connect.CodeUnauthenticated)
	if _, err := admin.logins.LeaveCluster(t.Context(), &consolev1.LeaveClusterRequest{Cluster: "edge-1"}); err != nil {
		t.Fatal(err)
	}
	if s := admin.edge(t); s.GetTokenReuseTime() != nil || s.GetTokenReuse() != "" {
		t.Errorf("status %v", s)
	}
	_, err = r.renewal(t, next.GetToken(), key, rand.Text())
	wantCode(t, err, connect.CodeUnauthenticated)
	// The agent joins again, and nothing of before is held against it.
	own := admin.join(t, "edge-1")
	if _, err := r.renewal(t, own, key, rand.Text()); err != nil {
		t.Fatal(err)
	}
	if s := admin.edge(t); s.GetTokenReuseTime() != nil {
		t.Errorf("status %v", s)
	}
}

// An agent whose tokens are revoked is refused everywhere, so its cluster is not connected, until an agent joins again.
func TestAClusterWhoseTokensAreRevokedHasLeft(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	distributor := r.service(t, identity.ServiceDistributor)
	revoke := func(req *consolev1.RevokeTokensRequest) {
		t.Helper()
		if _, err := admin.identity.RevokeTokens(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	is := func(connected bool) {
		t.Helper()
		if s := admin.edge(t); s.GetConnected() != connected || (s.GetLeaveTime() == nil) != connected {
			t.Errorf("connected should be %v: %v", connected, s)
		}
	}
	join := func() *consolev1.Token {
		t.Helper()
		token := admin.join(t, "edge-1")
		next, err := r.renewal(t, token, identitytest.AgentKey(), rand.Text())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := distributor.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
			Clusters: []*consolev1.ClusterSeen{{Cluster: "edge-1", Time: timestamppb.Now()}},
		}); err != nil {
			t.Fatal(err)
		}
		is(true)
		return next
	}
	join()
	revoke(&consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_Subject{Subject: "agent:edge-1"}})
	is(false)
	first, second := join(), join()
	revoke(&consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_TokenId{TokenId: first.GetId()}})
	is(true) // by the other one
	revoke(&consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_TokenId{TokenId: second.GetId()}})
	is(false)
	join()
}

func TestCopiedTokenWithoutItsKeyRenewsNothing(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	token := admin.join(t, "edge-1")
	thief, err := identity.NewAgentKey()
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.renewal(t, token, thief, rand.Text())
	wantCode(t, err, connect.CodeUnauthenticated, "does not prove")
	// Also with a proof of the agent's that was seen on its way: what renews is signed by itself.
	c := r.as(t, token)
	for name, m := range map[string]*consolev1.AgentKey{
		"the thief's key":     thief.ForRenewal(token, []byte(rand.Text())),
		"for another token":   identitytest.AgentKey().ForRenewal("another", []byte(rand.Text())),
		"another use":         identitytest.AgentKey().ForJoin(token),
		"no random request":   identitytest.AgentKey().ForRenewal(token, nil),
		"no key, as of old":   nil,
		"an unsigned request": {PublicKey: make([]byte, 32), Request: []byte(rand.Text()), Signature: make([]byte, 64)},
	} {
		if _, err := c.identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{Key: m}); connect.CodeOf(err) != connect.CodeUnauthenticated && connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := admin.edge(t); s.GetTokenReuseTime() != nil {
		t.Errorf("strangers raise the alarm: %v", s)
	}
	if _, err := r.renewal(t, token, identitytest.AgentKey(), rand.Text()); err != nil {
		t.Errorf("the agent itself: %v", err)
	}
}

// Each replica of an agent has a line of its own.
func TestReplicasOfAnAgentRaiseNoAlarm(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	key := identitytest.AgentKey()
	tokens := []string{admin.join(t, "edge-1"), admin.join(t, "edge-1")}
	for range 3 {
		for i := range tokens {
			next, err := r.renewal(t, tokens[i], key, rand.Text())
			if err != nil {
				t.Fatal(err)
			}
			tokens[i] = next.GetToken()
		}
	}
	if s := admin.edge(t); s.GetTokenReuseTime() != nil {
		t.Errorf("status %v", s)
	}
}

// Agents of before there were keys go on while the switch is on, and have a key after their next renewal. Without the
// switch they don't.
func TestAgentsWithoutAKeyAreBoundDuringOneUpgrade(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	r := h.startWith(t, func(c *console.Config) { c.Unsigned = identity.UnsignedAccept })
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	made, err := admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	joined, err := r.as(t, "").identity.JoinCluster(t.Context(), &consolev1.JoinClusterRequest{
		JoinToken: made.GetJoinToken(),
	})
	if err != nil {
		t.Fatal(err)
	}
	old := joined.GetToken().GetToken()
	same, err := r.as(t, old).identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{}) // an agent of before
	if err != nil || same.GetToken().GetId() != joined.GetToken().GetId() {
		t.Fatalf("renewed to %v, %v", same, err)
	}
	key, request := identitytest.AgentKey(), rand.Text()
	bound, err := r.renewal(t, old, key, request) // the agent is upgraded
	if err != nil || identity.BoundTo(bound.GetToken()) != key.Public() {
		t.Fatalf("bound to %v, %v", bound, err)
	}
	if again, err := r.renewal(t, old, key, request); err != nil || again.GetId() != bound.GetId() {
		t.Errorf("the answer that was lost: %v, %v", again, err)
	}
	// A thief with a copy of the old token comes too late, with whatever key.
	thief, err := identity.NewAgentKey()
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.renewal(t, old, thief, request)
	wantCode(t, err, connect.CodeUnauthenticated, "renewed before")
	if s := admin.edge(t); s.GetTokenReuseTime() == nil {
		t.Error("nobody is told of the copy")
	}
	// The agent is put back to the version of before, and upgraded again.
	back := consolev1connect.NewIdentityServiceClient(newHTTPClient(t), r.url,
		append(client.Options(), client.WithToken(identity.StaticToken(bound.GetToken())))...)
	kept, err := back.RenewToken(t.Context(), &consolev1.RenewTokenRequest{})
	if err != nil || kept.GetToken().GetId() != bound.GetId() {
		t.Fatalf("renewed to %v, %v", kept, err)
	}
	next, err := r.renewal(t, kept.GetToken().GetToken(), key, rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	r.stop()

	r = h.start(t) // the switch is closed
	if _, err := r.as(t, old).identity.RenewToken(t.Context(),
		&consolev1.RenewTokenRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated ||
		!strings.Contains(err.Error(), "--unsigned-members=accept") {
		t.Errorf("a token without a key: %v", err)
	}
	if _, err := r.renewal(t, next.GetToken(), key, rand.Text()); err != nil {
		t.Errorf("one with a key: %v", err)
	}
	admin = r.admin(t)
	if made, err = admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{
		Cluster: "edge-1",
	}); err != nil {
		t.Fatal(err)
	}
	_, err = r.as(t, "").identity.JoinCluster(t.Context(), &consolev1.JoinClusterRequest{
		JoinToken: made.GetJoinToken(),
	})
	wantCode(t, err, connect.CodeFailedPrecondition, "upgrade")
	if _, err := r.as(t, "").identity.JoinCluster(t.Context(), joining(made.GetJoinToken())); err != nil {
		t.Errorf("the refusal cost the join token: %v", err)
	}
}

// A database that was restored knows of earlier tokens, or of none: agents are not held to it.
func TestAgentsOutliveARestoredDatabase(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	r := h.start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	key, token := identitytest.AgentKey(), admin.join(t, "edge-1")
	var id string
	for range 2 {
		next, err := r.renewal(t, token, key, rand.Text())
		if err != nil {
			t.Fatal(err)
		}
		token, id = next.GetToken(), next.GetId()
	}
	s, err := store.New(h.db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	edit := func(change func(ctx context.Context, tx *store.Tx, line store.AgentToken) error) {
		t.Helper()
		if err := s.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
			line, err := tx.AgentToken(ctx, identity.Family(id))
			if err != nil {
				return err
			}
			return change(ctx, tx, line)
		}); err != nil {
			t.Fatal(err)
		}
	}
	edit(func(ctx context.Context, tx *store.Tx, line store.AgentToken) error {
		line.Generation, line.Request = 0, ""
		return tx.PutAgentToken(ctx, line, time.Time{})
	})
	next, err := r.renewal(t, token, key, rand.Text())
	if err != nil || identity.Generation(next.GetId()) != 3 {
		t.Fatalf("after an earlier state: %v, %v", next, err)
	}
	edit(func(ctx context.Context, tx *store.Tx, line store.AgentToken) error {
		return tx.EndAgentTokens(ctx, line.Cluster, "")
	})
	if next, err = r.renewal(t, next.GetToken(), key, rand.Text()); err != nil ||
		identity.Generation(next.GetId()) != 4 {
		t.Fatalf("after a state of before it joined: %v, %v", next, err)
	}
	_, err = r.renewal(t, token, key, rand.Text())
	wantCode(t, err, connect.CodeUnauthenticated, "renewed before")
	if !slices.ContainsFunc(admin.trail(t, "token.reuse", "edge-1"),
		func(e *consolev1.AuditEvent) bool { return e.GetCluster() == "edge-1" }) {
		t.Error("not in the trail")
	}
}

// A renewal is a write of the database: one cluster does not keep others from it.
func TestRenewalsOfOneClusterAreThrottled(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	admin.putCluster(t, "edge-2")
	key, token, request := identitytest.AgentKey(), admin.join(t, "edge-1"), rand.Text()
	const burst = 20
	var err error
	for range burst + 5 {
		if _, err = r.renewal(t, token, key, request); err != nil {
			break
		}
	}
	wantCode(t, err, connect.CodeResourceExhausted, "edge-1")
	if _, err := r.renewal(t, admin.join(t, "edge-2"), key, rand.Text()); err != nil {
		t.Errorf("another cluster: %v", err)
	}
}
