package tunnelclient_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/tunnelclient"
)

func TestPolicyOfTheClusterHolds(t *testing.T) {
	t.Parallel()
	const pods = "/api/v1/namespaces/shop/pods"
	for name, tc := range map[string]struct {
		policy           tunnelclient.Policy
		allowed, refused []string
		why              string
	}{
		"read-only": {
			policy: tunnelclient.Policy{ReadOnly: true},
			allowed: []string{
				"GET " + pods, "GET " + pods + "/web/log?follow=true", "GET /openapi/v3",
				"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			},
			refused: []string{
				"POST " + pods, "DELETE " + pods + "/web", "PATCH " + pods + "/web",
				"GET " + pods + "/web/exec?command=sh", "GET " + pods + "/web%2Fexec",
				"GET " + pods + "/web/proxy/x", "GET /api/v1/secrets", "GET /api//v1/secrets", "PUT /healthz",
			},
			why: "--tunnel-read-only",
		},
		"namespaces": {
			policy: tunnelclient.Policy{Namespaces: []string{"shop", "web"}},
			allowed: []string{
				"GET " + pods, "DELETE " + pods + "/web", "GET /api/v1/namespaces/web", "GET /apis", "GET /version",
				"GET /api/v1/watch/namespaces/shop/pods",
				"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			},
			refused: []string{
				"GET /api/v1/pods", "GET /api/v1/namespaces", "GET /api/v1/namespaces/kube-system/pods",
				"GET /api/v1/nodes",
				"GET /api/v1/namespaces/shopx/pods", "GET /api/v1//namespaces/shop/pods",
				"GET /apis/apps/v1/deployments", "GET /api/v1/watch/pods", "GET /debug/pprof",
				"GET /fairlead/v1/services/web/diff",
			},
			why: "--tunnel-namespaces: shop, web",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			startWith(t, h, newAPI(t,
				func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "passed") }).URL, tc.policy)
			s := next(t, h)
			answer := func(request string) (int, string) {
				method, target, _ := strings.Cut(request, " ")
				req, err := http.NewRequestWithContext(t.Context(), method, target, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := muxhttp.Transport{Session: s, Caller: alice}.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return resp.StatusCode, string(body)
			}
			for _, request := range tc.allowed {
				if code, body := answer(request); code != http.StatusOK || body != "passed" {
					t.Errorf("%s: %d %s", request, code, body)
				}
			}
			for _, request := range tc.refused {
				if code, body := answer(request); code != http.StatusForbidden || !strings.Contains(body, tc.why) ||
					!strings.Contains(body, `"kind":"Status"`) {
					t.Errorf("%s: %d %s", request, code, body)
				}
			}
		})
	}
}

func TestSystemNamesPassWhereTheClusterSaysSo(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	startWith(t, h, newAPI(t, echo).URL, tunnelclient.Policy{AllowSystem: true})
	_, body := get(t, next(t, h), muxhttp.Caller{User: "alice", Groups: []string{"system:masters"}}, "/api", nil)
	if !strings.Contains(body, "Impersonate-Group: system:masters") {
		t.Errorf("API server gets\n%s", body)
	}
}

// A provider's group may be called as one that the cluster has bound to everything.
func TestGroupsOfAProviderAreNoGroupsOfTheCluster(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	startWith(t, h, newAPI(t, echo).URL, tunnelclient.Policy{GroupPrefix: "oidc:"})
	s := next(t, h)
	_, body := get(t, s, muxhttp.Caller{
		User: "alice", Groups: []string{"cluster-admins", "fairlead:admins"},
	}, "/api", nil)
	if !strings.Contains(body, "Impersonate-Group: oidc:cluster-admins") ||
		!strings.Contains(body, "Impersonate-Group: fairlead:admins") ||
		strings.Contains(body, "Impersonate-Group: cluster-admins") {
		t.Errorf("API server gets\n%s", body)
	}
	for _, group := range []string{"kubeadm:cluster-admins", "system:masters"} {
		if resp, body := get(t, s, muxhttp.Caller{User: "alice", Groups: []string{group}}, "/api",
			nil); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d %s", group, resp.StatusCode, body)
		}
	}
}

// Where the cluster names groups, a person with others comes in without these, and is not kept out for them.
func TestGroupsThatTheClusterDoesNotNameAreDropped(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	startWith(t, h, newAPI(t, echo).URL, tunnelclient.Policy{
		GroupPrefix: "oidc:", Users: []string{"alice", "bob"}, Groups: []string{"oidc:dev", "fairlead:admins"},
	})
	s := next(t, h)
	resp, body := get(t, s, muxhttp.Caller{
		User: "alice", Groups: []string{"dev", "ops", "fairlead:admins", "fairlead:others", "system:masters"},
	}, "/api", nil)
	if resp.StatusCode != http.StatusOK || strings.Count(body, "Impersonate-Group") != 2 ||
		!strings.Contains(body, "Impersonate-Group: oidc:dev") ||
		!strings.Contains(body, "Impersonate-Group: fairlead:admins") {
		t.Errorf("API server gets %d\n%s", resp.StatusCode, body)
	}
	if resp, body := get(t, s, muxhttp.Caller{User: "bob", Groups: []string{"ops"}}, "/api",
		nil); resp.StatusCode != http.StatusOK || strings.Contains(body, "Impersonate-Group") {
		t.Errorf("without any of them: %d\n%s", resp.StatusCode, body)
	}
	if resp, body := get(t, s, muxhttp.Caller{User: "eve", Groups: []string{"dev"}}, "/api",
		nil); resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "--tunnel-user") {
		t.Errorf("somebody whom the cluster does not name: %d\n%s", resp.StatusCode, body)
	}
}

// What else the hub says only narrows: each policy has to let a request pass.
func TestMorePoliciesOnlyNarrow(t *testing.T) {
	t.Parallel()
	bob := muxhttp.Impersonated{User: "bob", Groups: []string{"ops"}}
	const by = "an AgentConfig of the hub"
	for name, tc := range map[string]struct {
		flags tunnelclient.Policy
		also  []tunnelclient.Policy
		as    *muxhttp.Impersonated
		want  string
	}{
		"none": {tunnelclient.Policy{}, nil, &bob, ""},
		"wider than flags": {
			tunnelclient.Policy{NoImpersonation: true},
			[]tunnelclient.Policy{{AllowSystem: true, By: by}},
			&bob,
			"--tunnel-no-impersonation",
		},
		"wider names than flags": {
			tunnelclient.Policy{ImpersonatedUsers: []string{"carol"}},
			[]tunnelclient.Policy{{AllowSystem: true, By: by, ImpersonatedUsers: []string{"bob"}}},
			&bob,
			"--tunnel-impersonate-user",
		},
		"nobody": {
			tunnelclient.Policy{}, []tunnelclient.Policy{{AllowSystem: true, By: by, NoImpersonation: true}}, &bob, by,
		},
		"other users": {
			tunnelclient.Policy{},
			[]tunnelclient.Policy{
				{AllowSystem: true, By: by, ImpersonatedUsers: []string{"bob"}},
				{AllowSystem: true, By: by, ImpersonatedUsers: []string{"carol"}},
			},
			&bob, by,
		},
		"other groups": {
			tunnelclient.Policy{}, []tunnelclient.Policy{{AllowSystem: true, By: by, ImpersonatedGroups: []string{"dev"}}}, &bob, by,
		},
		"these": {
			tunnelclient.Policy{},
			[]tunnelclient.Policy{
				{AllowSystem: true, By: by, ImpersonatedUsers: []string{"bob"}, ImpersonatedGroups: []string{"ops"}},
			},
			&bob, "",
		},
		"Kubernetes' own, by the flags": {
			tunnelclient.Policy{},
			[]tunnelclient.Policy{{AllowSystem: true, By: by}},
			&muxhttp.Impersonated{User: "system:kube-scheduler"}, "belongs to Kubernetes itself",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			allowed := (&reviewer{
				allowed: []string{"users bob", "groups ops", "users system:kube-scheduler"},
			}).ServeHTTP
			startAlso(t, h, newAPI(t, allowed).URL, tc.flags, func() []tunnelclient.Policy { return tc.also })
			resp, body := get(t, next(t, h), as(*tc.as), "/api", nil)
			if tc.want == "" && resp.StatusCode != http.StatusOK ||
				tc.want != "" && (resp.StatusCode != http.StatusForbidden || !strings.Contains(body, tc.want)) {
				t.Errorf("%s %s", resp.Status, body)
			}
		})
	}
	readOnly := false
	h := newHub(t)
	startAlso(t, h, newAPI(t, echo).URL, tunnelclient.Policy{},
		func() []tunnelclient.Policy {
			return []tunnelclient.Policy{{AllowSystem: true, By: by, ReadOnly: readOnly}}
		})
	s := next(t, h)
	if resp, body := get(t, s, alice, "/api/v1/secrets", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("before: %s %s", resp.Status, body)
	}
	readOnly = true
	if resp, body := get(t, s, alice, "/api/v1/secrets", nil); resp.StatusCode != http.StatusForbidden ||
		!strings.Contains(body, by) {
		t.Errorf("after: %s %s", resp.Status, body)
	}
}
