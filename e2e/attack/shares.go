package attack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/identity/identitytest"
)

// shares are attacks by callers that the hub knows, who take more than their part or what is not theirs.
func shares() []Attack {
	return []Attack{
		{Name: "one person's watches", CVE: []string{"CVE-2022-31080"}, Part: console, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, console, 96, func() (string, error) {
				return t.hoard(ctx, 300, http.StatusTooManyRequests, func(ctx context.Context) (Answer, error) {
					return t.hold(ctx, t.world.Hub[console]+consoleV1+"LiveService/WatchResources", t.world.callers.viewer, true)
				})
			})
		}},
		{Name: "one person's watches of a cluster", CVE: []string{"CVE-2022-31080"}, Part: tunnel, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, tunnel, 128, func() (string, error) {
				return t.hoard(ctx, 700, http.StatusTooManyRequests, func(ctx context.Context) (Answer, error) {
					return t.hold(ctx, t.world.Hub[tunnel]+"/clusters/b/api/v1/namespaces/victim/configmaps?watch=true", t.world.callers.reader, false)
				})
			})
		}},
		{Name: "one agent's streams", CVE: []string{"CVE-2022-31079"}, Part: distributor, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, distributor, 64, func() (string, error) {
				return t.hoard(ctx, 100, http.StatusServiceUnavailable, func(ctx context.Context) (Answer, error) {
					return t.hold(ctx, t.world.Hub[distributor]+deliveryService+"Watch", t.world.evil.token, true)
				})
			})
		}},
		{Name: "500 ranges of one byte", CVE: []string{"CVE-2011-3192"}, Part: distributor, Run: func(ctx context.Context, t *Try) (string, error) { return t.ranges(ctx, 500) }},
		{Name: "webhook: flood without signatures, and slow bodies", Part: gitcache, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) { return t.mute(ctx) }},
		{Name: "two callers on one connection", CVE: []string{"CVE-2025-14269"}, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.twoCallers(ctx) }},
		{Name: "services' tokens at the services that they are not for", CVE: []string{"CVE-2024-5798"}, Part: gitcache, Run: func(ctx context.Context, t *Try) (string, error) { return t.otherAudience(ctx) }},
		{Name: "Secrets that no source names, by a gitcache", CVE: []string{"CVE-2026-22822"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.anySecret(ctx) }},
		{Name: "catalog: Secret of others as a webhook's", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.borrowedSecret(ctx) }},
		{Name: "catalog: value of others made plain in a draft", CVE: []string{"CVE-2024-52284"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.plainFlip(ctx) }},
		{Name: "service's role for the hub secret, unseen", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.unseen(ctx) }},
	}
}

// hold opens an answer and keeps it until ctx ends; it returns at once what is refused. A stream is asked as the
// Connect protocol does.
func (t *Try) hold(ctx context.Context, url, token string, stream bool) (Answer, error) {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if stream {
		method, body = http.MethodPost, bytes.NewReader(envelope("{}"))
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return Answer{}, err
	}
	if err := t.world.authorize(req, token); err != nil {
		return Answer{}, err
	}
	if stream {
		req.Header.Set("Content-Type", "application/connect+json")
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return Answer{Code: http.StatusOK}, nil // the request was held until the end
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, most)) // cut off at the end
	a := Answer{resp.StatusCode, resp.Header, string(text)}
	if at := strings.LastIndex(a.Body, `{"error":`); stream && at >= 0 && ctx.Err() == nil {
		var end struct{ Error struct{ Code string } }
		if json.Unmarshal([]byte(a.Body[at:]), &end) == nil {
			a.Code = statusOf(end.Error.Code)
		}
	}
	return a, nil
}

// hoard holds n answers at once, for some seconds: those beyond the share are refused.
func (t *Try) hoard(ctx context.Context, n, refused int, hold func(context.Context) (Answer, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var holding sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	var sample Answer
	var errs []error
	for range n {
		holding.Go(func() {
			a, err := hold(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			if codes[a.Code]++; a.Code == refused {
				sample = a
			}
		})
	}
	holding.Wait()
	answer := fmt.Sprintf("%d at once, answered with %v: %s", n, codes, strings.TrimSpace(sample.Body))
	switch {
	case codes[http.StatusOK] == 0:
		return answer, errors.Join(append(errs, errors.New("none was held, so that this tries nothing"))...)
	case codes[refused] == 0:
		return answer, errors.New("one caller holds all of them")
	case codes[http.StatusOK]+codes[refused] != n:
		return answer, errors.Join(append(errs, errors.New("some are answered otherwise"))...)
	}
	return answer, errors.Join(errs...)
}

// victimsDigest is that of the artifact which the victim's cluster gets.
func (t *Try) victimsDigest(ctx context.Context) (digest string, err error) {
	err = t.until(ctx, func() (Answer, error) {
		text, err := t.service(ctx, "victim")
		var told status
		if err = errors.Join(err, json.Unmarshal([]byte(text), &told)); err != nil {
			return Answer{}, err
		}
		if digest = told.Service.Status.Hub.Artifact.Digest; digest == "" {
			return Answer{Body: told.trouble()}, nil
		}
		return Answer{Code: http.StatusOK}, nil
	}, http.StatusOK)
	if err != nil {
		return "", fmt.Errorf("the victim's artifact: %w", err)
	}
	return digest, nil
}

// ranges asks for one byte of an artifact, very often at once.
func (t *Try) ranges(ctx context.Context, n int) (string, error) {
	digest, err := t.victimsDigest(ctx)
	if err != nil {
		return "", err
	}
	token, err := t.world.agentToken("a")
	if err != nil {
		return "", err
	}
	ask := func() (Answer, error) {
		return t.send(ctx, http.MethodGet, t.world.Hub[distributor]+"/v1/artifacts/"+digest, token, nil, "Range", "bytes=0-0")
	}
	if one, err := ask(); err != nil || one.Code != http.StatusPartialContent || len(one.Body) != 1 {
		return one.String(), errors.Join(err, errors.New("one range is refused, so that this tries nothing"))
	}
	var asking sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	var wrong error
	for range n {
		asking.Go(func() {
			a, err := ask()
			mu.Lock()
			defer mu.Unlock()
			codes[a.Code]++
			switch {
			case err != nil:
				wrong = err
			case a.Code == http.StatusTooManyRequests && a.Header.Get("Retry-After") == "":
				wrong = errors.New("it does not say when to come again")
			case a.Code != http.StatusTooManyRequests && a.Code != http.StatusPartialContent:
				wrong = errors.New(a.String())
			}
		})
	}
	asking.Wait()
	return fmt.Sprintf("%d at once, answered with %v", n, codes), wrong
}

// mute floods a source's webhook without its secret, and occupies the places for bodies: a signed webhook still counts.
func (t *Try) mute(ctx context.Context) (string, error) {
	if err := t.hooked(ctx, "hooked-loud"); err != nil {
		return "", err
	}
	flooding, stop := context.WithCancel(ctx)
	var attackers sync.WaitGroup
	var mu sync.Mutex
	sent := 0
	for range 4 {
		attackers.Go(func() {
			for flooding.Err() == nil {
				if _, err := t.hook(flooding, "hooked-loud", "{}", "X-Gitlab-Token", "wrong"); err == nil {
					mu.Lock()
					sent++
					mu.Unlock()
				}
			}
		})
	}
	for range 100 {
		attackers.Go(func() {
			conn, err := t.dial(flooding, gitcache, "http/1.1")
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "POST /v1/webhooks/hooked-loud HTTP/1.1\r\nHost: hub\r\nContent-Length: 1000\r\n\r\n{") // may be cut off
			<-flooding.Done()
		})
	}
	defer func() { stop(); attackers.Wait() }()
	host := t.world.newTry()
	defer host.close()
	counted := 0
	for range 5 {
		within, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := host.until(within, func() (Answer, error) { return host.hook(within, "hooked-loud", "{}", "X-Gitlab-Token", hookToken) }, http.StatusAccepted)
		cancel()
		if err != nil {
			return "", fmt.Errorf("a signed webhook does not count: %w", err)
		}
		counted++
	}
	mu.Lock()
	defer mu.Unlock()
	if sent == 0 {
		return "", errors.New("no flood was sent, so that this tries nothing")
	}
	return fmt.Sprintf("%d signed webhooks counted during %d without", counted, sent), nil
}

// twoCallers sends requests of an administrator and of a stranger in turn on one connection.
func (t *Try) twoCallers(ctx context.Context) (string, error) {
	conn, err := t.dial(ctx, tunnel, "http/1.1")
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	var codes []int
	for i := range 8 {
		credential := ""
		switch i % 4 {
		case 0:
			credential = "Authorization: Bearer " + t.world.callers.admin + "\r\n"
		case 1:
			credential = "Authorization: Bearer " + t.world.callers.stranger + "\r\n"
		case 2:
			credential = "Authorization: Bearer " + t.world.callers.services[gitcache] + "\r\n"
		}
		if _, err := io.WriteString(conn, "GET /clusters/a/api/v1/namespaces HTTP/1.1\r\nHost: hub\r\n"+credential+"\r\n"); err != nil {
			return fmt.Sprint(codes), err
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return fmt.Sprint(codes), err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if codes = append(codes, resp.StatusCode); err != nil {
			return fmt.Sprint(codes), err
		}
		if (resp.StatusCode == http.StatusOK) != (i%4 == 0) {
			return fmt.Sprint(codes), fmt.Errorf("request %d is answered as one of another caller", i)
		}
	}
	return fmt.Sprint(codes), nil
}

// sentTo are the fields of a service's token as the service sends it to another one.
func (t *Try) sentTo(ctx context.Context, to, role string) ([]string, error) {
	secret, err := os.ReadFile(t.world.HubSecret())
	if err != nil {
		return nil, err
	}
	token, header := t.world.callers.services[role], http.Header{}
	err = identitytest.SendTo(to, token, string(secret)).SetHeader(ctx, token, header)
	fields := []string{"Content-Type", contentTypeProtocol}
	if header.Get("Authorization") == "" {
		header.Set("Authorization", "Bearer "+token)
	}
	for name, values := range header {
		fields = append(fields, name, values[0])
	}
	return fields, err
}

// otherAudience sends what a service sends to the console to all the other parts.
func (t *Try) otherAudience(ctx context.Context) (string, error) {
	var words []string
	for role := range t.world.callers.services {
		fields, err := t.sentTo(ctx, console, role)
		if err != nil {
			return "", err
		}
		good, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+consoleV1+"AccessService/GetCaller", "", strings.NewReader("{}"), fields...)
		if err != nil || good.Code != http.StatusOK {
			return good.String(), errors.Join(err, fmt.Errorf("the token of %s opens nothing, so that this tries nothing", role))
		}
		for part, path := range map[string]string{gitcache: artifactResolve, distributor: deliveryService + "Sync", tunnel: tunnelSessions + "ListSessions", "relay": "/relay/b/api/v1/namespaces/victim/secrets"} {
			if part == "relay" {
				part = tunnel
			}
			a, err := t.send(ctx, http.MethodPost, t.world.Hub[part]+path, "", strings.NewReader("{}"), fields...)
			if err != nil {
				return "", err
			}
			if a.Code != http.StatusUnauthorized {
				return a.String(), fmt.Errorf("%s takes the token that %s sent to the console at %s", part, role, path)
			}
			words = append(words, fmt.Sprint(a.Code))
		}
	}
	return fmt.Sprintf("%d uses, answered with %s", len(words), strings.Join(slices.Compact(words), ", ")), nil
}

// anySecret asks for Secrets as a gitcache: one that a source names, and others.
func (t *Try) anySecret(ctx context.Context) (string, error) {
	if err := t.world.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: of-a-source}\ndata: {token: x}\n---\napiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: with-a-secret}\nspec: {git: {url: %q, webhookSecret: of-a-source}}\n", t.world.GitURL)); err != nil {
		return "", err
	}
	ask := func(role, name string) (Answer, error) {
		fields, err := t.sentTo(ctx, console, role)
		if err != nil {
			return Answer{}, err
		}
		return t.send(ctx, http.MethodPost, t.world.Hub[console]+consoleV1+"SecretService/AccessSecret", "", strings.NewReader(fmt.Sprintf(`{"name":%q}`, name)), fields...)
	}
	if a, err := ask(gitcache, "of-a-source"); err != nil || a.Code != http.StatusOK {
		return a.String(), errors.Join(err, errors.New("what a source names is refused, so that this tries nothing"))
	}
	var last Answer
	for _, try := range [][2]string{{gitcache, "victim"}, {gitcache, "no-such-secret"}, {distributor, "of-a-source"}, {tunnel, "of-a-source"}} {
		var err error
		if last, err = ask(try[0], try[1]); err != nil {
			return "", err
		}
		if last.Code/100 != 4 || silentOf(last.Body, t.world.planted.secret) != nil {
			return last.String(), fmt.Errorf("%s is given %s", try[0], try[1])
		}
	}
	return last.String(), nil
}

// borrowedSecret writes a source, with the right to write sources, whose webhooks are checked by a Secret that the
// writer may not see.
func (t *Try) borrowedSecret(ctx context.Context) (string, error) {
	if err := t.world.apply(ctx, "apiVersion: fairlead.dev/v1\nkind: Role\nmetadata: {name: source-writer}\nspec: {rules: [{verbs: [view, edit], kinds: [Source]}]}\n---\napiVersion: fairlead.dev/v1\nkind: Grant\nmetadata: {name: source-writer}\nspec: {subjects: [{user: sven}], role: source-writer, clusters: {all: true}}\n"); err != nil {
		return "", err
	}
	token, err := t.world.login(ctx, "sven")
	if err != nil {
		return "", err
	}
	write := func(git map[string]any) (Answer, error) {
		git["url"] = "https://git.example.com/x.git"
		return t.call(ctx, console, consoleV1+"ApplyService/Apply", token, map[string]any{"resources": []any{map[string]any{"source": map[string]any{"metadata": map[string]any{"name": "borrowing"}, "spec": map[string]any{"git": git}}}}})
	}
	if a, err := write(map[string]any{}); err != nil || a.Code != http.StatusOK {
		return a.String(), errors.Join(err, errors.New("a source without a Secret is refused, so that this tries nothing"))
	}
	var last Answer
	for _, field := range []string{"webhookSecret", "secret"} {
		if last, err = write(map[string]any{field: "victim"}); err != nil {
			return "", err
		}
		if last.Code != http.StatusForbidden && last.Code != http.StatusNotFound && last.Code != http.StatusBadRequest {
			return last.String(), fmt.Errorf("%s names a Secret of others", field)
		}
	}
	return last.String(), silentOf(last.Body, t.world.planted.secret)
}

// plainFlip asks what a service would be configured with if a secret value of others were plain.
func (t *Try) plainFlip(ctx context.Context) (string, error) {
	var last Answer
	for _, ref := range []map[string]any{
		{"secret": "victim", "key": "password", "plain": true},
		{"backend": "files", "path": "victim.yaml", "key": "password", "plain": true},
	} {
		for _, caller := range []string{t.world.callers.deployer, t.world.callers.viewer} {
			draft := t.shop(map[string]any{"config": map[string]any{"flipped": map[string]any{"ref": ref}}})["service"]
			var err error
			if last, err = t.call(ctx, console, consoleV1+"ConfigService/PreviewConfig", caller, map[string]any{"draft": draft}); err != nil {
				return "", err
			}
			if err := silentOf(last.Body, t.world.planted.secret); err != nil || last.Code >= http.StatusInternalServerError {
				return last.String(), errors.Join(err, errors.New("it is shown"))
			}
		}
	}
	return last.String(), nil
}

// unseen exchanges the hub secret for a role and looks for that in the trail.
func (t *Try) unseen(ctx context.Context) (string, error) {
	var told struct{ Events []json.RawMessage }
	count := func() (Answer, error) {
		a, err := t.call(ctx, console, consoleV1+"AuditService/ListAuditEvents", t.world.callers.admin, map[string]any{"pageSize": 1000, "filter": map[string]any{"action": "login.service"}})
		if err == nil {
			told.Events = nil
			err = json.Unmarshal([]byte(a.Body), &told)
		}
		return a, err
	}
	if _, err := count(); err != nil {
		return "", err
	}
	before := len(told.Events)
	if _, err := t.world.serviceToken(ctx, distributor); err != nil {
		return "", err
	}
	err := t.until(ctx, func() (Answer, error) {
		a, err := count()
		if err == nil && len(told.Events) <= before {
			a.Code = 0
		}
		return a, err
	}, http.StatusOK)
	return fmt.Sprintf("%d events before, %d after", before, len(told.Events)), err
}
