package identity_test

import (
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// service verifies as a service of the hub does.
type service struct {
	*identitytest.Authority
	*identity.Audience
}

// A service that was sent a token, or somebody who took it from there, can show it to no other service.
func TestATokenOfAServiceIsForOneServiceOnly(t *testing.T) {
	t.Parallel()
	a := identitytest.New(t)
	token := a.Service(identity.ServiceDistributor)
	at := func(name, replica, secret string, unbound bool) service {
		return service{
			a, &identity.Audience{Service: name, Replica: replica, Secret: hubsecret.Text(secret), Unbound: unbound},
		}
	}
	sent := func(to, replica, secret string) http.Header {
		header := http.Header{"Authorization": {"Bearer " + token}}
		ctx := t.Context()
		if replica != "" {
			ctx = identity.ForReplica(ctx, replica)
		}
		if err := identity.SendTo(to, identity.StaticToken(token), hubsecret.Text(secret)).SetHeader(ctx, token,
			header); err != nil {
			t.Fatal(err)
		}
		return header
	}
	with := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h.Set(name, value)
		return h
	}
	bare := http.Header{"Authorization": {"Bearer " + token}}
	gitcache := at(identity.ServiceGitcache, "g 1/ü", hubSecret, false)
	twice := sent(identity.ServiceGitcache, "", hubSecret)
	twice.Add(identity.AudienceHeader, twice.Get(identity.AudienceHeader))
	for name, c := range map[string]struct {
		at     service
		header http.Header
		want   int
	}{
		"for it":              {gitcache, sent(identity.ServiceGitcache, "", hubSecret), 200},
		"for this replica":    {gitcache, sent(identity.ServiceGitcache, "g 1/ü", hubSecret), 200},
		"for another replica": {gitcache, sent(identity.ServiceGitcache, "g2", hubSecret), 401},
		"for another service": {gitcache, sent(identity.ServiceTunnel, "", hubSecret), 401},
		"its name at another": {
			at(identity.ServiceTunnel, "g 1/ü", hubSecret, false), sent(identity.ServiceGitcache, "g 1/ü", hubSecret),
			401,
		},
		"for nobody":    {gitcache, bare, 401},
		"twice":         {gitcache, twice, 401},
		"another hub's": {gitcache, sent(identity.ServiceGitcache, "", "the secret of another hub"), 401},
		"of another token": {
			gitcache,
			with(sent(identity.ServiceGitcache, "", hubSecret), "Authorization",
				"Bearer "+a.Service(identity.ServiceGitcache)),
			401,
		},
		"renamed": {
			gitcache,
			with(bare, identity.AudienceHeader,
				"gitcache "+strings.TrimPrefix(sent(identity.ServiceTunnel, "",
					hubSecret).Get(identity.AudienceHeader), "tunnel ")),
			401,
		},
		"nonsense":            {gitcache, with(bare, identity.AudienceHeader, "gitcache"), 401},
		"upgrade, for nobody": {at(identity.ServiceGitcache, "", hubSecret, true), bare, 200},
		"upgrade, for another": {
			at(identity.ServiceGitcache, "", hubSecret, true), sent(identity.ServiceTunnel, "", hubSecret), 401,
		},
		"a user's":   {gitcache, http.Header{"Authorization": {"Bearer " + a.User("ada")}}, 200},
		"an agent's": {gitcache, http.Header{"Authorization": {"Bearer " + a.Agent("edge-1")}}, 200},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header = c.header
		w := httptest.NewRecorder()
		identity.Middleware(c.at, identity.RoleAny,
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// A token is refused as one that is not valid, so that refusals are counted and recorded.
func TestATokenForAnotherServiceIsNotValid(t *testing.T) {
	t.Parallel()
	own := identity.Audience{Service: identity.ServiceTunnel, Secret: hubsecret.Text(hubSecret)}
	if err := own.VerifyAudience("t", http.Header{}); !errors.Is(err, identity.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestTheSwitchForAnUpgradeIsOffUnlessItIsSwitchedOn(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		"": false, "--unsigned-members=refuse": false, "--unsigned-members=accept": true,
	} {
		var u identity.Unsigned
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		u.RegisterFlags(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil || u.Accepted() != want {
			t.Errorf("%q: %t, %v", args, u.Accepted(), err)
		}
	}
	var u identity.Unsigned
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(new(strings.Builder))
	u.RegisterFlags(fs)
	if err := fs.Parse([]string{"--unsigned-members=yes"}); err == nil {
		t.Error("any word is accepted")
	}
}

var _ identity.AudienceVerifier = (*identity.ServiceCredential)(nil)
