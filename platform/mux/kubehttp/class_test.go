package kubehttp_test

import (
	"net/url"
	"strings"
	"testing"

	"fairlead.dev/platform/mux/kubehttp"
)

func TestClassOfRequests(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]kubehttp.Class{
		"GET /api/v1/namespaces/x/pods":         kubehttp.Read,
		"GET /api/v1/namespaces/x/pods/web/log": kubehttp.Read,
		"HEAD /api/v1/nodes":                    kubehttp.Read,
		"GET /apis/apps/v1/deployments?watch=1": kubehttp.Read,
		"GET /openapi/v3":                       kubehttp.Read,
		"GET /":                                 kubehttp.Read,
		"GET /healthz":                          kubehttp.Read,
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews":                           kubehttp.Read,
		"POST /apis/authentication.k8s.io/v1/selfsubjectreviews":                                kubehttp.Read,
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews":                               kubehttp.Write,
		"PATCH /apis/apps/v1/namespaces/x/deployments/web":                                      kubehttp.Write,
		"DELETE /api/v1/namespaces/x/pods":                                                      kubehttp.Write,
		"POST /api/v1/namespaces/x/pods/web/eviction":                                           kubehttp.Write,
		"OPTIONS /api/v1/pods":                                                                  kubehttp.Write,
		"BREW /healthz":                                                                         kubehttp.Write,
		"POST /api/v1/namespaces/x/pods/web/exec":                                               kubehttp.Exec,
		"GET /api/v1/namespaces/x/pods/web/exec?command=sh":                                     kubehttp.Exec,
		"GET /api/v1/namespaces/x/pods/web/attach":                                              kubehttp.Exec,
		"GET /api/v1/namespaces/x/pods/web/portforward":                                         kubehttp.Exec,
		"GET /api/v1/namespaces/x/pods/web:80/proxy/any/where":                                  kubehttp.Exec,
		"GET /api/v1/namespaces/x/services/web/proxy/":                                          kubehttp.Exec,
		"GET /api/v1/nodes/n/proxy/exec":                                                        kubehttp.Exec,
		"PATCH /api/v1/namespaces/x/pods/web/ephemeralcontainers":                               kubehttp.Exec,
		"GET /apis/subresources.kubevirt.io/v1/x/vms/proxy/proxy":                               kubehttp.Exec,
		"GET /debug/pprof":                                                                      kubehttp.Exec,
		"GET /logs/kube-apiserver.log":                                                          kubehttp.Exec,
		"GET /api/v1/secrets":                                                                   kubehttp.Secrets,
		"GET /api/v1/namespaces/x/secrets/s":                                                    kubehttp.Secrets,
		"GET /api/v1/watch/secrets":                                                             kubehttp.Secrets,
		"GET /api/v1/watch/namespaces/x/secrets":                                                kubehttp.Secrets,
		"POST /api/v1/namespaces/x/secrets":                                                     kubehttp.Secrets,
		"POST /api/v1/namespaces/x/serviceaccounts/default/token":                               kubehttp.Secrets,
		"GET /apis/example.com/v1/namespaces/x/secrets":                                         kubehttp.Secrets,
		"GET /api//v1/secrets":                                                                  kubehttp.Secrets,
		"GET /api/v1//namespaces/x/pods":                                                        kubehttp.Secrets,
		"GET /api/v1/namespaces/x/pods/web%2Fexec":                                              kubehttp.Exec,
		"GET /api/v1/namespaces/x%2Fsecrets":                                                    kubehttp.Secrets,
		"GET /api/v1/proxy/namespaces/x/pods/web":                                               kubehttp.Exec, // gone from Kubernetes since 1.10
		"GET /apis/subresources.kubevirt.io/v1/namespaces/x/virtualmachineinstances/vm/console": kubehttp.Exec,
		"GET /apis/subresources.kubevirt.io/v1/namespaces/x/virtualmachineinstances/vm/vnc":     kubehttp.Exec,
		"GET /apis/example.com/v1/namespaces/x/boats/b/cabin/door":                              kubehttp.Exec,
		"GET /apis/apps/v1/namespaces/x/deployments/web/scale":                                  kubehttp.Read,
		"GET /apis/example.com/v1/namespaces/x/boats/b/status":                                  kubehttp.Read,
		"GET /api/v1/namespaces/x/status":                                                       kubehttp.Read,
		"GET /apis/custom.metrics.k8s.io/v1beta1/namespaces/x/pods/web/requests":                kubehttp.Read,
		"PUT /api/v1/namespaces/x/finalize":                                                     kubehttp.Write,
		"GET /api/v1/namespaces/x/serviceaccounts/default":                                      kubehttp.Read,
		"GET /apis/metrics.k8s.io/v1beta1/namespaces/x/pods":                                    kubehttp.Read,
		"POST /apis/authentication.k8s.io/v1/tokenreviews":                                      kubehttp.Write,
		"GET /api/v1/namespaces/secrets/pods":                                                   kubehttp.Read,
		"CONNECT /api/v1/namespaces/x/pods/web/exec":                                            kubehttp.Exec,
		"GET /apis/authorization.k8s.io/v1/selfsubjectaccessreviews":                            kubehttp.Read,
		"GET /api/v1/namespaces/x/pods/web/exec/trailing":                                       kubehttp.Exec,
		"DELETE /apis/certificates.k8s.io/v1/certificatesigningrequests":                        kubehttp.Write,
		"GET /apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval":                kubehttp.Read,
		"PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval":                kubehttp.Secrets,
		"GET /apis/example.com/v1/namespaces/x/boats/b/approval":                                kubehttp.Exec,
		"GET /api/v1/namespaces/x/pods/web/resize":                                              kubehttp.Read,
		"PATCH /api/v1/namespaces/x/pods/web/resize":                                            kubehttp.Write,
		"GET /apis/example.com/v1/namespaces/x/pods/web/resize":                                 kubehttp.Exec,
		"POST /api/v1/proxy/namespaces/x/services/web/run":                                      kubehttp.Exec,
		"DELETE /api/v1/proxy/nodes/n/run":                                                      kubehttp.Exec,
		"GET /apis/example.com/v1/proxies/p":                                                    kubehttp.Read,
	} {
		method, target, _ := strings.Cut(request, " ")
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := kubehttp.ClassOf(method, u.Path, kubehttp.InfoOf(method, u.Path, u.Query())); got != want {
			t.Errorf("%s: got %v, want %v", request, got, want)
		}
	}
}
