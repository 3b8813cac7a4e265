package acceptance

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

// Where a body is malformed nobody knows where it ends: what follows is no request.
func TestBrokenBodyEndsTheConnection(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	h.connect("edge-1", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/early" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		if r.URL.Path == "/smuggled" {
			t.Error("the body of a request was taken for another request")
		}
		_, _ = io.Copy(io.Discard, r.Body)
	})
	for _, path := range []string{"/late", "/early"} {
		resp := h.raw(t, "POST /clusters/edge-1"+path+" HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+h.user()+"\r\nTransfer-Encoding: chunked\r\n\r\n0x10\r\n"+
			"GET /clusters/edge-1/smuggled HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+h.user()+"\r\n\r\n")
		if !resp.Close {
			t.Errorf("%s: the connection goes on after %s", path, resp.Status)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
}
