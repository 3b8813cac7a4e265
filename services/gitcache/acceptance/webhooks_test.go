package acceptance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// webhook sends what GitHub would, and gives the status.
func (n *node) webhook(source, token, body string) int {
	n.f.t.Helper()
	sum := hmac.New(sha256.New, []byte(token))
	sum.Write([]byte(body))
	req, err := http.NewRequestWithContext(n.f.t.Context(), http.MethodPost, n.url+"/v1/webhooks/"+source,
		strings.NewReader(body))
	if err != nil {
		n.f.t.Fatal(err)
	}
	req.Header.Set("X-Github-Event", "push")
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
	resp, err := http.DefaultTransport.(*http.Transport).Clone().RoundTrip(req)
	if err != nil {
		n.f.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestAWebhookAtAnyReplicaBringsACommitAtOnce(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a fleet of gitcaches")
	f := newFixture(t)
	first := f.repo.Commit("one", gittest.Files{"a": "1"})
	f.console.setSecret("hook", map[string]string{"token": "s3cret of the webhook"})
	f.console.change("shop", func(g *consolev1.GitSource) {
		g.WebhookSecret, g.Interval = "hook", durationpb.New(24*time.Hour)
	})
	c := together(t)
	owner := f.replica("a", c)
	f.published("HEAD", first)
	other := f.replica("b", c)

	for name, status := range map[string]int{
		"shop": http.StatusUnauthorized, "nope": http.StatusUnauthorized,
		"": http.StatusNotFound, "shop/x": http.StatusNotFound,
	} {
		if got := other.webhook(name, "another", "{}"); got != status {
			t.Errorf("%q: got %d, want %d", name, got, status)
		}
	}
	second := f.repo.Commit("two", gittest.Files{"a": "2"})
	if got := other.webhook("shop", "s3cret of the webhook", "{}"); got != http.StatusAccepted {
		t.Fatalf("got %d", got)
	}
	f.published("HEAD", second)

	// Larger than any message of the hub may be.
	third := f.repo.Commit("three", gittest.Files{"a": "3"})
	if got := owner.webhook("shop", "s3cret of the webhook", strings.Repeat("x", 20<<20)); got != http.StatusAccepted {
		t.Fatalf("got %d", got)
	}
	f.published("HEAD", third)

	// With the console down, the token is known still.
	f.console.setDown(true)
	lists := f.git.Count("list")
	if got := other.webhook("shop", "s3cret of the webhook", "{}"); got != http.StatusAccepted {
		t.Fatalf("got %d", got)
	}
	await.NoError(t, "a poll", func() error { return atLeast(f.git.Count("list"), lists+1) })
	f.console.setDown(false)
	if owner.metric("fairlead_gitcache_webhooks_total") != 1 || other.metric("fairlead_gitcache_webhooks_total") != 6 {
		t.Errorf("counted %v and %v", owner.metric("fairlead_gitcache_webhooks_total"),
			other.metric("fairlead_gitcache_webhooks_total"))
	}
}

func TestAFloodOfWebhooksCausesFewPolls(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a flood of webhooks")
	f := newFixture(t)
	commit := f.repo.Commit("one", nil)
	f.console.setSecret("hook", map[string]string{"token": "s3cret of the webhook"})
	f.console.change("shop", func(g *consolev1.GitSource) { g.WebhookSecret = "hook" })
	n := f.one()
	f.published("HEAD", commit)
	before, begin := f.git.Count("list"), time.Now()
	statuses := map[int]int{}
	for range 1000 {
		statuses[n.webhook("shop", "s3cret of the webhook", "{}")]++
	}
	took := time.Since(begin)
	tooFew := statuses[http.StatusTooManyRequests] == 0 && took < time.Minute // else it was no flood
	if most := 3 + int(took/(500*time.Millisecond)); f.git.Count("list")-before > most ||
		statuses[http.StatusAccepted] == 0 || tooFew {
		t.Errorf("%d polls, most are %d; statuses %v", f.git.Count("list")-before, most, statuses)
	}
}
