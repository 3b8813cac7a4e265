// Package identity issues, renews and revokes tokens. The package is the only holder of the signing keys, which are
// sealed in the database and shared by all consoles on it.
//
// Every console looks for new keys and revocations every reloadInterval, and verifies by what it saw
// last; with the database down it goes on verifying. Functions that issue a token ask the database first.
package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/login"
)

const (
	// reloadInterval is a part of the 30 s within which a revocation is seen everywhere.
	reloadInterval = 2 * time.Second
	// joinTokenLifetime is a promise of the API.
	joinTokenLifetime = 15 * time.Minute
	// joinTokenPrefix lets people and secret scanners see what it is.
	joinTokenPrefix = "fairlead-join-"
	// revocationLifetime is how long a revocation is kept: until the last token that it could be
	// about has expired, and a margin for clocks.
	revocationLifetime = identity.MaxLifetime + time.Hour
	// KeysPurpose binds the sealed keys to their use.
	KeysPurpose = "signing-keys"
)

// Token is a credential that was issued.
type Token struct {
	Text     string
	Identity identity.Identity
}

// Authority issues tokens and verifies them.
type Authority struct {
	store     *store.Store
	box       *seal.Box
	log       *slog.Logger
	hubSecret *hubsecret.File
	now       func() time.Time
	throttle  *throttle
	logins    *throttle // of users in browsers, each of whose sessions can become a revocation
	tokens    *apiTokens
	uses      *loginUses
	verifier  identity.BundleVerifier
	// Unbound accepts, for one upgrade, tokens of services that say not whom they are for, and tokens of agents that
	// are bound to no key.
	Unbound bool
	// ReuseEvent makes the event of a token that was used although it had been renewed; nil: there is none.
	ReuseEvent func(cluster, how string, at time.Time) store.Event
	proofs     identity.Proofs
	renewals   *throttle // of agents, each of which is written down
	// OpenKeys reads the master key into the box before anything is sealed or opened, and makes one for a hub that
	// begins; nil: the box has it. Load calls it under the lock of the catalog: of consoles that start at the same time
	// one begins the hub.
	OpenKeys func(begins bool) error
	// Refused is told of each wrong credential, before anything runs; nil: nobody is.
	Refused func(ctx context.Context, peer, what string)

	// reloading is held over a question to the database, so that an older answer never replaces a later
	// one. reloading comes before mu, which is never held that long: with a database that hangs, what is known is still
	// served.
	reloading   sync.Mutex
	sealed      []byte // the sealed form that keys were read from; guarded by reloading, as revocations are
	revocations []login.Revocation

	mu     sync.Mutex
	keys   *identity.KeySet // guarded by mu, as bundle is
	bundle identity.Bundle
}

// New returns an authority. hubSecret is the secret that all hub services share. now is the clock; nil: time.Now.
func New(s *store.Store, box *seal.Box, hubSecret *hubsecret.File, log *slog.Logger, now func() time.Time) *Authority {
	if now == nil {
		now = time.Now
	}
	return &Authority{
		store: s, box: box, log: log, hubSecret: hubSecret, now: now, throttle: newThrottle(), logins: newThrottle(),
		tokens: newAPITokens(), uses: newLoginUses(),
		proofs: identity.Proofs{Audience: identity.ServiceConsole}, renewals: newThrottle(),
	}
}

// Load reads the keys, and makes the first one if there is none. Call it before anything else.
func (a *Authority) Load(ctx context.Context) error {
	err := a.store.Write(ctx, "service:console", func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.SigningKeys(ctx)
		begins := errors.Is(err, store.ErrNotFound)
		if err != nil && !begins {
			return err
		}
		if a.OpenKeys != nil {
			if err := a.OpenKeys(begins); err != nil {
				return err
			}
		}
		if !begins {
			return nil
		}
		keys, err := identity.NewKeySet()
		if err != nil {
			return fmt.Errorf("make signing key: %w", err)
		}
		a.log.InfoContext(ctx, "made the first signing key")
		return a.put(ctx, tx, keys)
	})
	if err != nil {
		return fmt.Errorf("load keys: %w", err)
	}
	return a.Reload(ctx)
}

func (a *Authority) put(ctx context.Context, tx *store.Tx, keys *identity.KeySet) error {
	private, err := keys.MarshalPrivate()
	if err != nil {
		return fmt.Errorf("encode signing keys: %w", err)
	}
	return tx.PutSigningKeys(ctx, a.box.Seal(KeysPurpose, private))
}

// Run looks for new keys and revocations until ctx ends.
func (a *Authority) Run(ctx context.Context) error {
	ticker := time.NewTicker(reloadInterval)
	defer ticker.Stop()
	var away outage.Outage
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := a.Reload(ctx)
		switch {
		case err == nil:
			away.Over(ctx, a.log, time.Now(), "keys and revocations can be read again")
		case ctx.Err() == nil:
			away.Failed(ctx, a.log, time.Now(), "keys and revocations can't be read: verifying by the last ones", err)
		}
	}
}

// RunUses writes down the uses of logins until ctx ends. It is apart from Run, so that no revocation waits for a write.
func (a *Authority) RunUses(ctx context.Context) error {
	ticker := time.NewTicker(keepUsesEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
			defer cancel()
			_ = a.keepUses(last) // the next use of each is noted by whoever sees it
			return nil
		case <-ticker.C:
		}
		if err := a.keepUses(ctx); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "uses of logins are not noted yet; the next try follows", "err", err)
		}
	}
}

// Reload takes in the keys and revocations that the database has now.
func (a *Authority) Reload(ctx context.Context) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	now := a.now()
	var sealed []byte
	var revocations []login.Revocation
	err := a.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if sealed, err = v.SigningKeys(ctx); err != nil {
			return err
		}
		revocations, err = v.Revocations(ctx, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	keys := a.signer()
	if !bytes.Equal(sealed, a.sealed) {
		if keys, err = a.open(sealed); err != nil {
			return err
		}
	} else if slices.Equal(revocations, a.revocations) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.bundle.IssuedAt = now
		return nil
	}
	bundle := identity.Bundle{Keys: keys.PublicJWKS(), IssuedAt: now}
	for _, r := range revocations {
		bundle.Revocations = append(bundle.Revocations, published(r))
	}
	if err := a.verifier.Update(bundle); err != nil {
		return fmt.Errorf("use keys: %w", err)
	}
	a.sealed, a.revocations = sealed, revocations
	a.tokens.forget()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys, a.bundle = keys, bundle
	return nil
}

// published is a revocation as all others see it.
func published(r login.Revocation) identity.Revocation {
	return identity.Revocation{TokenID: r.TokenID, Subject: r.Subject, At: r.Time}
}

func (a *Authority) open(sealed []byte) (*identity.KeySet, error) {
	private, err := a.box.Open(KeysPurpose, sealed)
	if err != nil {
		return nil, fmt.Errorf("signing keys: %w. Give every console on this database the same --master-key-file", err)
	}
	keys, err := identity.ParseKeySet(private)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	return keys, nil
}

// Verify implements identity.Verifier. Verify takes API tokens as they are, too.
func (a *Authority) Verify(token string) (identity.Identity, error) {
	if strings.HasPrefix(token, apiTokenPrefix) {
		return a.verifyAPIToken(token)
	}
	return a.verifyLogin(token, "")
}

// verifyLogin is Verify for what is no API token, and notes the use of a person's login. remote is empty where it is
// not known.
func (a *Authority) verifyLogin(token, remote string) (identity.Identity, error) {
	id, err := a.verifier.Verify(token)
	if err == nil {
		a.uses.note(id, remote, a.now())
	}
	return id, err
}

// VerifyFrom implements identity.RemoteVerifier: API tokens that were not good before count for who sends them.
func (a *Authority) VerifyFrom(remote, token string) (identity.Identity, error) {
	if !strings.HasPrefix(token, apiTokenPrefix) {
		return a.verifyLogin(token, remote)
	}
	if a.tokens.wasGood(hashToken(token)) {
		return a.Verify(token)
	}
	peer := dialpolicy.Network(remote)
	if a.throttle.wait(peer, a.now()) > 0 {
		return identity.Identity{}, identity.ErrThrottled
	}
	id, err := a.verifyAPIToken(token)
	if errors.Is(err, identity.ErrInvalid) {
		a.throttle.failed(peer, a.now()) // the listener says it to the trail
	}
	return id, err
}

// VerifyAudience implements identity.AudienceVerifier.
func (a *Authority) VerifyAudience(token string, header http.Header) error {
	own := identity.Audience{Service: identity.ServiceConsole, Secret: a.hubSecret, Unbound: a.Unbound}
	return own.VerifyAudience(token, header)
}

// Bundle is what others verify by.
func (a *Authority) Bundle() identity.Bundle {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bundle
}

func (a *Authority) signer() *identity.KeySet {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys
}

func (a *Authority) sign(id identity.Identity) (Token, error) {
	return issued(a.signer().Sign(id, lifetime(id.Kind)))
}

func issued(text string, signed identity.Identity, err error) (Token, error) {
	return Token{Text: text, Identity: signed}, err
}

func lifetime(kind identity.Kind) time.Duration {
	switch kind {
	case identity.KindAgent:
		return identity.AgentLifetime
	case identity.KindService:
		return identity.ServiceLifetime
	default:
		return identity.UserLifetime
	}
}

// logsIn writes a login into the trail, and signs its token.
type logsIn func(ctx context.Context, tx *store.Tx, who audit.Who, as identity.Identity, provider, action string) (Token, error)

// ExchangeHubSecret gives a caller with the hub secret a token as a hub service or an administrator.
func (a *Authority) ExchangeHubSecret(ctx context.Context, who audit.Who, peer, secret string, as identity.Identity) (Token, error) {
	return a.exchangeHubSecret(ctx, who, peer, secret, as, a.logIn)
}

// LogInProgram is ExchangeHubSecret for a program that is an administrator for a while, as a test of the installation
// is. Such a login is no first login of a person.
func (a *Authority) LogInProgram(ctx context.Context, who audit.Who, peer, secret string, as identity.Identity) (Token, error) {
	return a.exchangeHubSecret(ctx, who, peer, secret, as, a.signIn)
}

func (a *Authority) exchangeHubSecret(ctx context.Context, who audit.Who, peer, secret string, as identity.Identity, logIn logsIn) (token Token, err error) {
	if err := a.admit(peer); err != nil {
		return Token{}, err
	}
	right, err := a.hubSecret.Accepts(secret)
	if err != nil {
		return Token{}, err
	}
	if !right {
		a.reject(ctx, peer, "hub secret")
		return Token{}, refusal.New(refusal.Unauthenticated, "the hub secret is wrong: use the one in the console's --hub-secret-file")
	}
	if as.Kind == identity.KindUser {
		if as, err = identity.Person(as.Name, as.Groups); err != nil {
			return Token{}, refusal.New(refusal.Invalid, "%v", err)
		}
		err = a.store.Write(ctx, as.Subject(), func(ctx context.Context, tx *store.Tx) (err error) {
			if token, err = logIn(ctx, tx, who, as, "", "login.hub-secret"); err != nil {
				return err
			}
			return addLogin(ctx, tx, who, token.Identity, "login.hub-secret")
		})
	} else {
		token, err = a.sign(as)
	}
	if err == nil {
		a.log.InfoContext(ctx, "token issued", "actor", as.Subject(), "by", "hub secret", "token", token.Identity.TokenID, "peer", peer)
	}
	return token, err
}

func (a *Authority) admit(peer string) error {
	if wait := a.throttle.wait(peer, a.now()); wait > 0 {
		return tooMany("wrong credentials from here", wait)
	}
	return nil
}

func (a *Authority) reject(ctx context.Context, peer, what string) {
	a.throttle.failed(peer, a.now())
	a.log.WarnContext(ctx, "wrong credential", "what", what, "peer", peer)
	if a.Refused != nil {
		a.Refused(ctx, peer, what)
	}
}

// mayMake refuses to make what outlives the caller's token.
func mayMake(who audit.Who, what identity.Lasting) error {
	if err := who.Identity.MayMake(what); err != nil {
		return refusal.New(refusal.Forbidden, "%v", err)
	}
	return nil
}

// CreateJoinToken makes a token that lets one agent join as a cluster.
func (a *Authority) CreateJoinToken(ctx context.Context, who audit.Who, cluster string) (token string, expire time.Time, err error) {
	if err := mayMake(who, identity.JoinToken); err != nil {
		return "", time.Time{}, err
	}
	actor := who.Identity.Subject()
	token = joinTokenPrefix + strings.ToLower(rand.Text()+rand.Text())
	err = a.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) error {
		r, err := tx.Get(ctx, store.KindCluster, cluster)
		if errors.Is(err, store.ErrNotFound) {
			return refusal.New(refusal.NotFound, "cluster %q does not exist: create it first", cluster)
		} else if err != nil {
			return err
		}
		expire = tx.Now().Add(joinTokenLifetime)
		return errors.Join(tx.AddJoinToken(ctx, store.JoinToken{Hash: hashToken(token), Cluster: r.UID, Expire: expire}),
			tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "join-token.create", Cluster: cluster, Name: cluster})))
	})
	if err != nil {
		return "", time.Time{}, err
	}
	a.log.InfoContext(ctx, "join token created", "actor", actor, "cluster", cluster)
	return token, expire, nil
}

// Join is what an agent joins with.
type Join struct {
	Token string
	// Key that the agent's tokens are bound to; empty: the agent has none.
	Key string
	// Cluster that the agent has joined as before; empty: it has not, or does not say.
	Cluster string
}

// JoinCluster uses a join token up and gives its owner a token as the cluster's agent. A token that is refused for
// another reason than its own stays good.
func (a *Authority) JoinCluster(ctx context.Context, who audit.Who, peer string, join Join) (token Token, cluster string, err error) {
	if err := a.admit(peer); err != nil {
		return Token{}, "", err
	}
	err = a.store.Write(ctx, "join token", func(ctx context.Context, tx *store.Tx) error {
		r, err := tx.UseJoinToken(ctx, hashToken(join.Token))
		if err != nil {
			return err
		}
		if join.Cluster != "" && join.Cluster != r.Name {
			return refusal.New(refusal.Precondition, "this agent is cluster %q, and the join token is for cluster %q: the token is still good. "+
				"Use another --data-dir, or a join token for %q", join.Cluster, r.Name, join.Cluster)
		}
		if join.Key == "" && !a.Unbound {
			return refusal.New(refusal.Precondition, "this agent is of a version without keys: upgrade it (or, for one upgrade, start the hub with --unsigned-members=accept); its join token is still good")
		}
		// Before the commit: a token that can't be signed must not cost the join token.
		cluster = r.Name
		if token, err = a.sign(identity.Identity{Kind: identity.KindAgent, Name: r.Name, ClusterUID: r.UID, Key: join.Key}); err != nil {
			return err
		}
		if join.Key != "" {
			if err := a.keepLine(ctx, tx, store.AgentToken{Family: token.Identity.TokenID, Cluster: r.UID, Key: join.Key}); err != nil {
				return err
			}
		}
		who.Identity = token.Identity
		return tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "cluster.join", Cluster: cluster, Name: cluster}))
	})
	if errors.Is(err, store.ErrNotFound) {
		a.reject(ctx, peer, "join token")
		return Token{}, "", refusal.New(refusal.Unauthenticated,
			"the join token is unknown, used or expired: make a new one for the cluster; it works once, within 15 minutes")
	}
	if err != nil {
		return Token{}, "", err
	}
	a.log.InfoContext(ctx, "cluster joined", "actor", token.Identity.Subject(), "cluster", cluster, "token", token.Identity.TokenID, "peer", peer)
	return token, cluster, nil
}

// CreateUserToken makes a token for a user. The token is the way in for people as long as there is no other login.
func (a *Authority) CreateUserToken(ctx context.Context, who audit.Who, user string, groups []string, ttl time.Duration) (token Token, err error) {
	if err := mayMake(who, identity.UserToken); err != nil {
		return Token{}, err
	}
	actor := who.Identity.Subject()
	as, err := identity.Person(user, groups)
	if err != nil {
		return Token{}, refusal.New(refusal.Invalid, "%v", err)
	}
	as.Final, as.Lent = true, true
	err = a.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) (err error) {
		if token, err = issued(a.signer().Sign(as, shorter(ttl))); err != nil {
			return err
		}
		if err := addLogin(ctx, tx, who, token.Identity, actionTokenCreate); err != nil {
			return err
		}
		return tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{
			Action: actionTokenCreate, Name: token.Identity.TokenID, Reason: "for " + as.Subject() + " until " + token.Identity.ExpiresAt.Format(time.RFC3339),
		}))
	})
	if err == nil {
		a.log.InfoContext(ctx, "token issued", "actor", as.Subject(), "by", actor, "token", token.Identity.TokenID, "groups", groups)
	}
	return token, err
}

// shorter is a lifetime that was asked for, within what users get.
func shorter(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return identity.UserLifetime
	}
	return min(ttl, identity.UserLifetime)
}

// Loan is how a token is lent. The zero value: none is.
type Loan struct {
	Lifetime time.Duration
	// RequestsOutlive lets requests that begin with the lent token run until the caller's own token ends.
	RequestsOutlive bool
}

// Renew gives a fresh token to the owner of a valid one; with a loan, one to be handed on. Renew asks the database: a
// token that another console revoked a moment ago must not become a new one. (One that is revoked between the question
// and the answer does, and is revoked with it.)
func (a *Authority) Renew(ctx context.Context, id identity.Identity, loan Loan) (Token, error) {
	if !id.Until.IsZero() {
		// A page that was tricked must not get hold of a token: scripts can't read the cookie either.
		return Token{}, refusal.New(refusal.Invalid, "a session in a browser hands no tokens on: run `fairlead login`")
	}
	life, err := a.ask(ctx, id)
	if err != nil {
		return Token{}, err
	}
	if loan.Lifetime > 0 {
		return a.lend(ctx, id, loan)
	}
	if loan.RequestsOutlive {
		return Token{}, refusal.New(refusal.Invalid, "requests_outlive: it is about a token that is lent: give its lifetime, too")
	}
	token, err := issued(a.signer().Renew(id, life))
	if errors.Is(err, identity.ErrFinal) {
		return Token{}, refusal.New(refusal.Unauthenticated, "%v", err)
	}
	if err == nil {
		a.uses.note(token.Identity, "", a.now())
		a.log.InfoContext(ctx, "token issued", "actor", id.Subject(), "by", "renewal", "token", token.Identity.TokenID)
	}
	return token, err
}

// ask asks the database whether the owner of a valid token may have another one, and how long it may live.
func (a *Authority) ask(ctx context.Context, id identity.Identity) (life time.Duration, err error) {
	err = a.store.Read(ctx, func(ctx context.Context, v store.View) error {
		if err := a.covered(ctx, v, id); err != nil {
			return err
		}
		if id.Kind == identity.KindAgent {
			if _, err := clusterOf(ctx, v, id); err != nil {
				return err
			}
		}
		life, err = lasts(ctx, v, id, a.now())
		return err
	})
	return life, err
}

// covered refuses a token that is revoked.
func (a *Authority) covered(ctx context.Context, v store.View, id identity.Identity) error {
	revocations, err := v.Revocations(ctx, a.now())
	if err != nil {
		return err
	}
	for _, r := range revocations {
		if published(r).Covers(id) {
			return refusal.New(refusal.Unauthenticated, "token is expired, revoked or not valid: log in or join again")
		}
	}
	return nil
}

func (a *Authority) lend(ctx context.Context, id identity.Identity, loan Loan) (Token, error) {
	if id.Kind != identity.KindUser {
		return Token{}, refusal.New(refusal.Invalid, "lifetime: only people hand tokens on")
	}
	ttl := shorter(loan.Lifetime)
	// A token that was lent with a life of its own, or to somebody else, gives no more than that life.
	until := id.RequestsUntil
	if until.IsZero() {
		until = id.ExpiresAt
	}
	id.RequestsUntil = time.Time{}
	if most := a.now().Add(identity.UserLifetime); loan.RequestsOutlive {
		id.RequestsUntil = until
		if until.After(most) { // an API token may live for a year
			id.RequestsUntil = most
		}
	}
	var token Token
	var err error
	if id.Parent == id.TokenID { // an API token as it is
		ttl = min(ttl, time.Until(id.ExpiresAt))
		id.Lent = true
		token, err = issued(a.signer().Sign(id, ttl))
	} else {
		token, err = issued(a.signer().Lend(id, ttl))
	}
	if err == nil {
		a.log.InfoContext(ctx, "token issued", "actor", id.Subject(), "by", "lending", "token", token.Identity.TokenID, "until", token.Identity.ExpiresAt)
	}
	return token, err
}

// Revocation is what to store to make a subject's tokens invalid.
func Revocation(subject string, at time.Time) login.Revocation {
	return login.Revocation{Subject: subject, Time: at, Expire: at.Add(revocationLifetime)}
}

// actionTokenCreate is in the trail when a token was made for somebody.
const actionTokenCreate = "token.create"

// AgentSubject is the subject of a cluster's agents.
func AgentSubject(cluster string) string {
	return identity.Identity{Kind: identity.KindAgent, Name: cluster}.Subject()
}

// Revoke makes tokens invalid: one by its id, or all of a subject until now. unknown: the hub knows of none. They are
// invalid all the same: a database that was put back does not know what was issued since.
func (a *Authority) Revoke(ctx context.Context, who audit.Who, tokenID, subject string) (unknown bool, err error) {
	actor := who.Identity.Subject()
	if err := validateRevocation(tokenID, subject); err != nil {
		return false, err
	}
	err = a.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) error {
		r := Revocation(subject, tx.Now())
		r.TokenID = identity.Family(tokenID)
		known, err := knows(ctx, tx, r)
		unknown = !known
		return errors.Join(err, tx.Revoke(ctx, r), tx.RevokeAPITokens(ctx, tokenID, subject), endLines(ctx, tx, r),
			tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "token.revoke", Name: tokenID, Reason: cmp.Or(subject, "and what it was renewed to")})))
	})
	if err != nil {
		return false, err
	}
	a.log.InfoContext(ctx, "tokens revoked", "actor", actor, "token", tokenID, "subject", subject, "unknown", unknown)
	return unknown, a.Reload(ctx)
}

// knows says whether the hub knows of a token that a revocation is about. Of services no tokens are kept, and of agents
// of before there were keys neither: their names are known.
func knows(ctx context.Context, tx *store.Tx, r login.Revocation) (bool, error) {
	kind, name, _ := strings.Cut(r.Subject, ":")
	switch identity.Kind(kind) {
	case identity.KindService:
		return (&identity.Identity{Kind: identity.KindService, Name: name}).Has(identity.RoleHub), nil
	case identity.KindAgent:
		_, err := tx.Get(ctx, store.KindCluster, name)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return true, err
	}
	return tx.HasTokens(ctx, r.TokenID, r.Subject)
}

// maxRevoked bounds what is revoked by name; no id or subject of ours is longer.
const maxRevoked = 300

func validateRevocation(tokenID, subject string) error {
	text := tokenID + subject
	if text == "" || len(text) > maxRevoked || strings.ContainsRune(text, 0) {
		return refusal.New(refusal.Invalid, "name a token by its id, or a subject such as agent:edge-1")
	}
	if subject == "" {
		return nil
	}
	kind, name, ok := strings.Cut(subject, ":")
	known := slices.Contains([]identity.Kind{identity.KindUser, identity.KindAgent, identity.KindService}, identity.Kind(kind))
	if !ok || !known || name == "" {
		return refusal.New(refusal.Invalid, "subject %q: must be user:<name>, agent:<cluster> or service:<name>", subject)
	}
	return nil
}

// RotateSigningKey adds a key that signs as soon as everybody had the time to learn it.
func (a *Authority) RotateSigningKey(ctx context.Context, who audit.Who) (keyID string, err error) {
	actor := who.Identity.Subject()
	err = a.store.Write(ctx, actor, func(ctx context.Context, tx *store.Tx) error {
		sealed, err := tx.SigningKeys(ctx)
		if err != nil {
			return err
		}
		keys, err := a.open(sealed)
		if err != nil {
			return err
		}
		var rotated *identity.KeySet
		if rotated, keyID, err = keys.Rotate(); err != nil {
			return refusal.New(refusal.Exhausted, "%v", err) // too many keys, too soon
		}
		return errors.Join(a.put(ctx, tx, rotated), tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "key.rotate", Name: keyID})))
	})
	if err != nil {
		return "", err
	}
	a.log.InfoContext(ctx, "signing key rotated", "actor", actor, "key", keyID)
	return keyID, a.Reload(ctx)
}
