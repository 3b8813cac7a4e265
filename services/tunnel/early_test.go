package tunnel_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// An API server may refuse a request whose body is still on its way; the body is counted all the while.
func TestAnswerMayComeBeforeTheBodyHasGone(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	client := h.client()
	for range 20 {
		body, more := io.Pipe()
		go func() {
			for {
				if _, err := io.WriteString(more, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}()
		resp, err := client.Do(h.request("PUT", "/clusters/edge-1/upload", body))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("got %s", resp.Status)
		}
		_ = resp.Body.Close()
		_ = body.Close()
	}
}
