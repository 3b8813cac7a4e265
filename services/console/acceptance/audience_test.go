package acceptance

import (
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// A distributor's token that was sent to a gitcache, or that somebody found without what goes with it, opens nothing of
// the console.
func TestAServicesTokenOpensTheConsoleOnlyWhenItWasSentThere(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	r.adminToken(t) // the console has begun
	token := r.distributorToken(t)
	for name, c := range map[string]struct {
		sent identity.TokenSource
		want connect.Code
	}{
		"to the console": {r.sending(token), 0},
		"to a gitcache": {
			identitytest.SendTo(identity.ServiceGitcache, token, r.secret), connect.CodeUnauthenticated,
		},
		"by another hub": {
			identitytest.SendTo(identity.ServiceConsole, token, "the secret of another hub"),
			connect.CodeUnauthenticated,
		},
		"with no receiver": {identity.StaticToken(token), connect.CodeUnauthenticated},
	} {
		identities := consolev1connect.NewIdentityServiceClient(newHTTPClient(t), r.url,
			append(client.Options(), client.WithToken(c.sent))...)
		_, err := identities.GetTrustBundle(t.Context(), &consolev1.GetTrustBundleRequest{})
		if err == nil && c.want != 0 || err != nil && connect.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
