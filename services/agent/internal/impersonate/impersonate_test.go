package impersonate_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"fairlead.dev/services/agent/internal/impersonate"
)

type refused struct{ t *testing.T }

func (r refused) RoundTrip(*http.Request) (*http.Response, error) {
	r.t.Error("the request was sent")
	return nil, http.ErrAbortHandler
}

type sent struct{ header http.Header }

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.header = r.Header
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// The last word counts: what is done as a person is not done as the service's account, nor the other way round.
func TestRequestsAreMadeAsThePersonOrAsTheAccount(t *testing.T) {
	t.Parallel()
	ada := impersonate.Person{User: "ada", Groups: []string{"dev", "ops"}, Extra: map[string][]string{"a/b": {"c"}}}
	asAda := impersonate.AsPerson(impersonate.As(t.Context(), "shop/deployer"), ada)
	for name, test := range map[string]struct {
		ctx    context.Context
		user   string
		groups []string
	}{
		"person":                   {asAda, "ada", ada.Groups},
		"account after a person":   {impersonate.As(asAda, "shop/deployer"), "system:serviceaccount:shop:deployer", nil},
		"the agent after a person": {impersonate.Own(asAda), "", nil},
		"account": {
			impersonate.As(t.Context(), "shop/deployer"), "system:serviceaccount:shop:deployer", nil,
		},
		"a person after the account": {
			impersonate.AsPerson(impersonate.As(t.Context(), "a/b"), impersonate.Person{User: "bob"}), "bob", nil,
		},
	} {
		request, err := http.NewRequestWithContext(test.ctx, http.MethodGet, "https://cluster.example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		var got sent
		answer, err := impersonate.Transport(&got).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got.header.Get("Impersonate-User") != test.user ||
			!slices.Equal(got.header.Values("Impersonate-Group"), test.groups) {
			t.Errorf("%s: got %v", name, got.header)
		}
		if extra := got.header.Get("Impersonate-Extra-a%2Fb"); (extra == "c") != (test.user == "ada") {
			t.Errorf("%s: got %v", name, got.header)
		}
	}
	request, err := http.NewRequestWithContext(impersonate.AsPerson(t.Context(), impersonate.Person{}), http.MethodGet,
		"https://cluster.example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := impersonate.Transport(refused{t}).RoundTrip(request); err == nil {
		_ = answer.Body.Close()
		t.Error("nobody is taken for a person")
	}
}

func TestWhatIsNoAccountActsAsNobody(t *testing.T) {
	t.Parallel()
	for _, account := range []string{"deployer", "/deployer", "shop/", "shop/deployer/x"} {
		request, err := http.NewRequestWithContext(impersonate.As(t.Context(), account), http.MethodGet,
			"https://cluster.example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := impersonate.Transport(refused{t}).RoundTrip(request)
		if err == nil {
			_ = answer.Body.Close()
			t.Errorf("%q is taken for an account", account)
		}
	}
}
