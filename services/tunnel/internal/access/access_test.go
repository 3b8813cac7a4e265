package access_test

import (
	"net/url"
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/services/tunnel/internal/access"
)

func TestClassOfRequests(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]access.Class{
		"GET /api/v1/namespaces/x/pods":         access.Read,
		"GET /api/v1/namespaces/x/pods/web/log": access.Read,
		"HEAD /api/v1/nodes":                    access.Read,
		"GET /apis/apps/v1/deployments?watch=1": access.Read,
		"GET /openapi/v3":                       access.Read,
		"GET /":                                 access.Read,
		"GET /healthz":                          access.Read,
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews":    access.Read,
		"POST /apis/authentication.k8s.io/v1/selfsubjectreviews":         access.Read,
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews":        access.Write,
		"PATCH /apis/apps/v1/namespaces/x/deployments/web":               access.Write,
		"DELETE /api/v1/namespaces/x/pods":                               access.Write,
		"POST /api/v1/namespaces/x/pods/web/eviction":                    access.Write,
		"OPTIONS /api/v1/pods":                                           access.Write,
		"BREW /healthz":                                                  access.Write,
		"POST /api/v1/namespaces/x/pods/web/exec":                        access.Exec,
		"GET /api/v1/namespaces/x/pods/web/exec?command=sh":              access.Exec,
		"GET /api/v1/namespaces/x/pods/web/attach":                       access.Exec,
		"GET /api/v1/namespaces/x/pods/web/portforward":                  access.Exec,
		"GET /api/v1/namespaces/x/pods/web:80/proxy/any/where":           access.Exec,
		"GET /api/v1/namespaces/x/services/web/proxy/":                   access.Exec,
		"GET /api/v1/nodes/n/proxy/exec":                                 access.Exec,
		"PATCH /api/v1/namespaces/x/pods/web/ephemeralcontainers":        access.Exec,
		"GET /apis/subresources.kubevirt.io/v1/x/vms/proxy/proxy":        access.Exec,
		"GET /debug/pprof":                                               access.Exec,
		"GET /logs/kube-apiserver.log":                                   access.Exec,
		"GET /api/v1/secrets":                                            access.Secrets,
		"GET /api/v1/namespaces/x/secrets/s":                             access.Secrets,
		"GET /api/v1/watch/secrets":                                      access.Secrets,
		"GET /api/v1/watch/namespaces/x/secrets":                         access.Secrets,
		"POST /api/v1/namespaces/x/secrets":                              access.Secrets,
		"POST /api/v1/namespaces/x/serviceaccounts/default/token":        access.Secrets,
		"GET /apis/example.com/v1/namespaces/x/secrets":                  access.Secrets,
		"GET /api//v1/secrets":                                           access.Secrets,
		"GET /api/v1//namespaces/x/pods":                                 access.Secrets,
		"GET /api/v1/namespaces/x/pods/web%2Fexec":                       access.Exec,
		"GET /api/v1/namespaces/x%2Fsecrets":                             access.Secrets,
		"GET /api/v1/proxy/namespaces/x/pods/web":                        access.Read, // gone from Kubernetes since 1.10
		"PUT /api/v1/namespaces/x/finalize":                              access.Write,
		"GET /api/v1/namespaces/x/serviceaccounts/default":               access.Read,
		"GET /apis/metrics.k8s.io/v1beta1/namespaces/x/pods":             access.Read,
		"POST /apis/authentication.k8s.io/v1/tokenreviews":               access.Write,
		"GET /api/v1/namespaces/secrets/pods":                            access.Read,
		"CONNECT /api/v1/namespaces/x/pods/web/exec":                     access.Exec,
		"GET /apis/authorization.k8s.io/v1/selfsubjectaccessreviews":     access.Read,
		"GET /api/v1/namespaces/x/pods/web/exec/trailing":                access.Exec,
		"DELETE /apis/certificates.k8s.io/v1/certificatesigningrequests": access.Write,
	} {
		method, target, _ := strings.Cut(request, " ")
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := access.ClassOf(method, u.Path, kubehttp.InfoOf(method, u.Path, u.Query())); got != want {
			t.Errorf("%s: got %v, want %v", request, got, want)
		}
	}
}

func grant(name, role string, clusters *consolev1.GrantClusters, subjects ...string) *consolev1.Grant {
	g := &consolev1.Grant{Metadata: &consolev1.Metadata{Name: name}, Spec: &consolev1.GrantSpec{Role: role, Clusters: clusters}}
	for _, s := range subjects {
		if user, ok := strings.CutPrefix(s, "user:"); ok {
			g.Spec.Subjects = append(g.Spec.Subjects, &consolev1.GrantSubject{Subject: &consolev1.GrantSubject_User{User: user}})
		} else {
			g.Spec.Subjects = append(g.Spec.Subjects, &consolev1.GrantSubject{Subject: &consolev1.GrantSubject_Group{Group: s}})
		}
	}
	return g
}

func TestGrantsAllowNoMoreThanTheySay(t *testing.T) {
	t.Parallel()
	cluster := &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "edge-1", Labels: map[string]string{"env": "prod", "zone": "a"}}}
	here := &consolev1.GrantClusters{Names: []string{"edge-0", "edge-1"}}
	user := func(name string, groups ...string) identity.Identity {
		return identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups}
	}
	for name, tc := range map[string]struct {
		user   identity.Identity
		class  access.Class
		grants []*consolev1.Grant
		want   string // part of the refusal; empty: allowed
	}{
		"nobody":              {user("bob"), access.Read, nil, "may not read here: that needs a grant with role viewer, and no grant"},
		"admin":               {user("ada", identity.AdminsGroup), access.Secrets, nil, ""},
		"not quite admin":     {user("eve", "fairlead:admin", "Fairlead:admins"), access.Read, nil, "no grant"},
		"user":                {user("bob"), access.Read, []*consolev1.Grant{grant("g", "viewer", here, "user:bob")}, ""},
		"group of that name":  {user("eve", "bob"), access.Read, []*consolev1.Grant{grant("g", "viewer", here, "user:bob")}, "no grant"},
		"user of that name":   {user("dev"), access.Read, []*consolev1.Grant{grant("g", "viewer", here, "dev")}, "no grant"},
		"second group":        {user("bob", "x", "dev"), access.Write, []*consolev1.Grant{grant("g", "deployer", here, "ops", "dev")}, ""},
		"more than viewer":    {user("bob"), access.Write, []*consolev1.Grant{grant("g", "viewer", here, "user:bob")}, `grant "g" gives no more than role viewer`},
		"more than deployer":  {user("bob"), access.Exec, []*consolev1.Grant{grant("g", "deployer", here, "user:bob")}, "needs a grant with role operator"},
		"more than operator":  {user("bob"), access.Secrets, []*consolev1.Grant{grant("g", "operator", here, "user:bob")}, "needs a grant with role admin"},
		"admin by grant":      {user("bob"), access.Secrets, []*consolev1.Grant{grant("g", "admin", here, "user:bob")}, ""},
		"best of several":     {user("bob"), access.Exec, []*consolev1.Grant{grant("a", "viewer", here, "user:bob"), grant("b", "operator", here, "user:bob")}, ""},
		"other cluster":       {user("bob"), access.Read, []*consolev1.Grant{grant("g", "admin", &consolev1.GrantClusters{Names: []string{"edge-2"}}, "user:bob")}, "no grant"},
		"all clusters":        {user("bob"), access.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{All: true}, "user:bob")}, ""},
		"labels":              {user("bob"), access.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{Labels: map[string]string{"env": "prod", "zone": "a"}}, "user:bob")}, ""},
		"one label too many":  {user("bob"), access.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{Labels: map[string]string{"env": "prod", "x": ""}}, "user:bob")}, "no grant"},
		"chooses no cluster":  {user("bob"), access.Read, []*consolev1.Grant{grant("g", "viewer", &consolev1.GrantClusters{}, "user:bob")}, "no grant"},
		"role of a later hub": {user("bob"), access.Read, []*consolev1.Grant{grant("g", "auditor", here, "user:bob")}, "no grant"},
		"no subject":          {user(""), access.Read, []*consolev1.Grant{grant("g", "viewer", here)}, "no grant"},
	} {
		got := access.Check(tc.user, tc.class, cluster, tc.grants)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
