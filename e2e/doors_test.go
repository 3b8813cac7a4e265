package e2e

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

// Procedures that take a credential of their own instead of a token, or tell how to get one.
var withoutToken = map[string]bool{
	"/fairlead.console.v1.IdentityService/ExchangeHubSecret": true,
	"/fairlead.console.v1.IdentityService/JoinCluster":       true,
	"/fairlead.console.v1.LoginService/ExchangeIDToken":      true,
	"/fairlead.console.v1.LoginService/ExchangeLoginLink":    true,
	"/fairlead.console.v1.LoginService/GetLoginOptions":      true,
	"/fairlead.console.v1.TokenService/ExchangeToken":        true,
}

// TestEveryProcedureWantsAnIdentityAndBoundsItsMessages walks what each running service says by
// reflection that it serves.
func TestEveryProcedureWantsAnIdentityAndBoundsItsMessages(t *testing.T) {
	t.Parallel()
	s := shared(t)
	hc := hubClient(t, s)
	admin, err := s.Token()
	if err != nil {
		t.Fatal(err)
	}
	walked := 0
	for _, name := range slices.Sorted(maps.Keys(s.Hub)) {
		for _, method := range methods(t, hc, s.Hub[name], admin) {
			walked++
			procedure := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
			t.Run(name+procedure, func(t *testing.T) {
				t.Parallel()
				url := s.Hub[name] + procedure
				if err := call(t.Context(), hc, url, method, "",
					&emptypb.Empty{}); withoutToken[procedure] == (connect.CodeOf(err) == connect.CodeUnauthenticated &&
					strings.Contains(err.Error(), "no token")) {
					t.Errorf("without a token: %v", err)
				}
				if method.IsStreamingClient() {
					return // a tunnel session has limits of its own, per frame
				}
				huge := wrapperspb.Bytes(make([]byte, 5<<20))
				err := call(t.Context(), hc, url, method, admin, huge)
				if code := connect.CodeOf(err); code != connect.CodeResourceExhausted &&
					code != connect.CodePermissionDenied {
					t.Errorf("a message of 5 MiB: %v", err)
				}
			})
		}
	}
	if walked < 30 {
		t.Errorf("only %d procedures were found: does reflection work?", walked)
	}
}

// methods asks a service by reflection what it serves.
func methods(t *testing.T, hc *http.Client, url, token string) []protoreflect.MethodDescriptor {
	t.Helper()
	stream := grpcreflect.NewClient(hc, url, connect.WithGRPC()).NewStream(t.Context(),
		grpcreflect.WithRequestHeaders(http.Header{"Authorization": {"Bearer " + token}}))
	defer func() { _, _ = stream.Close() }()
	services, err := stream.ListServices()
	if err != nil {
		t.Fatalf("reflection at %s: %v", url, err)
	}
	var found []protoreflect.MethodDescriptor
	for _, service := range services {
		files, err := stream.FileContainingSymbol(service)
		if err != nil {
			t.Fatal(err)
		}
		registry, err := protodesc.FileOptions{
			AllowUnresolvable: true,
		}.NewFiles(&descriptorpb.FileDescriptorSet{File: files})
		if err != nil {
			t.Fatal(err)
		}
		d, err := registry.FindDescriptorByName(service)
		if err != nil {
			t.Fatal(err)
		}
		sd, ok := d.(protoreflect.ServiceDescriptor)
		if !ok || strings.HasPrefix(string(service), "grpc.") {
			continue // health is open, and reflection has answered already
		}
		for i := range sd.Methods().Len() {
			found = append(found, sd.Methods().Get(i))
		}
	}
	return found
}

// call sends one message to a procedure, whatever kind it is, and returns its error.
func call(ctx context.Context, hc *http.Client, url string, method protoreflect.MethodDescriptor, token string,
	msg any,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var options []connect.ClientOption
	if token != "" {
		options = append(options, client.WithToken(identity.StaticToken(token)))
	}
	switch m := msg.(type) {
	case *emptypb.Empty:
		return send(ctx, connect.NewClient[emptypb.Empty, emptypb.Empty](hc, url, options...), method, m)
	case *wrapperspb.BytesValue:
		return send(ctx, connect.NewClient[wrapperspb.BytesValue, emptypb.Empty](hc, url, options...), method, m)
	}
	panic("a message of another type")
}

func send[M any](ctx context.Context, c *connect.Client[M, emptypb.Empty], method protoreflect.MethodDescriptor,
	msg *M,
) error {
	switch {
	case method.IsStreamingClient():
		stream := c.CallBidiStream(ctx)
		_ = stream.Send(msg) // the error is in Receive
		_, err := stream.Receive()
		return err
	case method.IsStreamingServer():
		stream, err := c.CallServerStream(ctx, connect.NewRequest(msg))
		if err != nil {
			return err
		}
		stream.Receive()
		return stream.Err()
	default:
		_, err := c.CallUnary(ctx, connect.NewRequest(msg))
		return err
	}
}

func hubClient(t *testing.T, s *stack.Stack) *http.Client {
	t.Helper()
	hc, err := client.New(client.Config{CAFile: s.CAFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hc.CloseIdleConnections)
	return hc
}

// get returns status and body of a plain request.
func get(t *testing.T, hc *http.Client, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestOnlyHealthAnswersWithoutAnIdentity(t *testing.T) {
	t.Parallel()
	s := shared(t)
	hc := hubClient(t, s)
	for name, url := range s.Hub {
		for path, want := range map[string]int{
			"/healthz": http.StatusOK, "/readyz": http.StatusOK,
			"/metrics": http.StatusUnauthorized, "/version": http.StatusUnauthorized,
		} {
			if got, body := get(t, hc, url+path, ""); got != want {
				t.Errorf("%s%s answers %d, not %d: %s", name, path, got, want, body)
			}
		}
	}
	for _, url := range []string{
		s.Hub["tunnel"] + "/clusters/" + s.Clusters[0].Name + "/api",
		s.Hub["gitcache"] + "/v1/artifacts/sha256:" + strings.Repeat("0", 64),
		s.Hub["distributor"] + "/v1/artifacts/sha256:" + strings.Repeat("0", 64),
		s.Hub["distributor"] + "/v2/", s.Hub["distributor"] + "/v2/services/x/manifests/latest",
	} {
		if got, body := get(t, hc, url, ""); got != http.StatusUnauthorized {
			t.Errorf("%s answers %d: %s", url, got, body)
		}
	}
}

// An agent's credential opens its own cluster's delivery and nothing else.
func TestAgentsCredentialOpensNothingOfOthers(t *testing.T) {
	t.Parallel()
	s := shared(t)
	hc := hubClient(t, s)
	file := s.AgentToken(s.Clusters[0])
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.ParseAgentKey(text)
	if err != nil {
		t.Fatal(err)
	}
	agent := strings.TrimSpace(string(token))
	as := func(service string) *http.Client {
		return &http.Client{Transport: client.Authorize(hc.Transport, identitytest.Prover(agent, key, service))}
	}
	for url, service := range map[string]string{
		s.Hub["tunnel"] + "/clusters/" + s.Clusters[1].Name + "/api/v1/secrets": identity.ServiceTunnel,
		s.Hub["tunnel"] + "/clusters/" + s.Clusters[0].Name + "/api/v1/secrets": identity.ServiceTunnel,
		s.Hub["console"] + "/metrics":                                           identity.ServiceConsole,
	} {
		if got, body := get(t, as(service), url, ""); got != http.StatusForbidden {
			t.Errorf("%s answers %d: %s", url, got, body)
		}
	}
	unknown := s.Hub["distributor"] + "/v1/artifacts/sha256:" + strings.Repeat("0", 64)
	if got, body := get(t, as(identity.ServiceDistributor), unknown, ""); got != http.StatusNotFound {
		t.Errorf("a digest that no service of the cluster uses answers %d: %s", got, body)
	}
	// The token alone opens nothing, nor with a proof that was meant for others.
	if got, body := get(t, hc, unknown, agent); got != http.StatusUnauthorized {
		t.Errorf("a copy of the token: %d: %s", got, body)
	}
	if got, body := get(t, as(identity.ServiceTunnel), unknown, ""); got != http.StatusUnauthorized {
		t.Errorf("with a proof for the tunnel: %d: %s", got, body)
	}
}
