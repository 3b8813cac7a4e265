package identity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

func TestInterceptorUnary(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	client := c.serve(t)
	user := c.token(identity.Identity{Kind: identity.KindUser, Name: "ann"}, time.Hour)
	admin := c.token(identity.Identity{Kind: identity.KindUser, Name: "root", Groups: []string{identity.AdminsGroup}},
		time.Hour)
	agent := c.token(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, time.Hour)
	gitcache := c.token(identity.Identity{Kind: identity.KindService, Name: identity.ServiceGitcache}, time.Hour)

	rotate := func(ctx context.Context, client consolev1connect.IdentityServiceClient) error {
		_, err := client.RotateSigningKey(ctx, &consolev1.RotateSigningKeyRequest{})
		return err
	}
	bundle := func(ctx context.Context, client consolev1connect.IdentityServiceClient) error {
		_, err := client.GetTrustBundle(ctx, &consolev1.GetTrustBundleRequest{})
		return err
	}
	renew := func(ctx context.Context, client consolev1connect.IdentityServiceClient) error {
		_, err := client.RenewToken(ctx, &consolev1.RenewTokenRequest{})
		return err
	}
	exchange := func(ctx context.Context, client consolev1connect.IdentityServiceClient) error {
		_, err := client.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
			HubSecret: hubSecret, Subject: &consolev1.ExchangeHubSecretRequest_Service{Service: "tunnel"},
		})
		return err
	}
	revoke := func(ctx context.Context, client consolev1connect.IdentityServiceClient) error {
		_, err := client.RevokeTokens(ctx, &consolev1.RevokeTokensRequest{})
		return err
	}
	join := func(ctx context.Context, client consolev1connect.IdentityServiceClient) error {
		_, err := client.JoinCluster(ctx, &consolev1.JoinClusterRequest{})
		return err
	}
	const ok, reached = connect.Code(0), connect.CodeUnimplemented
	for name, tt := range map[string]struct {
		call  func(context.Context, consolev1connect.IdentityServiceClient) error
		token string
		want  connect.Code
	}{
		"admin may":                           {rotate, admin, reached},
		"user is no admin":                    {rotate, user, connect.CodePermissionDenied},
		"agent is no admin":                   {rotate, agent, connect.CodePermissionDenied},
		"service is no admin":                 {rotate, gitcache, connect.CodePermissionDenied},
		"service may":                         {bundle, gitcache, ok},
		"admin is no service":                 {bundle, admin, connect.CodePermissionDenied},
		"agent is no service":                 {bundle, agent, connect.CodePermissionDenied},
		"anybody with a token":                {renew, agent, ok},
		"nobody without one":                  {renew, "", connect.CodeUnauthenticated},
		"garbage":                             {renew, "garbage", connect.CodeUnauthenticated},
		"two tokens":                          {renew, agent + " " + agent, connect.CodeUnauthenticated},
		"open without token":                  {exchange, "", ok},
		"open with a bad one":                 {exchange, "garbage", ok},
		"for nobody":                          {revoke, admin, connect.CodePermissionDenied},
		"not listed":                          {join, admin, connect.CodePermissionDenied},
		"not listed, without token":           {join, "", connect.CodeUnauthenticated},
		"not listed is not told to strangers": {join, "garbage", connect.CodeUnauthenticated},
	} {
		ctx := t.Context()
		if tt.token != "" {
			ctx = bearing(ctx, tt.token)
		}
		err := tt.call(ctx, client)
		if tt.want == ok && err != nil || tt.want != ok && connect.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDuplicateAndGarbageAuthorizationHeaders(t *testing.T) {
	t.Parallel()
	a := identitytest.New(t)
	token := a.User("ann")
	hc := serve(t, identity.Middleware(a, identity.RoleUser,
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), false)
	for name, values := range map[string][]string{
		"twice":      {"Bearer " + token, "Bearer " + token},
		"second bad": {"Bearer " + token, "Basic eDp5"},
		"no scheme":  {token},
		"basic":      {"Basic " + token},
		"empty":      {"Bearer "},
		"comma":      {"Bearer " + token + ", Bearer " + token},
		"two spaces": {"Bearer  " + token},
		"huge":       {"Bearer " + strings.Repeat("a", 100_000)},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Authorization"] = values
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if body := readAll(t, resp.Body); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
}

func TestMiddlewareAnswers(t *testing.T) {
	t.Parallel()
	a := identitytest.New(t)
	revoked := a.Agent("edge-2")
	a.Revoke("agent:edge-2")
	person := a.User("bob")
	a.Revoke("user:bob")
	seen := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _ := identity.FromContext(r.Context())
		cluster, isAgent := identity.Cluster(r.Context())
		_ = json.NewEncoder(w).Encode(map[string]any{"subject": id.Subject(), "cluster": cluster, "agent": isAgent})
	})
	for name, tt := range map[string]struct {
		verifier identity.Verifier
		role     identity.Role
		token    string
		status   int
		body     string
	}{
		"agent": {
			a, identity.RoleAgent, a.Agent("edge-1"), 200, `{"agent":true,"cluster":"edge-1","subject":"agent:edge-1"}`,
		},
		"service": {
			a, identity.RoleHub | identity.RoleAgent, a.Service("tunnel"), 200,
			`"agent":false,"cluster":"","subject":"service:tunnel"`,
		},
		"open":     {a, identity.RoleOpen, "", 200, `"subject":":"`},
		"no token": {a, identity.RoleUser, "", 401, "no token: run `fairlead login`"},
		"revoked": {
			a, identity.RoleAgent, revoked, 401,
			"token is revoked: the agent needs a new join token: run `fairlead cluster join-token edge-2`",
		},
		"of a person who is revoked": {
			a, identity.RoleUser, person, 401,
			"token is revoked: run `fairlead login` and, for kubectl, `fairlead kubeconfig`",
		},
		"bad": {a, identity.RoleUser, "x.y.z", 401, "token is not valid"},
		"agent tries": {
			a, identity.RoleUser, a.Agent("edge-1"), 403, "agent:edge-1 may not call this: it is for user",
		},
		"for nobody":   {a, identity.RoleNone, a.Admin(), 403, "nobody may call this"},
		"without keys": {new(identity.BundleVerifier), identity.RoleUser, a.Admin(), 503, "try again"},
	} {
		hc := serve(t, identity.Middleware(tt.verifier, tt.role, seen), false)
		for _, accept := range []string{"", "application/json, */*"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.token != "" {
				req.Header.Set("Authorization", "bearer "+tt.token)
			}
			req.Header.Set("Accept", accept)
			if tt.role == identity.RoleAgent {
				req.Header.Set(identity.ProofHeader, "1.x")
			}
			resp, err := hc.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body := readAll(t, resp.Body)
			if tt.status != 200 && accept != "" {
				var status struct {
					Kind, Message string
					Code          int
				}
				if err := json.Unmarshal([]byte(body), &status); err != nil || status.Kind != "Status" ||
					status.Code != tt.status {
					t.Errorf("%s: not a Status: %s", name, body)
				}
				body = status.Message
			}
			if resp.StatusCode != tt.status || !strings.Contains(body, tt.body) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, body)
			}
			if tt.token != "" && strings.Contains(body, tt.token) {
				t.Errorf("%s: the answer repeats the token", name)
			}
		}
	}
}

// However a handler is busy when the token ends, it ends.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	type stream = *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]
	handlers := map[string]func(context.Context, stream) error{
		"heeds its context": func(ctx context.Context, _ stream) error {
			<-ctx.Done()
			return nil
		},
		"waits in Receive": func(_ context.Context, s stream) error {
			for {
				if _, err := s.Receive(); err != nil {
					return err
				}
			}
		},
		"waits in Send": func(_ context.Context, s stream) error {
			for {
				if err := s.Send(&tunnelv1.ConnectResponse{Frames: make([]byte, 100_000)}); err != nil {
					return err
				}
			}
		},
	}
	ends := map[string]struct {
		end    func(*identitytest.Authority)
		within time.Duration
	}{
		"revoked": {func(a *identitytest.Authority) { a.Revoke("agent:edge-1") }, identity.RecheckInterval},
		"expired": {func(*identitytest.Authority) {}, time.Hour + time.Minute}, // with the leeway
	}
	for handler, wait := range handlers {
		for end, tt := range ends {
			t.Run(handler+", "+end, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { streamEnds(t, wait, tt.end, tt.within) })
			})
		}
	}
}

func streamEnds(t *testing.T,
	wait func(context.Context, *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error,
	end func(*identitytest.Authority), within time.Duration,
) {
	a := identitytest.New(t)
	h := &tunnel{wait: wait, ended: make(chan error, 1)}
	client := h.serve(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := client.Connect(bearing(ctx, a.Agent("edge-1")))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&tunnelv1.ConnectRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Minute) // several checks that find nothing
	select {
	case err := <-h.ended:
		t.Fatalf("ended without reason: %v", err)
	default:
	}
	began := time.Now()
	end(a)
	const abort = 5 * time.Second // for who waits in Send
	select {
	case err := <-h.ended:
		t.Logf("the handler ended with: %v", err)
	case <-time.After(2 * time.Hour):
		t.Fatal("handler was not ended")
	}
	if took := time.Since(began); took > within+abort {
		t.Errorf("ended after %s", took)
	}
	for err == nil {
		_, err = s.Receive()
	}
	_ = s.CloseRequest()
	_ = s.CloseResponse()
}

func TestStreamTellsTheClientWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := identitytest.New(t)
		h := &tunnel{
			ended: make(chan error, 1),
			wait: func(_ context.Context,
				s *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse],
			) error {
				_, err := s.Receive()
				return err
			},
		}
		client := h.serve(t, a)
		s, err := client.Connect(bearing(t.Context(), a.Agent("edge-1")))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&tunnelv1.ConnectRequest{}); err != nil {
			t.Fatal(err)
		}
		a.Revoke("agent:edge-1")
		for err == nil {
			_, err = s.Receive()
		}
		if connect.CodeOf(err) != connect.CodeUnauthenticated || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("got %v", err)
		}
		_ = s.CloseRequest()
		_ = s.CloseResponse()
	})
}

func TestStreamIsRefusedToOthers(t *testing.T) {
	t.Parallel()
	a := identitytest.New(t)
	client := (&tunnel{}).serve(t, a)
	for token, want := range map[string]connect.Code{
		"garbage": connect.CodeUnauthenticated, a.Admin(): connect.CodePermissionDenied,
		a.Service("tunnel"): connect.CodePermissionDenied,
	} {
		s, err := client.Connect(bearing(t.Context(), token))
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send(&tunnelv1.ConnectRequest{})
		if _, err := s.Receive(); connect.CodeOf(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
		_ = s.CloseRequest()
		_ = s.CloseResponse()
	}
}

// A plain HTTP watch ends, too, over HTTP/1.1 and HTTP/2.
func TestMiddlewareEndsLongRequests(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := identitytest.New(t)
				ended := make(chan error, 1)
				hc := serve(t, identity.Middleware(a, identity.RoleUser,
					http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_ = http.NewResponseController(w).Flush()
						<-r.Context().Done()
						ended <- context.Cause(r.Context())
					})), http2)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+a.User("ann"))
				resp, err := hc.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				a.Revoke("user:ann")
				if err := <-ended; !errors.Is(err, identity.ErrRevoked) {
					t.Errorf("cause: %v", err)
				}
				if took := time.Since(began); took > identity.RecheckInterval {
					t.Errorf("ended after %s", took)
				}
				_ = resp.Body.Close()
			})
		})
	}
}

// A token that its owner was lent is short, and what the owner began with it goes on until the login ends. Another one
// ends what began with it.
func TestRequestsRunAsLongAsTheLogin(t *testing.T) {
	t.Parallel()
	const leeway = time.Minute
	login := func(lent identity.Identity) identity.Identity {
		lent.RequestsUntil = lent.ExpiresAt
		return lent
	}
	for name, tt := range map[string]struct {
		lend   func(*identitytest.Authority, identity.Identity) string
		revoke time.Duration // 0: never
		within time.Duration
	}{
		"lent to its owner": {
			func(a *identitytest.Authority, id identity.Identity) string { return a.Lend(login(id), 10*time.Minute) },
			0, time.Hour + leeway,
		},
		"lent to its owner and revoked": {
			func(a *identitytest.Authority, id identity.Identity) string { return a.Lend(login(id), 10*time.Minute) },
			30 * time.Minute, 30*time.Minute + identity.RecheckInterval,
		},
		"lent to somebody else": {
			func(a *identitytest.Authority, id identity.Identity) string { return a.Lend(id, 10*time.Minute) }, 0,
			10*time.Minute + leeway,
		},
		"a session in a browser": {
			func(a *identitytest.Authority, id identity.Identity) string { return a.Session(id) }, 0,
			time.Hour + leeway,
		},
		"a session that a lent token began": {func(a *identitytest.Authority, id identity.Identity) string {
			return a.Session(a.Verified(a.Lend(login(id), 10*time.Minute)))
		}, 0, 10*time.Minute + leeway},
		"a session, and its user is revoked": {
			func(a *identitytest.Authority, id identity.Identity) string { return a.Session(id) }, time.Minute,
			time.Minute + identity.RecheckInterval,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := identitytest.New(t)
				token := tt.lend(a, a.Verified(a.User("ann")))
				began := time.Now()
				if tt.revoke > 0 {
					time.AfterFunc(tt.revoke, func() { a.Revoke("user:ann") })
				}
				h := identity.Middleware(a, identity.RoleUser,
					http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						<-r.Context().Done()
					}))
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					t.Fatal(w.Code, w.Body)
				}
				if took := time.Since(began); took > tt.within+time.Second ||
					took < tt.within-identity.RecheckInterval-time.Second {
					t.Errorf("ended after %s, want about %s", took, tt.within)
				}
			})
		})
	}
}

// No request begins with a token that has ended, however long those run that began before.
func TestLentTokenBeginsNothingAfterItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := identitytest.New(t)
		id := a.Verified(a.User("ann"))
		id.RequestsUntil = id.ExpiresAt
		token := a.Lend(id, 10*time.Minute)
		<-time.After(12 * time.Minute)
		if _, err := a.Verify(token); !errors.Is(err, identity.ErrExpired) {
			t.Errorf("after its end: %v", err)
		}
		a.Revoke("user:ann")
		if _, err := a.Verify(token); !errors.Is(err, identity.ErrRevoked) {
			t.Errorf("after its end, and revoked: %v", err)
		}
	})
}

// A handler that can end its answer well gets a moment for it, and is ended all the same if it doesn't.
func TestHandlerSaysLastWordsBeforeItIsEnded(t *testing.T) {
	t.Parallel()
	for name, heeds := range map[string]bool{"ends by itself": true, "goes on": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := identitytest.New(t)
				token := a.User("ann")
				h := identity.Middleware(a, identity.RoleUser,
					http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						last := make(chan struct{})
						defer identity.BeforeEnd(r.Context(), func() { close(last) })()
						<-last
						if err := r.Context().Err(); err != nil {
							t.Errorf("ended before its last words: %v", err)
						}
						said := time.Now()
						if heeds {
							return
						}
						<-r.Context().Done()
						if took := time.Since(said); took != time.Second ||
							!errors.Is(context.Cause(r.Context()), identity.ErrRevoked) {
							t.Errorf("ended after %s by %v", took, context.Cause(r.Context()))
						}
					}))
				a.Revoke("user:bob")
				time.AfterFunc(time.Minute, func() { a.Revoke("user:ann") })
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("Authorization", "Bearer "+token)
				h.ServeHTTP(httptest.NewRecorder(), r)
			})
		})
	}
}

// verifierFunc is a Verifier.
type verifierFunc func(token string) (identity.Identity, error)

func (f verifierFunc) Verify(token string) (identity.Identity, error) { return f(token) }

func (f verifierFunc) VerifyProof(identity.Identity, string, string) error { return nil }

// Between the head of a call and the end of its body a minute may pass, and the token may be revoked.
func TestWhoSendsSlowlyIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]connect.Code{
		0: 0, identity.RecheckInterval: connect.CodeUnauthenticated,
	} {
		synctest.Test(t, func(t *testing.T) {
			revoked := false
			verifier := verifierFunc(func(string) (identity.Identity, error) {
				if revoked {
					return identity.Identity{}, identity.ErrRevoked
				}
				return identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}, nil
			})
			handler := identity.Interceptor(verifier, identity.Policy{"": identity.RoleAgent}).WrapUnary(
				func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) { return nil, nil })
			var err error
			served := identity.Abortable(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if err := identity.Admit(verifier, identity.RoleAgent, r); err != nil {
					t.Error(err)
				}
				revoked = true
				<-time.After(wait) // the body comes
				call := connect.NewRequest(&tunnelv1.ListSessionsRequest{})
				call.Header().Set("Authorization", r.Header.Get("Authorization"))
				_, err = handler(r.Context(), call)
			}))
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header.Set("Authorization", "Bearer x")
			served.ServeHTTP(httptest.NewRecorder(), r)
			if want == 0 && err != nil || want != 0 && connect.CodeOf(err) != want {
				t.Errorf("after %s: %v", wait, err)
			}
		})
	}
}

// Ten thousand streams are verified again in a few turns, and each of them once per interval.
func TestRunningRequestsAreVerifiedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		checked, moments := map[string]int{}, map[time.Time]struct{}{}
		verifier := verifierFunc(func(token string) (identity.Identity, error) {
			mu.Lock()
			defer mu.Unlock()
			checked[token]++
			moments[time.Now()] = struct{}{}
			return identity.Identity{Kind: identity.KindUser, Name: token, ExpiresAt: time.Now().Add(time.Hour)}, nil
		})
		h := identity.Middleware(verifier, identity.RoleUser,
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		ctx, cancel := context.WithCancel(t.Context())
		const requests, intervals = 400, 5
		for n := range requests {
			r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
			r.Header.Set("Authorization", fmt.Sprintf("Bearer t%d", n))
			go h.ServeHTTP(httptest.NewRecorder(), r)
			<-time.After(time.Millisecond)
		}
		synctest.Wait()
		mu.Lock()
		clear(checked) // that they came
		clear(moments)
		mu.Unlock()
		<-time.After(intervals*identity.RecheckInterval + time.Millisecond)
		cancel()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(checked) != requests || len(moments) > intervals*40 {
			t.Errorf("%d were verified, at %d moments", len(checked), len(moments))
		}
		for token, n := range checked {
			if n != intervals {
				t.Errorf("%s was verified %d times", token, n)
			}
		}
	})
}

// A database that hangs makes some verifications slow: those of other streams are not.
func TestSlowVerificationHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		verifier := verifierFunc(func(token string) (identity.Identity, error) {
			switch since := time.Since(began); {
			case since == 0: // they come
			case token == "revoked":
				return identity.Identity{}, identity.ErrRevoked
			default:
				<-time.After(5 * time.Second)
			}
			return identity.Identity{Kind: identity.KindUser, Name: token, ExpiresAt: time.Now().Add(time.Hour)}, nil
		})
		h := identity.Middleware(verifier, identity.RoleUser,
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		serve := func(token string) {
			r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer "+token)
			h.ServeHTTP(httptest.NewRecorder(), r)
			if token == "revoked" {
				close(ended)
			}
		}
		for n := range 200 {
			go serve(fmt.Sprintf("t%d", n))
		}
		synctest.Wait()
		go serve("revoked")
		<-ended
		if took := time.Since(began); took > identity.RecheckInterval {
			t.Errorf("ended after %s", took)
		}
		cancel()
		<-time.After(time.Minute) // for those that are being verified
	})
}
