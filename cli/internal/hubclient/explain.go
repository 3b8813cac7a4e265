package hubclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/contexts"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/kind"
)

// explainer is the interceptor that bounds calls that have no bound of their own, and turns the errors of calls into ones
// for people. The error that it returns still has its Connect code (connect.CodeOf), and prints without it.
type explainer struct {
	at        contexts.Context
	loggingIn bool
}

func newExplainer(at contexts.Context) explainer { return explainer{at: at} }

func (e explainer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if _, bounded := ctx.Deadline(); !bounded { // a hub that takes a call and never answers would hold the command for ever
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, WriteTimeout)
			defer cancel()
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, e.explainError(err)
		}
		return res, nil
	}
}

func (e explainer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return explainedStream{next(ctx, spec), e}
	}
}

// explainedStream is a stream whose errors are for people.
type explainedStream struct {
	connect.StreamingClientConn
	explainer explainer
}

func (s explainedStream) Send(m any) error { return s.explain(s.StreamingClientConn.Send(m)) }

func (s explainedStream) Receive(m any) error { return s.explain(s.StreamingClientConn.Receive(m)) }

func (s explainedStream) explain(err error) error {
	if err == nil || errors.Is(err, io.EOF) { // which ends a stream
		return err
	}
	return s.explainer.explainError(err)
}

func (e explainer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// absent is how the hub says that there is no such resource.
var absent = regexp.MustCompile(`^(\w+) "[^"]*" does not exist$`)

// Beginnings of what the hub says of fields that break rules of their message.
const invalidField, invalidFields = "validation error: ", "validation errors:"

// explainInvalid names the flag in which people give a field.
func explainInvalid(said string) string {
	said = strings.TrimPrefix(said, invalidField)
	if list, ok := strings.CutPrefix(said, invalidFields); ok {
		return "these fields are wrong:" + list
	}
	field, rule, _ := strings.Cut(said, ": ")
	switch field {
	case "order_by":
		return "--sort: " + rule
	case "page_size":
		return "--limit: " + rule
	case "lifetime", "reason":
		return "--" + said
	}
	return said
}

// explained is an error for people.
type explained struct {
	text string
	err  error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.err }

func (e explainer) explainError(err error) error {
	said := hubMessage(err)
	text := ""
	switch code := connect.CodeOf(err); {
	case errors.Is(err, context.Canceled):
		text = "interrupted"
	case code == connect.CodeUnauthenticated && e.loggingIn:
		text = fmt.Sprintf("%s does not let you in: %s", e.at.URL, said)
	case code == connect.CodeUnauthenticated && e.at.Name == FromEnvironment:
		text = fmt.Sprintf("%s does not accept the token in FAIRLEAD_TOKEN (%s). %s", e.at.URL, cutAdvice(said),
			LogInAgain(e.at))
	case code == connect.CodeUnauthenticated:
		text = fmt.Sprintf("%s does not accept the token of context %q (%s). %s", e.at.URL, e.at.Name, cutAdvice(said),
			LogInAgain(e.at))
	case code == connect.CodePermissionDenied && strings.HasSuffix(said, "it is for "+identity.RoleAdmin.String()):
		text = fmt.Sprintf("%ss, who are the members of group %s: ask one of them", said, identity.AdminsGroup)
	case code == connect.CodePermissionDenied && strings.Contains(said, " may not "): // the text names who may not
		text = said
	case code == connect.CodePermissionDenied && e.at.User == "":
		text = "you may not do this: " + said
	case code == connect.CodePermissionDenied:
		text = fmt.Sprintf("user %q may not do this: %s", e.at.User, said)
	case code == connect.CodeNotFound && absent.MatchString(said):
		text = said + whereListed(absent.FindStringSubmatch(said)[1])
	case code == connect.CodeInvalidArgument && connect.IsWireError(err):
		text = explainInvalid(said)
	case connect.IsWireError(err):
		text = said
	default:
		text = ExplainUnreachable(e.at.URL, err)
	}
	return explained{text, err}
}

// whereListed says which command lists what a word names; empty: none does.
func whereListed(word string) string {
	for _, k := range kind.All() {
		if strings.EqualFold(word, k.Singular()) {
			return fmt.Sprintf(": see `fairlead get %s`", k.Plural())
		}
	}
	return ""
}

// LogInAgain says how a person gets a new token for a context.
func LogInAgain(at contexts.Context) string {
	if at.Name == FromEnvironment {
		return "Make a new one: fairlead token create"
	}
	return fmt.Sprintf("Log in again: fairlead login %s --context %s", at.URL, at.Name)
}

// cutAdvice removes what the hub advises, where the CLI has better advice.
func cutAdvice(text string) string {
	text, _, _ = strings.Cut(text, ": run `fairlead login`")
	return text
}

// hubMessage returns what the hub said, without the code.
func hubMessage(err error) string {
	if e, ok := errors.AsType[*connect.Error](err); ok {
		return e.Message()
	}
	return err.Error()
}

// ExplainUnreachable says why a URL gave no answer, and what to do.
func ExplainUnreachable(at string, err error) string {
	var unknownAuthority x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var dns *net.DNSError
	switch {
	case errors.As(err, &unknownAuthority):
		return fmt.Sprintf("%s has a certificate of an unknown authority: log in again with --ca-file and the hub's CA certificate", at)
	case errors.As(err, &wrongHost):
		return fmt.Sprintf("%s has a certificate for another name (%v)", at, wrongHost)
	case errors.As(err, &dns):
		return fmt.Sprintf("%s can't be reached: no address for host %q. Is the name right?", at, dns.Name)
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return fmt.Sprintf("%s did not answer in time. Is the hub overloaded, or the network between slow?", at)
	default:
		return fmt.Sprintf("%s can't be reached: %s. Is the hub running there%s?", at, findCause(err), howToStart(at))
	}
}

// howToStart is a hint for a hub on this machine.
func howToStart(at string) string {
	u, err := url.Parse(at)
	if err != nil || !net.ParseIP(u.Hostname()).IsLoopback() {
		return ""
	}
	return " (`fairlead up`)"
}

// IsAway tells an error of a call that the console could not answer, or not in time, from all others.
func IsAway(err error) bool {
	return connect.CodeOf(err) == connect.CodeUnavailable || connect.CodeOf(err) == connect.CodeDeadlineExceeded
}

// findCause digs out what the system said: "connection refused" of
// "Post \"https://...\": dial tcp 127.0.0.1:7400: connect: connection refused".
func findCause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		if call, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return call.Err.Error()
		}
		return op.Err.Error()
	}
	return hubMessage(err)
}
