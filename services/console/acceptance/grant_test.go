package acceptance

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console"
)

func grant(name, role string, clusters *consolev1.GrantClusters) *consolev1.Grant {
	return &consolev1.Grant{Metadata: &consolev1.Metadata{Name: name}, Spec: &consolev1.GrantSpec{
		Subjects: []*consolev1.GrantSubject{
			{Subject: &consolev1.GrantSubject_User{User: "ada"}},
			{Subject: &consolev1.GrantSubject_Group{Group: "dev's \u0000 é"}},
		},
		Role: role, Clusters: clusters,
	}}
}

func TestGrantsAreKeptAndFollowed(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testGrants(t, newHub(t, db).start(t))
		})
	}
}

func testGrants(t *testing.T, r *running) {
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	want := grant("dev", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
	put := func(g *consolev1.Grant) (consolev1.Outcome, error) {
		res, err := admin.grants.UpdateGrant(t.Context(), &consolev1.UpdateGrantRequest{Grant: g, AllowMissing: true})
		return res.GetOutcome(), err
	}
	for _, outcome := range []consolev1.Outcome{
		consolev1.Outcome_OUTCOME_CREATED, consolev1.Outcome_OUTCOME_UNCHANGED,
	} {
		if got, err := put(want); err != nil || got != outcome {
			t.Fatalf("got %v, %v; want %v", got, err, outcome)
		}
	}
	got, err := admin.grants.GetGrant(t.Context(), &consolev1.GetGrantRequest{Name: "dev"})
	if err != nil || !proto.Equal(got.GetGrant().GetSpec(), want.GetSpec()) {
		t.Fatalf("got %v, %v", got, err)
	}
	if _, err := admin.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{
		Name: "edge-1",
	}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("delete a cluster that people are let into: %v", err)
	}
	for what, g := range map[string]*consolev1.Grant{
		"no cluster":  grant("x", "viewer", &consolev1.GrantClusters{}),
		"two choices": grant("x", "viewer", &consolev1.GrantClusters{All: true, Names: []string{"edge-1"}}),
		"no role":     grant("x", "", &consolev1.GrantClusters{All: true}),
		"empty labels": {
			Metadata: &consolev1.Metadata{Name: "x"},
			Spec:     &consolev1.GrantSpec{Role: "viewer", Clusters: &consolev1.GrantClusters{All: true}},
		},
	} {
		if _, err := put(g); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := put(grant("x", "root", &consolev1.GrantClusters{
		All: true,
	})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a role that does not exist: %v", err)
	}
	if _, err := put(grant("x", "viewer", &consolev1.GrantClusters{
		Names: []string{"nowhere"},
	})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a cluster that does not exist: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := r.service(t, identity.ServiceTunnel).catalog.Watch(ctx, &consolev1.WatchRequest{
		Kinds: []consolev1.Kind{consolev1.Kind_KIND_GRANT},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var told []string
	for len(told) < 3 && stream.Receive() {
		if stream.Msg().GetSnapshotEnd() != nil {
			if _, err := put(grant("ops", "operator", &consolev1.GrantClusters{
				Labels: map[string]string{"env": "prod"},
			})); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.grants.DeleteGrant(t.Context(), &consolev1.DeleteGrantRequest{Name: "dev"}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range stream.Msg().GetChanges().GetChanges() {
			if c.GetDeleted() != nil {
				told = append(told, "-"+c.GetDeleted().GetName())
			} else {
				told = append(told, c.GetGrant().GetMetadata().GetName()+" "+c.GetGrant().GetSpec().GetRole())
			}
		}
	}
	if got := strings.Join(told, ", "); got != "dev viewer, ops operator, -dev" {
		t.Errorf("told %s: %v", got, stream.Err())
	}
}

func TestLentTokenIsShortAndFinal(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	minute := durationpb.New(time.Minute)
	lent, err := admin.identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{Lifetime: minute})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(lent.GetToken().GetExpireTime().AsTime()); left > time.Minute {
		t.Errorf("it lives for %s", left)
	}
	holder := r.as(t, lent.GetToken().GetToken())
	if _, err := holder.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{}); err != nil {
		t.Errorf("it is not good: %v", err)
	}
	if _, err := holder.identity.RenewToken(t.Context(),
		&consolev1.RenewTokenRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("it was renewed: %v", err)
	}
	again, err := holder.identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{
		Lifetime: durationpb.New(time.Hour),
	})
	if err == nil && again.GetToken().GetExpireTime().AsTime().After(lent.GetToken().GetExpireTime().AsTime()) {
		t.Errorf("it was lent for longer: %v", again.GetToken().GetExpireTime().AsTime())
	}
	if _, err := holder.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{
		User: "eve",
	}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("it made another one: %v", err)
	}
	if _, err := admin.identity.RevokeTokens(t.Context(), &consolev1.RevokeTokensRequest{
		Which: &consolev1.RevokeTokensRequest_TokenId{TokenId: lent.GetToken().GetId()},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.clusters.ListClusters(t.Context(),
		&consolev1.ListClustersRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("it outlives its revocation: %v", err)
	}
}

// A request that the owner begins with a token that was lent to them goes on until their login ends; a request of
// somebody else, or of anybody with a token of a chosen life, ends with the token.
func TestRequestsOutliveOnlyTheTokenThatTheirOwnerWasLent(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	bundle, err := r.service(t, identity.ServiceTunnel).identity.GetTrustBundle(t.Context(),
		&consolev1.GetTrustBundleRequest{})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := identity.NewBundleVerifier(identity.BundleFromProto(bundle))
	if err != nil {
		t.Fatal(err)
	}
	verified := func(token *consolev1.Token) identity.Identity {
		t.Helper()
		id, err := verifier.Verify(token.GetToken())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	lend := func(a api, req *consolev1.RenewTokenRequest) identity.Identity {
		t.Helper()
		res, err := a.identity.RenewToken(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return verified(res.GetToken())
	}
	login, err := verifier.Verify(r.adminToken(t))
	if err != nil {
		t.Fatal(err)
	}
	own := &consolev1.RenewTokenRequest{Lifetime: durationpb.New(10 * time.Second), RequestsOutlive: true}
	if got := lend(admin, own); got.RequestsEnd().Before(login.ExpiresAt.Add(-time.Minute)) ||
		got.RequestsEnd().After(login.ExpiresAt.Add(time.Minute)) {
		t.Errorf("its requests end at %s, the login at %s", got.RequestsEnd(), login.ExpiresAt)
	}
	if got := lend(admin, &consolev1.RenewTokenRequest{
		Lifetime: durationpb.New(time.Minute),
	}); !got.RequestsEnd().Equal(got.ExpiresAt) {
		t.Errorf("a chosen life: its requests end at %s, it at %s", got.RequestsEnd(), got.ExpiresAt)
	}
	made, err := admin.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{
		User: "bob", Lifetime: durationpb.New(10 * time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	bob := verified(made.GetToken())
	if !bob.RequestsEnd().Equal(bob.ExpiresAt) {
		t.Errorf("made for somebody: its requests end at %s, it at %s", bob.RequestsEnd(), bob.ExpiresAt)
	}
	if got := lend(r.as(t, made.GetToken().GetToken()), own); got.RequestsEnd().After(bob.ExpiresAt) {
		t.Errorf("lent of what was made for somebody: its requests end at %s, that at %s", got.RequestsEnd(),
			bob.ExpiresAt)
	}
	lasting, err := admin.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := lend(r.as(t, lasting.GetToken()),
		own); got.RequestsEnd().After(time.Now().Add(identity.UserLifetime + time.Minute)) {
		t.Errorf("lent of an API token: its requests end at %s", got.RequestsEnd())
	}
	if _, err := admin.identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{
		RequestsOutlive: true,
	}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a renewal whose requests outlive it: %v", err)
	}
}

func TestUserTokenHasItsGroups(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	made, err := admin.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{
		User: "bob", Groups: []string{"dev"},
	})
	if err != nil {
		t.Fatal(err)
	}
	bob := r.as(t, made.GetToken().GetToken())
	admin.putCluster(t, "x")
	if _, err := bob.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{}); err != nil {
		t.Errorf("it is not good: %v", err)
	}
	// which he may not see either
	if _, err := bob.clusters.DeleteCluster(t.Context(), &consolev1.DeleteClusterRequest{
		Name: "x",
	}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("bob is an administrator: %v", err)
	}
	for _, user := range []string{"system:admin", "a\x00b"} {
		if _, err := admin.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{
			User: user,
		}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%q: %v", user, err)
		}
	}
	if _, err := admin.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{
		User: "bob", Groups: []string{"system:masters"},
	}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("system:masters: %v", err)
	}
}

func TestLentTokenMakesNoCredentialAndNoRight(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").startWith(t, func(c *console.Config) { c.Server.Plaintext = true })
	admin := r.admin(t)
	admin.putCluster(t, "edge-1")
	source := admin.putSource(t, "repo", "https://git.example.com/repo.git")
	if _, err := admin.accounts.UpdateServiceAccount(t.Context(), &consolev1.UpdateServiceAccountRequest{
		AllowMissing: true, ServiceAccount: &consolev1.ServiceAccount{Metadata: meta("robot")},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
		AllowMissing: true, Service: &consolev1.Service{
			Metadata: meta("catalog"),
			Spec:     &consolev1.ServiceSpec{Source: "repo", Catalog: true, ServiceAccount: "robot"},
		},
	}); err != nil {
		t.Fatal(err)
	}
	lent, err := admin.identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{
		Lifetime: durationpb.New(10 * time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	handed, err := admin.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{
		User: "eve", Groups: []string{identity.AdminsGroup},
	})
	if err != nil {
		t.Fatal(err)
	}
	api, err := admin.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	exchanged, err := admin.tokens.ExchangeToken(t.Context(), &consolev1.ExchangeTokenRequest{Token: api.GetToken()})
	if err != nil {
		t.Fatal(err)
	}
	session := func(token string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/session", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := newHTTPClient(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for _, c := range resp.Cookies() {
			if c.Name == identity.SessionCookie {
				return c.Value
			}
		}
		t.Fatalf("no session: %s", resp.Status)
		return ""
	}
	wider := func(name string) *consolev1.Grant { return grant(name, "admin", &consolev1.GrantClusters{All: true}) }
	for what, token := range map[string]string{
		"lent": lent.GetToken().GetToken(), "made for somebody": handed.GetToken().GetToken(),
		"exchanged": exchanged.GetToken(), "a session of a lent one": session(lent.GetToken().GetToken()),
	} {
		a := r.as(t, token)
		_, join := a.identity.CreateJoinToken(t.Context(), &consolev1.CreateJoinTokenRequest{Cluster: "edge-1"})
		_, manifest := a.clusters.RenderAgentManifest(t.Context(), &consolev1.RenderAgentManifestRequest{
			Cluster: "edge-1",
		})
		_, user := a.identity.CreateUserToken(t.Context(), &consolev1.CreateUserTokenRequest{User: "eve"})
		_, link := a.logins.CreateLoginLink(t.Context(), &consolev1.CreateLoginLinkRequest{User: "eve"})
		_, own := a.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
		_, right := a.grants.UpdateGrant(t.Context(), &consolev1.UpdateGrantRequest{
			Grant: wider("eve"), AllowMissing: true,
		})
		_, applied := a.apply(t, &consolev1.ApplyRequest{Resources: anyOf(wider("eves"))})
		_, role := a.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
			AllowMissing: true,
			Role: &consolev1.Role{
				Metadata: meta("all"),
				Spec: &consolev1.RoleSpec{
					Rules: []*consolev1.RoleRule{{Verbs: []string{"*"}, Kinds: []string{"*"}}},
				},
			},
		})
		_, account := a.accounts.UpdateServiceAccount(t.Context(), &consolev1.UpdateServiceAccountRequest{
			AllowMissing:   true,
			ServiceAccount: &consolev1.ServiceAccount{Metadata: meta("eve"), Spec: &consolev1.ServiceAccountSpec{}},
		})
		_, folder := a.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			AllowMissing: true, Service: &consolev1.Service{
				Metadata: meta("declares"),
				Spec:     &consolev1.ServiceSpec{Source: "repo", Catalog: true, ServiceAccount: "robot"},
			},
		})
		moved := proto.CloneOf(source)
		moved.Spec.Git.Url = "https://git.example.com/eve.git"
		_, elsewhere := a.sources.UpdateSource(t.Context(), &consolev1.UpdateSourceRequest{Source: moved})
		for door, err := range map[string]error{
			"folder of the catalog": folder, "source of such a folder": elsewhere, "join token": join,
			"agent's manifest": manifest, "token for somebody": user, "login link": link, "API token": own,
			"grant": right, "grant by apply": applied, "role": role, "service account": account,
		} {
			if connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "handed on") {
				t.Errorf("a token that was %s made a %s: %v", what, door, err)
			}
		}
		a.putCluster(t, "edge-1") // its owner's other rights it has
	}
	if _, err := r.as(t, api.GetToken()).identity.CreateJoinToken(t.Context(),
		&consolev1.CreateJoinTokenRequest{Cluster: "edge-1"}); err != nil {
		t.Errorf("an API token, which is lasting itself: %v", err)
	}
	if _, err := r.as(t, session(r.adminToken(t))).grants.UpdateGrant(t.Context(),
		&consolev1.UpdateGrantRequest{Grant: wider("mine"), AllowMissing: true}); err != nil {
		t.Errorf("a session of a login: %v", err)
	}
}
