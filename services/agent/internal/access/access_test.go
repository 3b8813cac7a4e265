package access_test

import (
	"net/http"
	"testing"

	"fairlead.dev/services/agent/internal/access"
)

type refused struct{ t *testing.T }

func (r refused) RoundTrip(*http.Request) (*http.Response, error) {
	r.t.Error("the request was sent")
	return nil, http.ErrAbortHandler
}

func TestWhatIsNoAccountActsAsNobody(t *testing.T) {
	t.Parallel()
	for _, account := range []string{"deployer", "/deployer", "shop/", "shop/deployer/x"} {
		request, err := http.NewRequestWithContext(access.As(t.Context(), account), http.MethodGet, "https://cluster.example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := access.Transport(refused{t}).RoundTrip(request)
		if err == nil {
			_ = answer.Body.Close()
			t.Errorf("%q is taken for an account", account)
		}
	}
}
