package identity

import (
	"context"
	"errors"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/login"
)

// Session gives the owner of a verified token a session in a browser; the owner of a session's token, the next one.
// action is how the login began, in the trail.
func (a *Authority) Session(ctx context.Context, who audit.Who, id identity.Identity, action string) (Token, error) {
	if id.Kind != identity.KindUser {
		return Token{}, refusal.New(refusal.Invalid, "only people log in with a browser")
	}
	by := "session"
	if id.Until.IsZero() {
		by = "login in a browser"
		if wait := a.logins.wait(id.Subject(), a.now()); wait > 0 {
			return Token{}, tooMany("logins of "+id.Subject(), wait)
		}
		a.logins.failed(id.Subject(), a.now())
	}
	if _, err := a.ask(ctx, id); err != nil {
		return Token{}, err
	}
	token, err := issued(a.signer().Session(id))
	if errors.Is(err, identity.ErrExpired) {
		return Token{}, refusal.New(refusal.Unauthenticated, "the session is over: log in again")
	}
	if err == nil && id.Until.IsZero() {
		err = a.store.Write(ctx, id.Subject(), func(ctx context.Context, tx *store.Tx) error { return addLogin(ctx, tx, who, token.Identity, action) })
	}
	if err == nil {
		a.uses.note(token.Identity, "", a.now())
		a.log.InfoContext(ctx, "token issued", "actor", id.Subject(), "by", by, "token", token.Identity.TokenID, "until", token.Identity.Until)
	}
	return token, err
}

// EndAllSessions revokes all logins of a session's owner until now, in browsers and of the command, with what they were
// renewed to and lent. API tokens stay.
func (a *Authority) EndAllSessions(ctx context.Context, who audit.Who, id identity.Identity) error {
	if id.Until.IsZero() {
		return refusal.New(refusal.Invalid, "this is no session in a browser: who logs out everywhere sends the session's cookie")
	}
	if err := a.mayLookAtLogins(ctx, id); err != nil {
		return err
	}
	err := a.store.Write(ctx, id.Subject(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.Revoke(ctx, Revocation(id.Subject(), tx.Now())),
			tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "session.end", Name: id.TokenID, Reason: "all logins of " + id.Subject()})))
	})
	if err != nil {
		return err
	}
	a.log.InfoContext(ctx, "all sessions ended", "actor", id.Subject(), "token", id.TokenID)
	return a.Reload(ctx)
}

// EndSession revokes the token of a session, and what it was renewed to, but not the one that it was begun with.
func (a *Authority) EndSession(ctx context.Context, id identity.Identity) error {
	if id.Until.IsZero() {
		return refusal.New(refusal.Invalid, "this is no session in a browser: who logs out sends the session's cookie")
	}
	err := a.store.Write(ctx, id.Subject(), func(ctx context.Context, tx *store.Tx) error {
		// Not for as long as other revocations: no request by the session's tokens runs longer.
		return tx.Revoke(ctx, login.Revocation{TokenID: id.TokenID, Time: tx.Now(), Expire: id.Until.Add(time.Hour)})
	})
	if err != nil {
		return err
	}
	a.log.InfoContext(ctx, "session ended", "actor", id.Subject(), "token", id.TokenID)
	return a.Reload(ctx)
}
