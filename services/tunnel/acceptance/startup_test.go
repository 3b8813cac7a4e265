package acceptance

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// After a restart, requests are there before the agents are.
func TestFreshReplicaWaitsForAgents(t *testing.T) {
	t.Parallel()
	h := newHub(t, "edge-1")
	answers := make(chan int, 1)
	asked := make(chan struct{})
	req := h.request("GET", "/clusters/edge-1/api", nil)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(),
		&httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(asked) }}))
	go func() {
		defer close(answers)
		resp, err := h.client().Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		answers <- resp.StatusCode
	}()
	<-asked
	h.connect("edge-1", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
	if code := <-answers; code != http.StatusOK {
		t.Errorf("answered with %d", code)
	}
}
