package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"fairlead.dev/platform/durable"
)

// TokenSource gives the token to send with a call. Token may wait for the first one, but not longer than ctx lives.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// ErrNoToken means that there is no token yet: log in, or join.
var ErrNoToken = errors.New("no token")

// StaticToken is a TokenSource that always gives the same token.
func StaticToken(token string) TokenSource { return staticToken(token) }

type staticToken string

func (t staticToken) Token(context.Context) (string, error) {
	if t == "" {
		return "", ErrNoToken
	}
	return string(t), nil
}

// TokenFile is a TokenSource over a file (mode 0600) that holds one token and nothing else. The file is read once;
// after that this process is the one that changes it.
type TokenFile struct {
	path  string
	first chan struct{} // closed with the first token

	mu    sync.Mutex // guards what follows
	token string
}

// NewTokenFile returns the token source over path. The file need not exist yet.
func NewTokenFile(path string) *TokenFile {
	return &TokenFile{path: path, first: make(chan struct{})}
}

// Token returns the token, or ErrNoToken (wrapped) when there is no file.
func (f *TokenFile) Token(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != "" {
		return f.token, nil
	}
	token, err := f.readToken()
	if err != nil {
		return "", err
	}
	f.setLocked(token)
	return token, nil
}

// readToken takes a file that can't be used for none: who can join or log in again shall do so.
func (f *TokenFile) readToken() (string, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read token: %w in %s", ErrNoToken, f.path)
	}
	if err != nil {
		return "", fmt.Errorf("read token: %w: %w", ErrNoToken, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxTokenBytes+1))
	if err != nil {
		return "", fmt.Errorf("read token: %w: %w", ErrNoToken, err)
	}
	token := strings.TrimSpace(string(data))
	if _, _, err := Lifetime(token); err != nil {
		return "", fmt.Errorf("read token: %w in %s: %w", ErrNoToken, f.path, err)
	}
	return token, nil
}

// Store replaces the token. In memory it does so even if the disk refuses.
func (f *TokenFile) Store(token string) error {
	if _, _, err := Lifetime(token); err != nil {
		return fmt.Errorf("store token: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setLocked(token)
	if err := durable.WriteFile(f.path, []byte(token+"\n"), 0o600); err != nil {
		return fmt.Errorf("store token: %w", err)
	}
	return nil
}

func (f *TokenFile) setLocked(token string) {
	if f.token == "" {
		close(f.first)
	}
	f.token = token
}

// Lifetime reads when the caller's own token was issued and how long it lives. No trust rests on it: it only says when
// to renew.
func Lifetime(token string) (issued time.Time, life time.Duration, err error) {
	if len(token) > maxTokenBytes {
		return time.Time{}, 0, errors.New("not a token: too long")
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return time.Time{}, 0, errors.New("not a token") // the cause could quote it
	}
	var c claims
	if err := parsed.UnsafeClaimsWithoutVerification(&c); err != nil || c.IssuedAt == nil || c.Expiry == nil {
		return time.Time{}, 0, errors.New("not a token of Fairlead")
	}
	issued = c.IssuedAt.Time()
	life = c.Expiry.Time().Sub(issued)
	if life <= 0 || life > MaxLifetime+leeway {
		return time.Time{}, 0, errors.New("not a token of Fairlead: odd lifetime")
	}
	return issued, life, nil
}

// BoundTo is the key that the caller's own token is bound to, as in Identity.Key; empty: none. No trust rests on it.
func BoundTo(token string) string {
	c := saidBy(token)
	if c.Confirmation == nil {
		return ""
	}
	return c.Confirmation.Ed25519
}

// ClusterOf is the UID of the cluster that an agent's own token is of, as in Identity.ClusterUID; empty: the token does
// not say. No trust rests on it.
func ClusterOf(token string) string { return saidBy(token).ClusterUID }

// saidBy is what a token says of itself, whoever signed it.
func saidBy(token string) (c claims) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || parsed.UnsafeClaimsWithoutVerification(&c) != nil {
		return claims{}
	}
	return c
}

// authorized returns a context whose calls carry the token, and what more, if that is not nil, sends beside it.
func authorized(ctx context.Context, more HeaderSource, token string) (context.Context, error) {
	ctx, info := connect.NewClientContext(ctx)
	if more != nil {
		if err := more.SetHeader(ctx, token, info.RequestHeader()); err != nil {
			return nil, err
		}
	}
	info.RequestHeader().Set("Authorization", "Bearer "+token)
	return ctx, nil
}
