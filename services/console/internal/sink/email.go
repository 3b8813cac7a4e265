package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/resource"
)

const (
	// tlsPort has TLS from the start (RFC 8314).
	tlsPort = "465"
	// permanent replies are of this code and above: the server will not say otherwise later.
	permanent = 500
	// maxSubject is as much of a subject as is sent.
	maxSubject = 200
	// maxTalk is as much as a server may say, with its certificates, in bytes.
	maxTalk = 256 << 10
)

// email sends a mail, by TLS or not at all.
func (s *sender) email(ctx context.Context, t target, events []*consolev1.Event) (string, error) {
	mailed, err := t.mail(events, s.now())
	if err != nil {
		return "", err
	}
	at := t.spec.Email
	from, to, err := envelope(at)
	if err != nil {
		return "", failed("%s", err)
	}
	c, end, err := s.greet(ctx, at, from)
	if err != nil {
		return "", err
	}
	defer end()
	if err := login(c, at, t.credentials[resource.SinkPassword]); err != nil {
		return "", err
	}
	if err := c.Mail(from); err != nil {
		return "", told("does not take the sender "+from, err)
	}
	var refused []string
	for _, to := range to {
		if err := c.Rcpt(to); err != nil {
			f := told("does not take the recipient "+to, err)
			if refused = append(refused, f.message); !f.rejected || len(refused) == len(at.To) {
				return "", f // nor did the others get it yet
			}
		}
	}
	w, err := c.Data()
	if err == nil {
		if _, err = w.Write(mailed); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		return "", told("does not take the mail", err)
	}
	_ = c.Quit() // the server has the mail
	if len(refused) > 0 {
		f := failed("not all of %d recipients get mail: %s", len(to), strings.Join(refused, "; "))
		f.taken = true
		return "", f
	}
	return fmt.Sprintf("mail to %d accepted by %s", len(to), at.Server), nil
}

// greet connects, and speaks TLS from then on.
func (s *sender) greet(ctx context.Context, at *resource.EmailSink, from string) (c *smtp.Client, end func(), err error) {
	host, port, err := net.SplitHostPort(at.Server)
	if err != nil {
		return nil, nil, failed("email.server: must be host:port")
	}
	config, err := trust(at.CA)
	if err != nil {
		return nil, nil, err
	}
	config.ServerName = host
	raw, err := s.dial(ctx, "tcp", at.Server)
	if err != nil {
		return nil, nil, failed("%s: %s", at.Server, reason(err))
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // a reader of the connection then fails
	end = func() { stop(); _ = raw.Close() }
	if deadline, ok := ctx.Deadline(); ok {
		_ = raw.SetDeadline(deadline) // AfterFunc sees to it, too
	}
	conn := net.Conn(&budgeted{Conn: raw, left: maxTalk})
	implicit := at.ImplicitTLS || port == tlsPort
	if implicit {
		conn = tls.Client(conn, config)
	}
	c, err = smtp.NewClient(conn, host)
	if err == nil {
		_, domain, _ := strings.Cut(from, "@")
		err = c.Hello(domain)
	}
	if err == nil && !implicit {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			end()
			return nil, nil, failed("%s offers no STARTTLS: without TLS nothing is sent. For TLS from the start set email.implicitTls", at.Server)
		}
		err = c.StartTLS(config)
	}
	if err != nil {
		end()
		f := failed("%s: %s", at.Server, reason(err))
		if c == nil && !implicit && errors.Is(err, os.ErrDeadlineExceeded) {
			f.message += " Servers that begin with TLS wait, too: for those set email.implicitTls"
		}
		return nil, nil, f
	}
	return c, end, nil
}

// budgeted is a connection on which the other side may say so much: net/smtp reads lines of any length, and any number
// of them.
type budgeted struct {
	net.Conn
	left int
}

func (b *budgeted) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("it says more than %d bytes: is it a mail server?", maxTalk)
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func login(c *smtp.Client, at *resource.EmailSink, password string) error {
	if at.Username == "" {
		return nil
	}
	ok, ways := c.Extension("AUTH")
	host, _, _ := net.SplitHostPort(at.Server)
	var by smtp.Auth
	switch ways := strings.Fields(strings.ToUpper(ways)); {
	case !ok:
		return failed("%s lets nobody log in: leave email.username out", at.Server)
	case slices.Contains(ways, "PLAIN"):
		by = smtp.PlainAuth("", at.Username, password, host)
	case slices.Contains(ways, "LOGIN"):
		by = &loginAuth{at.Username, password}
	default:
		return failed("%s knows neither AUTH PLAIN nor LOGIN, but %s", at.Server, strings.Join(ways, ", "))
	}
	if err := c.Auth(by); err != nil {
		f := told("does not let us log in", err)
		f.rejected = false // the refusal is not about this mail
		return f
	}
	return nil
}

// plainAuth is what AUTH PLAIN sends.
func plainAuth(username, password string) string { return "\x00" + username + "\x00" + password }

// loginAuth is AUTH LOGIN, which some servers have instead of PLAIN. TLS is on by then.
type loginAuth struct{ username, password string }

func (l *loginAuth) Start(*smtp.ServerInfo) (string, []byte, error) { return "LOGIN", nil, nil }

func (l *loginAuth) Next(asked []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	switch strings.ToLower(strings.TrimSuffix(string(asked), ":")) {
	case "username":
		return []byte(l.username), nil
	case "password":
		return []byte(l.password), nil
	}
	return nil, errors.New("the server asks for something else than username and password")
}

// told is what a server said.
func told(what string, err error) *failure {
	if said, ok := errors.AsType[*textproto.Error](err); ok {
		f := failed("the server %s: %d %s", what, said.Code, said.Msg)
		f.rejected = said.Code >= permanent
		return f
	}
	return failed("the server %s: %s", what, reason(err))
}

// envelope are the addresses, without names.
func envelope(at *resource.EmailSink) (from string, to []string, err error) {
	sender, err := address(at.From)
	if err != nil {
		return "", nil, fmt.Errorf("email.from %w", err)
	}
	for i, text := range at.To {
		a, err := address(text)
		if err != nil {
			return "", nil, fmt.Errorf("email.to[%d] %w", i, err)
		}
		to = append(to, a.Address)
	}
	return sender.Address, to, nil
}

// address takes nothing that could end a line of a header or of the conversation.
func address(text string) (*mail.Address, error) {
	if oneLine(text) != text {
		return nil, errors.New("has line breaks or other characters that no address has")
	}
	a, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsAny(a.Address, " <>\"\\") {
		return nil, fmt.Errorf("%q: is no address: write it as ops@example.com or Ops <ops@example.com>", text)
	}
	return a, nil
}

// mail is the whole of it. The same events make the same Message-ID, so that one which comes twice is seen to.
func (t target) mail(events []*consolev1.Event, now time.Time) ([]byte, error) {
	at := t.spec.Email
	text, subject := t.spec.Template, at.Subject
	if text == "" {
		text = defaultMail
	}
	if subject == "" {
		subject = defaultSubject
	}
	m := newMessage(t, events, asIs)
	body, err := render("template", text, m)
	if err != nil {
		return nil, failed("spec.template: %s", err)
	}
	if subject, err = render("subject", subject, m); err != nil {
		return nil, failed("spec.email.subject: %s", err)
	}
	from, err := address(at.From)
	if err != nil {
		return nil, failed("email.from %s", err)
	}
	id := sha256.New()
	id.Write([]byte(t.uid))
	for _, e := range events {
		id.Write([]byte("\x00" + e.GetId()))
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	var to []string
	for i, text := range at.To {
		a, err := address(text)
		if err != nil {
			return nil, failed("email.to[%d] %s", i, err)
		}
		to = append(to, a.String())
	}
	var out bytes.Buffer
	for _, h := range []struct{ name, value string }{
		{"From", from.String()},
		{"To", strings.Join(to, ",\r\n ")},
		{"Subject", mime.QEncoding.Encode("utf-8", cut(oneLine(subject), maxSubject))},
		{"Date", now.UTC().Format(time.RFC1123Z)},
		{"Message-ID", "<" + hex.EncodeToString(id.Sum(nil)[:16]) + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		out.WriteString(h.name + ": " + h.value + "\r\n")
	}
	out.WriteString("\r\n")
	w := quotedprintable.NewWriter(&out)
	_, err = w.Write([]byte(strings.ToValidUTF8(body, "?")))
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("encode mail: %w", err)
	}
	return out.Bytes(), nil
}
