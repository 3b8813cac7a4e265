package identity

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/login"
)

// logInAs logs a person in with a command.
func logInAs(t *testing.T, a *Authority, name string) Token {
	t.Helper()
	token, err := a.ExchangeHubSecret(t.Context(), audit.Who{
		Remote: "10.0.0.1", Program: "fairlead\x00/1",
	}, "peer", secret,
		platform.Identity{Kind: platform.KindUser, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func loginsOf(t *testing.T, a *Authority, id platform.Identity) []login.Login {
	t.Helper()
	list, _, err := a.ListLogins(t.Context(), id, login.LoginPlace{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What an earlier version gave is listed when it is used; what it is exchanged for is not.
func TestALoginThatIsNotKnownIsKeptWhenItIsUsed(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	ada := platform.Identity{Kind: platform.KindUser, Name: "ada"}
	token, err := a.sign(ada)
	if err != nil {
		t.Fatal(err)
	}
	session, err := issued(a.signer().Session(token.Identity))
	if err != nil {
		t.Fatal(err)
	}
	if list := loginsOf(t, a, token.Identity); len(list) != 0 {
		t.Fatalf("known are %+v", list)
	}
	for _, text := range []string{token.Text, session.Text} {
		if _, err := a.VerifyFrom("10.0.0.2:1234", text); err != nil {
			t.Fatal(err)
		}
	}
	list := loginsOf(t, a, token.Identity)
	if len(list) != 2 {
		t.Fatalf("got %+v", list)
	}
	clients := map[string]string{}
	for _, l := range list {
		clients[l.ID] = l.Client
		if l.UseAddress != "10.0.0.2" || l.Action != "" || l.BeginAddress != "" || l.UseTime.IsZero() {
			t.Errorf("got %+v", l)
		}
	}
	if clients[token.Identity.TokenID] != string(Command) || clients[session.Identity.TokenID] != string(Browser) {
		t.Errorf("got %v", clients)
	}
}

func TestAUseNeitherShortensALoginNorMakesOneOfAnAPIToken(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	token := logInAs(t, a, "ada")
	lent, err := a.Renew(t.Context(), token.Identity, Loan{Lifetime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	api, _, err := a.CreateAPIToken(t.Context(), audit.Who{Identity: token.Identity}, token.Identity, nil, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	exchanged, err := a.Exchange(t.Context(), "peer", api)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{lent.Text, api, exchanged.Text} {
		if _, err := a.VerifyFrom("10.0.0.2:1", text); err != nil {
			t.Fatal(err)
		}
	}
	list := loginsOf(t, a, token.Identity)
	if len(list) != 1 || !list[0].ExpireTime.Equal(token.Identity.ExpiresAt) || list[0].UseAddress != "10.0.0.2" ||
		list[0].Program != "fairlead/1" {
		t.Errorf("got %+v", list)
	}
	if err := a.EndLogin(t.Context(), audit.Who{Identity: exchanged.Identity}, token.Identity.TokenID); err == nil {
		t.Error("an API token ends a login")
	}
}

func TestWhatOthersMayHaveNeitherSeesNorEndsLogins(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	token := logInAs(t, a, "ada")
	api, _, err := a.CreateAPIToken(t.Context(), audit.Who{Identity: token.Identity}, token.Identity, nil, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	asItIs, err := a.VerifyFrom("10.0.0.2:1", api)
	if err != nil {
		t.Fatal(err)
	}
	exchanged, err := a.Exchange(t.Context(), "peer", api)
	if err != nil {
		t.Fatal(err)
	}
	lent, err := a.Renew(t.Context(), token.Identity, Loan{Lifetime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	mayNot := func(name string, of platform.Identity) {
		who := audit.Who{Identity: of}
		_, _, listed := a.ListLogins(t.Context(), of, login.LoginPlace{}, 100)
		_, others := a.EndOtherLogins(t.Context(), who)
		refusals := map[string]error{
			"lists": listed, "ends one": a.EndLogin(t.Context(), who, token.Identity.TokenID), "ends others": others,
		}
		if !of.Until.IsZero() {
			refusals["ends all"] = a.EndAllSessions(t.Context(), who, of)
		}
		for what, err := range refusals {
			if !refusal.Is(err, refusal.Forbidden) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
	}
	for name, of := range map[string]platform.Identity{
		"an API token": asItIs, "an exchanged token": exchanged.Identity, "a lent token": lent.Identity,
	} {
		mayNot(name, of)
		session, err := a.Session(t.Context(), audit.Who{}, of, ActionSession)
		if err != nil {
			t.Fatal(err)
		}
		mayNot("a session of "+name, session.Identity)
	}
	if list := loginsOf(t, a,
		token.Identity); !slices.ContainsFunc(list,
		func(l login.Login) bool { return l.ID == token.Identity.TokenID }) {
		t.Errorf("left are %+v", list)
	}
}

// Another console renews a login, and writes that down a minute later.
func TestEndingOthersEndsOneThatAnotherConsoleHasRenewed(t *testing.T) {
	t.Parallel()
	a, s := newAuthority(t)
	own := logInAs(t, a, "ada")
	other, err := a.sign(platform.Identity{Kind: platform.KindUser, Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	known := loginOf(other.Identity)
	known.ExpireTime = time.Now().Add(-time.Second) // as far as the database knows
	if err := s.Write(t.Context(), "another console",
		func(ctx context.Context, tx *store.Tx) error { return tx.NoteLogins(ctx, []login.Login{known}) }); err != nil {
		t.Fatal(err)
	}
	logInAs(t, a, "bob") // logins that have expired are forgotten now
	if ended, err := a.EndOtherLogins(t.Context(), audit.Who{Identity: own.Identity}); err != nil || ended != 1 {
		t.Errorf("ended %d: %v", ended, err)
	}
	if _, err := a.Verify(other.Text); err == nil {
		t.Error("the other login is still good")
	}
}

// A token that was renewed and not used yet is good for longer than the list knew.
func TestARenewedLoginStaysListed(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	token := logInAs(t, a, "ada")
	renewed, err := a.Renew(t.Context(), token.Identity, Loan{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.keepUses(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list := loginsOf(t, a, token.Identity); len(list) != 1 || !list[0].ExpireTime.Equal(renewed.Identity.ExpiresAt) {
		t.Errorf("got %+v, want the end of %s", list, renewed.Identity.ExpiresAt)
	}
}

// Whatever ends a login takes it from the list.
func TestARevokedLoginIsNotListed(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(a *Authority, of Token) error{
		"by its id": func(a *Authority, of Token) error {
			_, err := a.Revoke(t.Context(), audit.Console(), of.Identity.TokenID, "")
			return err
		},
		"by its owner": func(a *Authority, of Token) error {
			_, err := a.Revoke(t.Context(), audit.Console(), "", of.Identity.Subject())
			return err
		},
		"by its parent": func(a *Authority, of Token) error {
			_, err := a.Revoke(t.Context(), audit.Console(), of.Identity.Parent, "")
			return err
		},
	} {
		a, _ := newAuthority(t)
		bob := logInAs(t, a, "bob")
		session, err := a.Session(t.Context(), audit.Who{}, logInAs(t, a, "ada").Identity, ActionSession)
		if err != nil {
			t.Fatal(err)
		}
		before := len(loginsOf(t, a, session.Identity))
		if err := end(a, session); err != nil {
			t.Fatal(err)
		}
		for _, l := range loginsOf(t, a, session.Identity) {
			if l.ID == session.Identity.TokenID {
				t.Errorf("%s: it is listed", name)
			}
		}
		if before != 2 || len(loginsOf(t, a, bob.Identity)) != 1 {
			t.Errorf("%s: %d before", name, before)
		}
	}
}

// A list that is asked for again and again costs no write each time.
func TestAListWritesUsesDownEveryTenSeconds(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	at := time.Now()
	a.now = func() time.Time { return at }
	token := logInAs(t, a, "ada")
	var wait []int
	for range 4 {
		at = at.Add(6 * time.Second)
		a.uses.note(token.Identity, "10.0.0.2:1", at)
		if used := loginsOf(t, a, token.Identity)[0].UseTime; at.Sub(used) > sameUse {
			t.Errorf("the list shows a use at %s instead of %s", used, at)
		}
		wait = append(wait, len(a.uses.seen))
	}
	// The second and the fourth list are too soon after the ones before them.
	if want := []int{0, 1, 0, 1}; !slices.Equal(wait, want) {
		t.Errorf("%v uses waited after each list instead of %v", wait, want)
	}
}

// More uses than one write takes are all written.
func TestManyUsesAreWrittenInParts(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	token := logInAs(t, a, "ada")
	const many = 2*maxUsesInWrite + 1
	for i := range many {
		id := token.Identity
		id.TokenID = strconv.Itoa(i)
		a.uses.note(id, "", time.Now())
	}
	list, _, err := a.ListLogins(t.Context(), token.Identity, login.LoginPlace{}, 2*many)
	if err != nil || len(list) != many+1 {
		t.Errorf("%d logins are listed: %v", len(list), err)
	}
}

// A list shows the caller's own use a moment after another list, too.
func TestAUseThatIsNotWrittenYetIsListed(t *testing.T) {
	t.Parallel()
	a, _ := newAuthority(t)
	first := logInAs(t, a, "ada")
	if _, _, err := a.ListLogins(t.Context(), first.Identity, login.LoginPlace{}, 10); err != nil {
		t.Fatal(err)
	}
	second := logInAs(t, a, "ada")
	if _, err := a.VerifyFrom("10.0.0.2:1", second.Text); err != nil {
		t.Fatal(err)
	}
	list, _, err := a.ListLogins(t.Context(), second.Identity, login.LoginPlace{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(l login.Login) bool { return l.ID == second.Identity.TokenID })
	if at < 0 || list[at].UseTime.IsZero() || list[at].UseAddress != "10.0.0.2" {
		t.Errorf("listed are %+v", list)
	}
}

// With the database away uses are noted later, and no request waits for it.
func TestUsesThatCouldNotBeWrittenAreKept(t *testing.T) {
	t.Parallel()
	a, s := newAuthority(t)
	token := logInAs(t, a, "ada")
	if _, err := a.VerifyFrom("10.0.0.2:1", token.Text); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.keepUses(t.Context()); err == nil {
		t.Fatal("a closed database was written")
	}
	if list := a.uses.take(time.Now()); len(list) != 1 || list[0].ID != token.Identity.TokenID {
		t.Errorf("kept are %+v", list)
	}
	for i := range maxUses + 10 {
		id := token.Identity
		id.TokenID = strconv.Itoa(i)
		a.uses.note(id, "", time.Now())
	}
	if n := len(a.uses.take(time.Now())); n != maxUses {
		t.Errorf("%d uses wait", n)
	}
}
