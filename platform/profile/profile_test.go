package profile

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// One profile is made at a time: a second caller is told when to come again.
func TestOneProfileIsMadeAtATime(t *testing.T) {
	ask := func(name, query string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/"+name+query, http.NoBody)
		r.SetPathValue("profile", name)
		w := httptest.NewRecorder()
		Serve(w, r)
		return w
	}
	if got := ask("heap", ""); got.Code != http.StatusOK || got.Body.Len() == 0 {
		t.Errorf("the heap: %d, %d bytes", got.Code, got.Body.Len())
	}
	if got := ask("cpu", "?seconds=31"); got.Code != http.StatusBadRequest {
		t.Errorf("a profile of 31 seconds: %d", got.Code)
	}
	making.Lock()
	defer making.Unlock()
	if got := ask("heap", ""); got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" {
		t.Errorf("a second profile: %d", got.Code)
	}
}
