package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console"
)

// reasons are the reasons of the events of an action, in their order in time, once there are so many.
func (a api) reasons(t *testing.T, action string, many int) (out []string) {
	t.Helper()
	tick, late := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		resp, err := a.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{
			Filter: &consolev1.AuditFilter{Action: action},
		})
		if err != nil {
			t.Fatal(err)
		}
		out = nil
		for _, e := range slices.Backward(resp.GetEvents()) {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", e.GetActor().GetName(), e.GetName(),
				e.GetRemote(), e.GetReason())))
		}
		if len(out) >= many {
			return out
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("there are not %d events of %s but %q", many, action, out)
		}
	}
}

func TestRefusedLoginsAndReadsOfSecretsAreAudited(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin, nobody := r.admin(t), r.as(t, "")
		_, secret := nobody.identity.ExchangeHubSecret(t.Context(), &consolev1.ExchangeHubSecretRequest{
			HubSecret: "planted-secret-that-is-wrong",
			Subject:   &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "mallory"},
		})
		_, link := nobody.logins.ExchangeLoginLink(t.Context(), &consolev1.ExchangeLoginLinkRequest{
			Link: "fairlead-login-planted",
		})
		_, join := nobody.identity.JoinCluster(t.Context(), joining("fairlead-join-planted-0123456789"))
		_, token := nobody.tokens.ExchangeToken(t.Context(), &consolev1.ExchangeTokenRequest{
			Token: "fairlead_planted_planted",
		})
		for _, err := range []error{secret, link, join, token} {
			wantCode(t, err, connect.CodeUnauthenticated)
		}
		_, err := r.as(t, "fairlead_planted_planted").sources.ListSources(t.Context(), &consolev1.ListSourcesRequest{})
		wantCode(t, err, connect.CodeUnauthenticated)

		wrong := " is wrong, used or expired"
		if got, want := admin.reasons(t, "login.refused", 4), []string{
			"127.0.0.1: the hub secret" + wrong, "127.0.0.1: the login link" + wrong,
			"127.0.0.1: the join token" + wrong, "127.0.0.1: the API token" + wrong,
		}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := admin.reasons(t, "token.refused", 1); !slices.Equal(got, []string{"127.0.0.1: token is not valid"}) {
			t.Errorf("got %q", got)
		}

		put := func(value string) {
			t.Helper()
			if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
				AllowMissing: true,
				Secret:       &consolev1.Secret{Metadata: meta("git"), Data: map[string]string{"token": value}},
			}); err != nil {
				t.Fatal(err)
			}
		}
		put("planted-1")
		named := newSource("shop")
		named.Spec.Git.WebhookSecret = "git"
		admin.must(t, named)
		gitcache := r.service(t, identity.ServiceGitcache)
		for _, value := range []string{"planted-1", "planted-2"} {
			put(value)
			for range 3 { // as at each poll
				if _, err := gitcache.secrets.AccessSecret(t.Context(), &consolev1.AccessSecretRequest{
					Name: "git",
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, want := admin.reasons(t, "secret.access", 2), []string{
			"gitcache git 127.0.0.1: revision 1, the first time in 24 hours",
			"gitcache git 127.0.0.1: revision 2, the first time in 24 hours",
		}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		all, err := admin.audit.ListAuditEvents(t.Context(), &consolev1.ListAuditEventsRequest{PageSize: 1000})
		if err != nil || strings.Contains(all.String(), "planted") {
			t.Errorf("the trail tells a secret: %v", err)
		}
		for _, e := range all.GetEvents() {
			if e.GetAction() == "login.refused" && len(e.GetTraceId()) != 32 {
				t.Errorf("a login belongs to trace %q", e.GetTraceId())
			}
		}
	})
}

// forwardedFor is a client behind a proxy.
type forwardedFor struct {
	address string
	next    http.RoundTripper
}

func (f forwardedFor) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Forwarded-For", f.address)
	return f.next.RoundTrip(r)
}

func TestGuessedAPITokensCountForTheirAddress(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").startWith(t, func(c *console.Config) { c.Server.TrustedProxies = []string{"127.0.0.0/8"} })
	admin := r.admin(t)
	first, err := admin.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := admin.tokens.CreateToken(t.Context(), &consolev1.CreateTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	try := func(address, token string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			r.url+"/fairlead.console.v1.SourceService/ListSources", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := forwardedFor{address, newHTTPClient(t).Transport}.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if code := try("198.51.100.1", first.GetToken()); code != http.StatusOK {
		t.Fatalf("a good token: %d", code)
	}
	last := 0
	for i := range 60 {
		if last = try("198.51.100.1", fmt.Sprintf("fairlead_%026d_%052d", i, i)); last != http.StatusUnauthorized {
			break
		}
	}
	if last != http.StatusTooManyRequests {
		t.Fatalf("60 guesses end with %d", last)
	}
	if code := try("198.51.100.1", first.GetToken()); code != http.StatusOK {
		t.Errorf("a token that was good before, at the address of who guesses: %d", code)
	}
	if code := try("198.51.100.2", second.GetToken()); code != http.StatusOK {
		t.Errorf("somebody else: %d", code)
	}
}

func TestWhatMayNotBeSeenLooksLikeWhatIsNotThere(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		admin := r.admin(t)
		admin.putSource(t, "shop", "https://git.example.com/shop.git")
		admin.putCluster(t, "edge-1")
		admin.putCluster(t, "hidden")
		admin.putProject(t, "bank")
		if err := admin.tryService(t, serviceOf("hidden", "hidden", "bank")); err != nil {
			t.Fatal(err)
		}
		global := newGlobal("hidden", prod())
		global.Spec.Template.Project = "bank"
		admin.putGlobal(t, global)
		if _, err := admin.secrets.UpdateSecret(t.Context(), &consolev1.UpdateSecretRequest{
			AllowMissing: true,
			Secret:       &consolev1.Secret{Metadata: meta("hidden"), Data: map[string]string{"token": "x"}},
		}); err != nil {
			t.Fatal(err)
		}
		admin.let(t, "hidden", "admin", &consolev1.GrantClusters{All: true})
		admin.let(t, "viewers", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
		admin.let(t, "makers", "operator", &consolev1.GrantClusters{Names: []string{"edge-1"}})
		for _, group := range []string{"nobody", "viewers", "makers"} {
			bob := r.user(t, "bob", group)
			calls := func(name string) (out []string) {
				ctx := t.Context()
				say := func(what string, err error) {
					text := "no refusal"
					if err != nil {
						text = strings.ReplaceAll(err.Error(), name, "NAME")
					}
					out = append(out, what+": "+text)
				}
				_, err := bob.services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
				say("get service", err)
				_, err = bob.clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: name})
				say("get cluster", err)
				_, err = bob.secrets.GetSecret(ctx, &consolev1.GetSecretRequest{Name: name})
				say("get secret", err)
				_, err = bob.grants.GetGrant(ctx, &consolev1.GetGrantRequest{Name: name})
				say("get grant", err)
				_, err = bob.objects.GetServiceDiff(ctx, &consolev1.GetServiceDiffRequest{Name: name})
				say("diff", err)
				_, err = bob.objects.GetServiceNotes(ctx, &consolev1.GetServiceNotesRequest{Name: name})
				say("notes", err)
				_, err = bob.services.DeleteService(ctx, &consolev1.DeleteServiceRequest{Name: name})
				say("delete service", err)
				_, err = bob.services.DeleteService(ctx, &consolev1.DeleteServiceRequest{Name: name, Etag: "x-1"})
				say("delete one revision", err)
				_, err = bob.globals.GetGlobalService(ctx, &consolev1.GetGlobalServiceRequest{Name: name})
				say("get global service", err)
				_, err = bob.globals.DeleteGlobalService(ctx, &consolev1.DeleteGlobalServiceRequest{Name: name})
				say("delete global service", err)
				_, err = bob.globals.ConfirmGlobalService(ctx, &consolev1.ConfirmGlobalServiceRequest{
					Name: name, Confirmation: "x",
				})
				say("confirm global service", err)
				_, err = bob.clusters.DeleteCluster(ctx, &consolev1.DeleteClusterRequest{Name: name})
				say("delete cluster", err)
				_, err = bob.secrets.DeleteSecret(ctx, &consolev1.DeleteSecretRequest{Name: name})
				say("delete secret", err)
				_, err = bob.levers.HoldService(ctx, &consolev1.HoldServiceRequest{Name: name, Reason: "x"})
				say("hold", err)
				_, err = bob.services.UpdateService(ctx, &consolev1.UpdateServiceRequest{
					Service: serviceOf(name, "edge-1", ""),
				})
				say("update service", err)
				if group == "makers" {
					return out // a caller who may make the service learns that the name is taken
				}
				for _, etag := range []string{"", "new"} {
					made := serviceOf(name, "edge-1", "")
					made.Metadata.Etag = etag
					_, err = bob.services.UpdateService(ctx, &consolev1.UpdateServiceRequest{
						AllowMissing: true, Service: made,
					})
					say("create service", err)
				}
				return out
			}
			hidden, none := calls("hidden"), calls("nowhere")
			for i := range hidden {
				if hidden[i] != none[i] || strings.HasSuffix(hidden[i], "no refusal") {
					t.Errorf("as %s\n%s\n%s", group, hidden[i], none[i])
				}
			}
		}
		_, err := r.user(t, "bob", "makers").services.UpdateService(t.Context(),
			&consolev1.UpdateServiceRequest{AllowMissing: true, Service: serviceOf("hidden", "edge-1", "")})
		wantCode(t, err, connect.CodePermissionDenied, "the name is taken")
		if strings.Contains(err.Error(), "bank") {
			t.Errorf("it tells where: %v", err)
		}
	})
}
