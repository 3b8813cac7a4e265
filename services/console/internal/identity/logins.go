package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/login"
)

// Client says what a login is used by.
type Client string

// The clients.
const (
	// Browser has a session.
	Browser Client = "browser"
	// Command has a token that is renewed by use.
	Command Client = "command"
	// HandedOn is a token that an administrator made for a person.
	HandedOn Client = "token"
)

const (
	// keepUsesEvery is how soon the uses of logins are written down.
	keepUsesEvery = time.Minute
	// sameUse is how exactly the last use of a login is known.
	sameUse = 10 * time.Second
	// maxUses bounds the uses that wait to be written down. Of more logins the next use is noted.
	maxUses = 10_000
	// maxUsesInWrite bounds the uses that one write notes: other writes have their turn in between.
	maxUsesInWrite = 200
	// maxProgram bounds what is kept of a program's name for itself, in bytes.
	maxProgram = 256
	// endingPage is how many logins are read at once to be ended.
	endingPage = 500
	// endedLifetime is how long the end of a login is kept: until its last token has expired, and a margin for clocks.
	endedLifetime = identity.UserLifetime + time.Hour
)

// loginUses are the uses of logins that this console has seen and not written down yet.
type loginUses struct {
	mu    sync.Mutex // guards seen and taken
	seen  map[string]login.Login
	taken time.Time // when uses were last taken to be written down
}

func newLoginUses() *loginUses { return &loginUses{seen: map[string]login.Login{}} }

// note notes a use of a person's token. remote is empty where it is not known, as of a stream that goes on.
func (u *loginUses) note(id identity.Identity, remote string, now time.Time) {
	if id.Kind != identity.KindUser || isOfAPIToken(id) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	l, known := u.seen[id.TokenID]
	if known && now.Sub(l.UseTime) < sameUse && !id.ExpiresAt.After(l.ExpireTime) && l.UseAddress != "" {
		return
	}
	if !known {
		if len(u.seen) >= maxUses {
			return
		}
		l = loginOf(id)
	}
	l.UseTime = now
	if host, _, err := net.SplitHostPort(remote); err == nil {
		l.UseAddress = host
	}
	if id.ExpiresAt.After(l.ExpireTime) {
		l.ExpireTime = id.ExpiresAt
	}
	u.seen[id.TokenID] = l
}

// take returns what was noted, in the order of ids: consoles that write at the same time lock rows in the same order.
func (u *loginUses) take(now time.Time) []login.Login {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.seen) == 0 {
		return nil
	}
	list := make([]login.Login, 0, len(u.seen))
	for _, l := range u.seen {
		list = append(list, l)
	}
	clear(u.seen)
	u.taken = now
	slices.SortFunc(list, func(a, b login.Login) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// areWritten tells whether uses were taken to be written down so short a time ago that a list needs no later ones.
func (u *loginUses) areWritten(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return now.Sub(u.taken) < sameUse
}

// put brings the uses into logins that are not written down yet.
func (u *loginUses) put(into []login.Login) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, l := range into {
		if seen, ok := u.seen[l.ID]; ok && seen.UseTime.After(l.UseTime) {
			into[i].UseTime, into[i].UseAddress = seen.UseTime, cmp.Or(seen.UseAddress, l.UseAddress)
		}
	}
}

// putBack keeps what could not be written down, unless there is a later use.
func (u *loginUses) putBack(list []login.Login) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range list {
		if _, later := u.seen[l.ID]; !later {
			u.seen[l.ID] = l
		}
	}
}

// isOfAPIToken tells an API token, and what one was exchanged for, from a login. Only sessions have a parent besides.
func isOfAPIToken(id identity.Identity) bool { return id.Parent != "" && id.Until.IsZero() }

// loginOf is the login that a token is of, as far as the token says.
func loginOf(id identity.Identity) login.Login {
	client := Command
	switch {
	case !id.Until.IsZero():
		client = Browser
	case id.Final:
		client = HandedOn
	}
	return login.Login{
		ID: id.TokenID, Subject: id.Subject(), Client: string(client), Parent: id.Parent, BeginTime: id.BeganAt, ExpireTime: id.ExpiresAt,
	}
}

// addLogin keeps a login that begins with a token.
func addLogin(ctx context.Context, tx *store.Tx, who audit.Who, id identity.Identity, action string) error {
	l := loginOf(id)
	l.Action, l.Program, l.BeginTime = action, programOf(who.Program), id.IssuedAt
	if action != actionTokenCreate { // whose address is the administrator's
		l.BeginAddress = who.Remote
	} else {
		l.Program = ""
	}
	return tx.AddLogin(ctx, l)
}

// programOf is a program's name for itself, as far as a database and a person can read it.
func programOf(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.ToValidUTF8(text[:min(len(text), maxProgram)], "")
}

// keepUses writes down the uses of logins.
func (a *Authority) keepUses(ctx context.Context) error {
	list := a.uses.take(a.now())
	for len(list) > 0 {
		some := list[:min(len(list), maxUsesInWrite)]
		err := a.store.Write(ctx, audit.Console().Identity.Subject(), func(ctx context.Context, tx *store.Tx) error { return tx.NoteLogins(ctx, some) })
		if err != nil {
			a.uses.putBack(list)
			return fmt.Errorf("note uses of logins: %w", err)
		}
		list = list[len(some):]
	}
	return nil
}

// mayLookAtLogins refuses what other people may have: API tokens, tokens that were handed on, and sessions begun with
// one of them.
func (a *Authority) mayLookAtLogins(ctx context.Context, id identity.Identity) error {
	program := isOfAPIToken(id) || id.Limits != nil
	if !program && id.Parent != "" {
		err := a.store.Read(ctx, func(ctx context.Context, v store.View) error {
			_, err := v.APIToken(ctx, id.Parent) // revoked ones are there, too
			if program = err == nil; errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if program {
		return refusal.New(refusal.Forbidden, "an API token neither sees nor ends logins: log in with `fairlead login`")
	}
	if id.Lent {
		return refusal.New(refusal.Forbidden, "a token that was handed on neither sees nor ends logins: log in with `fairlead login`")
	}
	return nil
}

// ListLogins returns up to limit logins of the caller, the newest first, from a place on, and the place to go on from;
// the zero place: there are no more.
func (a *Authority) ListLogins(ctx context.Context, of identity.Identity, after login.LoginPlace,
	limit int,
) (out []login.Login, next login.LoginPlace, err error) {
	if err := a.mayLookAtLogins(ctx, of); err != nil {
		return nil, next, err
	}
	if !a.uses.areWritten(a.now()) {
		if err := a.keepUses(ctx); err != nil {
			return nil, next, err
		}
	}
	err = a.store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, next = nil, login.LoginPlace{}
		rows, err := v.Logins(ctx, of.Subject(), a.now(), after, limit+1)
		if err != nil {
			return err
		}
		if len(rows) > limit {
			rows = rows[:limit]
			next = login.LoginPlace{BeginTime: rows[limit-1].BeginTime, ID: rows[limit-1].ID}
		}
		out, err = a.living(ctx, v, rows)
		return err
	})
	a.uses.put(out)
	return out, next, err
}

// living returns the logins that no revocation has ended.
func (a *Authority) living(ctx context.Context, v store.View, list []login.Login) (out []login.Login, err error) {
	revocations, err := v.Revocations(ctx, a.now())
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		kind, name, _ := strings.Cut(l.Subject, ":")
		id := identity.Identity{Kind: identity.Kind(kind), Name: name, TokenID: l.ID, Parent: l.Parent, BeganAt: l.BeginTime}
		if !slices.ContainsFunc(revocations, func(r login.Revocation) bool { return published(r).Covers(id) }) {
			out = append(out, l)
		}
	}
	return out, nil
}

// endLogin revokes the tokens of a login.
func endLogin(ctx context.Context, tx *store.Tx, id string) error {
	return tx.Revoke(ctx, login.Revocation{TokenID: id, Time: tx.Now(), Expire: tx.Now().Add(endedLifetime)})
}

// EndLogin ends a login of the caller.
func (a *Authority) EndLogin(ctx context.Context, who audit.Who, id string) error {
	if err := a.mayLookAtLogins(ctx, who.Identity); err != nil {
		return err
	}
	subject := who.Identity.Subject()
	err := a.store.Write(ctx, subject, func(ctx context.Context, tx *store.Tx) error {
		l, err := tx.Login(ctx, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && l.Subject != subject {
			return refusal.New(refusal.NotFound, "you have no login %q: `fairlead get logins` shows those that you have", id)
		} else if err != nil {
			return err
		}
		left, err := a.living(ctx, tx.View, []login.Login{l})
		if err != nil || len(left) == 0 {
			return err
		}
		return errors.Join(endLogin(ctx, tx, id), tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{Action: "login.end", Name: id, Reason: "by " + l.Client})))
	})
	if err != nil {
		return err
	}
	a.log.InfoContext(ctx, "login ended", "actor", subject, "token", id)
	return a.Reload(ctx)
}

// EndOtherLogins ends all logins of the caller but the one that calls, and the one that its session was begun with.
func (a *Authority) EndOtherLogins(ctx context.Context, who audit.Who) (ended int, err error) {
	own := who.Identity
	if err := a.mayLookAtLogins(ctx, own); err != nil {
		return 0, err
	}
	if err := a.keepUses(ctx); err != nil {
		return 0, err
	}
	err = a.store.Write(ctx, own.Subject(), func(ctx context.Context, tx *store.Tx) error {
		ended = 0
		var others []login.Login
		for after := (login.LoginPlace{}); ; {
			// Those that seem to have expired, too: another console may have renewed one and not written it down yet.
			page, err := tx.Logins(ctx, own.Subject(), tx.Now().Add(-login.LoginsKept), after, endingPage)
			if err != nil {
				return err
			}
			others = append(others, page...)
			if len(page) < endingPage {
				break
			}
			after = login.LoginPlace{BeginTime: page[endingPage-1].BeginTime, ID: page[endingPage-1].ID}
		}
		others = slices.DeleteFunc(others, func(l login.Login) bool { return l.ID == own.TokenID || l.ID == own.Parent })
		others, err := a.living(ctx, tx.View, others)
		if err != nil || len(others) == 0 {
			return err
		}
		for _, l := range others {
			if err := endLogin(ctx, tx, l.ID); err != nil {
				return err
			}
		}
		ended = len(others)
		return tx.Audit(ctx, audit.Event(who, tx.Now(), audit.Act{
			Action: "login.end", Name: own.TokenID,
			Reason: fmt.Sprintf("%d other logins of %s", ended, own.Subject()),
		}))
	})
	if err != nil {
		return 0, err
	}
	a.log.InfoContext(ctx, "other logins ended", "actor", own.Subject(), "token", own.TokenID, "ended", ended)
	return ended, a.Reload(ctx)
}
