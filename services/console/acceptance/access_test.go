package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/rpc"
)

// TestEveryProcedureRefusesWhoHasNoBusinessThere calls each procedure as everybody.
func TestEveryProcedureRefusesWhoHasNoBusinessThere(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	r.admin(t).putCluster(t, "edge-1")
	callers := map[string]identity.Identity{
		"viewer":      {Kind: identity.KindUser, Name: "vera"},
		"admin":       {Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}},
		"agent":       {Kind: identity.KindAgent, Name: "edge-1"},
		"gitcache":    {Kind: identity.KindService, Name: identity.ServiceGitcache},
		"distributor": {Kind: identity.KindService, Name: identity.ServiceDistributor},
		"tunnel":      {Kind: identity.KindService, Name: identity.ServiceTunnel},
	}
	hc := newHTTPClient(t)
	for name, id := range callers {
		call := caller(hc, r.url, r.sending(r.sign(t, id)))
		for procedure, role := range rpc.Policy(rpc.Kinds()) {
			if name == "agent" && procedure == consolev1connect.LoginServiceLeaveClusterProcedure {
				continue // the agent would leave
			}
			if id.Kind == identity.KindUser && (procedure == consolev1connect.LoginServiceLogoutProcedure || procedure == consolev1connect.LoginServiceEndOtherLoginsProcedure) {
				continue // its token, or that of the administrator, would be good for nothing
			}
			code := call(t.Context(), procedure)
			refused := code == connect.CodePermissionDenied
			if refused == id.Has(role) {
				t.Errorf("%s as %s: %v", procedure, name, code)
			}
		}
	}
	nobody := caller(hc, r.url, nil)
	for procedure, role := range rpc.Policy(rpc.Kinds()) {
		if code := nobody(t.Context(), procedure); (code == connect.CodeUnauthenticated) == (role == identity.RoleOpen) {
			t.Errorf("%s without a token: %v", procedure, code)
		}
	}
}

// TestPolicyIsWhatIsMeant writes down again who may do what, so that a change of it is seen.
func TestPolicyIsWhatIsMeant(t *testing.T) {
	t.Parallel()
	for procedure, role := range rpc.Policy(rpc.Kinds()) {
		_, method, _ := strings.Cut(strings.TrimPrefix(procedure, "/fairlead.console.v1."), "/")
		var want identity.Role
		switch {
		case strings.HasPrefix(method, "Exchange") || method == "JoinCluster" || method == "GetLoginOptions":
			want = identity.RoleOpen
		case method == "RenewToken" || method == "GetCaller":
			want = identity.RoleAny
		case method == "LeaveCluster":
			want = identity.RoleUser | identity.RoleAgent
		case method == "Logout" || method == "GetHub" || method == "ListLogins" || method == "EndLogin" ||
			method == "EndOtherLogins" || method == "CheckAccess" || method == "CreateToken" ||
			method == "ListTokens" || method == "RevokeToken":
			want = identity.RoleUser // the calls are about the caller
		case method == "ListRevisions" || method == "ListDeployments":
			want = identity.RoleUser
		case method == "BeginRecording" || method == "AppendRecording":
			want = identity.RoleTunnel
		case method == "ListRecordings" || method == "ReadRecording":
			want = identity.RoleUser // grants decide about them
		case strings.Contains(method, "ClusterView") || method == "ListViewRows" || method == "GetViewCurves":
			want = identity.RoleUser // grants decide about them
		case strings.HasSuffix(method, "AccessRequest") || method == "ListAccessRequests":
			want = identity.RoleUser // grants decide about them
		case method == "CheckBackend":
			want = identity.RoleAdmin // a check reads with whatever Secret
		case strings.Contains(method, "Sink") || strings.Contains(method, "AgentConfig") ||
			strings.Contains(method, "ViewSet") || strings.Contains(method, "Alert") ||
			strings.Contains(method, "Backend") || strings.Contains(method, "ConfigSet") ||
			strings.HasPrefix(method, "PreviewConfig") || method == "ListConfigUsers":
			want = identity.RoleUser
		case method == "AccessConfigs":
			want = identity.RoleDistributor
		case isJudged(method):
			want = identity.RoleUser
		case method == "GetTrustBundle":
			want = identity.RoleHub
		case method == "ClaimSource" || method == "PublishHeads" || method == "AccessSecret":
			want = identity.RoleGitcache
		case method == "RecordAuditEvents":
			want = identity.RoleHub
		case method == "RecordTokenUses":
			want = identity.RoleTunnel
		case method == "GetRemovals" || method == "ListAuditEvents" || method == "WatchAuditEvents":
			want = identity.RoleAdmin
		case strings.HasPrefix(method, "Record") || method == "ApplyFolder":
			want = identity.RoleDistributor
		case method == "Watch":
			want = identity.RoleGitcache | identity.RoleDistributor | identity.RoleTunnel
		case strings.HasPrefix(method, "Get") || strings.HasPrefix(method, "List"):
			want = identity.RoleUser | identity.RoleHub
		default:
			want = identity.RoleAdmin
		}
		if role != want {
			t.Errorf("%s is for %v, want %v", procedure, role, want)
		}
	}
}

// isJudged holds for what users may call, and grants decide about.
func isJudged(method string) bool {
	for _, kind := range []string{"Source", "Secret", "Cluster", "Clusters", "Service", "Services"} {
		if method == "Update"+kind || method == "BatchUpdate"+kind || method == "Delete"+kind {
			return true
		}
	}
	return method == "Apply" || method == "WatchResources" || method == "WatchQueries" || method == "CountResources" ||
		method == "Search" || method == "ListEvents" || method == "WatchEvents" ||
		strings.HasSuffix(method, "Service") && !strings.HasPrefix(method, "Get") || method == "RequestSync" ||
		method == "ConfirmPrune" || method == "RunTests" || method == "UndeleteResource" || method == "Freeze" ||
		method == "Unfreeze"
}

// caller calls a procedure with an empty request and returns the code: for a good caller that is
// whatever the procedure has to say about an empty request.
func caller(hc *http.Client, url string, token identity.TokenSource) func(context.Context, string) connect.Code {
	opts := client.Options()
	if token != nil {
		opts = append(opts, client.WithToken(token))
	}
	return func(ctx context.Context, procedure string) connect.Code {
		if strings.Contains(procedure, "/Watch") {
			return watchOnce(ctx, hc, url+procedure, opts)
		}
		c := connect.NewClient[consolev1.GetTrustBundleRequest, consolev1.GetTrustBundleRequest](hc,
			url+procedure, opts...)
		if _, err := c.CallUnary(ctx, connect.NewRequest(&consolev1.GetTrustBundleRequest{})); err != nil {
			return connect.CodeOf(err)
		}
		return 0
	}
}

func watchOnce(ctx context.Context, hc *http.Client, url string, opts []connect.ClientOption) connect.Code {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := connect.NewClient[consolev1.WatchRequest, consolev1.WatchResponse](hc, url, opts...)
	stream, err := c.CallServerStream(ctx, connect.NewRequest(&consolev1.WatchRequest{}))
	if err == nil && stream.Receive() {
		return 0
	}
	return connect.CodeOf(errors.Join(err, stream.Err()))
}

func TestForgedTokenIsRefused(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := keys.Sign(identity.Identity{
		Kind: identity.KindUser, Name: "ada",
		Groups: []string{identity.AdminsGroup},
	}, identity.UserLifetime)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.as(t, forged).sources.ListSources(t.Context(), &consolev1.ListSourcesRequest{})
	wantCode(t, err, connect.CodeUnauthenticated)
}

func TestMetricsNeedAToken(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	if code, _ := r.metrics(t, ""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	if code, body := r.metrics(t, r.adminToken(t)); code != http.StatusOK ||
		!strings.Contains(body, "\nfairlead_console_watch_streams ") {
		t.Errorf("with a token: %d\n%s", code, body)
	}
}

func TestHubSecretIsExchangedForWhatItIsWorth(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	nobody := r.as(t, "")
	_, err := nobody.identity.ExchangeHubSecret(t.Context(), &consolev1.ExchangeHubSecretRequest{
		HubSecret: "not the secret at all", Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "mallory"},
	})
	wantCode(t, err, connect.CodeUnauthenticated, "--hub-secret-file")
	resp, err := nobody.identity.ExchangeHubSecret(t.Context(), &consolev1.ExchangeHubSecretRequest{
		HubSecret: r.secret, Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "ada"},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := resp.GetEndpoints()
	if e.GetConsole() != r.url || len(e.GetGitcaches()) != 1 || len(e.GetDistributors()) != 1 ||
		len(e.GetTunnels()) != 1 {
		t.Errorf("endpoints %v", e)
	}
	_, err = nobody.identity.ExchangeHubSecret(t.Context(), &consolev1.ExchangeHubSecretRequest{
		HubSecret: r.secret, Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "system:masters"},
	})
	wantCode(t, err, connect.CodeInvalidArgument, "reserved by Kubernetes")
	renewed, err := r.as(t, resp.GetToken().GetToken()).identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{})
	if err != nil || renewed.GetToken().GetToken() == resp.GetToken().GetToken() {
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	r.as(t, renewed.GetToken().GetToken()).putCluster(t, "edge-1") // still an administrator
	if strings.Contains(r.logs.String(), r.secret) || strings.Contains(r.logs.String(), "not the secret at all") {
		t.Error("a secret is in the log")
	}
}

func TestGuessingIsThrottled(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	nobody := r.as(t, "")
	for i := range 100 {
		_, err := nobody.identity.JoinCluster(t.Context(), joining(fmt.Sprintf("fairlead-join-%020d", i)))
		if connect.CodeOf(err) == connect.CodeResourceExhausted {
			var ce *connect.Error
			if !errors.As(err, &ce) || ce.Meta().Get("Retry-After") == "" {
				t.Errorf("no Retry-After in %v", err)
			}
			return
		}
		wantCode(t, err, connect.CodeUnauthenticated)
	}
	t.Fatal("100 guesses went through")
}

// An agent that has joined as another cluster is told so before it is this one: the token is still good.
func TestAJoinTokenForAnotherClusterStaysGood(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	made, err := admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	join := joining(made.GetJoinToken())
	join.Cluster = "edge-2"
	_, err = r.as(t, "").identity.JoinCluster(t.Context(), join)
	wantCode(t, err, connect.CodeFailedPrecondition, `is cluster "edge-2"`, `for cluster "edge-1"`)
	got, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
	if err != nil || got.GetCluster().GetStatus().GetJoinTime() != nil {
		t.Errorf("joined: %v, %v", got, err)
	}
	join.Cluster = "edge-1"
	if _, err := r.as(t, "").identity.JoinCluster(t.Context(), join); err != nil {
		t.Error(err)
	}
}

func TestJoinTokenWorksOnceForItsCluster(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	_, err := admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: "nowhere"})
	wantCode(t, err, connect.CodeNotFound, `cluster "nowhere"`)
	made, err := admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won []*consolev1.JoinClusterResponse
	for range 8 {
		nobody := r.as(t, "")
		wg.Go(func() {
			resp, err := nobody.identity.JoinCluster(t.Context(), joining(made.GetJoinToken()))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, resp)
			} else if connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || won[0].GetCluster() != "edge-1" {
		t.Fatalf("%d agents joined: %v", len(won), won)
	}
	got, err := admin.clusters.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: "edge-1"})
	if err != nil || got.GetCluster().GetStatus().GetJoinTime() == nil {
		t.Fatalf("status %v, %v", got, err)
	}
	err = filepath.WalkDir(r.dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte(made.GetJoinToken())) {
			t.Errorf("the join token is in %s", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(r.logs.String(), made.GetJoinToken()) {
		t.Error("the join token is in the log")
	}
}

func TestDeletedClusterTakesItsAgentsTokensAway(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	token := admin.join(t, "edge-1")
	agent := r.as(t, token)
	renewed, err := agent.identity.RenewToken(t.Context(), renewing(token))
	if err != nil {
		t.Fatal(err)
	}
	pending, err := admin.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{Name: "edge-1"}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{token, renewed.GetToken().GetToken()} {
		_, err = r.as(t, text).identity.RenewToken(t.Context(), renewing(text))
		wantCode(t, err, connect.CodeUnauthenticated)
	}
	admin.putCluster(t, "edge-1") // another one of the same name
	_, err = agent.identity.RenewToken(t.Context(), renewing(token))
	wantCode(t, err, connect.CodeUnauthenticated)
	_, err = admin.identity.JoinCluster(t.Context(), joining(pending.GetJoinToken()))
	wantCode(t, err, connect.CodeUnauthenticated)
	// And its own agent can join at once.
	own := admin.join(t, "edge-1")
	if _, err := r.as(t, own).identity.RenewToken(t.Context(), renewing(own)); err != nil {
		t.Fatal(err)
	}
	gitcache := r.service(t, identity.ServiceGitcache)
	bundle, err := gitcache.identity.GetTrustBundle(t.Context(), &consolev1.GetTrustBundleRequest{})
	if err != nil || len(bundle.GetRevocations()) != 1 || bundle.GetRevocations()[0].GetSubject() != "agent:edge-1" ||
		len(bundle.GetKeys()) == 0 {
		t.Fatalf("bundle %v, %v", bundle, err)
	}
}

func TestRevokedTokenCanNotBeRenewedAtAnotherConsole(t *testing.T) {
	t.Parallel()
	h := newHub(t, postgres.Database(t))
	a, b := h.start(t), h.start(t)
	token := a.adminToken(t)
	if _, err := a.as(t, token).identity.RevokeTokens(t.Context(), &consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_Subject{Subject: "user:ada"}}); err != nil {
		t.Fatal(err)
	}
	// At once: console b has not reloaded yet, or has, and must refuse either way.
	_, err := b.as(t, token).identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{})
	wantCode(t, err, connect.CodeUnauthenticated)
	_, err = a.as(t, token).sources.ListSources(t.Context(), &consolev1.ListSourcesRequest{})
	wantCode(t, err, connect.CodeUnauthenticated)
	for _, subject := range []string{"ada", "robot:ada", "user:"} {
		_, err = a.admin(t).identity.RevokeTokens(t.Context(),
			&consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_Subject{Subject: subject}})
		wantCode(t, err, connect.CodeInvalidArgument)
	}
}

// A mistyped name is told. The revocation holds all the same.
func TestRevokingWhatTheHubDoesNotKnowIsTold(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putCluster(t, "edge-1")
		token, err := r.user(t, "bob").tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for subject, unknown := range map[string]bool{
			"user:bob": false, "user:bop": true, "agent:edge-1": false, "agent:edge-l": true,
			"service:gitcache": false, "service:gitcash": true,
		} {
			got, err := admin.identity.RevokeTokens(t.Context(),
				&consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_Subject{Subject: subject}})
			if err != nil || got.GetUnknown() != unknown {
				t.Errorf("%s: got %v, %v", subject, got, err)
			}
		}
		for id, unknown := range map[string]bool{token.GetInfo().GetId(): false, "0a1b": true} {
			got, err := admin.identity.RevokeTokens(t.Context(),
				&consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_TokenId{TokenId: id}})
			if err != nil || got.GetUnknown() != unknown {
				t.Errorf("token %s: got %v, %v", id, got, err)
			}
		}
	})
}

func TestRevokedTokenTakesItsRenewalsAlong(t *testing.T) {
	t.Parallel()
	h := newHub(t, postgres.Database(t))
	a, b := h.start(t), h.start(t)
	first, err := a.as(t, "").identity.ExchangeHubSecret(t.Context(), &consolev1.ExchangeHubSecretRequest{
		HubSecret: a.secret, Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "eve"},
	})
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := b.as(t, first.GetToken().GetToken()).identity.RenewToken(t.Context(),
		&consolev1.RenewTokenRequest{})
	if err != nil || renewed.GetToken().GetId() != first.GetToken().GetId() {
		t.Fatalf("renewed %v, %v", renewed.GetToken().GetId(), err)
	}
	revoke := &consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_TokenId{TokenId: first.GetToken().GetId()}}
	if _, err := a.admin(t).identity.RevokeTokens(t.Context(), revoke); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{first.GetToken().GetToken(), renewed.GetToken().GetToken()} {
		_, err = a.as(t, token).sources.ListSources(t.Context(), &consolev1.ListSourcesRequest{})
		wantCode(t, err, connect.CodeUnauthenticated)
		_, err = b.as(t, token).identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{})
		wantCode(t, err, connect.CodeUnauthenticated)
	}
}

func TestRotatedKeyKeepsOldTokensValid(t *testing.T) {
	t.Parallel()
	h := newHub(t, postgres.Database(t))
	a, b := h.start(t), h.start(t)
	admin := a.admin(t)
	rotated, err := admin.identity.RotateSigningKey(t.Context(), &consolev1.RotateSigningKeyRequest{})
	if err != nil || rotated.GetKeyId() == "" {
		t.Fatalf("rotated %v, %v", rotated, err)
	}
	admin.putCluster(t, "edge-1")
	b.admin(t).putCluster(t, "edge-2")
	bundle, err := a.service(t, identity.ServiceTunnel).identity.GetTrustBundle(t.Context(),
		&consolev1.GetTrustBundleRequest{})
	if err != nil || !bytes.Contains(bundle.GetKeys(), []byte(rotated.GetKeyId())) {
		t.Fatalf("the new key is not published: %v", err)
	}
	if bytes.Contains(bundle.GetKeys(), []byte(`"d":`)) {
		t.Fatal("a private key is published")
	}
}
