package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// Kind sorts errors for metrics; a bounded set.
type Kind string

// The kinds of errors.
const (
	KindRefused     Kind = "refused"      // by our own policy or a limit
	KindUnreachable Kind = "unreachable"  // no connection
	KindTimeout     Kind = "timeout"      // no answer in time
	KindTLS         Kind = "tls"          // the server's certificate
	KindCredentials Kind = "credentials"  // 401 or 403
	KindNotFound    Kind = "not_found"    // no such repository
	KindThrottled   Kind = "throttled"    // 429
	KindServer      Kind = "server_error" // 5xx and other statuses
	KindNotGit      Kind = "not_git"      // an answer, but not Git's
	KindContent     Kind = "content"      // the content is broken or breaks a limit
	KindStorage     Kind = "storage"      // our own disk
)

// Error is why upstream could not be read, in words for the source's owner: the thing, the cause and
// the next step.
type Error struct {
	Kind    Kind
	Message string
	// RetryAfter is what upstream asked for; 0: nothing.
	RetryAfter time.Duration

	// Cause may quote a URL in its text: show Message only.
	Cause  error
	Status int  // of the answer; 0: there was none, or it was good
	Limit  bool // the content is larger than a limit
	// Unauthorized tells that the very host that credentials are for does not take them.
	Unauthorized bool
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Refusal is an error of our own policy or of a limit.
func Refusal(format string, args ...any) *Error {
	return &Error{Kind: KindRefused, Message: fmt.Sprintf(format, args...)}
}

// TransportError is for a request that got no answer.
func TransportError(ctx context.Context, host string, limit time.Duration, err error) error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrDeadline) {
		return ctx.Err()
	}
	e := &Error{Kind: KindUnreachable, Cause: err}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case isProxy(err):
		e.Message = fmt.Sprintf("the proxy to %s is not reachable: %s. Check the proxy in the source, or HTTPS_PROXY in the gitcache's environment", host, PlainCause(err))
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Message = fmt.Sprintf("%s: no such host. Check the host in the source's url", host)
	case errors.Is(context.Cause(ctx), ErrDeadline), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		e.Kind = KindTimeout
		e.Message = fmt.Sprintf("%s did not answer within %s. Check that the host is up and not behind a firewall", host, limit)
	case isTLS(err):
		e.Kind = KindTLS
		e.Message = fmt.Sprintf("%s: %s. Check the host's certificate and the source's url, or put the authority into the source's secret as ca.crt", host, tlsCause(err))
	case errors.Is(err, http.ErrSchemeMismatch):
		e.Kind = KindTLS
		e.Message = fmt.Sprintf("%s speaks HTTP without TLS. Check the url's port. A registry or a bucket is asked so only if its source says insecure: true", host)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Message = fmt.Sprintf("%s: connection refused. Check that the host is up and the url's port is right", host)
	default:
		e.Message = fmt.Sprintf("%s is not reachable: %s. Check the source's url and the hub's network", host, PlainCause(err))
	}
	return e
}

// isProxy tells whether it was a proxy that could not be dialled.
func isProxy(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "proxyconnect"
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var alert tls.AlertError
	return errors.As(err, &record) || errors.As(err, &verify) || errors.As(err, &alert)
}

func tlsCause(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return "the certificate is signed by an authority that the hub does not know"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	case errors.As(err, &name):
		return "the certificate is for another host"
	default:
		return "the TLS handshake did not succeed"
	}
}

// PlainCause is an error's innermost text, which never holds a URL.
func PlainCause(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	var op *net.OpError
	for errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	if isTLS(err) {
		return tlsCause(err)
	}
	return CleanLine(err.Error())
}

// StatusError is for an answer that is not 200. asked is the URL as configured, answered where the
// answer came from after redirects.
func StatusError(r Remote, answered *url.URL, resp *http.Response) *Error {
	host, code := answered.Host, resp.StatusCode
	pause, _ := pauseOf(resp)
	e := &Error{Kind: KindServer, RetryAfter: pause, Status: code}
	switch {
	case IsThrottled(resp) && code != http.StatusServiceUnavailable:
		e.Kind = KindThrottled
		e.Message = fmt.Sprintf("%d from %s: too many requests. Fairlead asks again later; a longer interval helps", code, host)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.Kind = KindCredentials
		e.Message = fmt.Sprintf("%d from %s. %s", code, host, credentialsHint(r, answered))
		e.Unauthorized = code == http.StatusUnauthorized && OriginOf(answered) == OriginOf(r.URL)
	case code == http.StatusNotFound || code == http.StatusGone:
		e.Kind = KindNotFound
		e.Message = fmt.Sprintf("%d from %s: repository %s not found. Check the source's url, and that its credentials may read it",
			code, host, ShowURL(r.URL))
	case code >= 300 && code < 400:
		e.Kind = KindRefused
		e.Message = fmt.Sprintf("%s redirects without end or in the middle of a fetch. Check the source's url", host)
	default:
		e.Message = fmt.Sprintf("%d from %s. The host has a problem; Fairlead asks again later", code, host)
	}
	return e
}

func credentialsHint(r Remote, answered *url.URL) string {
	switch {
	case OriginOf(answered) != OriginOf(r.URL):
		return fmt.Sprintf("%s redirects there, and credentials are never sent to another host. Put the new url into the source", r.URL.Host)
	case r.Cloud != "":
		return r.CloudHint("the repository")
	case r.Secret == "":
		return "The repository needs credentials, or does not exist. Name a secret with a username and password, or a token, in the source"
	case r.Credentials.GitHubApp != GitHubApp{}:
		return fmt.Sprintf("Check that the GitHub App in secret %q is installed for this repository and may read contents", r.Secret)
	default:
		return fmt.Sprintf("Check the username and password, or the token, in secret %q", r.Secret)
	}
}

// maxRetryAfter bounds how long upstream can make us wait.
const maxRetryAfter = time.Hour

// IsThrottled tells whether an answer means that too much was asked.
func IsThrottled(resp *http.Response) bool {
	_, asked := pauseOf(resp)
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden, http.StatusServiceUnavailable: // the former is GitHub's
		return asked
	}
	return false
}

// pauseOf is how long a host wants to be left alone, by Retry-After or by the time at which its rate limit,
// if used up, begins anew.
func pauseOf(resp *http.Response) (d time.Duration, asked bool) {
	if header := resp.Header.Get("Retry-After"); header != "" {
		d = retryAfter(header)
		return d, d > 0
	}
	for _, prefix := range []string{"X-RateLimit-", "RateLimit-"} { // GitHub's and Gitea's; GitLab's
		seconds, err := strconv.ParseInt(resp.Header.Get(prefix+"Reset"), 10, 64)
		if err == nil && resp.Header.Get(prefix+"Remaining") == "0" {
			d = max(0, min(time.Until(time.Unix(seconds, 0)), maxRetryAfter))
			return d, d > 0
		}
	}
	return 0, false
}

func retryAfter(header string) time.Duration {
	var d time.Duration
	if seconds, err := time.ParseDuration(strings.TrimSpace(header) + "s"); err == nil {
		d = seconds
	} else if at, err := http.ParseTime(header); err == nil {
		d = time.Until(at)
	}
	return max(0, min(d, maxRetryAfter))
}

// CleanLine makes what others wrote fit for a message: one short line of printable characters.
func CleanLine(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, strings.ToValidUTF8(s, ""))
	return shortenText(strings.Join(strings.Fields(s), " "))
}
