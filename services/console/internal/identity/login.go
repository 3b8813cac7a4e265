package identity

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/login"
)

const (
	// linkLifetime is how long a login link is good, at most: a log, a terminal or a chat has it.
	linkLifetime = 10 * time.Minute
	// sameStart is how long consoles take to start together: a later one makes a link of its own.
	sameStart = 2 * time.Minute
	// linkPrefix lets people and secret scanners see what it is.
	linkPrefix = "fairlead-login-"
	// firstAdministrator is who the first link logs in.
	firstAdministrator = "admin"
	// loginLifetime is how long a login by an identity provider lasts, however often its token is renewed: what has
	// changed there counts by then.
	loginLifetime = identity.UserLifetime
)

// How a login begins, in the trail.
const (
	ActionLink     = "login.link"
	ActionProvider = "login.oidc"
	// ActionSession is of a session that a token begins, which is a login of its own.
	ActionSession = "session.begin"
)

// person is what a login link is for, in JSON.
type person struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups,omitempty"`
	// First is of a link that is good only as long as nobody has logged in.
	First bool `json:"first,omitempty"`
	// Sealed is the code of such a link, for the consoles that start at the same time.
	Sealed []byte `json:"sealed,omitempty"`
}

// linkPurpose is what the code of a link is sealed for.
const linkPurpose = "first login link"

// FirstLink returns the login link for an administrator as long as no person has ever logged in, and how long it is
// good; "": one has. Consoles that start at the same time get one link.
func (a *Authority) FirstLink(ctx context.Context) (code string, good time.Duration, err error) {
	err = a.store.Write(ctx, audit.Console().Identity.Subject(), func(ctx context.Context, tx *store.Tx) error {
		somebody, err := tx.AnybodyLoggedIn(ctx)
		if err != nil || somebody {
			return err
		}
		if code, good, err = a.knownFirstLink(ctx, tx); err != nil || code != "" {
			return err
		}
		code, good = newLinkCode(), linkLifetime
		return addLink(ctx, tx, audit.Console(), code, good, person{
			Name: firstAdministrator, Groups: []string{identity.AdminsGroup}, First: true, Sealed: a.box.Seal(linkPurpose, []byte(code)),
		})
	})
	return code, good, err
}

// knownFirstLink returns the link that another console has just made; "": there is none that the master key opens.
func (a *Authority) knownFirstLink(ctx context.Context, tx *store.Tx) (code string, good time.Duration, err error) {
	links, err := tx.LoginLinks(ctx)
	if err != nil {
		return "", 0, err
	}
	for _, link := range links {
		var p person
		good := link.Expire.Sub(tx.Now())
		if json.Unmarshal(link.Person, &p) != nil || !p.First || len(p.Sealed) == 0 || good < linkLifetime-sameStart {
			continue
		}
		known, err := a.box.Open(linkPurpose, p.Sealed)
		if err == nil && hashToken(string(known)) == link.Hash { // else it is of a master key that was replaced
			return string(known), good, nil
		}
	}
	return "", 0, nil
}

// CreateLoginLink makes a link with which a person logs in once. A lifetime of 0 is the longest.
func (a *Authority) CreateLoginLink(ctx context.Context, who audit.Who, name string, groups []string, lifetime time.Duration) (code string, err error) {
	if err := mayMake(who, identity.LoginLink); err != nil {
		return "", err
	}
	id, err := identity.Person(name, groups)
	if err != nil {
		return "", refusal.New(refusal.Invalid, "%v", err)
	}
	if lifetime <= 0 || lifetime > linkLifetime {
		lifetime = linkLifetime
	}
	err = a.store.Write(ctx, who.Identity.Subject(), func(ctx context.Context, tx *store.Tx) (err error) {
		code = newLinkCode()
		return addLink(ctx, tx, who, code, lifetime, person{Name: id.Name, Groups: id.Groups})
	})
	return code, err
}

func newLinkCode() string { return linkPrefix + strings.ToLower(rand.Text()+rand.Text()) }

func addLink(ctx context.Context, tx *store.Tx, who audit.Who, code string, lifetime time.Duration, p person) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode login link: %w", err)
	}
	err = tx.AddLoginLink(ctx, login.LoginLink{Hash: hashToken(code), Person: text, Expire: tx.Now().Add(lifetime)})
	if err != nil {
		return err
	}
	return tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "login.link.create", Name: p.Name, Reason: strings.Join(p.Groups, ", ")}))
}

// UseLoginLink uses a link, or the code in it, up. A browser's login is kept when its session begins.
func (a *Authority) UseLoginLink(ctx context.Context, who audit.Who, client Client, peer, link string) (token Token, err error) {
	if err := a.admit(peer); err != nil {
		return Token{}, err
	}
	code := link[strings.LastIndexByte(link, '#')+1:]
	err = a.store.Write(ctx, "login link", func(ctx context.Context, tx *store.Tx) error {
		text, err := tx.UseLoginLink(ctx, hashToken(code))
		if err != nil {
			return err
		}
		var p person
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("decode login link: %w", err)
		}
		if somebody, err := tx.AnybodyLoggedIn(ctx); err != nil {
			return err
		} else if somebody && p.First {
			return store.ErrNotFound
		}
		// Before the commit: a token that can't be signed must not cost the link.
		token, err = a.logIn(ctx, tx, who, identity.Identity{Kind: identity.KindUser, Name: p.Name, Groups: p.Groups}, "", ActionLink)
		if err != nil || client == Browser {
			return err
		}
		return addLogin(ctx, tx, who, token.Identity, ActionLink)
	})
	if errors.Is(err, store.ErrNotFound) {
		a.reject(ctx, peer, "login link")
		return Token{}, refusal.New(refusal.Unauthenticated, "the login link is unknown, used or expired: it works once, within 10 minutes. Before anybody has logged in the console prints "+
			"a new one at each start; after that administrators make them with `fairlead admin login-link`")
	}
	if err != nil {
		return Token{}, err
	}
	a.log.InfoContext(ctx, "token issued", "actor", token.Identity.Subject(), "by", "login link", "token", token.Identity.TokenID, "peer", peer)
	return token, nil
}

// logIn notes that a person logged in, and signs the token.
func (a *Authority) logIn(ctx context.Context, tx *store.Tx, who audit.Who, as identity.Identity, provider, action string) (Token, error) {
	token, err := a.signIn(ctx, tx, who, as, provider, action)
	if err != nil {
		return Token{}, err
	}
	return token, tx.LoggedIn(ctx, as.Name, provider, as.Subject(), as.Groups)
}

// signIn signs the token of a login and writes the login into the trail.
func (a *Authority) signIn(ctx context.Context, tx *store.Tx, who audit.Who, as identity.Identity, provider, action string) (Token, error) {
	token, err := a.sign(as)
	if err != nil {
		return Token{}, err
	}
	who.Identity = as
	return token, tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: action, Name: token.Identity.TokenID, Reason: provider}))
}

// Foreign is a person whom an identity provider vouches for.
type Foreign struct {
	Name   string
	Groups []string
	Issuer string
	// Unique is the same for the same token of the provider, which is good for one login, and Expire when it is for
	// none.
	Unique string
	Expire time.Time
}

// LogIn gives a person whom an identity provider vouches for a token. A browser's login is kept when its session
// begins.
func (a *Authority) LogIn(ctx context.Context, who audit.Who, client Client, f Foreign) (token Token, err error) {
	as, err := identity.Person(f.Name, f.Groups)
	if err != nil {
		return Token{}, refusal.New(refusal.Unauthenticated, "the identity provider's %v", err)
	}
	err = a.store.Write(ctx, f.Issuer, func(ctx context.Context, tx *store.Tx) error {
		first, err := tx.Exchange(ctx, hashToken(f.Unique), f.Expire)
		if err != nil {
			return err
		}
		if !first {
			return refusal.New(refusal.Unauthenticated, "this login was used before: log in again")
		}
		token, err = a.logIn(ctx, tx, who, as, f.Issuer, ActionProvider)
		if err != nil || client == Browser {
			return err
		}
		return addLogin(ctx, tx, who, token.Identity, ActionProvider)
	})
	if err != nil {
		return Token{}, err
	}
	a.log.InfoContext(ctx, "token issued", "actor", as.Subject(), "by", f.Issuer, "token", token.Identity.TokenID, "groups", as.Groups)
	return token, nil
}

// BeginCallback lets a caller who comes back from the identity provider go on, once for each login that was begun: each
// time costs the provider a request.
func (a *Authority) BeginCallback(ctx context.Context, peer, state string, expire time.Time) error {
	if err := a.admit(peer); err != nil {
		return err
	}
	var first bool
	err := a.store.Write(ctx, "login", func(ctx context.Context, tx *store.Tx) (err error) {
		first, err = tx.Exchange(ctx, hashToken("login state "+state), expire)
		return err
	})
	if err == nil && !first {
		a.reject(ctx, peer, "identity provider's answer")
		return refusal.New(refusal.Unauthenticated, "this login was used before: log in again")
	}
	return err
}

// Admit refuses callers who sent too many wrong credentials, and Reject counts one.
func (a *Authority) Admit(peer string) error { return a.admit(peer) }

// Reject counts a wrong credential.
func (a *Authority) Reject(ctx context.Context, peer, what string) { a.reject(ctx, peer, what) }

// lasts is how long a renewed token may live: the person logs in again when a login that a provider vouched for is over.
// API tokens have an end of their own, and so have sessions: that of the token that they were begun with.
func lasts(ctx context.Context, v store.View, id identity.Identity, now time.Time) (time.Duration, error) {
	life := lifetime(id.Kind)
	if id.Kind != identity.KindUser || id.Parent != "" {
		return life, nil
	}
	provided, err := isProvided(ctx, v, id)
	if err != nil || !provided {
		return life, err
	}
	left := id.BeganAt.Add(loginLifetime).Sub(now)
	if left < time.Second {
		return 0, refusal.New(refusal.Unauthenticated, "the login is over: log in again with `fairlead login`")
	}
	return min(life, left), nil
}

// isProvided says whether an identity provider vouched for the login of a token, or for the person's last login.
func isProvided(ctx context.Context, v store.View, id identity.Identity) (bool, error) {
	l, err := v.Login(ctx, id.TokenID)
	switch {
	case errors.Is(err, store.ErrNotFound): // it began before logins were kept, or the token is none of a login
	case err != nil:
		return false, err
	case l.Action == ActionProvider:
		return true, nil
	}
	provider, err := v.Provider(ctx, id.Name)
	return provider != "", err
}

// Leave revokes the credentials of a cluster's agents and marks it as left.
func (a *Authority) Leave(ctx context.Context, who audit.Who, cluster string) error {
	err := a.store.Write(ctx, who.Identity.Subject(), func(ctx context.Context, tx *store.Tx) error {
		r, err := tx.Get(ctx, store.KindCluster, cluster)
		if errors.Is(err, store.ErrNotFound) {
			return refusal.Missing(store.KindCluster, cluster)
		} else if err != nil {
			return err
		}
		return errors.Join(tx.Revoke(ctx, Revocation(AgentSubject(cluster), tx.Now())), tx.DropJoinTokens(ctx, r.UID), tx.Leave(ctx, r.UID), tx.EndAgentTokens(ctx, r.UID, ""),
			tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "cluster.leave", Cluster: cluster, Name: cluster})))
	})
	if err != nil {
		return err
	}
	a.log.InfoContext(ctx, "cluster left", "actor", who.Identity.Subject(), "cluster", cluster)
	return a.Reload(ctx)
}
