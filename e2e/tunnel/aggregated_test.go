package tunnel

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// aggregatedGroup is what the cluster's API server leaves to another one.
const aggregatedGroup = "aggregated.fairlead.dev"

// newAggregated is that other one. The API server has one object, which says who asks for what.
func newAggregated() *httptest.Server {
	const root = "/apis/" + aggregatedGroup + "/v1"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[`+
			`{"name":"callers","singularName":"caller","namespaced":false,"kind":"Caller","verbs":["get"]}]}`,
			aggregatedGroup+"/v1")
	})
	mux.HandleFunc("GET "+root+"/callers/me", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "Caller", "apiVersion": aggregatedGroup + "/v1", "metadata": map[string]any{"name": "me"},
			"user": r.Header.Get("X-Remote-User"), "groups": r.Header.Values("X-Remote-Group"), "query": r.URL.RawQuery,
		})
	})
	return httptest.NewTLSServer(mux)
}

// aggregate makes the cluster's API server hand requests to the other one, and waits until it tells of it.
func aggregate(ctx context.Context, to *httptest.Server) error {
	port := to.URL[strings.LastIndex(to.URL, ":")+1:]
	_, err := world.kube.Kubectl(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: aggregated, namespace: many}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[1]s}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.%[2]s}
spec:
  group: %[2]s
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {name: aggregated, namespace: many, port: %[1]s}
`, port, aggregatedGroup), "apply", "--server-side", "-f", "-")
	if err != nil {
		return err
	}
	for began := time.Now(); ; {
		kinds, err := world.kube.Kubectl(ctx, "", "api-resources", "--cached=false", "--api-group="+aggregatedGroup,
			"-o", "name")
		if err == nil && strings.Contains(kinds, "callers") {
			return nil
		}
		if time.Since(began) > patience || ctx.Err() != nil {
			return fmt.Errorf("the API server does not tell of %s: %q %w", aggregatedGroup, kinds, err)
		}
	}
}
