package acceptance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console"
	"fairlead.dev/services/console/internal/rpc"
)

// readsOnly holds for procedures that show a caller what it may see, and change nothing.
func readsOnly(method string) bool {
	for _, prefix := range []string{"Get", "List", "Watch", "Count", "Check", "Preview", "Search"} {
		if strings.HasPrefix(method, prefix) && method != "CheckBackend" { // which reads with any Secret
			return true
		}
	}
	return false
}

// hubsOwn are calls by which services of the hub hand on what they saw. A write by an agent or a folder is in the trail
// as its own event.
func hubsOwn(method string) bool {
	return strings.HasPrefix(method, "Record") || method == "BeginRecording" || method == "AppendRecording" ||
		method == "ClaimSource" || method == "PublishHeads" || method == "ApplyFolder"
}

// writesCatalog holds for writes of resources, all of which pass the hook that TestAuditOfEveryWrite tries.
func writesCatalog(method string) bool {
	for _, prefix := range []string{"Update", "Delete", "BatchUpdate"} {
		if strings.HasPrefix(method, prefix) {
			return true
		}
	}
	switch method {
	case "Apply", "ConfirmGlobalService", "RollbackService", "UndeleteResource", "HoldService", "ResumeService",
		"PinService", "RequestSync", "ConfirmPrune", "RunTests", "Freeze", "Unfreeze":
		return true
	}
	return false
}

// A procedure that changes or reveals something and writes no resource has an event of its own: a new one fails here
// until it has.
func TestEveryProcedureThatChangesOrRevealsLeavesAnEvent(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	r := h.startWith(t, func(c *console.Config) { c.Server.Plaintext = true })
	admin, nobody := r.admin(t), r.as(t, "")
	source := newSource("shop")
	source.Spec.Git.Secret = "git"
	if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{AllowMissing: true, Secret: &consolev1.Secret{Metadata: meta("git"), Data: map[string]string{"token": "x"}}}); err != nil {
		t.Fatal(err)
	}
	admin.must(t, source, newCluster("edge-1"), newCluster("edge-2"))
	api, err := admin.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	lea := r.as(t, r.sign(t, identity.Identity{
		Kind: identity.KindUser, Name: "lea",
		Groups: []string{identity.AdminsGroup},
	}))
	ask := func(role string) string { return admin.ask(t, role).GetId() }
	acts := map[string]struct {
		event string // "": another test has the event
		do    func() error
	}{
		"ExchangeHubSecret": {"login.service", func() error { r.service(t, identity.ServiceTunnel); return nil }},
		"RenewToken":        {"token.renew", func() error { _, err := admin.identity.RenewToken(ctx, &consolev1.RenewTokenRequest{}); return err }},
		"RenewToken to lend": {"token.lend", func() error {
			_, err := admin.identity.RenewToken(ctx,
				&consolev1.RenewTokenRequest{Lifetime: durationpb.New(time.Minute)})
			return err
		}},
		"ExchangeToken": {"token.exchange", func() error {
			_, err := nobody.tokens.ExchangeToken(ctx, &consolev1.ExchangeTokenRequest{Token: api.GetToken()})
			return err
		}},
		"JoinCluster": {"cluster.join", func() error { admin.join(t, "edge-1"); return nil }},
		"CreateJoinToken": {"join-token.create", func() error {
			_, err := admin.identity.CreateJoinToken(ctx, &consolev1.CreateJoinTokenRequest{Cluster: "edge-2"})
			return err
		}},
		"RenderAgentManifest": {"join-token.create", func() error {
			_, err := admin.clusters.RenderAgentManifest(ctx, &consolev1.RenderAgentManifestRequest{Cluster: "edge-2"})
			return err
		}},
		"CreateUserToken": {"token.create", func() error {
			_, err := admin.identity.CreateUserToken(ctx, &consolev1.CreateUserTokenRequest{User: "kim"})
			return err
		}},
		"CreateToken": {"token.create", func() error { _, err := admin.tokens.CreateToken(ctx, &consolev1.CreateTokenRequest{}); return err }},
		"RevokeToken": {"token.revoke", func() error {
			made, err := admin.tokens.CreateToken(ctx, &consolev1.CreateTokenRequest{})
			if err != nil {
				return err
			}
			_, err = admin.tokens.RevokeToken(ctx, &consolev1.RevokeTokenRequest{Id: made.GetInfo().GetId()})
			return err
		}},
		"Logout": {"token.revoke", func() error {
			made, err := admin.identity.CreateUserToken(ctx, &consolev1.CreateUserTokenRequest{User: "kim"})
			if err != nil {
				return err
			}
			kim := r.as(t, made.GetToken().GetToken())
			if _, err := kim.logins.Logout(ctx, &consolev1.LogoutRequest{}); err != nil {
				return err
			}
			_, err = kim.services.ListServices(ctx, &consolev1.ListServicesRequest{})
			wantCode(t, err, connect.CodeUnauthenticated)
			return nil
		}},
		"EndLogin": {"login.end", func() error {
			kim, list, err := r.loggedInTwice(t)
			if err != nil {
				return err
			}
			_, err = kim.logins.EndLogin(ctx, &consolev1.EndLoginRequest{Id: list[0].GetId()})
			return err
		}},
		"EndOtherLogins": {"login.end", func() error {
			kim, _, err := r.loggedInTwice(t)
			if err != nil {
				return err
			}
			_, err = kim.logins.EndOtherLogins(ctx, &consolev1.EndOtherLoginsRequest{})
			return err
		}},
		"CreateLoginLink": {"login.link.create", func() error {
			_, err := admin.logins.CreateLoginLink(ctx, &consolev1.CreateLoginLinkRequest{User: "kim"})
			return err
		}},
		"ExchangeLoginLink": {"login.link", func() error {
			made, err := admin.logins.CreateLoginLink(ctx, &consolev1.CreateLoginLinkRequest{User: "kim"})
			if err != nil {
				return err
			}
			_, err = nobody.logins.ExchangeLoginLink(ctx, &consolev1.ExchangeLoginLinkRequest{Link: made.GetLink()})
			return err
		}},
		"ExchangeIDToken": {"", nil}, // login.oidc: it takes a provider
		"LeaveCluster": {"cluster.leave", func() error {
			_, err := admin.logins.LeaveCluster(ctx, &consolev1.LeaveClusterRequest{Cluster: "edge-2"})
			return err
		}},
		"AccessSecret": {"secret.access", func() error {
			_, err := r.service(t, identity.ServiceGitcache).secrets.AccessSecret(ctx,
				&consolev1.AccessSecretRequest{Name: "git"})
			return err
		}},
		"AccessConfigs": {"", nil}, // config.access: it takes a configuration that was delivered
		"CheckBackend": {"backend.check", func() error {
			_, err := admin.backends.CheckBackend(ctx,
				&consolev1.CheckBackendRequest{Backend: newBackend("tried"), Path: "a.yaml"})
			return err
		}},
		"SilenceAlert": {"alert.silence", func() error {
			admin.must(t, newAlert("noise", "name = edge-1"))
			_, err := admin.alerts.SilenceAlert(ctx, &consolev1.SilenceAlertRequest{
				Name: "noise", Reason: "x",
				UntilTime: timestamppb.New(time.Now().Add(time.Hour)),
			})
			return err
		}},
		"AcknowledgeAlert": {"alert.acknowledge", func() error {
			admin.must(t, newAlert("found", "name = edge-1"))
			admin.awaitFiring(t, "found")
			_, err := admin.alerts.AcknowledgeAlert(ctx, &consolev1.AcknowledgeAlertRequest{Name: "found", Reason: "x"})
			return err
		}},
		"TestSink": {"sink.test", func() error {
			admin.must(t, &consolev1.Sink{
				Metadata: meta("hook"),
				Spec:     &consolev1.SinkSpec{To: &consolev1.SinkSpec_Webhook{Webhook: &consolev1.WebhookSink{Url: "http://127.0.0.1:1/", Key: secret(plantedKey)}}},
			})
			_, err := admin.sinks.TestSink(ctx, &consolev1.TestSinkRequest{Name: "hook"})
			return err
		}},
		"ReadRecording":       {"", nil}, // recording.read: it takes a recording
		"CreateAccessRequest": {"access.request", func() error { ask("viewer"); return nil }},
		"ApproveAccessRequest": {"access.approve", func() error {
			_, err := lea.lending.ApproveAccessRequest(ctx, &consolev1.ApproveAccessRequestRequest{Id: ask("deployer")})
			return err
		}},
		"DenyAccessRequest": {"access.deny", func() error {
			_, err := lea.lending.DenyAccessRequest(ctx, &consolev1.DenyAccessRequestRequest{Id: ask("operator")})
			return err
		}},
		"RevokeAccessRequest": {"access.revoke", func() error {
			_, err := admin.lending.RevokeAccessRequest(ctx, &consolev1.RevokeAccessRequestRequest{Id: ask("admin")})
			return err
		}},
		"Backup":          {"database.backup", func() error { r.backup(t); return nil }},
		"ConfirmRemovals": {"", nil}, // removals.confirm: it takes a database that was put back
		"RotateSigningKey": {"key.rotate", func() error {
			_, err := admin.identity.RotateSigningKey(ctx, &consolev1.RotateSigningKeyRequest{})
			return err
		}},
		"RevokeTokens": {"token.revoke", func() error {
			_, err := admin.identity.RevokeTokens(ctx,
				&consolev1.RevokeTokensRequest{Which: &consolev1.RevokeTokensRequest_Subject{Subject: "user:kim"}})
			return err
		}},
	}
	for procedure := range rpc.Policy(rpc.Kinds()) {
		method := procedure[strings.LastIndexByte(procedure, '/')+1:]
		if _, ok := acts[method]; !ok && !readsOnly(method) && !hubsOwn(method) && !writesCatalog(method) {
			t.Errorf("%s changes or reveals something: say which event it leaves", procedure)
		}
	}
	for what, act := range acts {
		if act.do == nil {
			continue
		}
		before := len(admin.eventsOf(t, act.event))
		if err := act.do(); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		await.True(t, "the trail has "+act.event+" of "+what,
			func() bool { return len(admin.eventsOf(t, act.event)) > before })
	}

	// Nor are reads of the console's log and profiles procedures.
	for i, path := range []string{"/debug/log", "/debug/pprof/goroutine?debug=1"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.adminToken(t))
		resp, err := newHTTPClient(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		await.True(t, "the trail has debug.read of "+path,
			func() bool { return len(admin.eventsOf(t, "debug.read")) == i+1 })
	}

	// Sessions of browsers are no procedures.
	cookie := ""
	for _, step := range []struct{ method, event string }{
		{http.MethodPost, "session.begin"},
		{http.MethodDelete, "session.end"},
	} {
		req, err := http.NewRequestWithContext(ctx, step.method, r.url+"/v1/session", nil)
		if err != nil {
			t.Fatal(err)
		}
		token := cookie
		if token == "" {
			token = r.adminToken(t)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := newHTTPClient(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		for _, c := range resp.Cookies() {
			cookie = c.Value
		}
		await.True(t, "the trail has "+step.event, func() bool { return len(admin.eventsOf(t, step.event)) == 1 })
	}
}

// loggedInTwice is a person with two logins, and those.
func (r *running) loggedInTwice(t *testing.T) (api, []*consolev1.Login, error) {
	t.Helper()
	var last string
	for range 2 {
		made, err := r.as(t, "").identity.ExchangeHubSecret(t.Context(), &consolev1.ExchangeHubSecretRequest{
			HubSecret: r.secret, Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "lou"},
		})
		if err != nil {
			return api{}, nil, err
		}
		last = made.GetToken().GetToken()
	}
	person := r.as(t, last)
	list, err := person.logins.ListLogins(t.Context(), &consolev1.ListLoginsRequest{})
	return person, list.GetLogins(), err
}

// eventsOf are the events of exactly an action.
func (a api) eventsOf(t *testing.T, action string) (out []*consolev1.AuditEvent) {
	t.Helper()
	list, err := a.audit.ListAuditEvents(t.Context(),
		&consolev1.ListAuditEventsRequest{PageSize: 1000, Filter: &consolev1.AuditFilter{Action: action}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.GetEvents() {
		if e.GetAction() == action {
			out = append(out, e)
		}
	}
	return out
}
