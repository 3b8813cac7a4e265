// Package members makes the members of groups in the coordination store worth more than what anybody may have written
// there.
//
// A service signs what it says of itself: the MAC is over group, id, URL, meta and expiry, by a key that is derived
// from the hub secret. A record that is forged, altered, copied to another group or id, or expired is left out of every
// list, so that its address is asked for nothing and sent no token. Old services ignore the signature; their own
// records have none, and count only while Unsigned says so.
package members

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/loopback"
)

const (
	// leeway is how far the clocks of two services may be apart; the same as for tokens.
	leeway = time.Minute
	// warnEvery bounds what is logged of records that are ignored: a program that can write one can write many.
	warnEvery = 10 * time.Minute
	// format keeps this message apart from every later one.
	format = "fairlead member 1"
)

// Config of an authenticated membership.
type Config struct {
	Secret *hubsecret.File
	// Unsigned accepts records without a MAC, for one upgrade. A wrong MAC is never accepted.
	Unsigned bool
	// Plain tells whether this service itself is reached by plain HTTP on loopback. Only then others may be.
	Plain func() bool
	Log   *slog.Logger
}

// Authenticate returns the coordinator with a membership that signs what is joined with, and lists only what is signed.
func Authenticate(c coordination.Coordinator, cfg Config) coordination.Coordinator {
	return &authenticated{Coordinator: c, cfg: cfg, warned: map[string]time.Time{}}
}

type authenticated struct {
	coordination.Coordinator
	cfg Config

	mu     sync.Mutex           // guards warned
	warned map[string]time.Time // by role
}

// Join signs m.
func (a *authenticated) Join(ctx context.Context, group string, m coordination.Member, ttl time.Duration) error {
	m.Expires = time.Now().Add(ttl).UnixMilli()
	mac, err := a.cfg.Secret.Sign(hubsecret.Members, message(group, m))
	if err != nil {
		return fmt.Errorf("sign member: %w", err)
	}
	m.MAC = base64.RawURLEncoding.EncodeToString(mac)
	return a.Coordinator.Join(ctx, group, m, ttl)
}

// Members lists what is signed, without the signatures.
func (a *authenticated) Members(ctx context.Context, group string) ([]coordination.Member, error) {
	all, err := a.Coordinator.Members(ctx, group)
	if err != nil {
		return nil, err
	}
	good := make([]coordination.Member, 0, len(all))
	var ignored coordination.Member
	var why error
	count := 0
	for _, m := range all {
		if err := a.check(group, m); err != nil {
			ignored, why = m, err
			count++
			continue
		}
		m.Expires, m.MAC = 0, ""
		good = append(good, m)
	}
	if count > 0 {
		a.warn(ctx, group, ignored, why, count)
	}
	return good, nil
}

// Why records are ignored. A person reads it in the log.
var (
	errUnsigned = errors.New("it is not signed: it is forged, or of a service of an older version; for an upgrade from that, give --unsigned-members=accept")
	errForged   = errors.New("its signature is wrong: it is forged or altered, or of a service with another hub secret")
	errExpired  = errors.New("it has expired: it was copied, or the clocks of the services differ")
	errPlain    = errors.New("its URL is no https: tokens are not sent there")
)

func (a *authenticated) check(group string, m coordination.Member) error {
	switch mac, err := base64.RawURLEncoding.DecodeString(m.MAC); {
	case m.MAC == "" && a.cfg.Unsigned:
	case m.MAC == "":
		return errUnsigned
	case err != nil:
		return errForged
	default:
		if ok, err := a.cfg.Secret.Verify(hubsecret.Members, message(group, m), mac); err != nil || !ok {
			return errors.Join(errForged, err)
		}
		if time.Now().After(time.UnixMilli(m.Expires).Add(leeway)) {
			return errExpired
		}
	}
	if m.URL == "" {
		return nil // an entry of a session has none
	}
	u, err := url.Parse(m.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !loopback.Host(u.Hostname()) || !a.cfg.Plain()) {
		return errPlain
	}
	return nil
}

// warn tells of records that are ignored, the last of them by name, seldom.
func (a *authenticated) warn(ctx context.Context, group string, m coordination.Member, why error, count int) {
	role, _, _ := strings.Cut(group, "/")
	a.mu.Lock()
	now := time.Now()
	again := now.Sub(a.warned[role]) < warnEvery
	if !again {
		a.warned[role] = now
	}
	a.mu.Unlock()
	if !again {
		a.cfg.Log.WarnContext(ctx, "records of members are ignored", "role", role, "group", group, "member", m.ID, "url", m.URL, "err", why, "ignored", count)
	}
}

// message is what is signed: each part with its length before it, so that no two records have the same.
func message(group string, m coordination.Member) []byte {
	var b []byte
	add := func(parts ...string) {
		for _, part := range parts {
			b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
		}
	}
	add(format, group, m.ID, m.URL)
	b = binary.AppendVarint(b, m.Expires)
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		add(key, m.Meta[key])
	}
	return b
}
