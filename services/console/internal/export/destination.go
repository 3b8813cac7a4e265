package export

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/store/audittrail"
)

// Config is where the trail goes.
type Config struct {
	// To is file:///folder/name, https://host/path (http:// too), syslog+tls://host:port or syslog+tcp://host:port;
	// empty: nowhere.
	To string
	// TokenFile holds what an HTTP endpoint gets as a bearer token; empty: nothing. The file is read for each batch.
	TokenFile string
	// CAFile holds the authorities that are trusted; empty: those of the system.
	CAFile string
}

// Open checks where the trail goes, and dials nothing; nil: it goes nowhere.
func (c Config) Open() (Destination, error) {
	if c.To == "" {
		if c.TokenFile != "" || c.CAFile != "" {
			return nil, errors.New("--audit-export-token-file and --audit-export-ca-file are for --audit-export: give it, too")
		}
		return nil, nil //nolint:nilnil // nil has a meaning
	}
	to, err := url.Parse(c.To)
	if err != nil || to.User != nil || to.Fragment != "" {
		return nil, errors.New("--audit-export: must be file:///folder/name, https://host/path, syslog+tls://host:port or syslog+tcp://host:port, without credentials: those are for --audit-export-token-file")
	}
	config, err := c.trust()
	if err != nil {
		return nil, err
	}
	switch {
	case to.Scheme == "file" && to.Host == "" && filepath.IsAbs(to.Path):
		return &file{path: to.Path}, nil
	case (to.Scheme == "https" || to.Scheme == "http") && to.Host != "":
		return &endpoint{url: c.To, tokenFile: c.TokenFile, client: &http.Client{
			Timeout:       sendTime,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // redirects take the token elsewhere
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute},
		}}, nil
	case (to.Scheme == "syslog+tls" || to.Scheme == "syslog+tcp") && to.Port() != "" && strings.Trim(to.Path, "/") == "":
		out := &syslog{address: to.Host}
		if out.host, err = os.Hostname(); err != nil || out.host == "" {
			out.host = "-"
		}
		if to.Scheme == "syslog+tls" {
			config.ServerName = to.Hostname()
			out.tls = config
		}
		return out, nil
	}
	return nil, errors.New("--audit-export: must be file:///folder/name, https://host/path, syslog+tls://host:port or syslog+tcp://host:port")
}

func (c Config) trust() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--audit-export-ca-file: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--audit-export-ca-file: %s holds no certificate in PEM form", c.CAFile)
	}
	return config, nil
}

// file appends JSON lines. The file is opened for each batch, so that rotating it is only a rename.
type file struct{ path string }

func (f *file) Send(_ context.Context, events []audittrail.Event) (err error) {
	out, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("export the audit trail: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	before, err := out.Stat()
	if err != nil {
		return fmt.Errorf("export the audit trail: %w", err)
	}
	if _, err := out.Write(lines(events)); err != nil {
		// Half a line would spoil the one that comes next.
		return fmt.Errorf("export the audit trail: %w", errors.Join(err, out.Truncate(before.Size())))
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("export the audit trail: %w", err)
	}
	return nil
}

func (f *file) Close() error { return nil }

// endpoint takes batches of JSON lines by POST.
type endpoint struct {
	url, tokenFile string
	client         *http.Client
}

// maxAnswer is what is read of an answer, for the connection to be used again.
const maxAnswer = 64 << 10

func (p *endpoint) Send(ctx context.Context, events []audittrail.Event) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(lines(events)))
	if err != nil {
		return fmt.Errorf("export the audit trail: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	if p.tokenFile != "" {
		token, err := os.ReadFile(p.tokenFile)
		if err != nil {
			return fmt.Errorf("--audit-export-token-file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := p.client.Do(req)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the URL may have a key in its query
		}
		return fmt.Errorf("export the audit trail to %s: %w", req.URL.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()                         // was read
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // the status says enough
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("export the audit trail to %s: it answers %s", req.URL.Host, resp.Status)
	}
	return nil
}

func (p *endpoint) Close() error {
	p.client.CloseIdleConnections()
	return nil
}

// syslog sends each event as a message of RFC 5424, with its length before it (RFC 5425 and 6587).
type syslog struct {
	address, host string
	tls           *tls.Config // nil: in clear text

	conn net.Conn // nil: there is none
}

const (
	// priority is facility 13, log audit, and severity 6, informational.
	priority = 13*8 + 6
	// settle is how long a server has to say that it took nothing. Syslog has no other answer.
	settle = 200 * time.Millisecond
)

func (s *syslog) Send(ctx context.Context, events []audittrail.Event) error {
	err := s.send(ctx, events)
	if err != nil {
		_ = s.Close() // dialled again
		return fmt.Errorf("export the audit trail to %s: %w", s.address, err)
	}
	return nil
}

func (s *syslog) send(ctx context.Context, events []audittrail.Event) error {
	if err := s.dial(ctx); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, event := range events {
		message := fmt.Sprintf("<%d>1 %s %s fairlead-console - %s - %s", priority,
			event.Time.UTC().Format("2006-01-02T15:04:05.000000Z"), s.host, msgID(event.Action), event.Event)
		fmt.Fprintf(&out, "%d %s", len(message), message)
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	if _, err := s.conn.Write(out.Bytes()); err != nil {
		return err
	}
	// A server that went away answers with the end of the connection. The batch is sent again then.
	if err := s.conn.SetReadDeadline(time.Now().Add(settle)); err != nil {
		return err
	}
	var one [1]byte
	if _, err := s.conn.Read(one[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the server closed the connection: %w", err)
	}
	return nil
}

func (s *syslog) dial(ctx context.Context) (err error) {
	if s.conn != nil {
		return nil
	}
	dialer := &net.Dialer{Timeout: sendTime}
	if s.tls != nil {
		s.conn, err = (&tls.Dialer{NetDialer: dialer, Config: s.tls}).DialContext(ctx, "tcp", s.address)
	} else {
		s.conn, err = dialer.DialContext(ctx, "tcp", s.address)
	}
	if err != nil {
		s.conn = nil
	}
	return err
}

// Close implements Destination.
func (s *syslog) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}

// msgID is an action as syslog takes it: printable ASCII, 32 characters at most.
func msgID(action string) string {
	if action == "" {
		return "-"
	}
	return action[:min(len(action), 32)]
}
