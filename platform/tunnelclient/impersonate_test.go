package tunnelclient_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/tunnelclient"
)

// reviewer is an API server that lets alice impersonate some names, and says what it is asked.
type reviewer struct {
	allowed []string // resource, with its subresource, and name
	broken  int      // status of its answer to reviews; 0: it answers them

	mu      sync.Mutex // guards what follows
	reviews []string   // bodies
}

func (a *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/apis/authorization.k8s.io/v1/subjectaccessreviews" {
		echo(w, r)
		return
	}
	if r.Header.Get("Impersonate-User") != "" || r.Header.Get("Authorization") != "Bearer kube-token" {
		http.Error(w, "the agent asks this as itself", http.StatusTeapot)
		return
	}
	if a.broken != 0 {
		w.WriteHeader(a.broken)
		_, _ = io.WriteString(w, `{"kind":"Status","message":"subjectaccessreviews is forbidden"}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.reviews = append(a.reviews, string(body))
	a.mu.Unlock()
	var review struct {
		Spec struct {
			User               string
			Groups             []string
			ResourceAttributes struct{ Verb, Resource, Subresource, Namespace, Name string }
		}
	}
	_ = json.Unmarshal(body, &review)
	about := review.Spec.ResourceAttributes
	resource := about.Resource
	if about.Subresource != "" {
		resource += "/" + about.Subresource
	}
	if about.Namespace != "" {
		resource = about.Namespace + "/" + resource
	}
	ok := review.Spec.User == "alice" &&
		slices.Equal(review.Spec.Groups, []string{"dev", "fairlead:admins", "system:authenticated"}) &&
		about.Verb == "impersonate" &&
		slices.Contains(a.allowed, resource+" "+about.Name)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "SubjectAccessReview", "status": map[string]any{"allowed": ok, "reason": "because"},
	})
}

func (a *reviewer) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.reviews)
}

func as(of muxhttp.Impersonated) muxhttp.Caller {
	caller := alice
	caller.As = &of
	return caller
}

func TestCallerPassesOffOnlyAsWhomTheClusterSays(t *testing.T) {
	t.Parallel()
	api := &reviewer{
		allowed: []string{
			"users bob", "groups ops", "userextras/scopes a", "uids 7", "shop/serviceaccounts web",
			"groups system:authenticated", "users system:anonymous", "groups system:masters", "users system:node:n1",
			"userextras/Scopes x",
		},
	}
	h := newHub(t)
	startWith(t, h, newAPI(t, api.ServeHTTP).URL, tunnelclient.Policy{})
	s := next(t, h)
	for name, tt := range map[string]struct {
		as   muxhttp.Impersonated
		want string // of a refusal; empty: it passes
	}{
		"a user": {muxhttp.Impersonated{User: "bob"}, ""},
		"all of a user": {
			muxhttp.Impersonated{
				User: "bob", UID: "7", Groups: []string{"ops"}, Extra: map[string][]string{"scopes": {"a"}},
			},
			"",
		},
		"a service account": {muxhttp.Impersonated{User: "system:serviceaccount:shop:web"}, ""},
		"nobody": {
			muxhttp.Impersonated{User: "system:anonymous", Groups: []string{"system:authenticated"}}, "",
		},
		"another user": {
			muxhttp.Impersonated{User: "eve"},
			`users \"eve\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope: because`,
		},
		"another group": {
			muxhttp.Impersonated{User: "bob", Groups: []string{"ops", "root"}}, `groups \"root\" is forbidden`,
		},
		"another uid": {
			muxhttp.Impersonated{User: "bob", UID: "8"},
			`uids \"8\" is forbidden: User \"alice\" cannot impersonate resource \"uids\" in API group \"authentication.k8s.io\"`,
		},
		"another extra": {
			muxhttp.Impersonated{User: "bob", Extra: map[string][]string{"scopes": {"a", "b"}}},
			`userextras \"b\" is forbidden`,
		},
		"a key's case": {
			muxhttp.Impersonated{User: "bob", Extra: map[string][]string{"scopes": {"x"}}},
			`userextras \"x\" is forbidden`,
		},
		"another account": {
			muxhttp.Impersonated{User: "system:serviceaccount:shop:db"},
			`resource \"serviceaccounts\" in API group \"\" in the namespace \"shop\"`,
		},
		"no account": {muxhttp.Impersonated{User: "system:serviceaccount:shop:web:x"}, "is no service account"},
		"the masters": {
			muxhttp.Impersonated{User: "bob", Groups: []string{"system:masters"}}, "belongs to Kubernetes itself",
		},
		"a node": {muxhttp.Impersonated{User: "system:node:n1"}, "belongs to Kubernetes itself"},
		"blanks": {muxhttp.Impersonated{User: " bob"}, "can't be impersonated"},
		"lines":  {muxhttp.Impersonated{User: "bob", UID: "7\r\nImpersonate-Group: root"}, "no header can carry"},
	} {
		resp, body := get(t, s, as(tt.as), "/api", http.Header{"Impersonate-User": {"root"}})
		if tt.want != "" {
			if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, tt.want) ||
				!strings.Contains(body, `"kind":"Status"`) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, body)
			}
			continue
		}
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, "Impersonate-User: "+tt.as.User+"\r\n") ||
			strings.Contains(body, "alice") || strings.Contains(body, "fairlead:admins") ||
			strings.Count(body, "Impersonate-Group") != len(tt.as.Groups) ||
			strings.Count(body, "Impersonate-Extra") != len(tt.as.Extra) ||
			strings.Contains(body, "Impersonate-Uid: "+tt.as.UID) != (tt.as.UID != "") {
			t.Errorf("%s: API server gets %d\n%s", name, resp.StatusCode, body)
		}
	}
}

// The API server turns the names of header fields into lower case: what it is asked about and what it then reads have
// to be the same key.
func TestKeysOfExtraInformationAreReadAsTheyWereReviewed(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"Scopes", "example.com/Scopes", "a:b@c", "%41", "a_b", "ünï"} {
		api := &reviewer{allowed: []string{"users bob", "userextras/" + key + " x"}}
		h := newHub(t)
		startWith(t, h, newAPI(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				api.ServeHTTP(w, r)
				return
			}
			for field, values := range r.Header {
				escaped, isExtra := strings.CutPrefix(field, "Impersonate-Extra-")
				read, err := url.PathUnescape(strings.ToLower(escaped))
				if isExtra && (read != key || err != nil || !slices.Equal(values, []string{"x"})) {
					t.Errorf("reviewed was %q, and the API server reads %q: %q, %v", key, read, values, err)
				}
			}
		}).URL, tunnelclient.Policy{})
		resp, body := get(t, next(t, h), as(muxhttp.Impersonated{User: "bob", Extra: map[string][]string{key: {"x"}}}),
			"/api", nil)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%q: %s %s", key, resp.Status, body)
		}
	}
}

// kubectl asks several things at once: the API server is asked about each name once.
func TestReviewsAreRememberedForAMoment(t *testing.T) {
	t.Parallel()
	api := &reviewer{allowed: []string{"users bob", "groups ops"}}
	h := newHub(t)
	startWith(t, h, newAPI(t, api.ServeHTTP).URL, tunnelclient.Policy{})
	s := next(t, h)
	for range 3 {
		if resp, body := get(t, s, as(muxhttp.Impersonated{User: "bob", Groups: []string{"ops"}}), "/api",
			nil); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, body)
		}
	}
	if n := api.asked(); n < 2 || n > 4 { // a slow machine may ask again
		t.Errorf("%d reviews for two names", n)
	}
	// Another caller's right is another question.
	eve := as(muxhttp.Impersonated{User: "bob"})
	eve.User = "eve"
	if resp, body := get(t, s, eve, "/api", nil); resp.StatusCode != http.StatusForbidden {
		t.Errorf("eve: %s %s", resp.Status, body)
	}
}

func TestImpersonationIsRefusedWhereTheAgentCannotAsk(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		http.StatusForbidden:           "subjectaccessreviews is forbidden",
		http.StatusInternalServerError: "subjectaccessreviews",
	} {
		h := newHub(t)
		startWith(t, h, newAPI(t, (&reviewer{broken: code}).ServeHTTP).URL, tunnelclient.Policy{})
		resp, body := get(t, next(t, h), as(muxhttp.Impersonated{User: "bob"}), "/api", nil)
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, want) ||
			!strings.Contains(body, "tunnel.impersonation.enabled") {
			t.Errorf("%d: %s %s", code, resp.Status, body)
		}
	}
}

// The policy of the cluster's own people bounds impersonation, whatever RBAC allows.
func TestPolicyBoundsImpersonation(t *testing.T) {
	t.Parallel()
	bob := muxhttp.Impersonated{User: "bob", Groups: []string{"ops"}}
	for name, tt := range map[string]struct {
		policy tunnelclient.Policy
		want   string
	}{
		"nobody":      {tunnelclient.Policy{NoImpersonation: true}, "--tunnel-no-impersonation"},
		"people only": {tunnelclient.Policy{Users: []string{"alice"}}, "--tunnel-impersonate-user"},
		"other users": {tunnelclient.Policy{ImpersonatedUsers: []string{"carol"}}, "--tunnel-impersonate-user"},
		"groups of people": {
			tunnelclient.Policy{Groups: []string{"dev", "fairlead:admins"}}, "--tunnel-impersonate-group",
		},
		"these": {
			tunnelclient.Policy{
				Users: []string{"alice"}, ImpersonatedUsers: []string{"bob"}, ImpersonatedGroups: []string{"ops"},
			},
			"",
		},
		"Kubernetes' own":      {tunnelclient.Policy{AllowSystem: true}, ""},
		"read-only, as others": {tunnelclient.Policy{ReadOnly: true}, ""},
	} {
		h := newHub(t)
		startWith(t, h, newAPI(t, (&reviewer{allowed: []string{"users bob", "groups ops"}}).ServeHTTP).URL, tt.policy)
		resp, body := get(t, next(t, h), as(bob), "/api", nil)
		if tt.want == "" && resp.StatusCode != http.StatusOK ||
			tt.want != "" && (resp.StatusCode != http.StatusForbidden || !strings.Contains(body, tt.want)) {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
}
