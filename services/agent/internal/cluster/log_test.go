package cluster_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fairlead.dev/services/agent/internal/cluster"
)

// A read that the agent itself calls off in the middle of the answer is no error that anybody has to act on; a broken
// answer is.
func TestAReadThatIsCalledOffIsNoErrorInTheLog(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"apiVersion": "v1",`))
		_ = http.NewResponseController(w).Flush()
		if strings.HasSuffix(r.URL.Path, "/cut") {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	var callOff context.CancelFunc
	client, err := cluster.New(&rest.Config{
		Host: server.URL, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && callOff != nil {
					callOff()
				}
				return response, err
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for name, loud := range map[string]bool{"called-off": false, "cut": true} {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(cluster.LogTo(t.Context(), slog.New(slog.NewTextHandler(&log, nil))))
		if callOff = cancel; loud {
			callOff = nil
		}
		if _, err := client.ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err == nil {
			t.Errorf("%s: half an answer is one", name)
		}
		cancel()
		if got := strings.Contains(log.String(), "level=ERROR"); got != loud {
			t.Errorf("%s: the log has %q", name, log.String())
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
