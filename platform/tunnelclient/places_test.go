package tunnelclient

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/platform/identity"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Slots that wait for another replica ask the hub for its replicas about every 45 s.
func TestAnEndpointThatIsLeftAloneGetsASecondSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known, err := proto.Marshal(&tunnelv1.ListReplicasResponse{ReplicaIds: []string{"one"}})
		if err != nil {
			t.Fatal(err)
		}
		var looks atomic.Int64
		hub := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			looks.Add(1)
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/proto"}}, Request: r,
				Body: io.NopCloser(strings.NewReader(string(known))), ContentLength: int64(len(known)),
			}, nil
		})}
		var endpoints atomic.Pointer[[]string]
		endpoints.Store(&[]string{"https://a.example.com", "https://b.example.com"})
		c, err := New(Config{
			Endpoints: func() []string { return *endpoints.Load() }, HTTPClient: hub, Token: identity.StaticToken("t"),
			Another: func() (*http.Client, error) { return nil, errors.New("nobody dials here") },
			Kube:    &url.URL{Scheme: "https", Host: "kube.example.com"}, Transport: hub.Transport,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		c.held["one"] = 1 // a session, so that all slots look for another replica
		go func() { _ = c.Run(t.Context()) }()
		perHour := func() int64 {
			time.Sleep(time.Minute) //nolint:forbidigo // fake time, in which all begin
			before := looks.Load()
			time.Sleep(time.Hour) //nolint:forbidigo // fake time
			return looks.Load() - before
		}
		if n := perHour(); n < 120 || n > 240 {
			t.Errorf("two endpoints, which have a slot each: %d looks in an hour", n)
		}
		endpoints.Store(&[]string{"https://a.example.com"})
		if n := perHour(); n < 120 || n > 240 {
			t.Errorf("one endpoint, which needs two slots: %d looks in an hour", n)
		}
	})
}
