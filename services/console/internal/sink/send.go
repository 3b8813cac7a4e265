package sink

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
)

const (
	// sendTimeout bounds one message.
	sendTimeout = 15 * time.Second
	dialTimeout = 5 * time.Second
	// maxHeader is as much of an answer's head as is read, maxAnswer of its body, and maxShown as people see of it all,
	// in bytes.
	maxHeader = 64 << 10
	maxAnswer = 4 << 10
	maxShown  = 400
	// slackText is what Slack takes in one message, with room for what it counts else.
	slackText = 30_000
	// minKey is the shortest key of a signature.
	minKey = 16
)

// SignatureHeader is t=<seconds>,v1=<hex of HMAC-SHA256 over "<seconds>.<body>">.
const SignatureHeader = "Fairlead-Signature"

// target is a sink with all that is needed to send to it.
type target struct {
	uid, name   string
	spec        resource.SinkSpec
	credentials map[string]string
}

// failure is why a message was not taken.
type failure struct {
	message string
	// rejected says that it is the message which is not taken: others may be.
	rejected bool
	// taken says that some have it nonetheless, and that the others will not: it is not sent again.
	taken bool
	// sent is how many of the first events of a message that was not taken were nonetheless: those behind them are sent
	// again.
	sent int
	// after is when to try again, if the other side said.
	after time.Duration
	// status and header are of the answer over HTTP; 0: there was none.
	status int
	header http.Header
}

func (f *failure) Error() string { return f.message }

func failed(format string, args ...any) *failure {
	return &failure{message: fmt.Sprintf(format, args...)}
}

// sender sends messages.
type sender struct {
	addresses *dialpolicy.Policy
	now       func() time.Time
}

// send sends events as one message, and returns what the other side said. Neither that nor errors hold credentials, or
// what no database keeps.
func (s *sender) send(ctx context.Context, t target, events []*consolev1.Event) (answer string, problem *failure) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var err error
	switch t.spec.Kind() {
	case "webhook":
		answer, err = s.webhook(ctx, t, events)
	case "slack":
		answer, err = s.slack(ctx, t, events)
	case "teams":
		answer, err = s.teams(ctx, t, events)
	case "pagerDuty":
		answer, err = s.pagerDuty(ctx, t, events)
	case "alertmanager":
		answer, err = s.alertmanager(ctx, t, events)
	case "grafana":
		answer, err = s.grafana(ctx, t, events)
	default:
		if t.spec.Email == nil { // while consoles are upgraded
			return "", failed("this console does not know where the sink sends to: a newer one wrote it, and sends when all are upgraded")
		}
		answer, err = s.email(ctx, t, events)
	}
	if err == nil {
		return t.shown(answer), nil
	}
	f := asFailure(err)
	f.message = t.shown(f.message)
	return "", f
}

// asFailure is why a message was not taken, by any error.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return failed("%s", reason(err))
}

// shown is what others say as people may see it. Secrets are masked first: a secret that is cut would not be found.
func (t target) shown(text string) string {
	return cut(oneLine(strings.ToValidUTF8(t.masked(text), "?")), maxShown)
}

// masked takes credentials out of what others say, who may repeat what they got, and whose answer may end within it.
func (t target) masked(text string) string {
	for _, secret := range t.secrets() {
		text = strings.ReplaceAll(text, secret, catalog.Masked)
		for n := min(len(secret)-1, len(text)); n >= minSecret; n-- {
			if rest, ok := strings.CutSuffix(text, secret[:n]); ok {
				text = rest + catalog.Masked
				break
			}
		}
	}
	return text
}

// minSecret is the length of the shortest text that is masked: a shorter one stands in any text.
const minSecret = 6

// secrets are the texts by which credentials may come back, the longest first.
func (t target) secrets() []string {
	var list []string
	for name, secret := range t.credentials {
		list = append(list, secret, strings.Trim(strconv.Quote(secret), `"`), url.QueryEscape(secret), url.PathEscape(secret))
		switch name {
		case resource.SinkPassword:
			list = append(list, inBase64(secret))
			if t.spec.Email != nil {
				list = append(list, inBase64(plainAuth(t.spec.Email.Username, secret)))
			}
			if t.spec.Alertmanager != nil {
				list = append(list, inBase64(t.spec.Alertmanager.Username+":"+secret))
			}
		case resource.SinkURL:
			if u, err := url.Parse(secret); err == nil {
				list = append(list, u.RequestURI(), u.Path, u.EscapedPath(), u.RawQuery)
				for _, part := range strings.FieldsFunc(u.RequestURI(), func(r rune) bool { return strings.ContainsRune("/?&=", r) }) {
					plain, _ := url.QueryUnescape(part)
					list = append(list, part, plain)
				}
			}
		}
	}
	list = slices.DeleteFunc(list, func(s string) bool { return len(s) < minSecret || s == "services" }) // as in Slack's
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(list)
}

func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// reason is why there was no answer, without the URL.
func reason(err error) string {
	if refused, ok := errors.AsType[*dialpolicy.Refused](err); ok {
		return fmt.Sprintf("%s, and the console must not send there: correct the sink, or let the hub's operator add it to %s", refused, dialpolicy.Flag)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return fmt.Sprintf("no answer within %s: is the receiver up, and the port right?", sendTimeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: is the receiver up, and the port right?"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the receiver speaks no TLS at this port: " + err.Error()
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the receiver's certificate is not trusted (if it is right, give its authority as ca): " + err.Error()
	}
	return err.Error()
}

func (s *sender) webhook(ctx context.Context, t target, events []*consolev1.Event) (string, error) {
	body, contentType, err := t.body(events)
	if err != nil {
		return "", failed("spec.template: %s", err)
	}
	header := http.Header{"Content-Type": {contentType}}
	header.Set(SignatureHeader, Sign(t.credentials[resource.SinkKey], s.now(), body))
	return s.post(ctx, t.spec.Webhook.URL, t.spec.Webhook.CA, header, body)
}

// Sign is the header of a body.
func Sign(key string, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

func (s *sender) slack(ctx context.Context, t target, events []*consolev1.Event) (string, error) {
	text := t.spec.Template
	if text == "" {
		text = defaultText
	}
	said, err := render("template", text, newMessage(t, events, forSlack))
	if err != nil {
		return "", failed("spec.template: %s", err)
	}
	body, err := json.Marshal(map[string]any{"text": cut(said, slackText), "unfurl_links": false, "unfurl_media": false})
	if err != nil {
		return "", fmt.Errorf("encode message: %w", err)
	}
	return s.post(ctx, t.credentials[resource.SinkURL], t.spec.Slack.CA, http.Header{"Content-Type": {"application/json"}}, body)
}

// post sends a request once, to where the URL says and nowhere else.
func (s *sender) post(ctx context.Context, to, ca string, header http.Header, body []byte) (string, error) {
	u, err := checkURL(to)
	if err != nil {
		return "", failed("the url %s", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return "", failed("the url can't be used") // the error quotes it
	}
	req.Header = header
	req.Header.Set("User-Agent", "fairlead/"+version.String())
	transport, err := s.transport(req, ca)
	if err != nil {
		return "", err
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return "", failed("%s: %s", u.Host, reason(err))
	}
	defer func() { _ = resp.Body.Close() }()                    // the body was only read
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // the status is what counts
	answer := strings.TrimSpace(resp.Status + " " + string(said))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return answer, nil
	}
	f := failed("%s answers %s", u.Host, answer)
	f.status, f.header = resp.StatusCode, resp.Header
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		f.rejected = true
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		f.message = fmt.Sprintf("%s leads elsewhere, and redirects are not followed: write the url that it leads to: %s", u.Host, answer)
	}
	f.after = retryAfter(resp.Header.Get("Retry-After"), s.now())
	return "", f
}

// retryAfter is what a server asks for, within reason.
func retryAfter(text string, now time.Time) time.Duration {
	var after time.Duration
	if seconds, err := strconv.Atoi(text); err == nil {
		after = time.Duration(min(max(seconds, 0), int(maxBackoff/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		after = at.Sub(now)
	}
	return min(max(after, 0), maxBackoff)
}

// checkURL repeats nothing of what may be a secret.
func checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must be https://host[:port]/path")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("must have no user, password or fragment")
	}
	return u, nil
}

// transport carries one request: by the proxy of the console's environment, which the operator chose, or to an address
// that the policy allows.
func (s *sender) transport(req *http.Request, ca string) (*http.Transport, error) {
	config, err := trust(ca)
	if err != nil {
		return nil, err
	}
	out := &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: sendTimeout, MaxResponseHeaderBytes: maxHeader, DisableKeepAlives: true,
	}
	if req.URL.Scheme != "https" {
		out.DialContext = s.dialListed
		return out, nil
	}
	proxy, err := http.ProxyFromEnvironment(req)
	if err != nil {
		return nil, failed("the proxy in the console's environment can't be used: correct its HTTPS_PROXY") // the error quotes it
	}
	if out.DialContext = s.dial; proxy != nil {
		// The proxy resolves names, and may reach more than we do.
		if err := s.addresses.CheckHost(req.URL.Hostname()); err != nil {
			return nil, err
		}
		out.Proxy, out.DialContext = http.ProxyURL(proxy), nil
	}
	return out, nil
}

// trust verifies by these authorities, or those of the system.
func trust(ca string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, failed("ca: holds no certificate in PEM form")
		}
	}
	return config, nil
}

// dial goes to addresses that the policy allows: that which is really dialled counts.
func (s *sender) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.dialJudged(ctx, network, address, s.addresses.Check)
}

// dialListed is for what has no TLS: it goes to addresses that the operator has named.
func (s *sender) dialListed(ctx context.Context, network, address string) (net.Conn, error) {
	return s.dialJudged(ctx, network, address, func(a netip.Addr) error {
		if err := s.addresses.Check(a); err != nil {
			return err
		}
		if !s.addresses.Lists(a) {
			return fmt.Errorf("http:// is only for addresses that %s of the console lists: use https://", dialpolicy.Flag)
		}
		return nil
	})
}

func (s *sender) dialJudged(ctx context.Context, network, address string, judge func(netip.Addr) error) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, Control: dialpolicy.Control(judge)}
	return d.DialContext(ctx, network, address)
}
