package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// local are attacks on what runs on a person's own machine: `fairlead up` and the command line.
func local() []Attack {
	return []Attack{
		{Name: "page that posts to `fairlead up` by a name that was rebound", CVE: []string{"CVE-2018-1002103"}, Part: up, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) { return t.rebound(ctx) }},
		{Name: "command line that is led to another hub", CVE: []string{"CVE-2025-67601"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.swapped(ctx) }},
	}
}

// alone is `fairlead up`, started by the first attack on it.
type alone struct {
	once sync.Once
	*stack.Stack
	err error
}

// startUp starts `fairlead up` without clusters, in a folder of its own.
func (w *World) startUp(ctx context.Context) (*stack.Stack, error) {
	w.up.once.Do(func() {
		dir := filepath.Join(w.Dir, "up")
		if w.up.err = os.Mkdir(dir, 0o700); w.up.err == nil {
			w.up.Stack, w.up.err = stack.Up(ctx, w.bins, dir, "--no-clusters")
		}
	})
	return w.up.Stack, w.up.err
}

// rebound sends what a page can send to loopback addresses, by a name of the attacker that leads there: to the browser
// it is of the page's own origin.
func (t *Try) rebound(ctx context.Context) (string, error) {
	local, err := t.world.startUp(ctx)
	if err != nil {
		return "", err
	}
	admin, err := local.Token()
	if err != nil {
		return "", err
	}
	client := t.newClient(t.addr, true)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec,forcetypeassert // a browser refuses the name in the certificate: this is about what is behind it
	defer client.CloseIdleConnections()
	hand := *t
	hand.client = client
	git, err := url.Parse(local.GitURL)
	if err != nil {
		return "", err
	}
	if a, err := hand.get(ctx, local.GitURL+"/info/refs?service=git-receive-pack", ""); err != nil || a.Code != http.StatusOK {
		return a.String(), errors.Join(err, errors.New("git on this machine is refused, so that this tries nothing"))
	}
	// The repository has no accounts: it is for git on this machine.
	codes := map[int]int{}
	for _, host := range []string{"evil.example:" + git.Port(), "evil.example", "127.0.0.1.evil.example:" + git.Port(), "127.evil.example", "localhost.evil.example", "evil.example@127.0.0.1", "", "0.0.0.0:" + git.Port(), "localhost:" + git.Port(), git.Host} {
		fields := []string{"Host", host}
		if own := host == git.Host || strings.HasPrefix(host, "localhost:"); own || host == "" { // a page of another site, without a rebound name
			fields = []string{"Host", git.Host, "Origin", "http://evil.example"}
		}
		for _, request := range []struct{ method, path, content string }{
			{http.MethodGet, git.Path + "/info/refs?service=git-receive-pack", ""},
			{http.MethodGet, git.Path + "/info/refs?service=git-upload-pack", ""},
			{http.MethodPost, git.Path + "/git-receive-pack", "application/x-git-receive-pack-request"},
			{http.MethodPost, git.Path + "/git-upload-pack", "application/x-git-upload-pack-request"},
			{http.MethodPost, git.Path + "/git-receive-pack", "text/plain"},
			{http.MethodGet, git.Path + "/config", ""},
			{http.MethodGet, git.Path + "/HEAD", ""},
		} {
			a, err := hand.send(ctx, request.method, "http://"+git.Host+request.path, "", strings.NewReader("0000"), append(fields, "Content-Type", request.content, "Sec-Fetch-Site", "same-origin")...)
			if err != nil {
				return "", err
			}
			if codes[a.Code]++; a.Code != http.StatusForbidden && a.Code != http.StatusBadRequest {
				return a.String(), fmt.Errorf("%s %s is answered to %q", request.method, request.path, host)
			}
		}
	}
	in, err := hand.send(ctx, http.MethodPost, local.Hub[console]+"/v1/session", admin, nil, "Fairlead-Csrf", "1")
	cookie, _, _ := strings.Cut(in.Header.Get("Set-Cookie"), ";")
	if err != nil || cookie == "" {
		return in.String(), errors.Join(err, errors.New("there is no session, so that this tries nothing"))
	}
	twin, err := hand.send(ctx, http.MethodPost, local.Hub[console]+serviceService+"ListServices", "", strings.NewReader("{}"), "Content-Type", contentTypeProtocol, "Cookie", cookie, "Origin", local.Hub[console], "Fairlead-Csrf", "1")
	if err != nil || twin.Code != http.StatusOK {
		return twin.String(), errors.Join(err, errors.New("the page of the hub is refused, so that this tries nothing"))
	}
	for part, base := range local.Hub {
		at, err := url.Parse(base)
		if err != nil {
			return "", err
		}
		path := map[string]string{console: consoleV1 + "GrantService/UpdateGrant", gitcache: gitcacheSources + "ListSources", distributor: deliveryService + "Sync", tunnel: "/clusters/a/api/v1/secrets"}[part]
		for _, host := range []string{"evil.example:" + at.Port(), "127.0.0.1.evil.example:" + at.Port()} {
			for _, fields := range [][]string{
				// By the rebound name: the cookie is the host's that set it, so the browser sends none.
				{"Host", host, "Origin", "https://" + host, "Sec-Fetch-Site", "same-origin", "Fairlead-Csrf", "1"},
				{"Host", host, "Origin", "http://" + host, "Fairlead-Csrf", "1"},
				{"Host", host, "Cookie", strings.Replace(cookie, "__Host-", "", 1), "Origin", "https://" + host, "Fairlead-Csrf", "1"},
				// To the hub's own address, which is another site to the page.
				{"Host", at.Host, "Cookie", cookie, "Origin", "https://" + host, "Fairlead-Csrf", "1"},
				{"Host", at.Host, "Cookie", cookie, "Origin", "http://" + host, "Sec-Fetch-Site", "same-site", "Fairlead-Csrf", "1"},
				{"Host", at.Host, "Cookie", cookie, "Origin", "null"},
				{"Host", at.Host, "Cookie", cookie, "Origin", "https://" + host, "Sec-Fetch-Site", "cross-site", "Fairlead-Csrf", "1"},
				{"Host", at.Host, "Cookie", cookie, "Origin", "http://" + git.Host, "Sec-Fetch-Site", "same-site", "Fairlead-Csrf", "1"},
			} {
				grant := `{"allowMissing":true,"grant":{"metadata":{"name":"by-a-page"},"spec":{"role":"admin","subjects":[{"user":"mallory"}],"clusters":{"all":true}}}}`
				a, err := hand.send(ctx, http.MethodPost, base+path, "", strings.NewReader(grant), append(fields, "Content-Type", contentTypeProtocol)...)
				if err != nil {
					return "", err
				}
				if codes[a.Code]++; a.Code != http.StatusUnauthorized && a.Code != http.StatusForbidden && a.Code != http.StatusMisdirectedRequest && a.Code != http.StatusBadRequest {
					return a.String(), fmt.Errorf("%s of `fairlead up` answers %q", part, fields)
				}
				if allowed := a.Header.Get("Access-Control-Allow-Origin"); allowed != "" {
					return allowed, fmt.Errorf("%s of `fairlead up` lets %q read its answers", part, fields)
				}
			}
		}
	}
	return fmt.Sprintf("answered with %v", codes), nil
}

// evilHub answers for a hub, with a certificate of its own or with the hub's (as if its name led elsewhere), and writes
// down what it is sent.
type evilHub struct {
	*httptest.Server

	mu   sync.Mutex // guards what follows
	sent []string   // requests with all of their fields and the beginning of their bodies
}

func newEvilHub(certificate *tls.Certificate, answer http.HandlerFunc) *evilHub {
	h := &evilHub{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10)) // as much of the body as came
		h.mu.Lock()
		h.sent = append(h.sent, fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body))
		h.mu.Unlock()
		answer(w, r)
	}))
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // clients refuse its certificate
	if certificate != nil {
		h.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	}
	h.StartTLS()
	return h
}

// got is all that was sent.
func (h *evilHub) got() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.sent)
}

func notFound(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// hubsCertificate is the certificate of the hub's parts.
func (t *Try) hubsCertificate() (*tls.Certificate, error) {
	files, err := filepath.Glob(filepath.Join(t.world.Dir, "tls", "*.key"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if filepath.Base(file) == "ca.key" {
			continue
		}
		certificate, err := tls.LoadX509KeyPair(strings.TrimSuffix(file, ".key")+".crt", file)
		return &certificate, err
	}
	return nil, errors.New("the hub has no certificate, so that this tries nothing")
}

// swapped leads the command line to other hubs, with all that it logs in with: none of it may get there.
func (t *Try) swapped(ctx context.Context) (string, error) {
	evil := newEvilHub(nil, notFound)
	defer evil.Close()
	certificate, err := t.hubsCertificate()
	if err != nil {
		return "", err
	}
	behind := newEvilHub(certificate, notFound)
	defer behind.Close()
	redirecting := newEvilHub(certificate, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, behind.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	})
	defer redirecting.Close()
	text, err := os.ReadFile(t.world.ConfigFile())
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(t.world.Dir, "swapped-")
	if err != nil {
		return "", err
	}
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte(t.world.callers.admin), 0o600); err != nil {
		return "", err
	}
	config := func(name, at string) (string, error) {
		file := filepath.Join(dir, name+".yaml")
		return file, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), t.world.Hub[console], at)), 0o600)
	}
	none := filepath.Join(dir, "none.yaml")
	swapped, err := config("swapped", evil.URL)
	if err != nil {
		return "", err
	}
	led, err := config("led", redirecting.URL)
	if err != nil {
		return "", err
	}
	secret := t.world.HubSecret()
	plain := "http://127.evil.example"
	var words []string
	for _, try := range []struct {
		config string
		env    []string
		args   []string
		says   string
	}{
		{none, nil, []string{"login", evil.URL, "--hub-secret-file", secret}, "authority"},
		{none, nil, []string{"login", evil.URL, "--hub-secret-file", secret, "--ca-file", t.world.CAFile}, "authority"},
		{none, nil, []string{"login", evil.URL, "--token-file", tokenFile}, "authority"},
		{none, nil, []string{"login", evil.URL + "/v1/login/once#abcdefghijklmnopqrstuvwxyz"}, "authority"},
		{none, nil, []string{"login", plain, "--hub-secret-file", secret}, "only sent over https"},
		{none, nil, []string{"login", "http://evil.example", "--token-file", tokenFile}, "only sent over https"},
		{none, []string{"FAIRLEAD_TOKEN=" + t.world.callers.admin, "FAIRLEAD_SERVER=" + evil.URL}, []string{"get", "services"}, "authority"},
		{none, []string{"FAIRLEAD_TOKEN=" + t.world.callers.admin}, []string{"get", "services", "--server", plain}, "only sent over https"},
		{t.world.ConfigFile(), nil, []string{"get", "services", "--server", evil.URL}, "not logged in"},
		{swapped, nil, []string{"get", "services"}, "authority"},
		{swapped, nil, []string{"diff", "service", "victim"}, "authority"},
		{none, nil, []string{"login", redirecting.URL, "--hub-secret-file", secret, "--ca-file", t.world.CAFile}, ""},
		{none, nil, []string{"login", redirecting.URL, "--token-file", tokenFile, "--ca-file", t.world.CAFile}, ""},
		{led, nil, []string{"get", "services"}, ""},
	} {
		out, err := process.Run(ctx, append([]string{"FAIRLEAD_CONFIG=" + try.config}, try.env...), "", filepath.Join(t.world.bins.Dir, "fairlead"), try.args...)
		if err == nil {
			return out, fmt.Errorf("%q succeeds", try.args)
		}
		if wrong := errors.Join(says(err.Error(), try.says), silentOf(err.Error()+out, t.world.callers.admin)); wrong != nil {
			return err.Error(), fmt.Errorf("%q: %w", try.args, wrong)
		}
		words = append(words, oneLine(err.Error()))
	}
	if sent := evil.got(); len(sent) > 0 {
		return sent[0], errors.New("the other hub was sent something")
	}
	if len(redirecting.got()) == 0 {
		return "", errors.New("the hub that redirects was not asked, so that this tries nothing")
	}
	if sent := behind.got(); len(sent) > 0 {
		return sent[0], errors.New("the redirect was followed")
	}
	return fmt.Sprintf("%d ways; the last: %s", len(words), words[len(words)-1]), nil
}

// swappedForAgent starts agents whose hub's address leads to another server, before they have joined and after.
func (t *Try) swappedForAgent(ctx context.Context) (string, error) {
	const name, joinToken = "swapped-agent", "fairlead-join-00000000000000000000"
	evil := newEvilHub(nil, notFound)
	defer evil.Close()
	certificate, err := t.hubsCertificate()
	if err != nil {
		return "", err
	}
	behind := newEvilHub(certificate, notFound)
	defer behind.Close()
	redirecting := newEvilHub(certificate, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, behind.URL+r.URL.RequestURI(), http.StatusPermanentRedirect)
	})
	defer redirecting.Close()
	dir, err := os.MkdirTemp(t.world.Dir, "swapped-agent-")
	if err != nil {
		return "", err
	}
	// The data folder of an agent that has joined: its token is to be renewed at once, and its distributors and tunnels
	// are the other hub's, too.
	joined := filepath.Join(dir, "joined")
	if err := os.Mkdir(joined, 0o700); err != nil {
		return "", err
	}
	member := fmt.Sprintf(`{"cluster":"b","endpoints":{"distributors":[%[1]q],"tunnels":[%[1]q],"gitcaches":[%[1]q]}}`, evil.URL)
	for file, text := range map[string]string{"cluster.json": member, "../join": joinToken} {
		if err := os.WriteFile(filepath.Join(joined, file), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	for _, file := range []string{"token", "key"} {
		text, err := os.ReadFile(filepath.Join(t.world.Dir, "agent-b.data", file))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(joined, file), text, 0o600); err != nil {
			return "", err
		}
	}
	// Its cluster answers nothing: two agents would look after cluster b otherwise.
	kubeconfig := filepath.Join(dir, "kubeconfig")
	nowhere := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", behind.URL)
	if err := os.WriteFile(kubeconfig, []byte(nowhere), 0o600); err != nil {
		return "", err
	}
	agents := map[string]*process.Process{}
	defer func() {
		for _, p := range agents {
			_ = p.Stop(20 * time.Second) // how it ends is not what counts
		}
	}()
	for _, a := range []struct{ name, hub, data string }{
		{"new-" + name, evil.URL, filepath.Join(dir, "new")},
		{"joined-" + name, evil.URL, joined},
		{"redirected-" + name, redirecting.URL, filepath.Join(dir, "redirected")},
	} {
		p := process.New(dir, a.name, filepath.Join(t.world.bins.Dir, "agent"), "--hub-url", a.hub, "--hub-ca-file", t.world.CAFile, "--join-token-file", filepath.Join(dir, "join"),
			"--data-dir", a.data, "--kubeconfig", kubeconfig, "--log-level", "debug")
		if err := p.Start(); err != nil {
			return "", err
		}
		agents[a.name] = p
	}
	err = process.Await(ctx, "the agents refuse the other hub", func(context.Context) error {
		for name, p := range agents {
			log, err := p.Log()
			if err != nil {
				return err
			}
			if err := silentOf(log, joinToken); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if !strings.HasPrefix(name, "redirected") {
				if err := says(log, "certificate"); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		if len(redirecting.got()) == 0 {
			return errors.New("the hub that redirects was not asked")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	token, err := t.world.agentToken("b")
	if err != nil {
		return "", err
	}
	if sent := evil.got(); len(sent) > 0 {
		return sent[0], errors.New("the other hub was sent something")
	}
	for _, request := range behind.got() {
		if err := silentOf(request, token, joinToken); err != nil {
			return request, errors.New("the redirect was followed with a credential")
		}
	}
	return fmt.Sprintf("%d agents refused it, and sent nothing", len(agents)), nil
}
