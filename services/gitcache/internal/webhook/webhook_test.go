package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/platform/await"
	"fairlead.dev/services/gitcache/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "It's a Secret to Everybody"
	body   = "Hello, World!"
)

// world is a gitcache at its edges: a catalog, a console with secrets, an owner.
type world struct {
	*httptest.Server
	handler *webhook.Handler
	log     *bytes.Buffer

	mu        sync.Mutex // guards what follows
	sources   map[string]webhook.Source
	tokens    map[string]string
	asked     int // of the console
	refreshed map[string]int
	results   map[webhook.Result]int
	down      error // the console
	lost      error // the owner
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		sources: map[string]webhook.Source{"shop": {
			UID: "uid-shop", Secret: "hook", SecretUID: "1",
			SecretRevision: 1,
		}},
		tokens: map[string]string{"hook": secret}, refreshed: map[string]int{}, results: map[webhook.Result]int{},
		log: &bytes.Buffer{},
	}
	w.handler = webhook.New(webhook.Deps{
		Ready: func() error { return nil },
		Source: func(name string) (webhook.Source, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			s, ok := w.sources[name]
			return s, ok
		},
		Token: func(_ context.Context, name string) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked++
			return w.tokens[name], w.down
		},
		Refresh: func(_ context.Context, uid string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refreshed[uid]++
			return w.lost
		},
		Count: func(r webhook.Result) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.results[r]++
		},
		Log: slog.New(slog.NewTextHandler(w.log, nil)),
	})
	w.Server = httptest.NewServer(w.handler)
	t.Cleanup(func() {
		w.Close()
		if strings.Contains(w.log.String(), "Everybody") {
			t.Error("the token is in the log")
		}
	})
	return w
}

func (w *world) polls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, count := range w.refreshed {
		n += count
	}
	return n
}

func (w *world) count(r webhook.Result) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.results[r]
}

// post sends a body and gives status, headers and text.
func (w *world) post(t *testing.T, source string, content io.Reader,
	headers map[string]string,
) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+webhook.Path+source, content)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func (w *world) wants(t *testing.T, status int, source string, headers map[string]string) string {
	t.Helper()
	got, _, text := w.post(t, source, strings.NewReader(body), headers)
	if got != status {
		t.Errorf("%v: got %d %s, want %d", headers, got, text, status)
	}
	return text
}

func sign(token, content string) string {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte(content))
	return hex.EncodeToString(h.Sum(nil))
}

// hosts are the headers that each Git host sends with a push.
func hosts(token, content string) map[string]map[string]string {
	sum := sign(token, content)
	return map[string]map[string]string{
		"GitHub":    {"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + sum, "X-Hub-Signature": "sha1=0123456789012345678901234567890123456789"},
		"GitLab":    {"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": token},
		"Gitea":     {"X-Gitea-Event": "push", "X-Gitea-Signature": sum},
		"Forgejo":   {"X-Forgejo-Event": "push", "X-Forgejo-Signature": sum},
		"Gogs":      {"X-Gogs-Event": "push", "X-Gogs-Signature": sum},
		"Bitbucket": {"X-Event-Key": "repo:push", "X-Hub-Signature": "sha256=" + sum},
	}
}

func TestEveryHostsWebhookCausesAPoll(t *testing.T) {
	t.Parallel()
	if got := sign(secret, body); got != "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17" {
		t.Fatalf("GitHub's own example signs as %s", got)
	}
	for host, headers := range hosts(secret, body) {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.wants(t, http.StatusAccepted, "shop", headers)
			if w.refreshed["uid-shop"] != 1 || w.count(webhook.Accepted) != 1 {
				t.Errorf("polls %v, results %v", w.refreshed, w.results)
			}
			// A replayed one causes one more poll, and no harm.
			w.wants(t, http.StatusAccepted, "shop", headers)
			if w.polls() != 2 {
				t.Errorf("%d polls", w.polls())
			}
		})
	}
}

func TestWrongWebhooksCauseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wrong := map[string]map[string]string{
		"unsigned": {}, "a ping without proof": {"X-GitHub-Event": "ping"},
		"cut":    {"X-Hub-Signature-256": "sha256=" + sign(secret, body)[:62]},
		"no hex": {"X-Hub-Signature-256": "sha256=" + strings.Repeat("zz", 32)},
		"empty":  {"X-Hub-Signature-256": "sha256="}, "sha1": {"X-Hub-Signature": "sha1=" + sign(secret, body)},
		"empty token": {"X-Gitlab-Token": ""}, "the signature as a token": {"X-Gitlab-Token": sign(secret, body)},
		"the beginning of the token": {"X-Gitlab-Token": secret[:len(secret)-1]},
	}
	for host, headers := range hosts("another secret", body) {
		wrong[host+" with another secret"] = headers
	}
	for host, headers := range hosts(secret, body+".") {
		if host != "GitLab" { // whose proof is not about the body
			wrong[host+" of another body"] = headers
		}
	}
	for name, headers := range wrong {
		t.Log(name)
		w.wants(t, http.StatusUnauthorized, "shop", headers)
	}
	if w.polls() != 0 || w.count(webhook.Refused) != len(wrong) {
		t.Errorf("polls %v, results %v", w.refreshed, w.results)
	}
}

// A caller does not learn which sources there are.
func TestUnknownSourceAndWrongSignatureLookTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sources["broken"] = webhook.Source{UID: "uid-broken", Secret: "empty", SecretUID: "2", SecretRevision: 1}
	for host, headers := range hosts("another secret", body) {
		wantStatus, wantHeaders, wantText := w.post(t, "shop", strings.NewReader(body), headers)
		for _, name := range []string{"nope", "broken"} {
			status, h, text := w.post(t, name, strings.NewReader(body), headers)
			h.Set("Date", wantHeaders.Get("Date"))
			if status != wantStatus || text != wantText || !maps.EqualFunc(h, wantHeaders, func(a, b []string) bool { return strings.Join(a, ",") == strings.Join(b, ",") }) {
				t.Errorf("%s, %s: got %d %v %s\nwant %d %v %s", host, name, status, h, text, wantStatus, wantHeaders,
					wantText)
			}
		}
	}
	// A secret without a token lets nobody in, not even with an empty one.
	for _, headers := range hosts("", body) {
		w.wants(t, http.StatusUnauthorized, "broken", headers)
		w.wants(t, http.StatusUnauthorized, "nope", headers)
	}
}

func TestPingsAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for host, event := range map[string][2]string{
		"GitHub":    {"X-GitHub-Event", "ping"},
		"Bitbucket": {"X-Event-Key", "diagnostics:ping"},
	} {
		headers := hosts(secret, body)[host]
		headers[event[0]] = event[1]
		w.wants(t, http.StatusOK, "shop", headers)
	}
	if w.polls() != 0 || w.count(webhook.Ping) != 2 {
		t.Errorf("polls %v, results %v", w.refreshed, w.results)
	}
}

func TestOnlyPOSTToASourceIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resp, err := w.Client().Get(w.URL + webhook.Path + "shop")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != http.MethodPost {
		t.Errorf("got %s", resp.Status)
	}
	for _, name := range []string{"", "a/b", strings.Repeat("a", 64)} {
		w.wants(t, http.StatusNotFound, name, nil)
	}
}

// zeros is a body without an end.
type zeros struct{ read int64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.read += int64(len(p))
	return len(p), nil
}

func TestHugeBodiesAreCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const gigabyte = 1 << 30
	z := &zeros{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhook.Path+"shop", io.LimitReader(z, gigabyte))
	r.ContentLength = -1
	r.Header.Set("X-Gitlab-Token", "guessed")
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	if out.Code != http.StatusRequestEntityTooLarge || z.read > 26<<20 {
		t.Errorf("got %d after %d bytes", out.Code, z.read)
	}
	z = &zeros{}
	r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhook.Path+"shop", io.LimitReader(z, gigabyte))
	r.ContentLength = gigabyte
	out = httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	if out.Code != http.StatusRequestEntityTooLarge || z.read != 0 {
		t.Errorf("got %d after %d bytes", out.Code, z.read)
	}
	// As large as GitHub's can be is fine.
	large := strings.Repeat("x", 25<<20)
	if status, _, text := w.post(t, "shop", strings.NewReader(large), hosts(secret, large)["GitHub"]); status != http.StatusAccepted {
		t.Errorf("got %d %s", status, text)
	}
}

// slow sends nothing until it is closed.
type slow struct{ end chan struct{} }

func (s slow) Read([]byte) (int, error) {
	<-s.end
	return 0, io.EOF
}

// As many slow bodies as like to come, of one network, leave room for those that arrive at once.
func TestSlowBodiesEndAndHoldUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := make(chan struct{})
	var cut atomic.Int32
	var senders sync.WaitGroup
	for i := range 2 * webhook.AtOnce {
		senders.Go(func() {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
				fmt.Sprintf("%s%snope-%d", w.URL, webhook.Path, i), slow{end})
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Hub-Signature-256", "sha256="+sign("guessed", body))
			resp, err := w.Client().Do(req)
			if err == nil {
				resp.Body.Close()
			}
			cut.Add(1)
		})
	}
	await.True(t, "the oldest make room", func() bool { return cut.Load() >= webhook.AtOnce })
	for range 10 {
		w.wants(t, http.StatusAccepted, "shop", hosts(secret, body)["GitHub"])
	}
	close(end)
	senders.Wait()
}

func TestSlowBodiesAreGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handler.Hurry(100 * time.Millisecond)
	end := make(chan struct{})
	defer close(end)
	status, _, _ := w.post(t, "shop", slow{end}, hosts(secret, body)["GitHub"])
	if status != http.StatusRequestTimeout {
		t.Errorf("got %d", status)
	}
}

// Strangers who know a source's name can't have its own webhooks refused.
func TestUnsignedWebhooksMuteNoSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 200 {
		headers := map[string]string{"X-GitHub-Event": "push"}
		if i%2 == 0 {
			headers = hosts("guessed", body)["GitHub"]
		}
		w.wants(t, http.StatusUnauthorized, "shop", headers)
	}
	w.wants(t, http.StatusAccepted, "shop", hosts(secret, body)["GitHub"])
}

func TestFloodCausesFewPolls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sources["other"] = webhook.Source{UID: "uid-other", Secret: "hook", SecretUID: "1", SecretRevision: 1}
	const flood = 10_000
	begin := time.Now()
	var senders sync.WaitGroup
	statuses := make([]map[int]int, 20)
	for i := range statuses {
		statuses[i] = map[int]int{}
		senders.Go(func() {
			for range flood / len(statuses) {
				status, h, _ := w.post(t, "shop", strings.NewReader(body), hosts(secret, body)["GitHub"])
				statuses[i][status]++
				if status == http.StatusTooManyRequests && h.Get("Retry-After") == "" {
					t.Error("nobody says when to come again")
				}
			}
		})
	}
	senders.Wait()
	all := map[int]int{}
	for _, s := range statuses {
		for status, n := range s {
			all[status] += n
		}
	}
	if most := 60 + int(11*time.Since(begin).Seconds()); w.polls() > most || all[http.StatusAccepted] != w.polls() ||
		all[http.StatusAccepted]+all[http.StatusTooManyRequests] != flood {
		t.Errorf("%d polls, most are %d; statuses %v", w.polls(), most, all)
	}
	if w.asked != 1 {
		t.Errorf("the console was asked %d times", w.asked)
	}
	w.wants(t, http.StatusAccepted, "other", hosts(secret, body)["GitHub"])
}

func TestWebhooksGoOnWithTheConsoleDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	headers := hosts(secret, body)["GitHub"]
	w.wants(t, http.StatusAccepted, "shop", headers)
	w.mu.Lock()
	w.down = errors.New("the console answers unavailable")
	w.mu.Unlock()
	w.wants(t, http.StatusAccepted, "shop", headers)

	// A secret that is not known yet is not asked for with each webhook.
	w.mu.Lock()
	w.sources["new"] = webhook.Source{UID: "uid-new", Secret: "new", SecretUID: "3", SecretRevision: 1}
	asked := w.asked
	w.mu.Unlock()
	for range 5 {
		w.wants(t, http.StatusUnauthorized, "new", headers)
	}
	if w.asked != asked+1 {
		t.Errorf("the console was asked %d times", w.asked-asked)
	}
}

func TestChangedSecretCountsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wants(t, http.StatusAccepted, "shop", hosts(secret, body)["GitHub"])
	w.mu.Lock()
	w.tokens["hook"] = "another"
	w.sources["shop"] = webhook.Source{UID: "uid-shop", Secret: "hook", SecretUID: "1", SecretRevision: 2}
	w.mu.Unlock()
	w.wants(t, http.StatusUnauthorized, "shop", hosts(secret, body)["GitHub"])
	w.wants(t, http.StatusAccepted, "shop", hosts("another", body)["GitHub"])
}

func TestOwnerThatCanNotBeToldIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lost = errors.New("connection refused")
	if text := w.wants(t, http.StatusServiceUnavailable, "shop", hosts(secret, body)["GitHub"]); !strings.Contains(text, "next interval") {
		t.Error(text)
	}
}

func FuzzSignatures(f *testing.F) {
	f.Add("X-Hub-Signature-256", "sha256=00", "body")
	f.Add("X-Gitlab-Token", "token", "")
	f.Fuzz(func(t *testing.T, header, value, content string) {
		polled := false
		h := webhook.New(webhook.Deps{
			Ready:   func() error { return nil },
			Source:  func(string) (webhook.Source, bool) { return webhook.Source{Secret: "s"}, true },
			Token:   func(context.Context, string) (string, error) { return "the token that nobody guesses", nil },
			Refresh: func(context.Context, string) error { polled = true; return nil },
			Count:   func(webhook.Result) {}, Log: slog.New(slog.DiscardHandler),
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhook.Path+"shop",
			strings.NewReader(content))
		r.Header[http.CanonicalHeaderKey(header)] = []string{value}
		if h.ServeHTTP(httptest.NewRecorder(), r); polled {
			t.Fatalf("%q: %q was taken", header, value)
		}
	})
}

// TestPullsOfARegistryCauseNoPoll: a poll itself is one to the registry, which would be told of it for ever.
func TestPullsOfARegistryCauseNoPoll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const events = "application/vnd.docker.distribution.events.v2+json"
	for _, tc := range []struct {
		kind, body string
		want       int
	}{
		{events, `{"events": [{"action": "pull"}, {"action": "pull", "target": {"tag": "1"}}]}`, http.StatusOK},
		{events, `{"events": [{"action": "pull"}, {"action": "push"}]}`, http.StatusAccepted},
		{events, `{"events": [{"action": "delete"}]}`, http.StatusAccepted},
		{events, `{"events": []}`, http.StatusAccepted},
		{events, `{"events": [{"action": "pull"`, http.StatusAccepted},
		{events, `{"x": "` + strings.Repeat("x", 100<<10) + `", "events": [{"action": "pull"}]}`, http.StatusAccepted},
		{"application/json", `{"events": [{"action": "pull"}]}`, http.StatusAccepted},
	} {
		before := w.polls()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/v1/webhooks/shop",
			strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("Content-Type", tc.kind)
		resp, err := w.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if polled := w.polls() > before; resp.StatusCode != tc.want || polled != (tc.want == http.StatusAccepted) {
			t.Errorf("%.60s: %d, polled %t, want %d", tc.body, resp.StatusCode, polled, tc.want)
		}
	}
}
