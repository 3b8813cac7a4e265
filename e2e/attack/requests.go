package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// request is one that a person sends to a cluster, byte for byte.
type request struct {
	name, cve string
	line      string // method and target
	fields    string // further ones, with line ends
	body      string
	// codes that refuse it.
	codes []int
	// served: it may be answered with 200, but with nothing of the victim's and as nobody else.
	served bool
}

// requests are attacks on the way from people to clusters. The requests come from a person who may look at cluster b,
// secrets left out.
func requests() (attacks []Attack) {
	const cluster = "/clusters/b"
	refused := []int{400, 401, 403, 404, 405, 501}
	upgrade := "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
	socket := "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	pods := cluster + "/api/v1/namespaces/victim/pods/x"
	list := []request{
		{name: "another cluster than that of the grant", line: "GET /clusters/a/api/v1/namespaces/victim/configmaps", codes: []int{403, 404}},
		{name: "secrets by a viewer", line: "GET " + cluster + "/api/v1/namespaces/victim/secrets", codes: []int{403}},
		{name: "secrets as a table", line: "GET " + cluster + "/api/v1/namespaces/victim/secrets/mine", fields: "Accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\n", codes: []int{403}},
		{name: "secrets by a watch on the old path", line: "GET " + cluster + "/api/v1/watch/namespaces/victim/secrets", codes: []int{403, 404}},
		{name: "secrets in a field selector of all kinds", line: "GET " + cluster + "/api/v1/secrets?fieldSelector=metadata.name%3Dmine&limit=1", codes: []int{403}},
		{name: "token of a service account", line: "POST " + cluster + "/api/v1/namespaces/default/serviceaccounts/default/token", body: `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`, codes: []int{403}},
		{name: "exec by GET as a viewer", cve: "CVE-2018-1002105", line: "GET " + pods + "/exec?command=sh&stdin=true&stdout=true", fields: socket, codes: refused},
		{name: "exec by POST as a viewer", line: "POST " + pods + "/exec?command=sh", fields: upgrade, codes: refused},
		{name: "attach as a viewer", line: "GET " + pods + "/attach?stdin=true", fields: socket, codes: refused},
		{name: "port-forward as a viewer", line: "GET " + pods + "/portforward?ports=80", fields: socket, codes: refused},
		{name: "a node's own API through the proxy", line: "GET " + cluster + "/api/v1/nodes/x/proxy/run/victim/x/x?cmd=id", codes: refused},
		{name: "a node's own API by an upgrade", cve: "CVE-2018-1002105", line: "GET " + cluster + "/api/v1/nodes/x/proxy/exec/victim/x/x?command=id", fields: socket, codes: refused},
		{name: "services' proxy as a viewer", line: "GET " + cluster + "/api/v1/namespaces/victim/services/https:x:443/proxy/", codes: refused},
		{name: "the old proxy path", line: "GET " + cluster + "/api/v1/proxy/namespaces/victim/services/x/", codes: refused},
		{name: "a virtual machine's console", line: "GET " + cluster + "/apis/subresources.kubevirt.io/v1/namespaces/victim/virtualmachineinstances/x/console", fields: socket, codes: refused},
		{name: "a virtual machine's screen", line: "GET " + cluster + "/apis/subresources.kubevirt.io/v1/namespaces/victim/virtualmachineinstances/x/vnc", codes: refused},
		{name: "containers added to a pod", line: "PATCH " + pods + "/ephemeralcontainers", fields: "Content-Type: application/strategic-merge-patch+json\r\n", body: `{"spec":{"ephemeralContainers":[]}}`, codes: refused},
		{name: "a delete of all as a viewer", line: "DELETE " + cluster + "/api/v1/namespaces/victim/configmaps", codes: []int{403}},
		{name: "a delete under another method's name", line: "POST " + cluster + "/api/v1/namespaces/victim/configmaps/mine", fields: "X-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: DELETE\r\n", codes: refused},
		{name: "an eviction as a viewer", line: "POST " + pods + "/eviction", body: `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"x"}}`, codes: []int{403}},
		{name: "a binding of cluster-admin as a viewer", line: "POST " + cluster + "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`, codes: []int{403}},
		{name: "impersonation of system:masters", cve: "CVE-2021-31999", line: "GET " + cluster + "/api/v1/namespaces/victim/secrets", fields: "Impersonate-User: system:admin\r\nImpersonate-Group: system:masters\r\n", codes: []int{400, 403}},
		{name: "impersonation without a user", cve: "CVE-2023-48312", line: "GET " + cluster + "/api/v1/namespaces/victim/configmaps", fields: "Impersonate-Group: system:masters\r\nImpersonate-Uid: 0\r\nImpersonate-Extra-Scopes: x\r\n", codes: []int{400, 403}},
		{name: "impersonation named by Connection", cve: "CVE-2021-31999", line: "GET " + cluster + "/api/v1/namespaces/victim/secrets", fields: "Impersonate-User: system:admin\r\nConnection: Impersonate-User, Authorization\r\n", codes: []int{400, 401, 403}},
		{name: "impersonation with an underscore", line: "GET " + cluster + "/api/v1/namespaces/victim/secrets", fields: "Impersonate_User: system:admin\r\nImpersonate_Group: system:masters\r\n", codes: []int{400, 403}},
		{name: "fields of an authenticating proxy", cve: "CVE-2026-20896", line: "GET " + cluster + "/api/v1/namespaces/victim/secrets", fields: "X-Remote-User: ada\r\nX-Remote-Group: system:masters\r\nX-Remote-Extra-Scopes: x\r\n", codes: []int{400, 403}},
		{name: "fields of the relay between replicas", cve: "CVE-2026-20896", line: "GET /relay/b/api/v1/namespaces/victim/secrets", fields: "Fairlead-User: eyJuYW1lIjoiYWRhIn0\r\nFairlead-Relay: 1\r\n", codes: []int{400, 403, 404}},
		{name: "a path with two slashes", line: "GET " + cluster + "//api/v1/namespaces/victim/secrets", codes: refused},
		{name: "a path with dots", line: "GET " + cluster + "/api/v1/namespaces/x/configmaps/../../victim/secrets/mine", codes: refused},
		{name: "a path with escaped dots", line: "GET " + cluster + "/api/v1/namespaces/x/%2e%2e/victim/secrets", codes: refused},
		{name: "a path with dots escaped twice", line: "GET " + cluster + "/api/v1/namespaces/x/%252e%252e/victim/secrets", codes: refused},
		{name: "a path with escaped slashes", line: "GET " + cluster + "/api/v1/namespaces%2fvictim%2fsecrets", codes: refused},
		{name: "a path with backslashes", line: "GET " + cluster + "\\..\\a\\api\\v1\\namespaces\\victim\\secrets", codes: refused},
		{name: "a path that leaves the cluster for another", line: "GET " + cluster + "/../a/api/v1/namespaces/victim/configmaps", codes: refused},
		{name: "a path with a zero", line: "GET " + cluster + "/api/v1/namespaces/victim/secrets%00", codes: refused},
		{name: "a path with a line end", line: "GET " + cluster + "/api/v1/namespaces/victim/configmaps%0d%0aImpersonate-User:%20ada", codes: refused},
		{name: "CONNECT to the API server", line: "CONNECT 127.0.0.1:6443", codes: refused},
		{name: "an absolute URL of another host", line: "GET https://127.0.0.1:6443/api/v1/namespaces/victim/secrets", codes: refused},
		{name: "two lengths", cve: "CVE-2025-22871", line: "POST " + cluster + "/api/v1/namespaces/victim/configmaps?dryRun=All", fields: "Content-Length: 0\r\nContent-Length: 5\r\n", codes: refused},
		{name: "a request behind an upgrade that fails", cve: "CVE-2018-1002105", line: "GET " + cluster + "/api/v1/namespaces", fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n", body: "GET /api/v1/namespaces/victim/secrets HTTP/1.1\r\nHost: kubernetes\r\n\r\n", served: true, codes: refused},
		{name: "a WebSocket with the token in its protocol", line: "GET " + cluster + "/api/v1/namespaces/victim/configmaps?watch=true", fields: socket + "Origin: https://evil.example\r\nSec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.TOKEN, v4.channel.k8s.io\r\nAuthorization: none\r\n", codes: []int{400, 401, 403}},
		{name: "a cookie from another site", cve: "CVE-2024-22424", line: "GET " + cluster + "/api/v1/namespaces", fields: "Cookie: __Host-fairlead=TOKEN\r\nOrigin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nAuthorization:\r\n", codes: []int{400, 401, 403}},
	}
	for _, r := range list {
		a := Attack{Name: "request: " + r.name, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.request(ctx, r) }}
		if r.cve != "" {
			a.CVE = []string{r.cve}
		}
		attacks = append(attacks, a)
	}
	return append(
		attacks,
		Attack{Name: "administrator as system:masters", CVE: []string{"CVE-2021-31999"}, Part: agent, Run: func(ctx context.Context, t *Try) (string, error) {
			who := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
			a, err := t.send(ctx, http.MethodPost, t.world.Hub[tunnel]+"/clusters/a/apis/authentication.k8s.io/v1/selfsubjectreviews", t.world.callers.admin, strings.NewReader(who),
				"Content-Type", "application/json", "Impersonate-User", "system:admin", "Impersonate-Group", "system:masters", "Impersonate-Uid", "0")
			if err != nil {
				return "", err
			}
			return a.want(http.StatusForbidden, http.StatusBadRequest)
		}},
		Attack{Name: "agent's token at the tunnel as a person", Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.noPerson(ctx, t.world.evil.token)
		}},
		Attack{Name: "services' tokens at the tunnel as a person", CVE: []string{"CVE-2024-5798"}, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) {
			var said []string
			for role, token := range t.world.callers.services {
				answer, err := t.noPerson(ctx, token)
				if err != nil {
					return answer, fmt.Errorf("the token of %s: %w", role, err)
				}
				said = append(said, answer)
			}
			return said[0], nil
		}},
	)
}

// noPerson asks for a cluster with a token that is nobody's.
func (t *Try) noPerson(ctx context.Context, token string) (string, error) {
	var last Answer
	for _, cluster := range []string{"a", "b", "evil"} {
		for _, door := range []string{"/clusters/", "/relay/"} {
			a, err := t.get(ctx, t.world.Hub[tunnel]+door+cluster+"/api/v1/namespaces/victim/secrets", token)
			if err != nil {
				return "", err
			}
			if err := silentOf(a.Body, t.world.planted.object); err != nil {
				return a.String(), err
			}
			if door == "/relay/" && token == t.world.callers.services[tunnel] {
				continue // its door: what it may say there is in the relay's own tests
			}
			if a.Code != http.StatusForbidden && a.Code != http.StatusUnauthorized {
				return a.String(), fmt.Errorf("%s%s is not forbidden", door, cluster)
			}
			last = a
		}
	}
	return last.String(), nil
}

// request sends a request as a viewer of cluster b.
func (t *Try) request(ctx context.Context, r request) (string, error) {
	good, err := t.get(ctx, t.world.Hub[tunnel]+"/clusters/b/api/v1/namespaces/victim/configmaps", t.world.callers.reader)
	if err != nil || good.Code != http.StatusOK {
		return good.String(), fmt.Errorf("what the reader may see is refused, so that this tries nothing: %w", err)
	}
	fields := r.fields
	if !strings.Contains(fields, "Authorization:") {
		fields += "Authorization: Bearer TOKEN\r\n"
	}
	if r.body != "" && !strings.Contains(fields, "Upgrade") {
		fields += fmt.Sprintf("Content-Length: %d\r\n", len(r.body))
		if !strings.Contains(fields, "Content-Type") {
			fields += "Content-Type: application/json\r\n"
		}
	}
	raw := r.line + " HTTP/1.1\r\nHost: hub\r\n" + strings.ReplaceAll(fields, "TOKEN", t.world.callers.reader) + "\r\n" + r.body
	answers, err := t.say(ctx, tunnel, raw)
	if err != nil {
		return "", err
	}
	for i, a := range answers {
		if strings.Contains(a.Body, "SecretList") {
			return summed(answers), errors.New("secrets came back")
		}
		switch {
		case r.served && i == 0 && a.Code == http.StatusOK && !strings.Contains(a.Body, t.world.planted.secret):
		case !slices.Contains(append(r.codes, 400, 431), a.Code):
			return summed(answers), fmt.Errorf("the status is %d, not %v", a.Code, r.codes)
		}
	}
	return summed(answers), nil
}
