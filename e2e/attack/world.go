package attack

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/e2e/attack/githost"
	"fairlead.dev/e2e/attack/provider"
	e2egitcache "fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/postgrestest"
)

// World is the stack under attack, with what is planted in it and who may ask.
type World struct {
	*stack.Stack
	roots      *x509.CertPool
	redis      *e2egitcache.Alone
	postgres   *postgrestest.Server
	repo       *stack.Repository
	planted    planted
	callers    callers
	evil       cluster // of the attacker
	hostile    *hostile
	before     string // revisions of what is the victim's
	deployment deployment
	git        *githost.Host
	provider   *provider.Provider
	up         alone
	metrics    string // the agents' token for metrics
	bins       stack.Binaries
	tries      atomic.Uint32
	closers    []func() error
}

// planted is text that stands nowhere but in what belongs to the victim.
type planted struct {
	secret  string // values of secrets: nobody is shown them
	config  string // plain configuration
	content string // of files in the repository
	object  string // in the victim's cluster
	words   string // descriptions
}

// all of it, for callers that may see nothing.
func (p planted) all() []string { return []string{p.secret, p.config, p.content, p.object, p.words} }

// callers are credentials.
type callers struct {
	admin    string
	stranger string            // of a person without any grant
	viewer   string            // of a person who may look at the project shop, and at nothing else
	deployer string            // of a person who may deploy in the project shop
	reader   string            // of a person who may look at cluster b through the tunnel
	services map[string]string // of the hub's services, by role
}

// cluster is one that the attacker has joined, with an agent of its own making.
type cluster struct{ name, token string }

// Start runs the stack in a folder and plants the victim's things.
func Start(ctx context.Context, bins stack.Binaries, dir string) (w *World, err error) {
	w = &World{postgres: &postgrestest.Server{}, bins: bins}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Stop())
		}
	}()
	if w.redis, err = e2egitcache.StartAlone(ctx, dir); err != nil {
		return w, err
	}
	database, err := w.postgres.NewDatabase()
	if err != nil {
		return w, err
	}
	w.provider = provider.New()
	w.closers = append(w.closers, func() error { w.provider.CloseClientConnections(); w.provider.Close(); return nil })
	flags, err := w.provider.Flags(dir)
	if err != nil {
		return w, err
	}
	flags = append(flags, "--allow-addresses", allowedInside+"/32", "--trusted-proxies", proxied)
	w.metrics = rand.Text()
	metrics := filepath.Join(dir, "metrics.token")
	if err := os.WriteFile(metrics, []byte(w.metrics), 0o600); err != nil {
		return w, err
	}
	// In a pod the probes are not on loopback: with a token /metrics is as it is there.
	agents := []string{"--health-listen", "127.0.0.1:0", "--metrics-token-file", metrics}
	if w.Stack, err = stack.Apart(ctx, bins, dir, w.redis.URL(), database, flags, agents); err != nil {
		return w, err
	}
	if err := w.provider.Serve(ctx, w.Hub[console]); err != nil {
		return w, fmt.Errorf("start the identity provider: %w", err)
	}
	pem, err := os.ReadFile(w.CAFile)
	if err != nil {
		return w, err
	}
	w.roots = x509.NewCertPool()
	if !w.roots.AppendCertsFromPEM(pem) {
		return w, errors.New("the hub's authority is no certificate")
	}
	if w.repo, err = w.Clone(ctx); err != nil {
		return w, err
	}
	if err := w.plant(ctx); err != nil {
		return w, fmt.Errorf("plant the victim's things: %w", err)
	}
	if err := w.enroll(ctx); err != nil {
		return w, fmt.Errorf("make credentials: %w", err)
	}
	w.git = githost.New()
	w.closers = append(w.closers, func() error { w.git.CloseClientConnections(); w.git.Close(); return nil })
	if err := w.beHostile(ctx); err != nil {
		return w, fmt.Errorf("open the session of a hostile cluster: %w", err)
	}
	return w, nil
}

// Stop ends everything.
func (w *World) Stop() error {
	var errs []error
	for _, end := range w.closers {
		errs = append(errs, end())
	}
	if w.up.Stack != nil {
		errs = append(errs, w.up.Stop())
	}
	if w.Stack != nil {
		errs = append(errs, w.Stack.Stop())
	}
	if w.redis != nil {
		errs = append(errs, w.redis.Stop())
	}
	return errors.Join(append(errs, w.postgres.Stop())...)
}

// apply has an administrator apply resources.
func (w *World) apply(ctx context.Context, resources string) error {
	_, err := w.FairleadStdin(ctx, resources, "apply", "-f", "-")
	return err
}

// plant gives the victim, who has the project victim in cluster a, something of everything; and the attacker's
// neighbour the project shop in cluster b.
func (w *World) plant(ctx context.Context) error {
	mark := func(what string) string { return "xq" + what + strings.ToLower(rand.Text()[:10]) }
	p := planted{secret: mark("secret"), config: mark("config"), content: mark("content"), object: mark("object"), words: mark("words")}
	w.planted = p
	folder := func(name, text string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {text: %q}\n", name, text)
	}
	if _, err := w.repo.Push(ctx, "subject of "+p.content, map[string]string{"victim/a.yaml": folder("victim", p.content), "shop/a.yaml": folder("shop", "nothing")}); err != nil {
		return err
	}
	resources := fmt.Sprintf(`apiVersion: fairlead.dev/v1
kind: Cluster
metadata: {name: a}
spec: {description: %[1]s}
---
apiVersion: fairlead.dev/v1
kind: Project
metadata: {name: victim, labels: {fairlead.dev/set: victim}}
spec: {description: %[1]s, sources: [sample], clusters: {names: [a]}, namespaces: [victim]}
---
apiVersion: fairlead.dev/v1
kind: Project
metadata: {name: shop}
spec: {description: the neighbour, sources: [sample], clusters: {names: [b]}, namespaces: [shop]}
---
apiVersion: fairlead.dev/v1
kind: Secret
metadata: {name: victim, labels: {fairlead.dev/set: victim}}
data: {password: %[2]s, token: %[2]s}
---
apiVersion: fairlead.dev/v1
kind: ConfigSet
metadata: {name: victim, labels: {fairlead.dev/set: victim}}
spec: {project: victim, description: %[1]s, entries: {plain: {text: %[3]s}, hidden: {secret: %[2]s}}}
---
apiVersion: fairlead.dev/v1
kind: Sink
metadata: {name: victim, labels: {fairlead.dev/set: victim}}
spec: {project: victim, webhook: {url: "https://sink.example/%[1]s", key: {secret: %[2]s}}, disabled: true}
---
apiVersion: fairlead.dev/v1
kind: ServiceAccount
metadata: {name: victim, labels: {fairlead.dev/set: victim}}
spec: {description: %[1]s}
---
apiVersion: fairlead.dev/v1
kind: Grant
metadata: {name: victim, labels: {fairlead.dev/set: victim}}
spec: {subjects: [{group: %[1]s}], role: viewer, clusters: {all: true}, projects: [victim]}
---
apiVersion: fairlead.dev/v1
kind: GlobalService
metadata: {name: victims, labels: {fairlead.dev/set: victim}}
spec: {clusters: {names: [a]}, template: {source: sample, path: victim, namespace: victim, project: victim, config: {plain: {text: %[3]s}}}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: victim, labels: {fairlead.dev/set: victim}}
spec: {source: sample, path: victim, cluster: a, namespace: victim, project: victim, configSets: [victim], config: {own: {text: %[3]s}, hidden: {secret: %[2]s}}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: shop}
spec: {source: sample, path: shop, cluster: b, namespace: shop, project: shop}
---
apiVersion: fairlead.dev/v1
kind: Grant
metadata: {name: shop-viewer}
spec: {subjects: [{user: vera}], role: viewer, clusters: {all: true}, projects: [shop]}
---
apiVersion: fairlead.dev/v1
kind: Grant
metadata: {name: shop-deployer}
spec: {subjects: [{user: dora}], role: deployer, clusters: {all: true}, projects: [shop]}
---
apiVersion: fairlead.dev/v1
kind: Grant
metadata: {name: reader-of-b}
spec: {subjects: [{user: rita}], role: viewer, clusters: {names: [b]}}
`, p.words, p.secret, p.config)
	for _, c := range w.Clusters {
		for _, args := range [][]string{
			{"create", "namespace", "victim"},
			{"create", "namespace", "shop"},
			{"-n", "victim", "create", "configmap", "mine", "--from-literal=text=" + p.object},
			{"create", "clusterrolebinding", "readers", "--clusterrole=cluster-admin", "--user=rita", "--user=walt"},
			{"-n", "victim", "create", "secret", "generic", "mine", "--from-literal=text=" + p.object},
		} {
			if _, err := w.Kubectl(ctx, c.Kubeconfig, args...); err != nil {
				return err
			}
		}
	}
	return w.apply(ctx, resources)
}

// enroll logs people and services in.
func (w *World) enroll(ctx context.Context) (err error) {
	if w.callers.admin, err = w.Token(); err != nil {
		return err
	}
	for user, to := range map[string]*string{"bob": &w.callers.stranger, "vera": &w.callers.viewer, "dora": &w.callers.deployer, "rita": &w.callers.reader} {
		if *to, err = w.login(ctx, user); err != nil {
			return err
		}
	}
	if w.evil, err = w.join(ctx, "evil"); err != nil {
		return err
	}
	if w.before, err = w.victimsRevisions(ctx); err != nil {
		return err
	}
	w.callers.services = map[string]string{}
	for _, role := range []string{gitcache, distributor, tunnel} {
		if w.callers.services[role], err = w.serviceToken(ctx, role); err != nil {
			return err
		}
	}
	return nil
}

// login is a login as people have it: by a link, which gives a token that is renewed.
func (w *World) login(ctx context.Context, user string) (string, error) {
	t := w.newTry()
	defer t.close()
	var made struct{ Link string }
	if err := t.must(ctx, console, loginService+"CreateLoginLink", w.callers.admin, map[string]any{"user": user}, &made); err != nil {
		return "", err
	}
	var in struct{ Token struct{ Token string } }
	err := t.must(ctx, console, loginService+"ExchangeLoginLink", "", map[string]any{"link": made.Link}, &in)
	return in.Token.Token, err
}

// join makes a cluster and joins it.
func (w *World) join(ctx context.Context, name string) (cluster, error) {
	if err := w.apply(ctx, fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Cluster\nmetadata: {name: %s}\n", name)); err != nil {
		return cluster{}, err
	}
	t := w.newTry()
	defer t.close()
	var made struct{ JoinToken string }
	if err := t.must(ctx, console, identityService+"CreateJoinToken", w.callers.admin, map[string]any{"cluster": name}, &made); err != nil {
		return cluster{}, err
	}
	a, err := t.joinWith(ctx, made.JoinToken)
	if err != nil || a.Code != http.StatusOK {
		return cluster{}, fmt.Errorf("join cluster %s: %w: %s", name, err, a)
	}
	var in struct{ Token struct{ Token string } }
	return cluster{name, in.Token.Token}, json.Unmarshal([]byte(a.Body), &in)
}

// joinWith exchanges a join token for an agent's.
func (t *Try) joinWith(ctx context.Context, joinToken string) (Answer, error) {
	message, err := protojson.Marshal(&consolev1.JoinClusterRequest{JoinToken: joinToken, Key: identitytest.AgentKey().ForJoin(joinToken)})
	if err != nil {
		return Answer{}, err
	}
	return t.call(ctx, console, identityService+"JoinCluster", "", string(message))
}

// victimsRevisions lists what is the victim's, with revisions: these change with each write.
func (w *World) victimsRevisions(ctx context.Context) (string, error) {
	t := w.newTry()
	defer t.close()
	var list []string
	for _, kind := range []string{"Project", "Secret", "ConfigSet", "Sink", "ServiceAccount", "Grant", "GlobalService", "Service"} {
		a, err := t.call(ctx, console, consoleV1+kind+"Service/Get"+kind, w.callers.admin, map[string]any{"name": map[bool]string{true: "victims", false: "victim"}[kind == "GlobalService"]})
		if err != nil {
			return "", err
		}
		var found map[string]struct {
			Metadata struct{ Name, UID, Revision string }
		}
		if err := json.Unmarshal([]byte(a.Body), &found); err != nil || a.Code != http.StatusOK {
			return "", fmt.Errorf("get the victim's %s: %w: %s", kind, err, a)
		}
		for _, resource := range found {
			list = append(list, fmt.Sprint(kind, " ", resource.Metadata))
		}
	}
	return strings.Join(list, "\n"), nil
}

// serviceToken is what a service of the hub has.
func (w *World) serviceToken(ctx context.Context, role string) (string, error) {
	secret, err := os.ReadFile(w.HubSecret())
	if err != nil {
		return "", err
	}
	t := w.newTry()
	defer t.close()
	var in struct{ Token struct{ Token string } }
	err = t.must(ctx, console, identityService+"ExchangeHubSecret", "", map[string]any{"hubSecret": string(secret), "service": role}, &in)
	return in.Token.Token, err
}

// agentToken is the credential that the agent of a cluster has at this moment.
func (w *World) agentToken(cluster string) (string, error) {
	token, err := os.ReadFile(filepath.Join(w.Dir, "agent-"+cluster+".data", "token"))
	return strings.TrimSpace(string(token)), err
}

// Names of the API's services.
const (
	consoleV1           = "/fairlead.console.v1."
	loginService        = consoleV1 + "LoginService/"
	identityService     = consoleV1 + "IdentityService/"
	tokenService        = consoleV1 + "TokenService/"
	serviceService      = consoleV1 + "ServiceService/"
	clusterService      = consoleV1 + "ClusterService/"
	sourceService       = consoleV1 + "SourceService/"
	gitcacheSources     = "/fairlead.gitcache.v1.SourceService/"
	tunnelSessions      = "/fairlead.tunnel.v1.TunnelService/"
	deliveryService     = "/fairlead.delivery.v1.DeliveryService/"
	artifactResolve     = "/fairlead.artifact.v1.ArtifactService/Resolve"
	contentTypeProtocol = "application/json"
)

// serves asks a part for something ordinary, and looks whether a process has ended.
func (w *World) serves(ctx context.Context, part string) error {
	for _, name := range w.Parts() {
		if ended, err := w.Process(name).Ended(); ended {
			return fmt.Errorf("%s ended: %w\n%s", name, err, w.Tail(name))
		}
	}
	t := w.newTry()
	defer t.close()
	return process.Await(ctx, part+" serves", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		return t.twin(ctx, part)
	})
}

// twin is an ordinary request to a part.
func (t *Try) twin(ctx context.Context, part string) error {
	switch part {
	case console:
		return t.must(ctx, console, serviceService+"GetService", t.world.callers.admin, map[string]any{"name": "shop"}, nil)
	case gitcache:
		return t.must(ctx, gitcache, gitcacheSources+"ListSources", t.world.callers.admin, map[string]any{}, nil)
	case distributor:
		token, err := t.world.agentToken("b")
		if err != nil {
			return err
		}
		return t.must(ctx, distributor, deliveryService+"Sync", token, map[string]any{}, nil)
	case tunnel, agent, "agent-b":
		cluster := map[string]string{"agent-b": "b"}[part]
		a, err := t.get(ctx, t.world.Hub[tunnel]+"/clusters/"+cmp.Or(cluster, "a")+"/api/v1/namespaces/default", t.world.callers.admin)
		if err == nil && a.Code != http.StatusOK {
			err = errors.New(a.String())
		}
		return err
	case up:
		if t.world.up.Stack == nil {
			return errors.New("it was not started")
		}
		_, err := t.world.up.Fairlead(ctx, "get", "services")
		return err
	case redis:
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimSuffix(strings.TrimPrefix(t.world.redis.URL(), "redis://"), "/0"))
		if err == nil {
			err = conn.Close()
		}
		return err
	default:
		return fmt.Errorf("there is no part %q", part)
	}
}

// Try is one attack under way. A Try has an address of its own on the loopback network, so that what the hub does about
// this address is not about the others.
type Try struct {
	world  *World
	addr   net.IP
	client *http.Client
}

func (w *World) newTry() *Try {
	n := w.tries.Add(1)
	t := &Try{world: w, addr: net.IPv4(127, byte(10+n>>16), byte(n>>8), byte(n))}
	t.client = t.newClient(t.addr, true)
	return t
}

func (t *Try) close() { t.client.CloseIdleConnections() }

// newClient makes a client that follows no redirect and connects from an address.
func (t *Try) newClient(from net.IP, http2 bool) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	transport := &http.Transport{
		DialContext: dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 16, ForceAttemptHTTP2: http2,
		TLSClientConfig: &tls.Config{RootCAs: t.world.roots, MinVersion: tls.VersionTLS12},
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// most is how much of an answer is read.
const most = 16 << 20

// authorize sets a token. That of an agent goes with a proof of the key that it is bound to: what an attacker's own
// agent may is to be seen behind that door.
func (w *World) authorize(req *http.Request, token string) error {
	if token == "" {
		return nil
	}
	req.Header.Set("Authorization", "Bearer "+token)
	const longest = 8 << 10 // of a token that is one
	if len(token) > longest || identity.BoundTo(token) == "" {
		return nil
	}
	key := identitytest.AgentKey()
	for _, folder := range []string{"agent-a.data", "agent-b.data"} {
		text, err := os.ReadFile(filepath.Join(w.Dir, folder, "key"))
		if err != nil {
			continue
		}
		if own, err := identity.ParseAgentKey(text); err == nil && own.Public() == identity.BoundTo(token) {
			key = own
		}
	}
	for part, url := range w.Hub {
		if strings.HasPrefix(req.URL.String(), url+"/") {
			return identitytest.Prover(token, key, part).SetHeader(req.Context(), token, req.Header)
		}
	}
	return nil
}

// send makes a request. headers are name, value, name, value.
func (t *Try) send(ctx context.Context, method, url, token string, body io.Reader, headers ...string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return Answer{}, err
	}
	if err := t.world.authorize(req, token); err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return Answer{resp.StatusCode, resp.Header, string(text)}, err
}

func (t *Try) get(ctx context.Context, url, token string) (Answer, error) {
	return t.send(ctx, http.MethodGet, url, token, http.NoBody)
}

// call makes a call of the API, with a message as JSON.
func (t *Try) call(ctx context.Context, part, procedure, token string, message any) (Answer, error) {
	text, isText := message.(string)
	if !isText {
		b, err := json.Marshal(message)
		if err != nil {
			return Answer{}, err
		}
		text = string(b)
	}
	return t.send(ctx, http.MethodPost, t.world.Hub[part]+procedure, token, strings.NewReader(text), "Content-Type", contentTypeProtocol)
}

// must makes a call that has to succeed, and decodes its answer.
func (t *Try) must(ctx context.Context, part, procedure, token string, message, into any) error {
	a, err := t.call(ctx, part, procedure, token, message)
	if err != nil {
		return err
	}
	if a.Code != http.StatusOK {
		return fmt.Errorf("%s: %s", procedure, a)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal([]byte(a.Body), into)
}
