package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// Interceptor lets a call to a Connect handler pass if the bearer token is valid and plays a role
// that the policy wants, and puts the identity into the context. The interceptor ends streams whose token is revoked,
// and at Identity.RequestsEnd; for those that wait in Receive or Send this needs Abortable around the whole handler. On
// the client's side it does nothing.
func Interceptor(v Verifier, p Policy) connect.Interceptor {
	return &interceptor{verifier: v, policy: p}
}

type interceptor struct {
	verifier Verifier
	policy   Policy
	rounds   rounds
}

// WrapUnary implements connect.Interceptor.
func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		c, refused := i.caller(ctx, req.Spec(), req.Header())
		if refused != nil {
			return nil, refused.connect()
		}
		return next(c.context(ctx), req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (i *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor. A variable on the stack here stays there for as long as the
// stream, thousands of times: what is not needed all the time is done apart.
func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, guarded, err := i.guard(ctx, conn)
		if err != nil {
			return err
		}
		if guarded == nil {
			return next(ctx, conn)
		}
		defer guarded.guard.stop()
		return guarded.told(next(ctx, guarded))
	}
}

// guard lets a stream pass; a nil connection: it needs no guard.
//
//go:noinline
func (i *interceptor) guard(ctx context.Context, conn connect.StreamingHandlerConn) (context.Context, *guardedConn, error) {
	c, refused := i.caller(ctx, conn.Spec(), conn.RequestHeader())
	if refused != nil {
		return nil, nil, refused.connect()
	}
	if c.open {
		return ctx, nil, nil
	}
	var response *http.ResponseController
	if call := callOf(ctx); call != nil {
		response = http.NewResponseController(call.w)
	}
	ctx, g := newGuard(c.context(ctx), i.verifier, &i.rounds, c, response)
	return ctx, &guardedConn{StreamingHandlerConn: conn, guard: g}, nil
}

// caller is who Admit let in a moment ago, or else whoever the header's token speaks for.
func (i *interceptor) caller(ctx context.Context, spec connect.Spec, header http.Header) (*caller, *refusal) {
	role := i.policy[spec.Procedure]
	if call := callOf(ctx); call != nil && call.admitted != nil && time.Since(call.at) < RecheckInterval {
		return call.admitted, call.admitted.mayCall(role)
	}
	return authenticate(ctx, i.verifier, role, header)
}

// guardedConn stops carrying messages once the token has ended.
type guardedConn struct {
	connect.StreamingHandlerConn
	guard *guard
}

func (c *guardedConn) Receive(msg any) error {
	return c.do(func() error { return c.StreamingHandlerConn.Receive(msg) })
}

func (c *guardedConn) Send(msg any) error {
	return c.do(func() error { return c.StreamingHandlerConn.Send(msg) })
}

func (c *guardedConn) do(carry func() error) error {
	if err := c.told(nil); err != nil {
		return err
	}
	if err := carry(); err != nil {
		return c.told(err)
	}
	return nil
}

// told is how a call ends, for the caller: if the token has ended, by that.
//
//go:noinline
func (c *guardedConn) told(err error) error {
	if cause := c.guard.ended(); cause != nil {
		return refuse(cause, c.RequestHeader()).connect()
	}
	return err
}

// caller is somebody who may pass.
type caller struct {
	open  bool // no verifier was asked
	token string
	id    Identity
}

func (c *caller) context(ctx context.Context) context.Context {
	if c.open {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, &c.id)
}

// refusal is why somebody may not pass, in words that tell a caller what to do and no more.
type refusal struct {
	code    connect.Code
	message string
}

func (r *refusal) connect() *connect.Error { return connect.NewError(r.code, errors.New(r.message)) }

// authenticate is the one gate of Admit, Interceptor and Middleware.
func authenticate(ctx context.Context, v Verifier, role Role, header http.Header) (*caller, *refusal) {
	if role&RoleOpen != 0 {
		return &caller{open: true}, nil
	}
	if refused := cookieRefusal(ctx); refused != nil {
		return nil, refused
	}
	token, problem := bearer(header)
	if problem != "" {
		return nil, &refusal{connect.CodeUnauthenticated, problem}
	}
	id, err := verify(ctx, v, token)
	if own, ok := v.(AudienceVerifier); ok && err == nil && id.Kind == KindService {
		err = own.VerifyAudience(token, header)
	}
	if err != nil {
		if call := callOf(ctx); call != nil && isAboutToken(err) {
			call.rejected = err
		}
		return nil, refuse(err, header)
	}
	if err := verifyProof(v, id, token, header); err != nil {
		if call := callOf(ctx); call != nil {
			call.rejected = err
		}
		return nil, refuse(err, header)
	}
	c := &caller{token: token, id: id}
	return c, c.mayCall(role)
}

// isAboutToken says whether the error of a verifier says something about the token.
func isAboutToken(err error) bool {
	return !errors.Is(err, ErrNotReady) && !errors.Is(err, ErrThrottled) && !errors.Is(err, ErrUnread)
}

// verifyProof sees to it that the token of an agent is sent by who has its key. verifyProof is asked when a call or a
// stream begins, and not again while a stream runs.
func verifyProof(v Verifier, id Identity, token string, header http.Header) error {
	if id.Kind != KindAgent {
		return nil
	}
	proofs, ok := v.(ProofVerifier)
	if !ok {
		return ErrUnproved
	}
	proof := ""
	switch all := header[ProofHeader]; len(all) {
	case 0:
	case 1:
		proof = all[0]
	default:
		return ErrUnproved
	}
	return proofs.VerifyProof(id, token, proof)
}

func verify(ctx context.Context, v Verifier, token string) (Identity, error) {
	call := callOf(ctx)
	if from, ok := v.(RemoteVerifier); ok && call != nil {
		return from.VerifyFrom(call.remote, token)
	}
	return v.Verify(token)
}

// mayCall tells why the caller may not, or nil.
func (c *caller) mayCall(role Role) *refusal {
	switch {
	case role == RoleNone:
		return &refusal{connect.CodePermissionDenied, "nobody may call this"}
	case !c.id.Has(role):
		return &refusal{connect.CodePermissionDenied, fmt.Sprintf("%s may not call this: it is for %s", c.id.Subject(), role)}
	}
	return nil
}

// nextStep says how the sender of a request gets a token. An agent sends a proof beside its own, or one that names it.
func nextStep(header http.Header) string {
	cluster := clusterSaid(header)
	switch {
	case cluster != "":
		return "the agent needs a new join token: run " + joinTokenCommand(cluster)
	case len(header[ProofHeader]) > 0:
		return "the agent needs a new join token: run " + joinTokenCommand("") + " with the name of its cluster"
	}
	return "run `fairlead login` and, for kubectl, `fairlead kubeconfig`"
}

// clusterSaid is the cluster that the token of an agent names, whoever signed it; empty: it names none.
func clusterSaid(header http.Header) string {
	_, token, _ := strings.Cut(header.Get("Authorization"), " ")
	cluster, isAgent := strings.CutPrefix(saidBy(token).Subject, string(KindAgent)+":")
	if !isAgent || strings.Trim(cluster, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" { // no name of a cluster
		return ""
	}
	return cluster
}

// joinTokenCommand makes a join token for a cluster; empty: its name is not known.
func joinTokenCommand(cluster string) string {
	return "`fairlead cluster join-token " + cmp.Or(cluster, "NAME") + "`"
}

// refuse says why the token in a header is refused.
func refuse(err error, header http.Header) *refusal {
	for _, known := range []error{ErrExpired, ErrRevoked} {
		if errors.Is(err, known) {
			return &refusal{connect.CodeUnauthenticated, known.Error() + ": " + nextStep(header)}
		}
	}
	if errors.Is(err, ErrAudience) {
		return &refusal{
			connect.CodeUnauthenticated,
			ErrAudience.Error() + ": services of the hub need the same version and hub secret; for an upgrade from a version without audiences, give --unsigned-members=accept",
		}
	}
	if errors.Is(err, ErrNotReady) {
		return &refusal{connect.CodeUnavailable, "this service has not reached the console since it was installed: try again"}
	}
	if errors.Is(err, ErrUnread) {
		return &refusal{connect.CodeUnavailable, ErrUnread.Error() + ": try again later"}
	}
	if errors.Is(err, ErrThrottled) {
		return &refusal{connect.CodeResourceExhausted, ErrThrottled.Error() + ": wait some seconds, and correct the token"}
	}
	if errors.Is(err, ErrUnproved) {
		return &refusal{
			connect.CodeUnauthenticated,
			ErrUnproved.Error() + ". An agent does so by itself, with the key beside its token; if that is lost, it needs a new join token (" + joinTokenCommand(clusterSaid(header)) + ")",
		}
	}
	if errors.Is(err, ErrUnbound) {
		return &refusal{
			connect.CodeUnauthenticated,
			ErrUnbound.Error() + ": upgrade the agent, and give it a new join token (" + joinTokenCommand(clusterSaid(header)) + "); for one upgrade the hub accepts it with --unsigned-members=accept",
		}
	}
	return &refusal{connect.CodeUnauthenticated, ErrInvalid.Error() + ": " + nextStep(header)}
}

// TokenOf is the token of a request that was let pass; empty: it has none.
func TokenOf(header http.Header) string {
	token, _ := bearer(header)
	return token
}

// bearer returns the one bearer token of a request.
func bearer(header http.Header) (token, problem string) {
	values := header.Values("Authorization")
	if len(values) == 0 {
		return "", "no token: " + nextStep(header)
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", "Authorization must be one header that says \"Bearer <token>\""
	}
	return token, ""
}
