package attack

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	e2eagent "fairlead.dev/e2e/agent"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/mux/muxws"
)

// agents are attacks on agents: by who has a copy of one's data folder, by the tenants of its cluster, and by the
// servers that its cluster's API server asks.
func agents() []Attack {
	return []Attack{
		{Name: "agent's token and key, copied and renewed on two machines", Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.renewedTwice(ctx) }},
		{Name: "session with a copied token without its key", Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.copiedSession(ctx) }},
		{Name: "one agent's 64 MiB of reports at once", CVE: []string{"CVE-2022-31079"}, Part: distributor, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, distributor, 48, func() (string, error) { return t.hog(ctx, 0, 80) })
		}},
		{Name: "one agent's 2,000 connections", CVE: []string{"CVE-2022-31079"}, Part: distributor, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, distributor, 32, func() (string, error) { return t.connections(ctx, 2000) })
		}},
		// The memory is that of handshakes and new connections: the client dials for each call that finds no
		// connection.
		{Name: "one agent's 4,160 Syncs and 64 MiB of reports at once", CVE: []string{"CVE-2022-31079"}, Part: distributor, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, distributor, 96, func() (string, error) { return t.hog(ctx, 4160, 80) })
		}},
		{Name: "values of Secrets in diffs, annotations and events", CVE: []string{"CVE-2026-45737"}, Part: "agent-b", Run: func(ctx context.Context, t *Try) (string, error) { return t.diffLeak(ctx) }},
		{Name: "pod of a tenant that calls the agent", CVE: []string{"CVE-2020-8558"}, Part: agent, Run: func(ctx context.Context, t *Try) (string, error) { return t.fromAPod(ctx) }},
		{Name: "objects of others with a service's marks", Part: agent, Run: func(ctx context.Context, t *Try) (string, error) { return t.fakeOwner(ctx) }},
		{Name: "objects of a tenant that change 1,000 times a second", Part: agent, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, agent, 96, func() (string, error) { return t.storm(ctx) })
		}},
		{Name: "API server of a group that lies to the agent", CVE: []string{"CVE-2022-3172", "CVE-2026-40924"}, Part: agent, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, agent, 160, func() (string, error) { return t.lyingServer(ctx) })
		}},
		{Name: "API server of a group that falls silent", Part: agent, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) { return t.silentServer(ctx) }},
		{Name: "folder: lookup of 500 objects of 1 MiB", CVE: []string{"CVE-2026-40924"}, Part: agent, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, agent, 128, func() (string, error) { return t.lookupHeap(ctx) })
		}},
		{Name: "agent that is led to another hub", CVE: []string{"CVE-2025-67601"}, Part: agent, Run: func(ctx context.Context, t *Try) (string, error) { return t.swappedForAgent(ctx) }},
	}
}

// renew renews the token of an agent that the attacker has joined, by a request that is random with each holder.
func (t *Try) renew(ctx context.Context, token, request string) (Answer, error) {
	message, err := protojson.Marshal(&consolev1.RenewTokenRequest{Key: identitytest.AgentKey().ForRenewal(token, []byte(request))})
	if err != nil {
		return Answer{}, err
	}
	return t.call(ctx, console, identityService+"RenewToken", token, string(message))
}

// renewedTwice renews one token as two machines that both have the agent's data folder: the second is refused, and
// people are told.
func (t *Try) renewedTwice(ctx context.Context) (string, error) {
	const name, first, second = "copied-agent", "renewal-of-the-first-machine", "renewal-of-the-second-machine"
	c, err := t.world.join(ctx, name)
	if err != nil {
		return "", err
	}
	for range 2 { // the answer to the first may have been lost
		if a, err := t.renew(ctx, c.token, first); err != nil || a.Code != http.StatusOK {
			return a.String(), errors.Join(err, errors.New("the first machine is refused, so that this tries nothing"))
		}
	}
	a, err := t.renew(ctx, c.token, second)
	if err != nil {
		return "", err
	}
	if a.Code != http.StatusUnauthorized {
		return a.String(), errors.New("the second machine renews it, too")
	}
	return a.String(), t.until(ctx, func() (Answer, error) {
		seen := Answer{}
		var trail struct{ Events []json.RawMessage }
		if err := t.must(ctx, console, consoleV1+"AuditService/ListAuditEvents", t.world.callers.admin, map[string]any{"pageSize": 100, "filter": map[string]any{"action": "token.reuse", "cluster": name}}, &trail); err != nil {
			return seen, err
		}
		var told struct {
			Cluster struct{ Status struct{ TokenReuse string } }
		}
		if err := t.must(ctx, console, clusterService+"GetCluster", t.world.callers.admin, map[string]any{"name": name}, &told); err != nil {
			return seen, err
		}
		seen.Body = fmt.Sprintf("%d events in the trail, the cluster says %q", len(trail.Events), told.Cluster.Status.TokenReuse)
		if len(trail.Events) > 0 && told.Cluster.Status.TokenReuse != "" {
			seen.Code = http.StatusOK
		}
		return seen, nil
	}, http.StatusOK)
}

// copiedSession opens sessions for a cluster with the token of its agent, which was copied without the key.
func (t *Try) copiedSession(ctx context.Context) (string, error) {
	token, err := t.world.agentToken("b")
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.world.Hub[tunnel]+tunnelSessions+"Connect", http.NoBody)
	if err != nil {
		return "", err
	}
	good, err := t.carrier(ctx, token)
	if err != nil {
		return "", fmt.Errorf("with the key it is refused, so that this tries nothing: %w", err)
	}
	good.CloseWith(1000, "bye")
	req.Header.Set("Authorization", "Bearer "+token)
	conn, err := muxws.Dial(ctx, t.client, req.URL.String(), req.Header)
	if err == nil {
		conn.CloseWith(1000, "bye")
		return "", errors.New("it opens a session")
	}
	if refused, ok := errors.AsType[*muxws.RefusedError](err); !ok || refused.Status != http.StatusUnauthorized {
		return "", fmt.Errorf("it is refused otherwise: %w", err)
	}
	for range 20 {
		if a, err := t.get(ctx, t.world.Hub[tunnel]+"/clusters/b/api/v1/namespaces/default", t.world.callers.admin); err != nil || a.Code != http.StatusOK {
			return a.String(), errors.Join(err, errors.New("the agent's own session does not answer"))
		}
	}
	return err.Error(), nil
}

// hog makes so many Syncs and so many large reports of one agent at once.
func (t *Try) hog(ctx context.Context, syncs, calls int) (string, error) {
	var text []map[string]any
	for i := range 100 {
		text = append(text, map[string]any{"service": "hog", "sequence": fmt.Sprint(i + 1), "phase": "PHASE_DEGRADED", "message": strings.Repeat("x", 8190)})
	}
	reports, err := json.Marshal(map[string]any{"reports": text})
	if err != nil {
		return "", err
	}
	var asking sync.WaitGroup
	var mu sync.Mutex
	codes := map[string]map[int]int{"Sync": {}, "Report": {}}
	var wrong error
	ask := func(procedure, message string) {
		asking.Go(func() {
			a, err := t.call(ctx, distributor, deliveryService+procedure, t.world.evil.token, message)
			mu.Lock()
			defer mu.Unlock()
			codes[procedure][a.Code]++
			switch {
			case err != nil:
				wrong = err
			case a.Code == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "":
				wrong = fmt.Errorf("%s does not say when to come again: %s", procedure, a)
			case a.Code != http.StatusOK && a.Code != http.StatusServiceUnavailable && a.Code != http.StatusTooManyRequests:
				wrong = errors.New(a.String())
			}
		})
	}
	for range calls {
		ask("Report", string(reports))
	}
	for range syncs {
		ask("Sync", "{}")
	}
	asking.Wait()
	answer := fmt.Sprintf("%d Syncs answered with %v, %d reports of %d KiB with %v", syncs, codes["Sync"], calls, len(reports)>>10, codes["Report"])
	if codes["Sync"][http.StatusOK]+codes["Report"][http.StatusOK] == 0 {
		wrong = errors.Join(wrong, errors.New("none was served, so that this tries nothing"))
	}
	return answer, wrong
}

// connections opens so many connections, shows the identity of one agent on each, and keeps them.
func (t *Try) connections(ctx context.Context, n int) (string, error) {
	var opening errgroup.Group
	const atOnce, share = 32, 64
	opening.SetLimit(atOnce)
	var mu sync.Mutex
	var held []net.Conn
	codes := map[int]int{}
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	for range n {
		opening.Go(func() error {
			conn, err := t.dial(ctx, distributor, "http/1.1")
			if err != nil {
				return err
			}
			mu.Lock()
			held = append(held, conn)
			mu.Unlock()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.world.Hub[distributor]+deliveryService+"Sync", strings.NewReader("{}"))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", contentTypeProtocol)
			if err := errors.Join(t.world.authorize(req, t.world.evil.token), req.Write(conn)); err != nil {
				return err
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			mu.Lock()
			defer mu.Unlock()
			if codes[resp.StatusCode]++; resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
				return errors.New("it does not say when to come again")
			}
			return err
		})
	}
	err := opening.Wait()
	answer := fmt.Sprintf("%d connections, answered with %v", n, codes)
	switch within := n - codes[http.StatusTooManyRequests]; {
	case codes[http.StatusOK] == 0:
		err = errors.Join(err, errors.New("none was served, so that this tries nothing"))
	case within > share:
		err = errors.Join(err, fmt.Errorf("one agent has %d connections", within))
	}
	return answer, err
}

// diffLeak looks at a Secret that is to be changed, by all that tells of the change.
func (t *Try) diffLeak(ctx context.Context) (string, error) {
	const name = "diff-leak"
	const wanted, live, old = "xqwantedleak", "xqliveleak", "xqoldleak"
	base := base64.StdEncoding.EncodeToString
	secret := func(value string) string {
		applied := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"leak"},"stringData":{"password":%q}}`, value)
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata:\n  name: leak\n  annotations: {kubectl.kubernetes.io/last-applied-configuration: '%s'}\ndata: {password: %s}\n", applied, base([]byte(value)))
	}
	plain := func(value string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: leak}\ndata: {text: " + value + "}\n"
	}
	repo, err := t.world.Clone(ctx)
	if err != nil {
		return "", err
	}
	kube := t.world.Clusters[1].Kubeconfig
	if _, err := t.world.Kubectl(ctx, kube, "create", "namespace", name); err != nil {
		return "", err
	}
	if _, err := repo.Push(ctx, "a secret", map[string]string{name + "/a.yaml": secret(old) + plain("before")}); err != nil {
		return "", err
	}
	service := "apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {source: sample, path: " + name + ", cluster: b, namespace: " + name + ", sync: {mode: %s}}\n"
	if err := t.world.apply(ctx, fmt.Sprintf(service, "auto")); err != nil {
		return "", err
	}
	if err := t.awaitState(ctx, name, true); err != nil {
		return "", err
	}
	if err := t.world.apply(ctx, fmt.Sprintf(service, "dry-run")); err != nil {
		return "", err
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"stringData\":{\"password\":\"%[1]s\"}}"}},"stringData":{"password":%[1]q,"other":%[1]q}}`, live)
	if _, err := t.world.Kubectl(ctx, kube, "-n", name, "patch", "secret", "leak", "--type=merge", "-p", patch); err != nil {
		return "", err
	}
	if _, err := repo.Push(ctx, "another secret", map[string]string{name + "/a.yaml": secret(wanted) + plain("after")}); err != nil {
		return "", err
	}
	var secrets []string
	for _, value := range []string{wanted, live, old} {
		encoded := base([]byte(value))
		secrets = append(secrets, value, encoded, strings.TrimRight(encoded, "="), base([]byte(encoded)), hex.EncodeToString([]byte(value)))
	}
	diff := t.world.Hub[tunnel] + "/clusters/b/fairlead/v1/services/" + name + "/diff"
	err = process.Await(ctx, "the diff has the plain value", func(ctx context.Context) error {
		a, err := t.get(ctx, diff, t.world.callers.admin)
		if err != nil {
			return err
		}
		return errors.Join(says(a.Body, `"leak"`, "before", "after", "secret"), silentOf(a.Body, secrets...))
	})
	if err != nil {
		return "", fmt.Errorf("the diff by an administrator: %w", err)
	}
	looks := 0
	look := func(what, text string) error {
		looks++
		if err := silentOf(text, secrets...); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	for who, token := range map[string]string{"an administrator": t.world.callers.admin, "a reader": t.world.callers.reader, "a stranger": t.world.callers.stranger} {
		for _, url := range []string{diff, t.world.Hub[tunnel] + "/clusters/b/api/v1/namespaces/" + name + "/events", t.world.Hub[tunnel] + "/clusters/b/api/v1/namespaces/fairlead-system/configmaps"} {
			a, err := t.get(ctx, url, token)
			if err := errors.Join(err, look(who+" at "+url, a.Body)); err != nil {
				return a.String(), err
			}
		}
		for procedure, message := range map[string]map[string]any{
			serviceService + "GetService":                 {"name": name},
			consoleV1 + "ObjectService/ListObjects":       {"service": name},
			consoleV1 + "ObjectService/GetServiceDiff":    {"name": name},
			consoleV1 + "EventService/ListEvents":         {"pageSize": 500},
			consoleV1 + "RevisionService/ListDeployments": {"service": name},
			consoleV1 + "RevisionService/ListRevisions":   {"kind": "KIND_SERVICE", "name": name},
		} {
			a, err := t.call(ctx, console, procedure, token, message)
			if err := errors.Join(err, look(who+" at "+procedure, a.Body)); err != nil {
				return a.String(), err
			}
			if token == t.world.callers.admin && a.Code != http.StatusOK {
				return a.String(), fmt.Errorf("%s is refused to an administrator, so that this tries nothing", procedure)
			}
		}
	}
	printed, err := t.world.Fairlead(ctx, "diff", "service", name)
	if err != nil && strings.Contains(err.Error(), "exit status 2") { // there is a difference
		err = nil
	}
	log, lost := t.world.Process("agent-b").Log()
	return fmt.Sprintf("%d looks, the diff: %s", looks, printed), errors.Join(err, lost, look("the command line", printed), look("the agent's log", log))
}

// listeners are the addresses where a process listens.
func listeners(pid int) ([]string, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(strings.TrimPrefix(to, "socket:"), "[]")] = true
		}
	}
	var found []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			const listens, local, state, inode = "0A", 1, 3, 9
			fields := strings.Fields(line)
			if len(fields) <= inode || !own[fields[inode]] || strings.HasPrefix(table, "tcp") && fields[state] != listens {
				continue
			}
			host, port, _ := strings.Cut(fields[local], ":")
			bytes, err := hex.DecodeString(host)
			number, numbered := hex.DecodeString(port)
			if err != nil || numbered != nil || len(bytes)%4 != 0 || len(number) != 2 {
				return nil, fmt.Errorf("read %s: %q", table, line)
			}
			for word := range slices.Chunk(bytes, 4) {
				slices.Reverse(word)
			}
			found = append(found, table+" "+net.JoinHostPort(net.IP(bytes).String(), fmt.Sprint(int(number[0])<<8|int(number[1]))))
		}
	}
	return found, nil
}

// fromAPod calls all that the agent listens at, as another pod of its cluster can: there are probes, and nothing else.
func (t *Try) fromAPod(ctx context.Context) (string, error) {
	at, err := listeners(t.world.Process(agent).Pid())
	if err != nil {
		return "", err
	}
	address, ok := strings.CutPrefix(strings.Join(at, ", "), "tcp ")
	if len(at) != 1 || !ok {
		return fmt.Sprint(at), errors.New("the agent listens elsewhere than at its probes")
	}
	url := "http://" + address
	if a, err := t.get(ctx, url+"/metrics", t.world.metrics); err != nil || a.Code != http.StatusOK || !strings.Contains(a.Body, "fairlead_agent_") {
		return a.String(), errors.Join(err, errors.New("with the metrics token there are none, so that this tries nothing"))
	}
	names := append(t.world.planted.all(), "victim", t.world.Dir, strings.TrimPrefix(t.world.Hub[console], "https://"), "cluster-admin")
	for _, path := range []string{"/healthz", "/readyz", "/hubz"} {
		a, err := t.get(ctx, url+path, "")
		if err != nil {
			return "", err
		}
		const most = 200
		if err := silentOf(a.Body, names...); err != nil || a.Code != http.StatusOK && a.Code != http.StatusServiceUnavailable || len(a.Body) > most {
			return a.String(), errors.Join(err, fmt.Errorf("%s tells much", path))
		}
	}
	codes := map[int]int{}
	for _, path := range []string{
		"/", "/metrics", "/metrics/", "//metrics", "/%6detrics", "/healthz/../metrics", "/debug/pprof/", "/debug/vars", "/debug/logs", "/version", "/api/v1/secrets", "/apis", "/fairlead/v1/services/victim/diff",
		"/clusters/a/api/v1/secrets", "/relay/a/api", tunnelSessions + "Connect", deliveryService + "Sync", "/token", "/key", "/.git/config",
	} {
		for _, token := range []string{"", t.world.callers.admin, t.world.callers.services[tunnel], "x"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
				a, err := t.send(ctx, method, url+path, token, strings.NewReader("{}"), "Impersonate-User", "system:admin", "X-Remote-User", "ada", "Fairlead-Relay", "1", "X-Forwarded-For", "127.0.0.1")
				if err != nil {
					return "", err
				}
				if codes[a.Code]++; !slices.Contains([]int{http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusMovedPermanently, http.StatusTemporaryRedirect}, a.Code) || silentOf(a.Body, names...) != nil {
					return a.String(), fmt.Errorf("%s %s is answered", method, path)
				}
			}
		}
	}
	// Connections that say nothing are ended, and take no place from the kubelet's probes.
	const silent, patience = 200, 30 * time.Second
	var conns []net.Conn
	for range silent {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		conns = append(conns, conn)
	}
	if a, err := t.get(ctx, url+"/healthz", ""); err != nil || a.Code != http.StatusOK {
		return a.String(), errors.Join(err, errors.New("the probe is not answered beside silent connections"))
	}
	end := time.Now().Add(patience)
	for _, conn := range conns {
		_ = conn.SetReadDeadline(end) // never fails on an open connection
		if _, err := io.Copy(io.Discard, conn); isSilence(err) {
			return "", fmt.Errorf("a silent connection is open after %s", patience)
		}
	}
	return fmt.Sprintf("%s: answered with %v, %d silent connections were closed", at[0], codes, silent), nil
}

// neighbour is another service of cluster a, in a repository's folder of its own.
type neighbour struct {
	try    *Try
	repo   *stack.Repository
	name   string
	pushes int
}

// newNeighbour makes the service, and waits until it is applied.
func (t *Try) newNeighbour(ctx context.Context, name string) (*neighbour, error) {
	repo, err := t.world.Clone(ctx)
	if err != nil {
		return nil, err
	}
	n := &neighbour{try: t, repo: repo, name: name}
	if _, err := t.world.Kubectl(ctx, t.world.Clusters[0].Kubeconfig, "create", "namespace", name); err != nil {
		return nil, err
	}
	if _, err := n.push(ctx); err != nil {
		return nil, err
	}
	if err := t.world.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {source: sample, path: %[1]s, cluster: a, namespace: %[1]s}\n", name)); err != nil {
		return nil, err
	}
	return n, n.applied(ctx)
}

// push changes the service's object.
func (n *neighbour) push(ctx context.Context) (string, error) {
	n.pushes++
	text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: marker}\ndata: {text: \"push %d\"}\n", n.pushes)
	return n.repo.Push(ctx, "push", map[string]string{n.name + "/marker.yaml": text})
}

// applied waits until the last push is in the cluster.
func (n *neighbour) applied(ctx context.Context) error {
	want := fmt.Sprintf("push %d", n.pushes)
	return process.Await(ctx, n.name+" is applied", func(ctx context.Context) error {
		out, err := n.try.world.Kubectl(ctx, n.try.world.Clusters[0].Kubeconfig, "-n", n.name, "get", "configmap", "marker", "-o", "jsonpath={.data.text}")
		if err == nil && out != want {
			err = fmt.Errorf("it has %q", out)
		}
		return err
	})
}

// ship pushes a change and tells how long it takes until it is in the cluster.
func (n *neighbour) ship(ctx context.Context) (time.Duration, error) {
	const most = 90 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("gave up after %s", most))
	defer cancel()
	if _, err := n.push(ctx); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := n.try.must(ctx, gitcache, gitcacheSources+"RefreshSource", n.try.world.callers.admin, map[string]any{"name": "sample"}, nil); err != nil {
		return 0, err
	}
	err := n.applied(ctx)
	return time.Since(begin), err
}

// storm changes the objects of a service as fast as the API server takes it, a thousand times a second at most. Half of
// the changes are to be undone.
func (t *Try) storm(ctx context.Context) (string, error) {
	const name, objects, perSecond, lasts = "stormy", 200, 1000, 15 * time.Second
	n, err := t.newNeighbour(ctx, "beside-the-storm")
	if err != nil {
		return "", err
	}
	if _, err := t.world.Kubectl(ctx, t.world.Clusters[0].Kubeconfig, "create", "namespace", name); err != nil {
		return "", err
	}
	var text strings.Builder
	for i := range objects {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x%d}\ndata: {text: given}\n", i)
	}
	if _, err := n.repo.Push(ctx, "a storm to be", map[string]string{name + "/a.yaml": text.String()}); err != nil {
		return "", err
	}
	if err := t.world.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {source: sample, path: %[1]s, cluster: a, namespace: %[1]s}\n", name)); err != nil {
		return "", err
	}
	if err := t.awaitState(ctx, name, true); err != nil {
		return "", err
	}
	calm, err := n.ship(ctx)
	if err != nil {
		return "", err
	}
	kube, err := e2eagent.OpenKube(t.world.Clusters[0].Kubeconfig)
	if err != nil {
		return "", err
	}
	blowing, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	var writers sync.WaitGroup
	var sent, changed atomic.Int64
	turns := time.NewTicker(time.Second / perSecond)
	defer turns.Stop()
	for range 16 {
		writers.Go(func() {
			for {
				select {
				case <-blowing.Done():
					return
				case <-turns.C:
				}
				i := sent.Add(1)
				patch := e2eagent.Object{"metadata": e2eagent.Object{"annotations": e2eagent.Object{"tenant.example/beat": fmt.Sprint(i)}}}
				if i%2 == 0 {
					patch = e2eagent.Object{"data": e2eagent.Object{"text": fmt.Sprint(i)}}
				}
				if _, err := kube.Edit(blowing, fmt.Sprintf("/api/v1/namespaces/%s/configmaps/x%d", name, i%objects), patch); err == nil {
					changed.Add(1)
				}
			}
		})
	}
	during, err := n.ship(ctx)
	writers.Wait()
	answer := fmt.Sprintf("%d changes in %s; another service took %.1f s before and %.1f s meanwhile", changed.Load(), lasts, calm.Seconds(), during.Seconds())
	if err != nil {
		return answer, fmt.Errorf("it holds up another service: %w", err)
	}
	const fewest, slack = 500, 10 * time.Second // the machine is the API server's, too
	if changed.Load() < fewest {
		return answer, errors.New("few changes were made, so that this tries nothing")
	}
	if during > 2*calm+slack {
		return answer, errors.New("it holds up another service")
	}
	return answer, process.Await(ctx, "the objects are as they should be", func(ctx context.Context) error {
		out, err := t.world.Kubectl(ctx, t.world.Clusters[0].Kubeconfig, "-n", name, "get", "configmaps", "-o", "jsonpath={range .items[*]}{.metadata.name}={.data.text} {end}")
		if err != nil {
			return err
		}
		if given := strings.Count(out, "=given "); given != objects {
			return fmt.Errorf("%d of %d are", given, objects)
		}
		return nil
	})
}

// fakeOwner makes objects with all the marks of a service's own, and has the service lose an object, and then all.
func (t *Try) fakeOwner(ctx context.Context) (string, error) {
	const name, others = "faked-owner", "bystanders"
	n, err := t.newNeighbour(ctx, name)
	if err != nil {
		return "", err
	}
	kube := t.world.Clusters[0].Kubeconfig
	goes := name + "/goes.yaml"
	if _, err := n.repo.Push(ctx, "one more", map[string]string{goes: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: goes}\ndata: {text: x}\n"}); err != nil {
		return "", err
	}
	var text string
	err = process.Await(ctx, "the object is there", func(ctx context.Context) (err error) {
		text, err = t.world.Kubectl(ctx, kube, "-n", name, "get", "configmap", "goes", "-o", "json")
		return err
	})
	if err != nil {
		return "", err
	}
	if err := says(text, "fairlead.dev/"); err != nil {
		return text, fmt.Errorf("the object has no marks, so that this tries nothing: %w", err)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return "", err
	}
	marks, _ := object["metadata"].(map[string]any)
	var list []any
	for _, at := range [][2]string{{others, "goes"}, {others, "marker"}, {name, "bystander"}} {
		list = append(list, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"namespace": at[0], "name": at[1], "labels": marks["labels"], "annotations": marks["annotations"],
		}})
	}
	forged, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": list})
	if err != nil {
		return "", err
	}
	if _, err := t.world.Kubectl(ctx, kube, "create", "namespace", others); err != nil {
		return "", err
	}
	if _, err := process.Run(ctx, nil, string(forged), t.world.bins.Kubelocal, "kubectl", "--kubeconfig", kube, "create", "--field-manager=fairlead", "-f", "-"); err != nil {
		return "", err
	}
	gone := func(what string) error {
		return process.Await(ctx, what+" is removed", func(ctx context.Context) error {
			out, err := t.world.Kubectl(ctx, kube, "-n", name, "get", "configmap", what, "--ignore-not-found", "-o", "name")
			if err == nil && out != "" {
				err = errors.New("it is there")
			}
			return err
		})
	}
	if _, err := n.repo.Push(ctx, "one less", map[string]string{goes: ""}); err != nil {
		return "", err
	}
	if err := gone("goes"); err != nil {
		return "", err
	}
	if err := t.must(ctx, console, serviceService+"DeleteService", t.world.callers.admin, map[string]any{"name": name}, nil); err != nil {
		return "", err
	}
	if err := gone("marker"); err != nil {
		return "", err
	}
	left, err := t.world.Kubectl(ctx, kube, "get", "configmaps", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}`)
	if err != nil {
		return "", err
	}
	return "the service's two objects were removed, those of others not", says(left, others+"/goes", others+"/marker", name+"/bystander")
}
