package attack

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fairlead.dev/e2e/attack/provider"
	"fairlead.dev/platform/identity"
)

// lie is an ID token that the provider gives and that must log nobody in.
type lie struct {
	name, cve string
	make      func(p *provider.Provider) provider.Forgery
}

func idTokens() []lie {
	changed := func(changes map[string]any) func(*provider.Provider) provider.Forgery {
		return func(p *provider.Provider) provider.Forgery { return p.With(changes) }
	}
	unsigned := func(head string) func(*provider.Provider) provider.Forgery {
		return func(*provider.Provider) provider.Forgery {
			return func(claims map[string]any) (string, error) {
				text, err := json.Marshal(claims)
				return base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString(text) + ".", err
			}
		}
	}
	return []lie{
		{"with no algorithm", "CVE-2022-29165", unsigned(`{"alg":"none"}`)},
		{"with the algorithm of a signature and none", "CVE-2022-29165", unsigned(`{"alg":"RS256"}`)},
		{"with a MAC by the public key", "", func(p *provider.Provider) provider.Forgery {
			return func(claims map[string]any) (string, error) {
				return p.Sign(jose.HS256, p.PublicKey().N.Bytes(), claims)
			}
		}},
		{"signed by another key", "", func(p *provider.Provider) provider.Forgery {
			return func(claims map[string]any) (string, error) {
				other, err := rsa.GenerateKey(rand.Reader, 2048)
				if err != nil {
					return "", err
				}
				return p.Sign(jose.RS256, other, claims)
			}
		}},
		{"whose claims were changed", "", func(p *provider.Provider) provider.Forgery {
			return func(claims map[string]any) (string, error) {
				good, err := p.With(nil)(claims)
				claims["email"] = "ada"
				text, encode := json.Marshal(claims)
				parts := strings.Split(good, ".")
				if err = errors.Join(err, encode); err != nil || len(parts) != 3 {
					return "", errors.Join(err, errors.New("there is no good token"))
				}
				return parts[0] + "." + base64.RawURLEncoding.EncodeToString(text) + "." + parts[2], nil
			}
		}},
		{"for another client", "CVE-2023-22482", changed(map[string]any{"aud": "another-client"})},
		{"for two clients, of which neither asked", "CVE-2023-22482", changed(map[string]any{"aud": []string{provider.ClientID, "another-client"}, "azp": nil})},
		{"that another client asked for", "CVE-2023-22482", changed(map[string]any{"azp": "another-client"})},
		{"of another issuer", "", changed(map[string]any{"iss": "https://evil.example"})},
		{"with another login's nonce", "CVE-2024-23647", changed(map[string]any{"nonce": "AAAAAAAAAAAAAAAAAAAAAAAAAA"})},
		{"without a nonce", "CVE-2024-23647", changed(map[string]any{"nonce": nil})},
		{"that has expired", "", changed(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})},
		{"of the future", "", changed(map[string]any{"iat": time.Now().Add(time.Hour).Unix(), "exp": time.Now().Add(2 * time.Hour).Unix()})},
		{"of another access token", "", changed(map[string]any{"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"})},
		{"that names nobody", "CVE-2026-23990", changed(map[string]any{"sub": nil, "email": "nobody@example.com", "email_verified": true})},
		{"with an empty subject", "CVE-2026-23990", changed(map[string]any{"sub": "", "email": "nobody@example.com", "email_verified": true})},
		{"with an empty name", "CVE-2026-23990", changed(map[string]any{"email": "", "email_verified": true})},
		{"with two names", "CVE-2026-23990", changed(map[string]any{"email": []string{"ada", "nobody@example.com"}, "email_verified": true})},
		{"with an address of two domains", "CVE-2026-23990", changed(map[string]any{"email": "ada@example.com@evil.example", "email_verified": true})},
		{"with an address that nobody verified", "", changed(map[string]any{"email": "ada@example.com", "email_verified": false})},
		{"named as Kubernetes itself", "CVE-2022-2385", changed(map[string]any{"email": "system:admin@x", "email_verified": true})},
		{"named as a service account", "", changed(map[string]any{"email": "serviceaccount:ci@x", "email_verified": true})},
		{"with a megabyte of groups", "", changed(map[string]any{"groups": strings.Repeat("x", 2<<20)})},
	}
}

// logins are attacks on the login at an identity provider.
func logins() (attacks []Attack) {
	for _, l := range idTokens() {
		a := Attack{Name: "OIDC: ID token " + l.name, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.lyingProvider(ctx, l) }}
		if l.cve != "" {
			a.CVE = []string{l.cve}
		}
		attacks = append(attacks, a)
	}
	return append(
		attacks,
		Attack{Name: "OIDC: one cookie and state with many codes", CVE: []string{"CVE-2025-6004"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.manyCodes(ctx) }},
		Attack{Name: "OIDC: state, code and cookie of different logins", CVE: []string{"CVE-2024-23647"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.mixedLogin(ctx) }},
		Attack{Name: "OIDC: attacker's code in the victim's browser", CVE: []string{"CVE-2022-31034"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.loginCSRF(ctx) }},
		Attack{Name: "OIDC: cookie that was changed", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.changedCookie(ctx) }},
		Attack{Name: "OIDC: groups of the hub and of Kubernetes", CVE: []string{"CVE-2022-2385"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.reservedClaims(ctx) }},
		Attack{Name: "OIDC: return to another site", CVE: []string{"CVE-2021-21291"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.foreignReturn(ctx) }},
		Attack{Name: "OIDC: ID tokens of strangers at the command line's door", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.strangeIDTokens(ctx) }},
		Attack{Name: "link of the first start, after somebody has logged in", CVE: []string{"CVE-2019-6287"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.lateLink(ctx) }},
		Attack{Name: "logins that fail from 12,000 networks", CVE: []string{"CVE-2024-21652"}, Part: console, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, console, 64, func() (string, error) { return t.failingPeers(ctx, 12_000) })
		}},
	)
}

// goodLogin is the twin: the same way in, without a lie.
func (t *Try) goodLogin(ctx context.Context) error {
	c, err := t.atProvider(ctx, "/services")
	if err != nil {
		return err
	}
	a, err := t.finish(ctx, c)
	if err != nil {
		return err
	}
	if user, _, err := t.whose(ctx, sessionOf(a)); err != nil || user != c.person || !strings.HasSuffix(a.Header.Get("Location"), "/services") {
		return fmt.Errorf("an honest login is refused, so that this tries nothing: %s, session of %q: %w", a, user, err)
	}
	return nil
}

// refusedLogin fails unless an answer refuses a login and begins no session.
func refusedLogin(a Answer) (string, error) {
	if cookie := sessionOf(a); cookie != "" {
		return a.String(), errors.New("a session begins")
	}
	return a.want(http.StatusUnauthorized)
}

func (t *Try) lyingProvider(ctx context.Context, l lie) (string, error) {
	if err := t.goodLogin(ctx); err != nil {
		return "", err
	}
	c, err := t.atProvider(ctx, "/services")
	if err != nil {
		return "", err
	}
	t.world.provider.Forge(c.code, l.make(t.world.provider))
	a, err := t.finish(ctx, c)
	if err != nil {
		return "", err
	}
	if t.world.provider.Exchanges(c.code) == 0 {
		return a.String(), errors.New("the provider was not asked, so that this tries nothing")
	}
	return refusedLogin(a)
}

// manyCodes uses one login up, and goes on with its cookie and other codes.
func (t *Try) manyCodes(ctx context.Context) (string, error) {
	c, err := t.atProvider(ctx, "/services")
	if err != nil {
		return "", err
	}
	good, err := t.finish(ctx, c)
	if err != nil || sessionOf(good) == "" {
		return good.String(), errors.Join(err, errors.New("the first use is refused, so that this tries nothing"))
	}
	again, err := t.finish(ctx, c)
	if err != nil {
		return "", err
	}
	if text, err := refusedLogin(again); err != nil {
		return text, fmt.Errorf("the same answer again: %w", err)
	}
	for n := range 100 {
		code := fmt.Sprintf("guessed-%d", n)
		a, err := t.finish(ctx, coming{cookie: c.cookie, state: c.state, code: code})
		if err != nil {
			return "", err
		}
		if n := t.world.provider.Exchanges(code); n > 0 {
			return a.String(), errors.New("the provider is asked with a guessed code")
		}
		if a.Code == http.StatusTooManyRequests {
			if a.Header.Get("Retry-After") == "" {
				return a.String(), errors.New("it does not say when to come again")
			}
			other := t.world.newTry()
			defer other.close()
			return fmt.Sprintf("one exchange; after %d codes: %s", n, a), other.goodLogin(ctx)
		}
		if text, err := refusedLogin(a); err != nil {
			return text, err
		}
	}
	return "", errors.New("100 codes went through")
}

// mixedLogin puts two logins of one browser together in each wrong way.
func (t *Try) mixedLogin(ctx context.Context) (string, error) {
	var words []string
	for _, mix := range []func(a, b coming) coming{
		func(a, b coming) coming { return coming{cookie: a.cookie, state: b.state, code: b.code} }, // the other's state
		func(a, b coming) coming { return coming{cookie: a.cookie, state: a.state, code: b.code} }, // the other's code: nonce and verifier don't fit
		func(a, b coming) coming { return coming{cookie: a.cookie, state: b.state, code: a.code} },
		func(a, _ coming) coming { return coming{cookie: a.cookie, state: "", code: a.code} },
		func(a, _ coming) coming { return coming{cookie: a.cookie, state: a.state, code: ""} },
		func(a, _ coming) coming { return coming{cookie: "", state: a.state, code: a.code} },
		func(a, _ coming) coming { return coming{cookie: "", state: "", code: a.code} },
	} {
		one, err := t.atProvider(ctx, "/services")
		if err != nil {
			return "", err
		}
		other, err := t.atProvider(ctx, "/services")
		if err != nil {
			return "", err
		}
		a, err := t.finish(ctx, mix(one, other))
		if err != nil {
			return "", err
		}
		if text, err := refusedLogin(a); err != nil {
			return text, fmt.Errorf("mix %d: %w", len(words), err)
		}
		words = append(words, fmt.Sprint(a.Code))
	}
	return strings.Join(words, ", "), t.goodLogin(ctx)
}

// loginCSRF has the victim's browser come back with what the attacker got at the provider: with a login that the victim
// has begun, and with none.
func (t *Try) loginCSRF(ctx context.Context) (string, error) {
	victim, err := t.atProvider(ctx, "/services")
	if err != nil {
		return "", err
	}
	attacker, err := t.atProvider(ctx, "/services")
	if err != nil {
		return "", err
	}
	for _, cookie := range []string{"", victim.cookie} {
		a, err := t.finish(ctx, coming{cookie: cookie, state: attacker.state, code: attacker.code})
		if err != nil {
			return "", err
		}
		if text, err := refusedLogin(a); err != nil {
			return text, err
		}
	}
	a, err := t.finish(ctx, victim) // the attack used nothing up
	if err != nil || sessionOf(a) == "" {
		return a.String(), errors.Join(err, errors.New("the victim's own login is gone"))
	}
	return "the attacker's code is refused, the victim's own is taken", nil
}

// changedCookie alters each third character of the sealed cookie.
func (t *Try) changedCookie(ctx context.Context) (string, error) {
	c, err := t.atProvider(ctx, "/services")
	if err != nil {
		return "", err
	}
	name, value, _ := strings.Cut(c.cookie, "=")
	tried := 0
	for i := 0; i < len(value); i += max(1, len(value)/16) {
		other := byte('A')
		if value[i] == other {
			other = 'B'
		}
		a, err := t.finish(ctx, coming{cookie: name + "=" + value[:i] + string(other) + value[i+1:], state: c.state, code: c.code})
		if err != nil {
			return "", err
		}
		if text, err := refusedLogin(a); err != nil {
			return text, fmt.Errorf("with byte %d changed: %w", i, err)
		}
		tried++
	}
	if n := t.world.provider.Exchanges(c.code); n > 0 {
		return "", fmt.Errorf("the provider was asked %d times", n)
	}
	return fmt.Sprintf("%d changed cookies are refused", tried), t.goodLogin(ctx)
}

// reservedClaims has the provider say that somebody is in groups that are not its own.
func (t *Try) reservedClaims(ctx context.Context) (string, error) {
	c, err := t.atProvider(ctx, "/services")
	if err != nil {
		return "", err
	}
	t.world.provider.Forge(c.code, t.world.provider.With(map[string]any{
		"email": "gus@example.com", "email_verified": true, "groups": []string{identity.AdminsGroup, "fairlead:x", "system:masters", "system:nodes", "kubeadm:cluster-admins", "developers"},
	}))
	a, err := t.finish(ctx, c)
	if err != nil {
		return "", err
	}
	cookie := sessionOf(a)
	user, groups, err := t.whose(ctx, cookie)
	if err != nil || user != "gus@example.com" || !slices.Contains(groups, "developers") {
		return fmt.Sprint(user, groups), errors.Join(err, errors.New("the login is refused, so that this tries nothing"))
	}
	for _, group := range groups {
		if strings.HasPrefix(group, "system:") || strings.HasPrefix(group, "fairlead:") {
			return fmt.Sprint(groups), fmt.Errorf("group %s is taken over", group)
		}
	}
	for _, cluster := range []string{"a", "b"} {
		look, err := t.send(ctx, http.MethodGet, t.world.Hub[tunnel]+"/clusters/"+cluster+"/api/v1/namespaces/victim/secrets", "", nil, "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
		if err != nil {
			return "", err
		}
		if look.Code == http.StatusOK || silentOf(look.Body, t.world.planted.object) != nil {
			return look.String(), errors.New("the groups open a cluster")
		}
	}
	return fmt.Sprintf("of 6 groups there are %v", groups), nil
}

// foreignReturn begins logins that are to end elsewhere.
func (t *Try) foreignReturn(ctx context.Context) (string, error) {
	targets := []string{"//evil.example", `/\evil.example`, "https://evil.example", "/\t/evil.example", "\t//evil.example", "/\n/evil.example", `\\evil.example`, "javascript:alert(1)", "evil.example", "/x\r\nLocation: https://evil.example"}
	for _, target := range targets {
		c, err := t.atProvider(ctx, target)
		if err != nil {
			return "", err
		}
		a, err := t.finish(ctx, c)
		if err != nil {
			return "", err
		}
		if sessionOf(a) == "" {
			return a.String(), errors.New("the login is refused, so that this tries nothing")
		}
		if to := a.Header.Get("Location"); to != "" {
			return to, fmt.Errorf("%q leads away", target)
		}
	}
	return fmt.Sprintf("none of %d leads away", len(targets)), t.goodLogin(ctx)
}

// strangeIDTokens are handed in as the command line does. What is good there is a token of its own client.
func (t *Try) strangeIDTokens(ctx context.Context) (string, error) {
	now := time.Now()
	claims := func(changes map[string]any) map[string]any {
		all := map[string]any{
			"iss": t.world.provider.URL, "aud": provider.ClientID, "azp": provider.ClientID, "sub": "id9", "email": "ida@example.com", "email_verified": true, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": rand.Text(),
		}
		maps.Copy(all, changes)
		return all
	}
	good, err := t.world.provider.With(nil)(claims(nil))
	if err != nil {
		return "", err
	}
	exchange := func(token string) (Answer, error) {
		return t.call(ctx, console, loginService+"ExchangeIDToken", "", map[string]any{"idToken": token})
	}
	if a, err := exchange(good); err != nil || a.Code != http.StatusOK {
		return a.String(), errors.Join(err, errors.New("a good ID token is refused, so that this tries nothing"))
	}
	strange := map[string]string{"used before": good}
	for name, changes := range map[string]map[string]any{
		"another client's": {"aud": "another-client", "azp": "another-client"}, "another issuer's": {"iss": "https://evil.example"},
		"old": {"iat": now.Add(-time.Hour).Unix()}, "expired": {"exp": now.Add(-time.Hour).Unix()}, "nobody's": {"sub": ""}, "without an expiry": {"exp": nil},
	} {
		if strange[name], err = t.world.provider.With(nil)(claims(changes)); err != nil {
			return "", err
		}
	}
	for name, token := range strange {
		a, err := exchange(token)
		if err != nil {
			return "", err
		}
		if a.Code != http.StatusUnauthorized {
			return a.String(), fmt.Errorf("one that is %s is taken", name)
		}
	}
	return fmt.Sprintf("%d ID tokens are refused", len(strange)), nil
}

// lateLink uses the link that the console printed when nobody had logged in yet.
func (t *Try) lateLink(ctx context.Context) (string, error) {
	log, err := t.world.Process(console).Log()
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(log, "Log in once, within 10 minutes: ")
	if !found {
		return "", errors.New("the console printed no link, so that this tries nothing")
	}
	link, _, _ := strings.Cut(rest, "\n")
	a, err := t.call(ctx, console, loginService+"ExchangeLoginLink", "", map[string]any{"link": strings.TrimSpace(link)})
	if err != nil {
		return "", err
	}
	return a.want(http.StatusUnauthorized)
}

// proxied is the address of a proxy that the console trusts.
const proxied = "127.251.0.1"

// failingPeers guesses from so many networks that the console can't keep each of them: others still log in.
func (t *Try) failingPeers(ctx context.Context, n int) (string, error) {
	from := t.world.newTry()
	defer from.close()
	from.addr = []byte{127, 251, 0, 1}
	from.client = from.newClient(from.addr, true)
	codes := map[int]int{}
	for i := range n {
		network := fmt.Sprintf("2001:db8:%x:%x::1", i>>8, i&0xff)
		a, err := from.send(ctx, http.MethodPost, t.world.Hub[console]+identityService+"JoinCluster", "", strings.NewReader(`{"joinToken":"fairlead-join-00000000000000000000"}`),
			"Content-Type", contentTypeProtocol, "X-Forwarded-For", network)
		if err != nil {
			return "", err
		}
		if codes[a.Code]++; a.Code != http.StatusUnauthorized && a.Code != http.StatusTooManyRequests && a.Code != http.StatusBadRequest {
			return a.String(), errors.New("a guess is answered otherwise")
		}
	}
	if codes[http.StatusUnauthorized] == 0 {
		return fmt.Sprint(codes), errors.New("no guess was looked at, so that this tries nothing")
	}
	other := t.world.newTry()
	defer other.close()
	_, err := other.world.login(ctx, "otto")
	return fmt.Sprintf("%d guesses, answered with %v; another logs in", n, codes), err
}

// coming is a browser on its way back from the provider: what the console gave it, and what the provider did.
type coming struct {
	cookie, // name=value, sealed by the console
	state, code string
	person string // whom the provider names: another one each time, because a person has a bounded rate of logins
}

var authRequest = regexp.MustCompile(`authRequestID=([^&"]+)`)

// atProvider begins a login at the console and finishes it at the provider.
func (t *Try) atProvider(ctx context.Context, back string) (c coming, err error) {
	begin, err := t.get(ctx, t.world.Hub[console]+"/v1/login?return="+url.QueryEscape(back), "")
	if err != nil {
		return c, err
	}
	if c.cookie, _, _ = strings.Cut(begin.Header.Get("Set-Cookie"), ";"); begin.Code != http.StatusSeeOther || c.cookie == "" {
		return c, fmt.Errorf("no login begins: %s", begin)
	}
	page, err := t.get(ctx, begin.Header.Get("Location"), "")
	if err != nil {
		return c, err
	}
	found := authRequest.FindStringSubmatch(page.Header.Get("Location"))
	if found == nil {
		return c, fmt.Errorf("the provider does not ask who it is: %s", page)
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(t.world.provider.URL, "http://"), ":")
	form := url.Values{"username": {"test-user@" + host}, "password": {"verysecure"}, "id": {found[1]}}
	in, err := t.send(ctx, http.MethodPost, t.world.provider.URL+"/login/username", "", strings.NewReader(form.Encode()), "Content-Type", "application/x-www-form-urlencoded")
	if err != nil {
		return c, err
	}
	leads, err := t.get(ctx, absolute(t.world.provider.URL, in.Header.Get("Location")), "")
	if err != nil {
		return c, err
	}
	to, err := url.Parse(leads.Header.Get("Location"))
	if err != nil {
		return c, err
	}
	c.state, c.code = to.Query().Get("state"), to.Query().Get("code")
	if c.state == "" || c.code == "" || !strings.HasPrefix(to.String(), t.world.Hub[console]+"/v1/login/callback?") {
		return c, fmt.Errorf("the provider leads to %s", to)
	}
	c.person = fmt.Sprintf("person-%d@example.com", t.world.tries.Add(1))
	t.world.provider.Forge(c.code, t.world.provider.With(t.world.provider.Named(c.person)))
	return c, nil
}

func absolute(base, to string) string {
	if strings.HasPrefix(to, "/") {
		return base + to
	}
	return to
}

// finish comes back to the console.
func (t *Try) finish(ctx context.Context, c coming) (Answer, error) {
	var headers []string
	if c.cookie != "" {
		headers = []string{"Cookie", c.cookie}
	}
	query := url.Values{"state": {c.state}, "code": {c.code}}
	return t.send(ctx, http.MethodGet, t.world.Hub[console]+"/v1/login/callback?"+query.Encode(), "", nil, headers...)
}

// sessionOf is the cookie of the session that an answer begins; empty: it begins none.
func sessionOf(a Answer) string {
	for _, line := range a.Header["Set-Cookie"] {
		cookie, _, _ := strings.Cut(line, ";")
		if value, ok := strings.CutPrefix(cookie, identity.SessionCookie+"="); ok && value != "" {
			return cookie
		}
	}
	return ""
}

// whose returns whom a session is of.
func (t *Try) whose(ctx context.Context, cookie string) (user string, groups []string, err error) {
	a, err := t.send(ctx, http.MethodGet, t.world.Hub[console]+"/v1/session", "", nil, "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	if err != nil {
		return "", nil, err
	}
	var told struct {
		User   string
		Groups []string
	}
	if a.Code != http.StatusOK {
		return "", nil, errors.New(a.String())
	}
	err = json.Unmarshal([]byte(a.Body), &told)
	return told.User, told.Groups, err
}
