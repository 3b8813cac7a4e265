package backend_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"fairlead.dev/platform/kubetest"
	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/backend/backendtest"
)

var kube kubetest.Shared

func TestMain(m *testing.M) { os.Exit(kube.Run(m)) }

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := kube.Cluster(t).Kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// account makes a service account for the Secrets and ConfigMaps of a namespace, and returns its token.
func account(t *testing.T, namespace, verbs string) string {
	t.Helper()
	kubectl(t, "", "create", "namespace", namespace)
	kubectl(t, "", "-n", namespace, "create", "serviceaccount", "reader")
	kubectl(t, "", "-n", namespace, "create", "role", "reader", "--verb="+verbs, "--resource=secrets,configmaps")
	kubectl(t, "", "-n", namespace, "create", "rolebinding", "reader", "--role=reader",
		"--serviceaccount="+namespace+":reader")
	return strings.TrimSpace(kubectl(t, "", "-n", namespace, "create", "token", "reader"))
}

func authority(t *testing.T) string {
	t.Helper()
	text := kubectl(t, "", "config", "view", "--raw", "-o",
		"jsonpath={.clusters[0].cluster.certificate-authority-data}")
	ca, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(ca)
}

// request writes to a server that the test has.
func request(ctx context.Context, token, ca, method, url string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header = http.Header{
		"Authorization": {"Bearer " + token}, "X-Vault-Token": {token}, "Content-Type": {"application/json"},
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %d %.300s", method, url, resp.StatusCode, answer)
	}
	return nil
}

func TestKubernetesKeepsTheContract(t *testing.T) {
	t.Parallel()
	for kind, field := range map[string]string{"secret": "stringData", "configmap": "data"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			backendtest.Run(t, func(t *testing.T) backendtest.Subject {
				t.Helper()
				namespace := "contract-" + kind
				token := account(t, namespace, "get,create,update,delete")
				b, err := backend.NewKubernetes(backend.Kubernetes{
					Addresses: thisMachine(), Server: kube.Cluster(t).Server,
					Credentials: map[string]string{"token": token, "ca.crt": authority(t)},
				})
				if err != nil {
					t.Fatal(err)
				}
				// Faster than kubectl, which is a process each time.
				call := func(ctx context.Context, method, path string, body any) error {
					return request(ctx, token, authority(t), method,
						kube.Cluster(t).Server+"/api/v1/namespaces/"+namespace+"/"+kind+"s"+path, body)
				}
				name := func(path string) string { return path[strings.LastIndex(path, "/")+1:] }
				return backendtest.Subject{
					Backend: b, Credentials: []string{token},
					Path: func(name string) string { return kind + "/" + namespace + "/" + name },
					Put: func(ctx context.Context, path string, values backend.Values) error {
						object := map[string]any{
							"apiVersion": "v1", "kind": map[string]string{
								"secret": "Secret", "configmap": "ConfigMap",
							}[kind],
							"metadata": map[string]string{"name": name(path)}, field: values,
						}
						if call(ctx, http.MethodPut, "/"+name(path), object) == nil {
							return nil
						}
						return call(ctx, http.MethodPost, "", object)
					},
					Remove: func(ctx context.Context, path string) error {
						return call(ctx, http.MethodDelete, "/"+name(path), nil)
					},
				}
			})
		})
	}
}

func TestKubernetesIsReadByAKubeconfig(t *testing.T) {
	t.Parallel()
	kubeconfig, err := os.ReadFile(kube.Cluster(t).Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "", "create", "namespace", "config")
	kubectl(t, `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "config"}, "data": {"password": "aHVudGVyMg==", "binary": "/w=="}}`, "create", "-f", "-")
	b, err := backend.NewKubernetes(backend.Kubernetes{
		Addresses: thisMachine(), Namespaces: []string{"config"},
		Credentials: map[string]string{"kubeconfig": string(kubeconfig)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Read(t.Context(), "secret/config/db"); err != nil || len(got) != 1 ||
		got["password"] != "hunter2" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := b.Read(t.Context(), "secret/kube-system/db"); !errors.Is(err, backend.ErrPath) ||
		!strings.Contains(err.Error(), "kube-system") {
		t.Errorf("got %v", err)
	}
}

func TestKubernetesSaysWhatItMayNot(t *testing.T) {
	t.Parallel()
	token := account(t, "refused", "get")
	server := kube.Cluster(t).Server
	open := func(token, ca string) backend.Backend {
		t.Helper()
		b, err := backend.NewKubernetes(backend.Kubernetes{
			Addresses: thisMachine(), Server: server, Credentials: map[string]string{"token": token, "ca.crt": ca},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for want, of := range map[string]struct {
		backend backend.Backend
		path    string
	}{
		"does not let us read secret db of namespace default (403)": {open(token, authority(t)), "secret/default/db"},
		"does not let us read secret db of namespace refused (401)": {
			open("another-token", authority(t)), "secret/refused/db",
		},
		"certificate": {open(token, ""), "secret/refused/db"},
	} {
		_, err := of.backend.Read(t.Context(), of.path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "another-token") ||
			strings.Contains(err.Error(), token) {
			t.Errorf("got %v, want %s", err, want)
		}
		if errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPath) {
			t.Errorf("%v counts as an answer", err)
		}
	}
}

// A server before a cluster answers 404, too, and does not say that a Secret was deleted.
func TestOnlyKubernetesSaysThatNothingIsThere(t *testing.T) {
	t.Parallel()
	for answer, gone := range map[string]bool{
		`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`: true,
		`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}`:                       false,
		`{"reason": "NotFound"}`:                false,
		`{"type": "error", "code": "NotFound"}`: false,
		"404 page not found\n":                  false,
		"default backend - 404":                 false,
		"":                                      false,
	} {
		srv, _ := counted(t, notFound(answer))
		b, err := byAddress(srv.URL, thisMachine())["kubernetes"]()
		if err != nil {
			t.Fatal(err)
		}
		expectGone(t, b, "secret/default/db", answer, gone)
	}
}
