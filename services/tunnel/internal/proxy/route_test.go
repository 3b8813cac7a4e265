package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// News get lost, and a replica that did not answer may answer again: who waits looks without news, too.
func TestWhoWaitsLooksAgainWithoutNews(t *testing.T) {
	t.Parallel()
	rt := &route{out: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/clusters/edge-1/api", nil)}
	if !rt.waitForChange(nil, nil) {
		t.Error("gave up")
	}
}
