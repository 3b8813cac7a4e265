package pods

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/cli/internal/kubectl"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// A cluster is reached with the token of the login while the console is down or hangs.
func TestClustersAreReachedWithoutTheConsole(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code connect.Code
		goOn bool
	}{
		"down":    {connect.CodeUnavailable, true},
		"hangs":   {connect.CodeDeadlineExceeded, true},
		"refuses": {connect.CodePermissionDenied, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, out := loggedIn(t, test.code)
			h, err := a.ConnectHub(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			token, until, err := obtainCredential(t.Context(), a, h, credentialLifetime)
			if test.goOn != (err == nil && token == "mine" && until.After(a.Now())) {
				t.Errorf("the token is %q until %s: %v", token, until, err)
			}
			err = kubectl.PrintKubeconfig(t.Context(), a, h, "edge-1")
			if test.goOn != (err == nil && strings.Contains(out.String(), "https://tunnel.test/clusters/edge-1")) {
				t.Errorf("the kubeconfig is %q: %v", out, err)
			}
		})
	}
}

// loggedIn is logged in to a console that answers every call with a code.
func loggedIn(t *testing.T, code connect.Code) (*app.App, *bytes.Buffer) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(consolev1connect.IdentityServiceRenewTokenProcedure, connect.NewUnaryHandlerSimple(
		consolev1connect.IdentityServiceRenewTokenProcedure,
		func(context.Context, *consolev1.RenewTokenRequest) (*consolev1.RenewTokenResponse, error) {
			return nil, connect.NewError(code, errors.New("no"))
		}))
	mux.Handle(consolev1connect.ClusterServiceGetClusterProcedure, connect.NewUnaryHandlerSimple(
		consolev1connect.ClusterServiceGetClusterProcedure,
		func(context.Context, *consolev1.GetClusterRequest) (*consolev1.GetClusterResponse, error) {
			return nil, connect.NewError(code, errors.New("no"))
		}))
	console := httptest.NewUnstartedServer(mux)
	console.Config.Protocols = new(http.Protocols)
	console.Config.Protocols.SetUnencryptedHTTP2(true)
	console.Start()
	t.Cleanup(console.Close)
	config := filepath.Join(t.TempDir(), "config.yaml")
	store := contexts.NewStore(config, nil)
	if err := store.Put(contexts.Context{
		Name: "hub", URL: console.URL, Token: "mine", Issued: time.Now(), Expires: time.Now().Add(time.Hour),
		Endpoints: contexts.Endpoints{Tunnels: []string{"https://tunnel.test"}},
	}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	return &app.App{IO: app.IO{Stdout: &out, Now: time.Now, Getenv: func(name string) string {
		if name == "FAIRLEAD_CONFIG" {
			return config
		}
		return ""
	}}}, &out
}
