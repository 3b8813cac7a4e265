package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// answerWithin is how long a part may take to answer bytes that it may leave unanswered.
const answerWithin = 15 * time.Second

// dial opens a TLS connection to a part, for bytes as they are given.
func (t *Try) dial(ctx context.Context, part, protocol string) (*tls.Conn, error) {
	u, err := url.Parse(t.world.Hub[part])
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: t.addr}},
		Config:    &tls.Config{RootCAs: t.world.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{protocol}},
	}
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return nil, errors.New("the connection is not secured")
	}
	return secured, secured.SetDeadline(time.Now().Add(answerWithin))
}

// say sends bytes and returns the answers until the part closes the connection, or is silent.
func (t *Try) say(ctx context.Context, part, raw string) ([]Answer, error) {
	conn, err := t.dial(ctx, part, "http/1.1")
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, raw) }() // the part may close before it has read all
	answers := bufio.NewReader(conn)
	var found []Answer
	for {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return found, nil // closed, or no HTTP: no answer either way
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		found = append(found, Answer{resp.StatusCode, resp.Header, string(body)})
		if err != nil || resp.Close {
			return found, nil
		}
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second)) // never fails on an open connection
	}
}

// summed is the answers in few words.
func summed(answers []Answer) string {
	if len(answers) == 0 {
		return "closed without an answer"
	}
	var words []string
	for _, a := range answers {
		words = append(words, a.String())
	}
	return strings.Join(words, " / ")
}

// framer2 is an HTTP/2 connection to write frames to that no client would.
type framer2 struct {
	*http2.Framer
	conn    *tls.Conn
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func (t *Try) dial2(ctx context.Context, part string) (*framer2, error) {
	conn, err := t.dial(ctx, part, "h2")
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	f := &framer2{Framer: http2.NewFramer(conn, conn), conn: conn}
	f.AllowIllegalWrites = true
	f.encoder = hpack.NewEncoder(&f.block)
	return f, f.WriteSettings()
}

func (f *framer2) close() { _ = f.conn.Close() }

// head encodes fields; pseudo fields come first, as name, value, name, value.
func (f *framer2) head(fields ...string) []byte {
	f.block.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		_ = f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // never fails into memory
	}
	return bytes.Clone(f.block.Bytes())
}

func hpackDecoder() *hpack.Decoder { return hpack.NewDecoder(4096, nil) }

func isSilence(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
