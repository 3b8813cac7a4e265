package muxws

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // by the RFC; it protects nothing
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	version   = "13"
	keySuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // by the RFC
	// maxRefusal bounds what is read of the words of a refusal.
	maxRefusal = 1 << 10
)

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + keySuffix)) //nolint:gosec // by the RFC
	return base64.StdEncoding.EncodeToString(sum[:])
}

func hasToken(h http.Header, name, token string) bool {
	return slices.ContainsFunc(h.Values(name), func(line string) bool {
		return slices.ContainsFunc(strings.Split(line, ","), func(one string) bool {
			return strings.EqualFold(strings.TrimSpace(one), token)
		})
	})
}

// IsUpgrade says whether a request asks for a WebSocket.
func IsUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

// Acceptor makes WebSockets of requests. The zero value is ready.
type Acceptor struct {
	once sync.Once
	pool *sync.Pool
}

// Accept takes the connection of a request over, or refuses it with words for a person; then it has answered.
// The caller must end the connection with CloseWith.
func (a *Acceptor) Accept(w http.ResponseWriter, r *http.Request) (*Conn, error) {
	a.once.Do(func() { a.pool = newPool() })
	key := r.Header.Get("Sec-Websocket-Key")
	raw, err := base64.StdEncoding.DecodeString(key)
	switch {
	case !IsUpgrade(r):
		w.Header().Set("Upgrade", "websocket")
		return nil, refuse(w, http.StatusUpgradeRequired, "this address takes WebSockets")
	case r.Header.Get("Sec-Websocket-Version") != version || err != nil || len(raw) != 16:
		w.Header().Set("Sec-Websocket-Version", version)
		return nil, refuse(w, http.StatusBadRequest, "this is not a WebSocket of version 13")
	case r.Header.Get("Origin") != "":
		return nil, refuse(w, http.StatusForbidden, "this WebSocket is for agents, not for web pages")
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, refuse(w, http.StatusNotImplemented, "this connection can't become a WebSocket")
	}
	_ = conn.SetDeadline(time.Time{})
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + acceptKey(key) + "\r\n\r\n"
	if _, err := io.WriteString(conn, answer); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("accept WebSocket: %w", err)
	}
	return &Conn{rwc: conn, reader: rw.Reader, pool: a.pool}, nil
}

func refuse(w http.ResponseWriter, status int, text string) error {
	http.Error(w, text, status)
	return errors.New(text)
}

// RefusedError is an answer that is no WebSocket.
type RefusedError struct {
	Status int
	Header http.Header
	Text   string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("no WebSocket: %d %s: %s", e.Status, http.StatusText(e.Status), e.Text)
}

// Dial makes a WebSocket to an http(s) URL. The client must speak HTTP/1.1 when it is asked for an upgrade. The
// error is a *RefusedError if somebody has answered.
func Dial(ctx context.Context, client *http.Client, url string, header http.Header) (*Conn, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	key := base64.StdEncoding.EncodeToString(raw[:])
	req.Header = header.Clone()
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-Websocket-Version", version)
	req.Header.Set("Sec-Websocket-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("dial WebSocket: %w", err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // as far as it comes
		return nil, &RefusedError{resp.StatusCode, resp.Header, strings.TrimSpace(string(text))}
	}
	rwc, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !hasToken(resp.Header, "Upgrade", "websocket") || resp.Header.Get("Sec-Websocket-Accept") != acceptKey(key) {
		_ = resp.Body.Close()
		return nil, errors.New("dial WebSocket: the answer is not one to this question: something on the way mixes them up")
	}
	return &Conn{rwc: rwc, reader: bufio.NewReader(rwc), client: true, pool: newPool()}, nil
}
