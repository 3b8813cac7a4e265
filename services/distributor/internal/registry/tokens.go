package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/singleflight"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/identity"
)

const (
	// apiTokenPrefix begins API tokens, which only the console knows. No other token begins so.
	apiTokenPrefix = "fairlead_"
	// exchangeTime bounds a question to the console.
	exchangeTime = 5 * time.Second
	// askAgain is when the console is asked again about a token whose lent token still counts, after it did not answer.
	askAgain = 30 * time.Second
	// mostLent tokens are kept.
	mostLent = 4096
	// mostExchanges are under way at once.
	mostExchanges = 8
	// wrongPerNetwork and wrongPerMinute API tokens are asked about that the console does not know. The console allows
	// one address 20 a minute before it makes all wait that come from there, as this service's questions do.
	wrongPerNetwork, wrongPerMinute = 5, 10
)

// ExchangeFunc has the console lend a token by an API token. An API token that is none is connect.CodeUnauthenticated.
type ExchangeFunc func(ctx context.Context, apiToken string) (lent string, expire time.Time, err error)

// Tokens verifies what clients of registries send: tokens of the hub, and API tokens, by what the console lends for
// them for an hour. The lent token is renewed when half of its time is over; with the console away it counts to its
// end. A revocation of the API token ends the lent one, as everywhere.
type Tokens struct {
	hub      identity.Verifier
	exchange ExchangeFunc
	now      func() time.Time
	places   chan struct{} // of exchanges
	flights  singleflight.Group

	mu     sync.Mutex // guards what follows
	lent   map[tokenHash]lent
	minute int64          // that wrong counts in
	wrong  map[string]int // by network; "": of all
}

type tokenHash = [sha256.Size]byte

// lent is a token that was lent for an API token. After the console rejects the API token, the entry stays without a
// token, so that downloads end.
type lent struct {
	token         string
	renew, expire time.Time
}

// NewTokens returns a verifier; hub verifies tokens of the hub.
func NewTokens(hub identity.Verifier, exchange ExchangeFunc) *Tokens {
	return &Tokens{
		hub: hub, exchange: exchange, now: time.Now, places: make(chan struct{}, mostExchanges),
		lent: map[tokenHash]lent{}, wrong: map[string]int{},
	}
}

// Verify implements identity.Verifier. Verify asks nobody: of an API token it is called about requests that VerifyFrom
// let in.
func (t *Tokens) Verify(token string) (identity.Identity, error) {
	if !strings.HasPrefix(token, apiTokenPrefix) {
		return t.hub.Verify(token)
	}
	switch is, known := t.kept(sha256.Sum256([]byte(token))); {
	case !known || is.token == "":
		return identity.Identity{}, identity.ErrRevoked
	case !t.now().Before(is.expire):
		return identity.Identity{}, identity.ErrExpired // a request that has begun runs on until its time is over
	default:
		return t.hub.Verify(is.token)
	}
}

// VerifyFrom implements identity.RemoteVerifier.
func (t *Tokens) VerifyFrom(remote, token string) (identity.Identity, error) {
	if !strings.HasPrefix(token, apiTokenPrefix) {
		return t.hub.Verify(token)
	}
	hash := sha256.Sum256([]byte(token))
	is, known := t.find(hash)
	if known && t.now().Before(is.renew) {
		return t.hub.Verify(is.token)
	}
	network := dialpolicy.Network(remote)
	if !known && t.throttled(network) {
		return identity.Identity{}, identity.ErrThrottled
	}
	got, err := t.borrow(hash, network, token)
	switch {
	case errors.Is(err, identity.ErrThrottled):
		return identity.Identity{}, identity.ErrThrottled
	case isRejected(err):
		return identity.Identity{}, fmt.Errorf("%w: the console knows no such API token", identity.ErrInvalid)
	case err != nil && known:
		t.keep(hash, lent{is.token, t.now().Add(askAgain), is.expire})
		return t.hub.Verify(is.token)
	case err != nil:
		return identity.Identity{}, fmt.Errorf("%w: %w", identity.ErrNotReady, err)
	}
	return t.hub.Verify(got)
}

// borrow asks the console, once for all calls about the same token.
func (t *Tokens) borrow(hash tokenHash, network, token string) (string, error) {
	got, err, _ := t.flights.Do(string(hash[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), exchangeTime)
		defer cancel()
		select {
		case t.places <- struct{}{}:
			defer func() { <-t.places }()
		case <-ctx.Done():
			return "", errors.New("too many API tokens are asked about")
		}
		// Others may have been rejected while this one waited.
		if _, known := t.find(hash); !known && t.throttled(network) {
			return "", identity.ErrThrottled
		}
		now := t.now()
		got, expire, err := t.exchange(ctx, token)
		if isRejected(err) {
			t.reject(hash, network) // before the next one has the place
		}
		if err != nil {
			return "", err
		}
		t.keep(hash, lent{token: got, renew: now.Add(expire.Sub(now) / 2), expire: expire})
		return got, nil
	})
	if err != nil {
		return "", err
	}
	return got.(string), nil //nolint:forcetypeassert // as above
}

// isRejected tells whether the console's answer is that an API token is none.
func isRejected(err error) bool {
	return connect.CodeOf(err) == connect.CodeUnauthenticated || connect.CodeOf(err) == connect.CodeInvalidArgument
}

// find returns the lent token of an API token, unless it is over.
func (t *Tokens) find(hash tokenHash) (lent, bool) {
	is, known := t.kept(hash)
	return is, known && is.token != "" && t.now().Before(is.expire)
}

func (t *Tokens) kept(hash tokenHash) (lent, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is, known := t.lent[hash]
	return is, known
}

func (t *Tokens) keep(hash tokenHash, is lent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.lent[hash]; !known && len(t.lent) >= mostLent {
		now := t.now()
		maps.DeleteFunc(t.lent, func(_ tokenHash, is lent) bool { return !now.Before(is.expire) })
		for other := range t.lent {
			if len(t.lent) < mostLent {
				break
			}
			delete(t.lent, other) // it is asked for again
		}
	}
	t.lent[hash] = is
}

// reject forgets what was lent for a token that the console does not know, and counts the token for the address that it
// came from.
func (t *Tokens) reject(hash tokenHash, network string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if is, known := t.lent[hash]; known {
		t.lent[hash] = lent{expire: is.expire}
	}
	t.turn()
	t.wrong[network]++
	t.wrong[""]++
}

// throttled says whether too many wrong tokens came from a network, or from all.
func (t *Tokens) throttled(network string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn()
	return t.wrong[network] >= wrongPerNetwork || t.wrong[""] >= wrongPerMinute
}

// turn begins to count anew with each minute. The caller holds mu.
func (t *Tokens) turn() {
	if minute := t.now().Unix() / 60; minute != t.minute {
		t.minute = minute
		clear(t.wrong)
	}
}
