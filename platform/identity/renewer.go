package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/retry"
)

const (
	// callTimeout bounds each call to the console. With PollInterval and RecheckInterval it keeps
	// revocation within 30 s.
	callTimeout = 5 * time.Second
	// renewDivisor: a token is renewed at a third of its life, so that an outage of the console as
	// long as the rest is survived.
	renewDivisor = 3
	// clockCheck is how often the renewer looks at the wall clock: the monotonic one stands still
	// while a machine is suspended.
	clockCheck = time.Minute
	// firstBackoff and maxBackoff bound the fully jittered pause after a failure.
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = time.Minute
	// maxRetryAfter bounds the pause that the console may ask for.
	maxRetryAfter = 10 * time.Minute
)

// RenewerConfig is what a Renewer works on.
type RenewerConfig struct {
	// Tokens holds the token that is kept fresh.
	Tokens *TokenFile
	// Client calls the console. The client needs no credential of its own: the renewer sets the header.
	Client consolev1connect.IdentityServiceClient
	// Header, if set, adds what is sent beside the token.
	Header HeaderSource
	// Bind, if set, is an agent's: what a renewal of this token shows of the agent's key. The same token is renewed
	// with the same request until there is an answer, in another process, too: so a lost answer can be had again, and
	// another request with the same token is a copy's.
	Bind func(token string) (*consolev1.AgentKey, error)
	// Obtain gets a first token, and another one when the console refuses to renew: by joining, or
	// from the hub secret. Nil: there must be a token, and a refused one needs a person.
	Obtain func(context.Context) (string, error)
	// Renewed, if set, is told the hub's endpoints after each renewal.
	Renewed func(*consolev1.Endpoints)
	Log     *slog.Logger
}

// Renewer renews a token through IdentityService.RenewToken at a third of its life, by its own
// clock, however wrong that is. The agent has one, the ServiceCredential of a hub service has one inside.
type Renewer struct {
	cfg  RenewerConfig
	kick chan struct{}

	mu  sync.Mutex // guards err
	err error
}

// NewRenewer returns a renewer; Run starts it.
func NewRenewer(cfg RenewerConfig) *Renewer {
	return &Renewer{cfg: cfg, kick: make(chan struct{}, 1)}
}

// Run keeps the token fresh until ctx ends. Run returns nil then.
func (r *Renewer) Run(ctx context.Context) error {
	due := r.restored(ctx)
	for failures := 0; ctx.Err() == nil; {
		if failures == 0 && !r.wait(ctx, due) {
			return nil
		}
		token, err := r.renew(ctx)
		r.report(ctx, err)
		if err != nil {
			failures++
			retry.Sleep(ctx, retryPause(failures, err))
			continue
		}
		failures = 0
		due = received(token)
		select {
		case <-r.kick: // answered by this renewal
		default:
		}
	}
	return nil
}

// Kick makes Run renew now, because the token was refused somewhere.
func (r *Renewer) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Err says why the token can't be renewed at the moment, or nil.
func (r *Renewer) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Renewer) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the end is no failure
	}
	r.mu.Lock()
	before := r.err
	r.err = err
	r.mu.Unlock()
	switch {
	case err != nil && (before == nil || connect.CodeOf(before) != connect.CodeOf(err)):
		level := slog.LevelWarn
		if connect.CodeOf(err) == connect.CodeUnauthenticated {
			level = slog.LevelError // a person must act
		}
		r.cfg.Log.Log(ctx, level, "renew token: trying on", "err", err)
	case err == nil && before != nil:
		r.cfg.Log.InfoContext(ctx, "renew token: works again")
	}
}

// dueTime is when to renew: a while after the token came, by whichever clock went further.
type dueTime struct {
	since time.Time // with its monotonic part
	after time.Duration
}

func (d dueTime) in() time.Duration {
	now := time.Now()
	return d.after - max(now.Sub(d.since), now.Round(0).Sub(d.since.Round(0)))
}

func received(token string) dueTime {
	_, life, err := Lifetime(token)
	if err != nil {
		return dueTime{}
	}
	third := life / renewDivisor
	// A fleet that joined together must not renew together.
	return dueTime{since: time.Now(), after: retry.Between(third-third/5, third)}
}

// restored is for a token from the disk: its age counts, but a clock that is behind must not make
// it younger than new.
func (r *Renewer) restored(ctx context.Context) dueTime {
	token, err := r.cfg.Tokens.Token(ctx)
	if err != nil {
		return dueTime{}
	}
	issued, _, err := Lifetime(token)
	if err != nil || r.cfg.Bind != nil && BoundTo(token) == "" {
		return dueTime{} // now: a token of before there were keys is bound to one
	}
	due := received(token)
	due.since = due.since.Add(-max(0, time.Since(issued)))
	return due
}

// wait returns true when it is time to renew, false when ctx ended.
func (r *Renewer) wait(ctx context.Context, due dueTime) bool {
	for {
		left := due.in()
		if left <= 0 {
			return true
		}
		t := time.NewTimer(min(left, clockCheck))
		select {
		case <-ctx.Done():
			t.Stop()
			return false
		case <-r.kick:
			t.Stop()
			return true
		case <-t.C:
		}
	}
}

func (r *Renewer) renew(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	token, err := r.cfg.Tokens.Token(ctx)
	if err == nil {
		if token, err = r.ask(ctx, token); err == nil {
			return token, r.store(ctx, token)
		}
	}
	refused := errors.Is(err, ErrNoToken) || connect.CodeOf(err) == connect.CodeUnauthenticated
	if r.cfg.Obtain == nil || !refused {
		return "", err
	}
	refusal := err
	token, err = r.cfg.Obtain(ctx)
	if err != nil {
		if connect.CodeOf(refusal) == connect.CodeUnauthenticated {
			err = fmt.Errorf("%w (and before: %v)", err, refusal) //nolint:errorlint // the code is that of the last one
		}
		return "", err
	}
	return token, r.store(ctx, token)
}

func (r *Renewer) ask(ctx context.Context, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ctx, err := authorized(ctx, r.cfg.Header, token)
	if err != nil {
		return "", err
	}
	req := &consolev1.RenewTokenRequest{}
	if r.cfg.Bind != nil {
		if req.Key, err = r.cfg.Bind(token); err != nil {
			return "", fmt.Errorf("renew token: %w", err)
		}
	}
	answer, err := r.cfg.Client.RenewToken(ctx, req)
	if err != nil {
		return "", fmt.Errorf("renew token: %w", err)
	}
	if r.cfg.Renewed != nil {
		r.cfg.Renewed(answer.GetEndpoints())
	}
	return answer.GetToken().GetToken(), nil
}

// store keeps the token. A disk that refuses is no reason to ask for yet another token; one that
// is none is.
func (r *Renewer) store(ctx context.Context, token string) error {
	if _, _, err := Lifetime(token); err != nil {
		return fmt.Errorf("renew token: the console's answer: %w", err)
	}
	if err := r.cfg.Tokens.Store(token); err != nil {
		r.cfg.Log.WarnContext(ctx, "token is renewed in memory only: free or repair the disk", "err", err)
	}
	return nil
}

// retryPause has full jitter and honours the console's Retry-After.
func retryPause(failures int, err error) time.Duration {
	return retry.Asked(err, maxRetryAfter) + retry.Pause(failures, firstBackoff, maxBackoff)
}
