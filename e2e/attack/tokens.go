package attack

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// form is a way to make a token that opens nothing out of one that does.
type form struct {
	name string
	cve  string
	make func(head, claims, signature string) string
}

func forms() []form {
	edited := func(part string, change func(map[string]any)) string {
		text, err := base64.RawURLEncoding.DecodeString(part)
		var fields map[string]any
		if err != nil || json.Unmarshal(text, &fields) != nil {
			return "not a token"
		}
		change(fields)
		text, _ = json.Marshal(fields) // fields that were decoded can be encoded
		return base64.RawURLEncoding.EncodeToString(text)
	}
	with := func(key string, value any) func(map[string]any) { return func(m map[string]any) { m[key] = value } }
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err) // the system has no randomness
	}
	signed := func(head, claims string) string {
		text := head + "." + claims
		return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(text)))
	}
	return []form{
		{"no algorithm", "CVE-2022-29165", func(h, c, _ string) string { return edited(h, with("alg", "none")) + "." + c + "." }},
		{"no algorithm, in capitals, with the signature", "", func(h, c, s string) string { return edited(h, with("alg", "NONE")) + "." + c + "." + s }},
		{"no signature", "CVE-2022-29165", func(h, c, _ string) string { return h + "." + c + "." }},
		{"a MAC with the public algorithm's name", "", func(h, c, _ string) string {
			text := edited(h, with("alg", "HS256")) + "." + c
			mac := hmac.New(sha256.New, public)
			_, _ = mac.Write([]byte(text)) // never fails
			return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		}},
		{"a stranger's key", "", func(h, c, _ string) string { return signed(h, c) }},
		{"a key within the token", "", func(h, c, _ string) string {
			return signed(edited(h, with("jwk", map[string]any{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": base64.RawURLEncoding.EncodeToString(public)})), c)
		}},
		{"a key at an address in the token", "", func(h, c, _ string) string { return signed(edited(h, with("jku", "https://evil.example/keys")), c) }},
		{"a path for a key's name", "", func(h, c, _ string) string { return signed(edited(h, with("kid", "../../../../dev/null")), c) }},
		{"another group", "", func(h, c, s string) string {
			return h + "." + edited(c, with("groups", []string{"system:masters", "fairlead:admins"})) + "." + s
		}},
		{"another audience", "CVE-2023-22482", func(h, c, s string) string { return h + "." + edited(c, with("aud", "argocd")) + "." + s }},
		{"a longer life", "", func(h, c, s string) string {
			return h + "." + edited(c, with("exp", time.Now().AddDate(1, 0, 0).Unix())) + "." + s
		}},
		{"two tokens in one", "", func(h, c, s string) string { return strings.Repeat(h+"."+c+"."+s+" ", 2) }},
		{"a hundred thousand dots", "CVE-2025-27144", func(string, string, string) string { return strings.Repeat(".", 100_000) }},
		{"claims that are nested 10,000 deep", "", func(h, _, s string) string {
			return h + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000))) + "." + s
		}},
		{"an encrypted token's five parts", "", func(h, c, s string) string { return h + "." + c + "." + s + "." + c + "." + s }},
	}
}

// tokens are attacks on how the hub knows callers.
func tokens() (attacks []Attack) {
	for _, f := range forms() {
		a := Attack{Name: "token with " + f.name, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.forged(ctx, f) }}
		if f.cve != "" {
			a.CVE = []string{f.cve}
		}
		attacks = append(attacks, a)
	}
	return append(
		attacks,
		Attack{Name: "two Authorization fields, folded and with underscores", CVE: []string{"CVE-2025-64484"}, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.twoTokens(ctx) }},
		Attack{Name: "token in the query", Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) {
			a, err := t.get(ctx, t.world.Hub[tunnel]+"/clusters/a/api/v1/namespaces?access_token="+t.world.callers.admin+"&token="+t.world.callers.admin, "")
			if err != nil {
				return "", err
			}
			return a.want(http.StatusUnauthorized)
		}},
		Attack{Name: "API token with bytes that are no text", CVE: []string{"CVE-2024-21662"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.brokenAPIToken(ctx) }},
		Attack{Name: "guesses of join tokens from one address", CVE: []string{"CVE-2024-21652"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.guess(ctx) }},
		Attack{Name: "one join token in eight hands", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.joinTwice(ctx) }},
		Attack{Name: "lent token makes a lasting one", CVE: []string{"CVE-2022-1025"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.lent(ctx) }},
		Attack{Name: "token that was revoked", CVE: []string{"CVE-2024-41666"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.revoked(ctx) }},
		Attack{Name: "watch that stays open after its token is revoked", CVE: []string{"CVE-2024-41666"}, Part: tunnel, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) { return t.revokedWatch(ctx) }},
		Attack{Name: "login link used twice, and looked at", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.linkTwice(ctx) }},
		Attack{Name: "login link of a group of the hub or of Kubernetes", CVE: []string{"CVE-2022-2385"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.reservedGroups(ctx) }},
		Attack{Name: "cluster that was deleted and made again keeps no agent", CVE: []string{"CVE-2019-6287"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.madeAgain(ctx) }},
		Attack{Name: "hub secret, guessed", CVE: []string{"CVE-2024-21652"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			a, err := t.call(ctx, console, identityService+"ExchangeHubSecret", "", map[string]any{"hubSecret": strings.Repeat("x", 26), "service": "gitcache"})
			if err != nil {
				return "", err
			}
			return a.want(http.StatusUnauthorized)
		}},
	)
}

// forged sends a forged token to every part that listens.
func (t *Try) forged(ctx context.Context, f form) (string, error) {
	parts := strings.Split(t.world.callers.admin, ".")
	if len(parts) != 3 {
		return "", errors.New("the administrator's token is no JWT: this tries nothing")
	}
	token := f.make(parts[0], parts[1], parts[2])
	var words []string
	for _, part := range hubParts() {
		path := map[string]string{console: "/version", gitcache: "/version", distributor: "/version", tunnel: "/clusters/a/api/v1/namespaces"}[part]
		good, err := t.get(ctx, t.world.Hub[part]+path, t.world.callers.admin)
		if err != nil || good.Code != http.StatusOK {
			return good.String(), fmt.Errorf("the right token is refused by %s, so that this tries nothing: %w", part, err)
		}
		answers, err := t.say(ctx, part, "GET "+path+" HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+token+"\r\nConnection: close\r\n\r\n")
		if err != nil {
			return "", err
		}
		for _, a := range answers {
			if a.Code != http.StatusUnauthorized && a.Code != http.StatusBadRequest && a.Code != http.StatusRequestHeaderFieldsTooLarge {
				return a.String(), fmt.Errorf("%s took it", part)
			}
		}
		if len(answers) == 0 {
			words = append(words, "closed")
			continue
		}
		words = append(words, fmt.Sprint(answers[0].Code))
	}
	return "console, gitcache, distributor, tunnel: " + strings.Join(words, ", "), nil
}

func (t *Try) twoTokens(ctx context.Context) (string, error) {
	good := "Authorization: Bearer " + t.world.callers.admin + "\r\n"
	poor := "Authorization: Bearer " + t.world.callers.stranger + "\r\n"
	var words []string
	for _, heads := range []string{good + poor, poor + good, "Authorization: Bearer " + t.world.callers.stranger + ",\r\n " + t.world.callers.admin + "\r\n", "Authorization: Bearer\r\n\t" + t.world.callers.admin + "x\r\n", poor + strings.Replace(good, "Authorization", "Authorization_", 1), poor + strings.Replace(good, "Authorization:", "Authorization :", 1), poor + strings.Replace(good, "Authorization", "X-Forwarded-Authorization", 1), poor + "X-Forwarded-User: ada\r\nX-Forwarded-Groups: fairlead:admins\r\nX_Forwarded_User: ada\r\nX-Auth-Request-User: ada\r\n"} {
		answers, err := t.say(ctx, tunnel, "GET /clusters/a/api/v1/namespaces HTTP/1.1\r\nHost: hub\r\n"+heads+"Connection: close\r\n\r\n")
		if err != nil {
			return "", err
		}
		for _, a := range answers {
			if a.Code/100 != 4 {
				return a.String(), fmt.Errorf("it was served with %q", heads)
			}
			words = append(words, fmt.Sprint(a.Code))
		}
	}
	return strings.Join(words, ", "), nil
}

func (t *Try) brokenAPIToken(ctx context.Context) (string, error) {
	var last Answer
	for _, token := range []string{"fairlead_\xff_x", "fairlead_\xff\xfe_" + strings.Repeat("x", 40), "fairlead_'--_x", "fairlead__", "fairlead_" + strings.Repeat("a", 8000) + "_x"} {
		answers, err := t.say(ctx, console, "POST "+serviceService+"ListServices HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n{}")
		if err != nil {
			return "", err
		}
		for _, a := range answers {
			last = a
			if a.Code != http.StatusUnauthorized && a.Code != http.StatusBadRequest && a.Code != http.StatusTooManyRequests && a.Code != http.StatusRequestHeaderFieldsTooLarge {
				return a.String(), fmt.Errorf("%q", token)
			}
			if err := silentOf(strings.ToLower(a.Body), "sql", "encoding", "pg_", "postgres"); err != nil {
				return a.String(), err
			}
		}
	}
	return last.String(), nil
}

// guess tries join tokens until the address is told to wait, while another address logs in.
func (t *Try) guess(ctx context.Context) (string, error) {
	for n := range 60 {
		a, err := t.call(ctx, console, identityService+"JoinCluster", "", map[string]any{"joinToken": fmt.Sprintf("fairlead-join-%020d", n)})
		if err != nil {
			return "", err
		}
		if a.Code == http.StatusTooManyRequests {
			if a.Header.Get("Retry-After") == "" {
				return a.String(), errors.New("it does not say when to come again")
			}
			_, err := t.world.login(ctx, "nora")
			return fmt.Sprintf("after %d guesses: %s", n, a), err
		}
		if a.Code != http.StatusUnauthorized {
			return a.String(), errors.New("a guess is answered otherwise")
		}
	}
	return "", errors.New("60 guesses went through")
}

func (t *Try) joinTwice(ctx context.Context) (string, error) {
	if err := t.world.apply(ctx, "apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: joined-once}\n"); err != nil {
		return "", err
	}
	var made struct{ JoinToken string }
	if err := t.must(ctx, console, identityService+"CreateJoinToken", t.world.callers.admin, map[string]any{"cluster": "joined-once"}, &made); err != nil {
		return "", err
	}
	var wg sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		wg.Go(func() {
			hand := t.world.newTry()
			defer hand.close()
			if a, err := hand.joinWith(ctx, made.JoinToken); err == nil {
				codes[i] = a.Code
			}
		})
	}
	wg.Wait()
	slices.Sort(codes)
	good := 0
	for _, code := range codes {
		if code == http.StatusOK {
			good++
		} else if code != http.StatusUnauthorized {
			return fmt.Sprint(codes), errors.New("a late one is answered otherwise")
		}
	}
	if good != 1 {
		return fmt.Sprint(codes), fmt.Errorf("%d agents joined", good)
	}
	return fmt.Sprint(codes), nil
}

// lent is an administrator's token of ten minutes, tried at all that makes something lasting.
func (t *Try) lent(ctx context.Context) (string, error) {
	var lent struct{ Token struct{ Token string } }
	if err := t.must(ctx, console, identityService+"RenewToken", t.world.callers.admin, map[string]any{"lifetime": "600s"}, &lent); err != nil {
		return "", err
	}
	token := lent.Token.Token
	if err := t.must(ctx, console, serviceService+"ListServices", token, map[string]any{}, nil); err != nil {
		return "", fmt.Errorf("the lent token opens nothing, so that this tries nothing: %w", err)
	}
	meta := map[string]any{"name": "made-by-lent"}
	grant := map[string]any{"metadata": meta, "spec": map[string]any{"role": "admin", "subjects": []any{map[string]any{"user": "mallory"}}, "clusters": map[string]any{"all": true}}}
	tries := []struct {
		procedure string
		message   map[string]any
	}{
		{identityService + "CreateJoinToken", map[string]any{"cluster": "evil"}},
		{clusterService + "RenderAgentManifest", map[string]any{"cluster": "evil"}},
		{identityService + "CreateUserToken", map[string]any{"user": "mallory", "groups": []string{"fairlead:admins"}}},
		{identityService + "RenewToken", map[string]any{}},
		{loginService + "CreateLoginLink", map[string]any{"user": "mallory"}},
		{tokenService + "CreateToken", map[string]any{}},
		{consoleV1 + "GrantService/UpdateGrant", map[string]any{"allowMissing": true, "grant": grant}},
		{consoleV1 + "RoleService/UpdateRole", map[string]any{"allowMissing": true, "role": map[string]any{"metadata": meta, "spec": map[string]any{"rules": []any{map[string]any{"verbs": []string{"*"}, "kinds": []string{"Service"}}}}}}},
		{consoleV1 + "ServiceAccountService/UpdateServiceAccount", map[string]any{"allowMissing": true, "serviceAccount": map[string]any{"metadata": meta}}},
		{consoleV1 + "ApplyService/Apply", map[string]any{"resources": []any{map[string]any{"grant": grant}}}},
	}
	var words []string
	for _, try := range tries {
		a, err := t.call(ctx, console, try.procedure, token, try.message)
		if err != nil {
			return "", err
		}
		if a.Code != http.StatusForbidden && a.Code != http.StatusUnauthorized {
			return a.String(), fmt.Errorf("%s is not refused", try.procedure)
		}
		words = append(words, fmt.Sprint(a.Code))
	}
	session, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+"/v1/session", token, nil, "Fairlead-Csrf", "1")
	if err != nil {
		return "", err
	}
	if session.Code == http.StatusOK { // a page may use a lent token; what it makes of it is as lent
		cookie, _, _ := strings.Cut(session.Header.Get("Set-Cookie"), ";")
		a, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+identityService+"CreateJoinToken", "", strings.NewReader(`{"cluster":"evil"}`),
			"Content-Type", "application/json", "Cookie", cookie, "Origin", t.world.Hub[console], "Fairlead-Csrf", "1")
		if err != nil || a.Code == http.StatusOK {
			return a.String(), errors.Join(err, errors.New("a session of a lent token makes a join token"))
		}
	}
	return fmt.Sprintf("%d tries, answered with %s", len(tries), strings.Join(slices.Compact(words), ", ")), nil
}

func (t *Try) revoked(ctx context.Context) (string, error) {
	token, err := t.world.login(ctx, "rena")
	if err != nil {
		return "", err
	}
	if err := t.must(ctx, console, identityService+"RevokeTokens", t.world.callers.admin, map[string]any{"subject": "user:rena"}, nil); err != nil {
		return "", err
	}
	var words []string
	for _, part := range hubParts() {
		path := "/version"
		if part == tunnel {
			path = "/clusters/a/version"
		}
		a, took, err := t.untilRefused(ctx, t.world.Hub[part]+path, token)
		if err != nil {
			return a.String(), fmt.Errorf("%s: %w", part, err)
		}
		words = append(words, fmt.Sprintf("%s after %.1f s", part, took.Seconds()))
	}
	renewed, err := t.call(ctx, console, identityService+"RenewToken", token, map[string]any{})
	if err != nil || renewed.Code != http.StatusUnauthorized {
		return renewed.String(), errors.Join(err, errors.New("the revoked token is renewed"))
	}
	return "refused by " + strings.Join(words, ", "), nil
}

// untilRefused asks until the answer is 401, within the time that a revocation may take.
func (t *Try) untilRefused(ctx context.Context, url, token string) (a Answer, took time.Duration, err error) {
	const most = 30 * time.Second
	begin := time.Now()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		if a, err = t.get(ctx, url, token); err != nil {
			return a, 0, err
		}
		if took = time.Since(begin); a.Code == http.StatusUnauthorized {
			return a, took, nil
		}
		if took > most {
			return a, took, fmt.Errorf("a revoked token is still good after %s", most)
		}
		select {
		case <-ctx.Done():
			return a, took, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// revokedWatch opens a watch of a cluster and revokes its token: the watch has to end.
func (t *Try) revokedWatch(ctx context.Context) (string, error) {
	const within = 40 * time.Second
	if err := t.world.apply(ctx, "apiVersion: fairlead.dev/v1\nkind: Grant\nmetadata: {name: watcher}\nspec: {subjects: [{user: walt}], role: viewer, clusters: {names: [a]}}\n"); err != nil {
		return "", err
	}
	token, err := t.world.login(ctx, "walt")
	if err != nil {
		return "", err
	}
	url := t.world.Hub[tunnel] + "/clusters/a/api/v1/namespaces/victim/configmaps?watch=true"
	ctx, cancel := context.WithTimeout(ctx, within+time.Minute)
	defer cancel()
	if err := t.awaitCode(ctx, strings.TrimSuffix(url, "?watch=true"), token, http.StatusOK); err != nil {
		return "", fmt.Errorf("the watcher's grant is not in force: %w", err)
	}
	began := make(chan error, 1)
	ended := make(chan time.Time, 1)
	go func() {
		err := t.listen(ctx, url, token, func() { began <- nil })
		select {
		case began <- err:
		default:
		}
		ended <- time.Now()
	}()
	if err := <-began; err != nil {
		return "", err
	}
	revokedAt := time.Now()
	if err := t.must(ctx, console, identityService+"RevokeTokens", t.world.callers.admin, map[string]any{"subject": "user:walt"}, nil); err != nil {
		return "", err
	}
	took := (<-ended).Sub(revokedAt)
	if took > within {
		return "", fmt.Errorf("the watch was open for %s after its token had been revoked", took)
	}
	return fmt.Sprintf("the watch ended %.1f s after its token had been revoked", took.Seconds()), nil
}

func (t *Try) linkTwice(ctx context.Context) (string, error) {
	var made struct{ Link string }
	if err := t.must(ctx, console, loginService+"CreateLoginLink", t.world.callers.admin, map[string]any{"user": "lena"}, &made); err != nil {
		return "", err
	}
	if _, err := t.get(ctx, made.Link, ""); err != nil { // as a mail scanner does
		return "", err
	}
	if err := t.must(ctx, console, loginService+"ExchangeLoginLink", "", map[string]any{"link": made.Link}, nil); err != nil {
		return "", fmt.Errorf("looking at the link used it up: %w", err)
	}
	a, err := t.call(ctx, console, loginService+"ExchangeLoginLink", "", map[string]any{"link": made.Link})
	if err != nil {
		return "", err
	}
	return a.want(http.StatusUnauthorized)
}

func (t *Try) reservedGroups(ctx context.Context) (string, error) {
	var a Answer
	for _, group := range []string{"system:masters", "system:nodes", "system:serviceaccounts:kube-system"} {
		var err error
		if a, err = t.call(ctx, console, loginService+"CreateLoginLink", t.world.callers.admin, map[string]any{"user": "gina", "groups": []string{group}}); err != nil {
			return "", err
		}
		if a.Code != http.StatusBadRequest {
			return a.String(), fmt.Errorf("the group %q is taken", group)
		}
	}
	return a.String(), nil
}

// madeAgain deletes a cluster and makes another one of its name: the credential of the first opens nothing of the
// second.
func (t *Try) madeAgain(ctx context.Context) (string, error) {
	old, err := t.world.join(ctx, "made-again")
	if err != nil {
		return "", err
	}
	if err := t.awaitCall(ctx, distributor, deliveryService+"Sync", old.token, http.StatusOK); err != nil {
		return "", fmt.Errorf("the agent is not served before, so that this tries nothing: %w", err)
	}
	if err := t.must(ctx, console, clusterService+"DeleteCluster", t.world.callers.admin, map[string]any{"name": "made-again"}, nil); err != nil {
		return "", err
	}
	if _, err := t.world.join(ctx, "made-again"); err != nil {
		return "", err
	}
	a, err := t.call(ctx, console, identityService+"RenewToken", old.token, map[string]any{})
	if err != nil || a.Code != http.StatusUnauthorized {
		return a.String(), errors.Join(err, errors.New("the console renews it"))
	}
	return a.String(), t.awaitCall(ctx, distributor, deliveryService+"Sync", old.token, http.StatusUnauthorized)
}
