package attack

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // a signature that is refused
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	redis9 "github.com/redis/go-redis/v9"

	"fairlead.dev/e2e/attack/githost"
	"fairlead.dev/platform/identity"
)

// doors are attacks on webhooks, on what agents are served, on the catalog, on where the hub connects to, and by a
// writer to Redis.
func doors() []Attack {
	return []Attack{
		{Name: "webhook: signatures that are none", CVE: []string{"CVE-2023-40034"}, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.webhooks(ctx) }},
		{Name: "webhook: bodies that are no events", CVE: []string{"CVE-2025-59531"}, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.webhookBodies(ctx) }},
		{Name: "webhook: body of 10 GiB", CVE: []string{"CVE-2024-40634"}, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) {
			answers, err := t.say(ctx, gitcache, "POST /v1/webhooks/hooked HTTP/1.1\r\nHost: hub\r\nContent-Length: 10737418240\r\n\r\n{")
			if err != nil || len(answers) == 0 {
				return "", errors.Join(err, errors.New("it is not answered"))
			}
			return answers[0].want(http.StatusRequestEntityTooLarge)
		}},
		{Name: "webhook: names of sources that are patterns and paths", Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) {
			var last Answer
			for _, name := range []string{".*", "[", "%5b", "hooked%2f..", "..%2fhooked", "hooke?", "*", "hooked/x", strings.Repeat("x", 64)} {
				var err error
				if last, err = t.hook(ctx, name, "{}", "X-Gitlab-Token", hookToken); err != nil {
					return "", err
				}
				if last.Code/100 != 4 {
					return last.String(), fmt.Errorf("%q is taken for a source", name)
				}
			}
			return last.String(), nil
		}},
		{Name: "artifact of another cluster by its digest", CVE: []string{"CVE-2023-40026"}, Part: distributor, Run: func(ctx context.Context, t *Try) (string, error) { return t.foreignDigest(ctx) }},
		{Name: "report of another cluster's service", Part: distributor, Run: func(ctx context.Context, t *Try) (string, error) { return t.lyingReport(ctx) }},
		{Name: "reports with numbers and texts beyond all bounds", Part: distributor, Run: func(ctx context.Context, t *Try) (string, error) {
			var last Answer
			for _, report := range []any{
				map[string]any{"service": "x", "sequence": "18446744073709551616"},
				map[string]any{"service": strings.Repeat("x", 64)},
				map[string]any{"service": "x", "message": strings.Repeat("x", 8193)},
				map[string]any{"service": "x", "phase": "PHASE_NONE"},
				map[string]any{"service": "x", "objects": make([]map[string]any, 101)},
				map[string]any{"service": "x\u0000"},
			} {
				var err error
				if last, err = t.call(ctx, distributor, deliveryService+"Report", t.world.evil.token, map[string]any{"reports": []any{report}}); err != nil {
					return "", err
				}
				if last.Code >= http.StatusInternalServerError {
					return last.String(), errors.New("the part failed")
				}
			}
			return last.String(), nil
		}},
		{Name: "reports with zeros, which PostgreSQL does not take", Part: distributor, Run: func(ctx context.Context, t *Try) (string, error) { return t.zeros(ctx) }},
		{Name: "catalog: grant that is wider than one's own", Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.applied(ctx, t.world.callers.deployer, http.StatusForbidden, map[string]any{"grant": map[string]any{
				"metadata": map[string]any{"name": "shop-deployer"}, "spec": map[string]any{"role": "admin", "subjects": []any{map[string]any{"user": "dora"}}, "clusters": map[string]any{"all": true}},
			}})
		}},
		{Name: "catalog: service moved into another project and cluster", CVE: []string{"CVE-2024-31990"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.applied(ctx, t.world.callers.deployer, 0, t.shop(map[string]any{"project": "victim", "cluster": "a", "namespace": "victim"}))
		}},
		{Name: "catalog: service that is nobody's project's", CVE: []string{"CVE-2024-31990"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.applied(ctx, t.world.callers.deployer, 0, t.shop(map[string]any{"project": "", "namespace": "kube-system"}))
		}},
		{Name: "catalog: account of kube-system for a service", CVE: []string{"CVE-2021-41254"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.applied(ctx, t.world.callers.deployer, 0, t.shop(map[string]any{"sync": map[string]any{"impersonate": "kube-system/clusterrole-aggregation-controller"}}))
		}},
		{Name: "catalog: values of another project's configuration set", Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.applied(ctx, t.world.callers.deployer, 0, t.shop(map[string]any{"configSets": []string{"victim"}}))
		}},
		{Name: "catalog: folder that declares the catalog, by an account of others", CVE: []string{"CVE-2023-22736"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			spec := map[string]any{"source": "sample", "path": "shop", "project": "shop", "catalog": true, "serviceAccount": "victim"}
			return t.applied(ctx, t.world.callers.deployer, 0, map[string]any{"service": map[string]any{"metadata": map[string]any{"name": "declares"}, "spec": spec}})
		}},
		{Name: "catalog: commit that no ref reaches, by a deployer's pin", Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			if err := t.world.apply(ctx, "apiVersion: fairlead.dev/v1\nkind: Role\nmetadata: {name: releaser}\nspec: {rules: [{verbs: [view, deploy], kinds: [Service]}], kubernetes: viewer}\n---\napiVersion: fairlead.dev/v1\nkind: Grant\nmetadata: {name: releaser}\nspec: {subjects: [{user: rolf}], role: releaser, clusters: {all: true}, projects: [shop]}\n"); err != nil {
				return "", err
			}
			token, err := t.world.login(ctx, "rolf")
			if err != nil {
				return "", err
			}
			a, err := t.call(ctx, console, consoleV1+"SyncService/PinService", token, map[string]any{"name": "shop", "commit": strings.Repeat("ab", 20)})
			if err != nil {
				return "", err
			}
			return a.want(http.StatusForbidden, http.StatusBadRequest)
		}},
		{Name: "catalog: SQL, patterns and quotes in filters", CVE: []string{"CVE-2024-27304"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.filters(ctx) }},
		{Name: "catalog: filters that cost much", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.costlyFilters(ctx) }},
		{Name: "sink: addresses inside", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.inwardSink(ctx) }},
		{Name: "page: session by a form of another site", CVE: []string{"CVE-2025-24358"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.forgedForm(ctx) }},
		{Name: "agent's token, copied without its key", Part: distributor, Run: func(ctx context.Context, t *Try) (string, error) { return t.copied(ctx) }},
		{Name: "Redis: members at the attacker's address", CVE: []string{"CVE-2024-31989"}, Part: redis, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) { return t.forgedMembers(ctx) }},
		{Name: "Redis: emptied, and filled with other types", CVE: []string{"CVE-2024-31989"}, Part: redis, Alone: true, Run: func(ctx context.Context, t *Try) (string, error) { return t.spoiledRedis(ctx) }},
	}
}

const hookToken = "a-token-of-a-webhook-that-nobody-guesses" //nolint:gosec // of this run

// hook sends a webhook.
func (t *Try) hook(ctx context.Context, name, body string, headers ...string) (Answer, error) {
	return t.send(ctx, http.MethodPost, t.world.Hub[gitcache]+"/v1/webhooks/"+name, "", strings.NewReader(body), headers...)
}

// hooked makes a source that takes webhooks, and waits until it does.
func (t *Try) hooked(ctx context.Context, name string) error {
	err := t.world.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: %[1]s}\ndata: {token: %[2]s}\n---\napiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: %[1]s}\nspec: {git: {url: %[3]q, webhookSecret: %[1]s}}\n", name, hookToken, t.world.GitURL))
	if err != nil {
		return err
	}
	return t.until(ctx, func() (Answer, error) { return t.hook(ctx, name, "{}", "X-Gitlab-Token", hookToken) }, http.StatusAccepted)
}

// until asks until the status is one that was waited for.
func (t *Try) until(ctx context.Context, ask func() (Answer, error), code int) error {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := ask()
		if err == nil && a.Code == code {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the answer is %s, not %d: %w", a, code, errors.Join(err, context.Cause(ctx)))
		case <-tick.C:
		}
	}
}

func (t *Try) webhooks(ctx context.Context) (string, error) {
	if err := t.hooked(ctx, "hooked"); err != nil {
		return "", err
	}
	const body = `{"ref":"refs/heads/main"}`
	mac := func(key string) string {
		sum := hmac.New(sha256.New, []byte(key))
		_, _ = io.WriteString(sum, body) // never fails
		return hex.EncodeToString(sum.Sum(nil))
	}
	weak := hmac.New(sha1.New, []byte(hookToken))
	_, _ = io.WriteString(weak, body) // never fails
	var last Answer
	for _, headers := range [][]string{
		nil,
		{"X-Hub-Signature-256", ""},
		{"X-Hub-Signature-256", "sha256="},
		{"X-Hub-Signature-256", "sha256=" + strings.Repeat("0", 64)},
		{"X-Hub-Signature", "sha1=" + hex.EncodeToString(weak.Sum(nil))},
		{"X-Hub-Signature-256", "sha256=" + mac("")},
		{"X-Hub-Signature-256", "sha256=" + mac("another's")},
		{"X-Gitlab-Token", ""},
		{"X-Gitlab-Token", hookToken + "x"},
		{"X-Gitlab-Token", hookToken[:8]},
		{"X-Hub-Signature-256", "sha256=" + mac("") + "," + mac(hookToken)},
		{"X-Hub-Signature-256", "none"},
		{"X-Github-Event", "ping"},
	} {
		known, err := t.hook(ctx, "hooked", body, headers...)
		if err != nil {
			return "", err
		}
		unknown, err := t.hook(ctx, "no-such-source", body, headers...)
		if err != nil {
			return "", err
		}
		if known.Code == http.StatusTooManyRequests || unknown.Code == http.StatusTooManyRequests {
			continue
		}
		if known.Code != http.StatusUnauthorized || known.Body != unknown.Body || unknown.Code != known.Code {
			return known.String() + " / " + unknown.String(), fmt.Errorf("with %q", headers)
		}
		last = known
	}
	if last.Code == 0 {
		return "", errors.New("all were too many, so that this tries nothing")
	}
	return last.String(), nil
}

func (t *Try) webhookBodies(ctx context.Context) (string, error) {
	if err := t.hooked(ctx, "hooked-too"); err != nil {
		return "", err
	}
	codes := map[int]int{}
	for _, kind := range [][]string{{"X-Github-Event", "push"}, {"X-Gitlab-Event", "Push Hook"}, {"X-Event-Key", "repo:push"}, {"X-Event-Key", "repo:refs_changed"}, {"X-Gitea-Event", "push"}, {"X-Azure-Event", "git.push"}} {
		for _, body := range []string{"", "null", "[]", "{", `{"repository":null}`, `{"push":{"changes":[{"new":null,"old":null}]}}`, `{"changes":[null]}`, `{"repository":{"clone_url":"http://169.254.169.254/x.git"}}`, strings.Repeat("[", 100_000), "\x00\xff"} {
			a, err := t.hook(ctx, "hooked-too", body, append([]string{"X-Gitlab-Token", hookToken}, kind...)...)
			if err != nil {
				return "", err
			}
			codes[a.Code]++
			if a.Code >= http.StatusInternalServerError && a.Code != http.StatusServiceUnavailable {
				return a.String(), fmt.Errorf("%q of %q", body[:min(len(body), 50)], kind)
			}
		}
	}
	return fmt.Sprintf("answered with %v", codes), nil
}

// foreignDigest asks for the victim's artifact with the token of another cluster's agent: the answer is that of a
// digest that does not exist.
func (t *Try) foreignDigest(ctx context.Context) (string, error) {
	digest, err := t.victimsDigest(ctx)
	if err != nil {
		return "", err
	}
	own, err := t.world.agentToken("a")
	if err != nil {
		return "", err
	}
	twin, err := t.get(ctx, t.world.Hub[distributor]+"/v1/artifacts/"+digest, own)
	if err != nil || twin.Code != http.StatusOK {
		return twin.String(), errors.Join(err, errors.New("its own cluster is refused, so that this tries nothing"))
	}
	var last Answer
	for _, part := range []string{distributor, gitcache} {
		foreign, err := t.get(ctx, t.world.Hub[part]+"/v1/artifacts/"+digest, t.world.evil.token)
		if err != nil {
			return "", err
		}
		none := "sha256:" + strings.Repeat("0", 64)
		missing, err := t.get(ctx, t.world.Hub[part]+"/v1/artifacts/"+none, t.world.evil.token)
		if err != nil {
			return "", err
		}
		if foreign.Code/100 != 4 || foreign.Code != missing.Code || strings.ReplaceAll(foreign.Body, digest, none) != missing.Body {
			return foreign.String() + " / " + missing.String(), fmt.Errorf("%s tells the two apart", part)
		}
		last = foreign
	}
	return last.String(), nil
}

// lyingReport tells the hub of a service of another cluster.
func (t *Try) lyingReport(ctx context.Context) (string, error) {
	const lie = "reported-by-the-attacker"
	a, err := t.call(ctx, distributor, deliveryService+"Report", t.world.evil.token, map[string]any{"reports": []any{map[string]any{"service": "victim", "sequence": "18446744073709551615", "phase": "PHASE_FAILED", "message": lie}}})
	if err != nil {
		return "", err
	}
	if a.Code >= http.StatusInternalServerError {
		return a.String(), errors.New("the part failed")
	}
	wait := time.NewTimer(3 * time.Second)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-wait.C:
	}
	text, err := t.service(ctx, "victim")
	return a.String(), errors.Join(err, silentOf(text, lie))
}

// shop is the deployer's own service with something else in its spec.
func (t *Try) shop(change map[string]any) map[string]any {
	spec := map[string]any{"source": "sample", "path": "shop", "cluster": "b", "namespace": "shop", "project": "shop"}
	maps.Copy(spec, change)
	return map[string]any{"service": map[string]any{"metadata": map[string]any{"name": "shop"}, "spec": spec}}
}

// applied applies a resource that has to be refused; 0 is any refusal.
func (t *Try) applied(ctx context.Context, token string, code int, resource map[string]any) (string, error) {
	twin, err := t.call(ctx, console, consoleV1+"ApplyService/Apply", t.world.callers.deployer, map[string]any{"dryRun": true, "resources": []any{t.shop(nil)}})
	if err != nil || twin.Code != http.StatusOK {
		return twin.String(), errors.Join(err, errors.New("what the deployer may write is refused, so that this tries nothing"))
	}
	a, err := t.call(ctx, console, consoleV1+"ApplyService/Apply", token, map[string]any{"resources": []any{resource}})
	if err != nil {
		return "", err
	}
	if err := silentOf(a.Body, t.world.planted.secret, t.world.planted.config, t.world.planted.object); err != nil {
		return a.String(), err
	}
	if code == 0 {
		return a.want(http.StatusForbidden, http.StatusBadRequest, http.StatusNotFound)
	}
	return a.want(code)
}

func (t *Try) filters(ctx context.Context) (string, error) {
	codes := map[int]int{}
	for _, text := range []string{`' OR 1=1 --`, `'; DROP TABLE resources; --`, `name : "%"`, `name : "_"`, `name : "'"`, `name = "\\"`, `labels.x' = "y"`, `name : "\u0000"`, `"`, `name = $1`, "name = \"" + strings.Repeat("x", 2000) + "\""} {
		for _, field := range []string{"filter", "orderBy", "pageToken"} {
			a, err := t.call(ctx, console, serviceService+"ListServices", t.world.callers.viewer, map[string]any{field: text})
			if err != nil {
				return "", err
			}
			codes[a.Code]++
			if err := silentOf(a.Body, t.world.planted.all()...); err != nil {
				return a.String(), err
			}
			if a.Code != http.StatusOK && a.Code != http.StatusBadRequest {
				return a.String(), fmt.Errorf("%s %q", field, text)
			}
			if strings.Contains(a.Body, `"victim"`) || strings.Contains(strings.ToLower(a.Body), "sqlstate") {
				return a.String(), fmt.Errorf("%s %q shows more", field, text)
			}
		}
	}
	return fmt.Sprintf("answered with %v", codes), nil
}

func (t *Try) costlyFilters(ctx context.Context) (string, error) {
	begin := time.Now()
	var last Answer
	for _, text := range []string{strings.Repeat("NOT ", 500) + "name = x", strings.Repeat("(", 1000) + "name = x" + strings.Repeat(")", 1000), strings.Repeat("NOT ", 100_000) + "name = x", `name : "` + strings.Repeat("*a", 900) + `"`} {
		var err error
		if last, err = t.call(ctx, console, serviceService+"ListServices", t.world.callers.admin, map[string]any{"filter": text}); err != nil {
			return "", err
		}
		if last.Code >= http.StatusInternalServerError {
			return last.String(), errors.New("the part failed")
		}
	}
	const most = 10 * time.Second
	if took := time.Since(begin); took > most {
		return last.String(), fmt.Errorf("they took %s", took)
	}
	return last.String(), nil
}

// inwardSink has events sent to addresses inside.
func (t *Try) inwardSink(ctx context.Context) (string, error) {
	inside := githost.New()
	defer inside.Close()
	var last Answer
	for i, url := range []string{"https" + strings.TrimPrefix(inside.URL, "http"), "https://169.254.169.254/", "https://[::ffff:127.0.0.1]/", "https://10.0.0.1/"} {
		name := fmt.Sprintf("inward-%d", i)
		if err := t.world.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Sink\nmetadata: {name: %s}\nspec: {webhook: {url: %q, key: {secret: some-key-of-a-webhook}}}\n", name, url)); err != nil {
			continue // refused when it was written
		}
		var err error
		if last, err = t.call(ctx, console, consoleV1+"SinkService/TestSink", t.world.callers.admin, map[string]any{"name": name}); err != nil {
			return "", err
		}
		if !strings.Contains(last.Body, "address") || strings.Contains(last.Body, `"accepted":true`) {
			return last.String(), fmt.Errorf("%s is not refused for its address", url)
		}
	}
	return last.String(), nil
}

// zeros has the attacker's agent report texts that a database could refuse: what is reported after them has to arrive.
func (t *Try) zeros(ctx context.Context) (string, error) {
	const name = "zeros"
	if err := t.world.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %s}\nspec: {source: sample, path: shop, cluster: evil, namespace: x}\n", name)); err != nil {
		return "", err
	}
	report := func(sequence int, message string) map[string]any {
		return map[string]any{
			"service": name, "sequence": fmt.Sprint(sequence), "phase": "PHASE_DEGRADED", "message": message, "commit": "\u0000", "digest": "\u0000",
			"objects": []any{map[string]any{"kind": "\u0000", "name": "x\u0000\ufffe", "namespace": "\u202e\u0000", "health": "\u0000", "message": message}},
		}
	}
	for i, message := range []string{"a\u0000b", "\u0000", "\ufffe\u0000\U0010ffff", strings.Repeat("\u0000", 8000)} {
		a, err := t.call(ctx, distributor, deliveryService+"Report", t.world.evil.token, map[string]any{"reports": []any{report(i+1, message)}})
		if err != nil {
			return "", err
		}
		if a.Code >= http.StatusInternalServerError {
			return a.String(), errors.New("the part failed")
		}
	}
	const last = "reported-after-the-zeros"
	clean := map[string]any{"service": name, "sequence": "100", "phase": "PHASE_DEGRADED", "message": last}
	var text string
	err := t.until(ctx, func() (Answer, error) {
		if err := t.must(ctx, distributor, deliveryService+"Report", t.world.evil.token, map[string]any{"reports": []any{clean}}, nil); err != nil {
			return Answer{}, err
		}
		var err error
		if text, err = t.service(ctx, name); err != nil || !strings.Contains(text, last) {
			return Answer{Body: text}, err
		}
		return Answer{Code: http.StatusOK}, nil
	}, http.StatusOK)
	return "what was reported after 4 of them arrived", err
}

// forgedForm uses the cookie of somebody who is logged in from pages of others.
func (t *Try) forgedForm(ctx context.Context) (string, error) {
	in, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+"/v1/session", t.world.callers.admin, nil, "Fairlead-Csrf", "1")
	if err != nil {
		return "", err
	}
	cookie, _, _ := strings.Cut(in.Header.Get("Set-Cookie"), ";")
	twin, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+serviceService+"ListServices", "", strings.NewReader("{}"), "Content-Type", "application/json", "Cookie", cookie, "Origin", t.world.Hub[console], "Fairlead-Csrf", "1")
	if err != nil || twin.Code != http.StatusOK {
		return twin.String(), errors.Join(err, errors.New("the page of the hub is refused, so that this tries nothing"))
	}
	grant := `{"allowMissing":true,"grant":{"metadata":{"name":"by-csrf"},"spec":{"role":"admin","subjects":[{"user":"mallory"}],"clusters":{"all":true}}}}`
	var last Answer
	for _, headers := range [][]string{
		{"Content-Type", "text/plain", "Origin", "https://evil.example"},
		{"Content-Type", "application/json", "Origin", "https://evil.example", "Fairlead-Csrf", "1"},
		{"Content-Type", "application/json", "Origin", "null", "Fairlead-Csrf", "1"},
		{"Content-Type", "application/json"},
		{"Content-Type", "application/json", "Sec-Fetch-Site", "same-site", "Fairlead-Csrf", "1"},
		{"Content-Type", "application/x-www-form-urlencoded", "Origin", t.world.Hub[console]},
		{"Content-Type", "application/json", "Origin", t.world.Hub[console]},
		{"Content-Type", "application/json", "Origin", t.world.Hub[console] + ".evil.example", "Fairlead-Csrf", "1"},
		{"Content-Type", "application/json", "Origin", strings.Replace(t.world.Hub[console], "https", "http", 1), "Fairlead-Csrf", "1"},
	} {
		if last, err = t.send(ctx, http.MethodPost, t.world.Hub[console]+consoleV1+"GrantService/UpdateGrant", "", strings.NewReader(grant), append(headers, "Cookie", cookie)...); err != nil {
			return "", err
		}
		if last.Code/100 != 4 {
			return last.String(), fmt.Errorf("with %q", headers)
		}
		if allowed := last.Header.Get("Access-Control-Allow-Origin"); allowed == "*" || strings.Contains(allowed, "evil") {
			return allowed, fmt.Errorf("with %q", headers)
		}
	}
	return last.String(), nil
}

// spoiledRedis takes all out of Redis and puts other types and values in its place. Artifacts that were fetched are
// served on, and everything heals.
func (t *Try) spoiledRedis(ctx context.Context) (string, error) {
	options, err := redis9.ParseURL(t.world.redis.URL())
	if err != nil {
		return "", err
	}
	client := redis9.NewClient(options)
	defer func() { _ = client.Close() }()
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil || len(keys) == 0 {
		return "", errors.Join(err, errors.New("there is nothing in Redis, so that this tries nothing"))
	}
	if err := client.FlushAll(ctx).Err(); err != nil {
		return "", err
	}
	for i, key := range keys {
		switch i % 4 {
		case 0:
			err = client.Set(ctx, key, strings.Repeat("x", 1<<20), time.Minute).Err()
		case 1:
			err = client.RPush(ctx, key, "9223372036854775807", "\xff").Err()
		case 2:
			err = client.Set(ctx, key, "9223372036854775807", time.Minute).Err()
		case 3:
			err = client.HSet(ctx, key, "x", `{"url":"https://evil.example","id":"x"}`).Err()
		}
		if err != nil {
			return "", err
		}
	}
	for _, part := range []string{console, gitcache, distributor, tunnel, agent} {
		if err := t.world.serves(ctx, part); err != nil {
			return fmt.Sprintf("%d keys were spoiled", len(keys)), fmt.Errorf("%s meanwhile: %w", part, err)
		}
	}
	if err := client.FlushAll(ctx).Err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d keys were spoiled, all parts served on", len(keys)), nil
}

// copied uses the token of a real agent without the key that it is bound to.
func (t *Try) copied(ctx context.Context) (string, error) {
	token, err := t.world.agentToken("b")
	if err != nil {
		return "", err
	}
	if err := t.twin(ctx, distributor); err != nil {
		return "", fmt.Errorf("with its key it is refused, so that this tries nothing: %w", err)
	}
	var words []string
	for _, try := range []struct{ part, path string }{
		{distributor, deliveryService + "Sync"},
		{distributor, deliveryService + "Report"},
		{console, identityService + "RenewToken"},
		{console, loginService + "LeaveCluster"},
		{tunnel, tunnelSessions + "ListReplicas"},
		{gitcache, "/v1/artifacts/sha256:" + strings.Repeat("0", 64)},
	} {
		for _, proof := range []string{"", "x", strings.Repeat("A", 86), "e30.e30.e30"} {
			headers := []string{"Content-Type", contentTypeProtocol, "Authorization", "Bearer " + token}
			if proof != "" {
				headers = append(headers, identity.ProofHeader, proof)
			}
			method := http.MethodPost
			if strings.HasPrefix(try.path, "/v1/") {
				method = http.MethodGet
			}
			a, err := t.send(ctx, method, t.world.Hub[try.part]+try.path, "", strings.NewReader("{}"), headers...)
			if err != nil {
				return "", err
			}
			if a.Code != http.StatusUnauthorized {
				return a.String(), fmt.Errorf("%s takes it at %s", try.part, try.path)
			}
			words = append(words, fmt.Sprint(a.Code))
		}
	}
	return fmt.Sprintf("%d uses without the key, answered with %s", len(words), strings.Join(slices.Compact(words), ", ")), nil
}

// forgedMembers puts copies of the hub's members into Redis whose addresses are the attacker's, over TLS and without.
// No part may send a credential there.
func (t *Try) forgedMembers(ctx context.Context) (string, error) {
	options, err := redis9.ParseURL(t.world.redis.URL())
	if err != nil {
		return "", err
	}
	client := redis9.NewClient(options)
	defer func() { _ = client.Close() }()
	plain := githost.New()
	defer plain.Close()
	secured := githost.NewTLS()
	defer secured.Close()
	groups, err := client.Keys(ctx, "fairlead:{group/*}:members").Result()
	if err != nil || len(groups) == 0 {
		return "", errors.Join(err, errors.New("there are no members in Redis, so that this tries nothing"))
	}
	forged := 0
	const living = 12 * time.Second
	for _, group := range groups {
		alive := strings.TrimSuffix(group, ":members") + ":alive"
		members, err := client.HGetAll(ctx, group).Result()
		if err != nil {
			return "", err
		}
		lives, err := client.ZRangeWithScores(ctx, alive, 0, -1).Result()
		if err != nil || len(lives) == 0 {
			return "", errors.Join(err, fmt.Errorf("nobody lives in %s, so that this tries nothing", alive))
		}
		for id, data := range members {
			for i, at := range []string{plain.URL, secured.URL} {
				// A new member, and in place of the one that was copied.
				changed := regexp.MustCompile(`https?://[0-9a-z.\[\]:]+`).ReplaceAllString(data, at)
				if changed == data {
					continue
				}
				as := fmt.Sprintf("forged-%d-%s", i, id)
				err := errors.Join(client.HSet(ctx, group, as, strings.ReplaceAll(changed, id, as)).Err(), client.ZAdd(ctx, alive, redis9.Z{Score: lives[0].Score + float64(living.Milliseconds()), Member: as}).Err(),
					client.HSet(ctx, group, id, changed).Err())
				if err != nil {
					return "", err
				}
				forged++
			}
		}
	}
	if forged == 0 {
		return "", errors.New("no member has an address, so that this tries nothing")
	}
	end := time.NewTimer(living)
	defer end.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-end.C:
			waiting = false
		case <-tick.C: // requests for which a replica asks others: a cluster without a session, a source
			_, _ = t.get(ctx, t.world.Hub[tunnel]+"/clusters/joined-once/version", t.world.callers.admin)                                              // its answer is not what counts
			_, _ = t.call(ctx, gitcache, gitcacheSources+"RefreshSource", t.world.callers.admin, map[string]any{"source": "sample", "name": "sample"}) // as above
		}
	}
	for _, host := range []*githost.Host{plain, secured} {
		for path, seen := range host.Seen() {
			for _, authorization := range seen {
				if authorization != "" {
					return path, fmt.Errorf("%s was sent a credential", host.URL)
				}
			}
		}
	}
	return fmt.Sprintf("%d forged members got no credential", forged), nil
}
