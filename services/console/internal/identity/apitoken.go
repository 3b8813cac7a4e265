package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/login"
)

const (
	// apiTokenPrefix lets people and secret scanners see what it is. No JWT begins so.
	apiTokenPrefix = "fairlead_"
	// exchangedLifetime is that of what an API token is exchanged for.
	exchangedLifetime = time.Hour
	// apiTokenDefault is how long an API token lives if nobody says so.
	apiTokenDefault = 30 * 24 * time.Hour
	apiTokenMost    = 365 * 24 * time.Hour
	// useEvery is how exactly the last use of a token is known.
	useEvery = time.Minute
	// knownFor is how long the database is not asked again about a token that was good: a part of the 30 s within which
	// a revocation is seen.
	knownFor = 5 * time.Second
	// lookTimeout bounds a question to the database about a token.
	lookTimeout = 5 * time.Second
	// maxKnown bounds the memory of good tokens.
	maxKnown = 10_000
)

// APIToken is what is known of one.
type APIToken struct {
	ID, Subject, Description, Creator        string
	Limits                                   *identity.Limits
	CreateTime, ExpireTime, LastUse, Revoked time.Time
}

// apiTokens remembers tokens that were good.
type apiTokens struct {
	mu    sync.Mutex // guards known
	known map[string]knownToken
}

type knownToken struct {
	id    identity.Identity
	until time.Time
}

func newAPITokens() *apiTokens {
	return &apiTokens{known: map[string]knownToken{}}
}

// forget makes the next use of each token ask the database.
func (a *apiTokens) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for hash := range a.known {
		a.known[hash] = knownToken{}
	}
}

// wasGood tells whether a token was good lately. Whose was is not held up by those who guess.
func (a *apiTokens) wasGood(hash string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.known[hash]
	return ok
}

// drop forgets a token that is good no more.
func (a *apiTokens) drop(hash string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, hash)
}

func (a *apiTokens) find(hash string, now time.Time) (identity.Identity, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.known[hash]
	return k.id, ok && now.Before(k.until)
}

func (a *apiTokens) keep(hash string, id identity.Identity, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxKnown {
		clear(a.known)
	}
	a.known[hash] = knownToken{id, now.Add(knownFor)}
}

// errUnknownToken is told for whatever is wrong with an API token.
var errUnknownToken = &refusal.Error{Reason: refusal.Unauthenticated, Message: "the API token is unknown, expired or revoked: make a new one with `fairlead token create`"}

// CreateAPIToken makes a token for its owner: the caller, or a service account. The token is shown this once.
func (a *Authority) CreateAPIToken(ctx context.Context, who audit.Who, owner identity.Identity, limits *identity.Limits,
	description string, ttl time.Duration,
) (text string, info APIToken, err error) {
	if err := mayMake(who, identity.APIToken); err != nil {
		return "", info, err
	}
	if ttl <= 0 {
		ttl = apiTokenDefault
	}
	id := strings.ToLower(rand.Text())
	text = apiTokenPrefix + id + "_" + strings.ToLower(rand.Text()+rand.Text())
	row := login.APIToken{ID: id, Hash: hashToken(text), Subject: owner.Subject(), Description: description, Creator: who.Identity.Subject()}
	if row.Groups, err = json.Marshal(owner.Groups); err != nil {
		return "", info, fmt.Errorf("encode groups: %w", err)
	}
	if row.Limits, err = json.Marshal(limits); err != nil {
		return "", info, fmt.Errorf("encode limits: %w", err)
	}
	err = a.store.Write(ctx, row.Creator, func(ctx context.Context, tx *store.Tx) error {
		if err := hasAccount(ctx, tx.View, owner); err != nil {
			return err
		}
		row.ExpireTime = tx.Now().Add(min(ttl, apiTokenMost))
		if err := tx.AddAPIToken(ctx, row); err != nil {
			return err
		}
		if info, err = infoOf(row); err != nil {
			return err
		}
		info.CreateTime = tx.Now()
		return tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{
			Action: actionTokenCreate, Name: id,
			Reason: "for " + owner.Subject() + " until " + row.ExpireTime.Format(time.RFC3339),
		}))
	})
	if err != nil {
		return "", info, err
	}
	a.log.InfoContext(ctx, "API token created", "actor", row.Creator, "owner", row.Subject, "token", id, "until", row.ExpireTime)
	return text, info, nil
}

// hasAccount refuses what is of a service account that does not exist or is disabled.
func hasAccount(ctx context.Context, v store.View, owner identity.Identity) error {
	account, ok := owner.ServiceAccount()
	if !ok {
		return nil
	}
	r, err := v.Get(ctx, store.KindServiceAccount, account)
	if errors.Is(err, store.ErrNotFound) {
		return refusal.New(refusal.NotFound, "service account %q does not exist: create it first", account)
	} else if err != nil {
		return err
	}
	var spec struct{ Disabled bool }
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return fmt.Errorf("decode service account %q: %w", account, err)
	}
	if spec.Disabled {
		return refusal.New(refusal.Invalid, "service account %q is disabled", account)
	}
	return nil
}

func infoOf(t login.APIToken) (APIToken, error) {
	out := APIToken{
		ID: t.ID, Subject: t.Subject, Description: t.Description, Creator: t.Creator,
		CreateTime: t.CreateTime, ExpireTime: t.ExpireTime, LastUse: t.LastUse, Revoked: t.RevokeTime,
	}
	if err := json.Unmarshal(t.Limits, &out.Limits); err != nil {
		return out, fmt.Errorf("decode limits of token %s: %w", t.ID, err)
	}
	return out, nil
}

// ListAPITokens returns up to limit good tokens of a subject (empty: of all) behind an id, and the id to go on behind;
// empty: there are no more.
func (a *Authority) ListAPITokens(ctx context.Context, subject, after string, limit int) (out []APIToken, next string, err error) {
	err = a.store.Read(ctx, func(ctx context.Context, v store.View) error {
		rows, err := v.APITokens(ctx, subject, after, limit+1)
		if err != nil {
			return err
		}
		if len(rows) > limit {
			rows = rows[:limit]
			next = rows[limit-1].ID
		}
		for _, r := range rows {
			info, err := infoOf(r)
			if err != nil {
				return err
			}
			if info.Revoked.IsZero() && info.ExpireTime.After(a.now()) {
				out = append(out, info)
			}
		}
		return nil
	})
	return out, next, err
}

// RevokeAPIToken revokes a token, and what it was exchanged for. owner is whose it must be; empty: anybody's.
func (a *Authority) RevokeAPIToken(ctx context.Context, who audit.Who, id, owner string) error {
	err := a.store.Write(ctx, who.Identity.Subject(), func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.APIToken(ctx, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && owner != "" && row.Subject != owner {
			return refusal.New(refusal.NotFound, "you have no API token %q: `fairlead token list` shows those that you have", id)
		} else if err != nil {
			return err
		}
		if !row.RevokeTime.IsZero() {
			return nil
		}
		r := Revocation("", tx.Now())
		r.TokenID = id
		return errors.Join(tx.RevokeAPITokens(ctx, id, ""), tx.Revoke(ctx, r),
			tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "token.revoke", Name: id, Reason: "of " + row.Subject})))
	})
	if err != nil {
		return err
	}
	a.log.InfoContext(ctx, "API token revoked", "actor", who.Identity.Subject(), "token", id)
	return a.Reload(ctx)
}

// Exchange turns an API token into one of an hour that every service of the hub takes.
func (a *Authority) Exchange(ctx context.Context, peer, text string) (Token, error) {
	if err := a.admit(peer); err != nil {
		return Token{}, err
	}
	owner, err := a.lookUp(ctx, text)
	if err != nil {
		if refusal.Is(err, refusal.Unauthenticated) {
			a.reject(ctx, peer, "API token")
		}
		return Token{}, err
	}
	id := identity.Identity{Kind: owner.Kind, Name: owner.Name, Groups: owner.Groups, Limits: owner.Limits, Parent: owner.TokenID, Final: true, Lent: true}
	token, err := issued(a.signer().Sign(id, min(exchangedLifetime, time.Until(owner.ExpiresAt))))
	if err == nil {
		a.log.InfoContext(ctx, "token issued", "actor", id.Subject(), "by", "API token", "parent", owner.TokenID, "token", token.Identity.TokenID, "peer", peer)
	}
	return token, err
}

// verifyAPIToken is Verify for an API token.
func (a *Authority) verifyAPIToken(text string) (identity.Identity, error) {
	now := a.now()
	hash := hashToken(text)
	if id, ok := a.tokens.find(hash, now); ok {
		if now.After(id.ExpiresAt) {
			return identity.Identity{}, identity.ErrExpired
		}
		return id, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	id, err := a.lookUp(ctx, text)
	switch {
	case errors.Is(err, errUnknownToken):
		a.tokens.drop(hash)
		return identity.Identity{}, fmt.Errorf("%w: not an API token of ours, or no more", identity.ErrInvalid)
	case err != nil:
		return identity.Identity{}, fmt.Errorf("%w: %w", identity.ErrUnread, err)
	}
	a.tokens.keep(hash, id, now)
	return id, nil
}

// lookUp asks the database whose a token is.
func (a *Authority) lookUp(ctx context.Context, text string) (identity.Identity, error) {
	id, _, ok := strings.Cut(strings.TrimPrefix(text, apiTokenPrefix), "_")
	if !ok || !strings.HasPrefix(text, apiTokenPrefix) || len(text) > maxRevoked || strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		return identity.Identity{}, errUnknownToken
	}
	var row login.APIToken
	var out identity.Identity
	err := a.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if row, err = v.APIToken(ctx, id); errors.Is(err, store.ErrNotFound) {
			return errUnknownToken
		} else if err != nil {
			return err
		}
		if subtle.ConstantTimeCompare([]byte(row.Hash), []byte(hashToken(text))) != 1 || !row.RevokeTime.IsZero() || !row.ExpireTime.After(a.now()) {
			return errUnknownToken
		}
		if out, err = ownerOf(row); err != nil {
			return err
		}
		err = hasAccount(ctx, v, out)
		if _, refused := errors.AsType[*refusal.Error](err); refused {
			return errUnknownToken // the account is gone or disabled
		}
		return err
	})
	if err != nil {
		return identity.Identity{}, err
	}
	if err := a.used(ctx, row); err != nil {
		a.log.WarnContext(ctx, "use of an API token is not noted", "token", row.ID, "err", err)
	}
	return out, nil
}

// ownerOf is who a token speaks for. An API token is its own parent: nothing else is.
func ownerOf(row login.APIToken) (identity.Identity, error) {
	_, name, _ := strings.Cut(row.Subject, ":")
	out := identity.Identity{
		Kind: identity.KindUser, Name: name, TokenID: row.ID, Parent: row.ID, BeganAt: row.CreateTime,
		IssuedAt: row.CreateTime, ExpiresAt: row.ExpireTime, Final: true,
	}
	if err := errors.Join(json.Unmarshal(row.Groups, &out.Groups), json.Unmarshal(row.Limits, &out.Limits)); err != nil {
		return out, fmt.Errorf("decode token %s: %w", row.ID, err)
	}
	return out, out.Validate()
}

// used notes the use of a token, now and then.
func (a *Authority) used(ctx context.Context, row login.APIToken) error {
	if a.now().Sub(row.LastUse) < useEvery {
		return nil
	}
	return a.store.Write(ctx, row.Subject, func(ctx context.Context, tx *store.Tx) error { return tx.UseAPIToken(ctx, row.ID) })
}

func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
