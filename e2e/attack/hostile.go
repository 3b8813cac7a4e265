package attack

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/mux/muxws"
)

// hostile is the attacker's agent: it holds a session to the tunnel and answers as the attacks say.
type hostile struct {
	mu      sync.Mutex // guards answers
	answers map[string]http.HandlerFunc
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	answer := h.answers[r.URL.Path]
	h.mu.Unlock()
	if answer == nil {
		_, _ = io.WriteString(w, evilAnswer) // a caller that has gone has not lost anything
		return
	}
	answer(w, r)
}

// evilAnswer is what the attacker's cluster says to all that no attack is about.
const evilAnswer = `{"kind":"Evil"}`

// at answers a path from now on.
func (h *hostile) at(path string, answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

// carrier dials the tunnel with a token, as an agent.
func (t *Try) carrier(ctx context.Context, token string) (*muxws.Conn, error) {
	hc, err := client.New(client.Config{CAFile: t.world.CAFile})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.world.Hub[tunnel]+tunnelSessions+"Connect", http.NoBody)
	if err != nil {
		return nil, err
	}
	if err := t.world.authorize(req, token); err != nil {
		return nil, err
	}
	return muxws.Dial(ctx, hc, req.URL.String(), req.Header)
}

// beHostile opens the session of the attacker's cluster, and keeps it until the world stops.
func (w *World) beHostile(ctx context.Context) error {
	t := w.newTry()
	defer t.close()
	w.hostile = &hostile{answers: map[string]http.HandlerFunc{}}
	ended, err := t.session(ctx, w.evil.token, nil, w.hostile)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { ended(); return nil })
	return t.awaitCode(ctx, w.Hub[tunnel]+"/clusters/evil/version", w.callers.admin, http.StatusOK)
}

// session opens a session with properties and serves it; stop ends it.
func (t *Try) session(ctx context.Context, token string, properties map[string]string, h http.Handler) (stop func(), err error) {
	conn, err := t.carrier(ctx, token)
	if err != nil {
		return nil, err
	}
	session, err := mux.NewAcceptor(conn, properties)
	if err != nil {
		return nil, err
	}
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = session.Run(live) }) // how it ends is what the attacks are about
	running.Go(func() { _ = muxhttp.Serve(live, session, h, slog.New(slog.DiscardHandler)) })
	stop = func() { cancel(); running.Wait() }
	select {
	case <-session.Ready():
		return stop, nil
	case <-session.Done():
		stop()
		return nil, errors.New("the tunnel ended the session")
	case <-ctx.Done():
		stop()
		return nil, context.Cause(ctx)
	}
}

// hostileAnswers are attacks by what a cluster answers to the people who look into it.
func hostileAnswers() []Attack {
	return []Attack{
		{Name: "redirects of a cluster to other hosts", CVE: []string{"CVE-2022-3172"}, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.redirects(ctx, "https://evil.example/x", "//evil.example/x", `\\evil.example\x`, "http://127.0.0.1/x", "https:evil.example", "javascript:alert(1)", "\thttps://evil.example", "https://hub@evil.example/", "data:text/html,x")
		}},
		{Name: "redirects of a cluster to another cluster", CVE: []string{"CVE-2020-8559"}, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.redirects(ctx, "/clusters/a/api/v1/namespaces/victim/secrets", "../../../../../a/api/v1/secrets", "/../a/api", "/%2e%2e/a/api", "..%2f..%2fa/api", t.world.Hub[tunnel]+"/clusters/a/api", "/..;/a/api", "?/../../a", "//clusters/a/api")
		}},
		{Name: "fields of a cluster's answer that act on the hub's address", Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.fields(ctx) }},
		{Name: "1xx answers without end", CVE: []string{"CVE-2024-24791"}, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.informational(ctx) }},
		{Name: "101 that nobody asked for", CVE: []string{"CVE-2018-1002105"}, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) {
			a, err := t.fromEvil(ctx, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "websocket")
				w.WriteHeader(http.StatusSwitchingProtocols)
			})
			if err != nil {
				return "", err
			}
			return a.want(http.StatusBadGateway)
		}},
		{Name: "page with a script, in a browser that is logged in", CVE: []string{"CVE-2025-47933"}, Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.page(ctx) }},
		{Name: "answer without end that nobody reads", Part: tunnel, Slow: true, Alone: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, tunnel, 64, func() (string, error) { return t.endlessAnswer(ctx) })
		}},
		{Name: "head of a megabyte of a cluster's answer", Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) {
			a, err := t.fromEvil(ctx, func(w http.ResponseWriter, _ *http.Request) {
				for i := range 1000 {
					w.Header().Set(fmt.Sprintf("X-Junk-%d", i), strings.Repeat("j", 1000))
				}
				w.WriteHeader(http.StatusOK)
			})
			if err != nil {
				return "", err
			}
			for name := range a.Header {
				if strings.HasPrefix(name, "X-Junk") {
					return fmt.Sprint(len(a.Header), " fields"), errors.New("it was passed on")
				}
			}
			return fmt.Sprintf("%d with %d fields", a.Code, len(a.Header)), nil
		}},
		{Name: "session that says it is another cluster's", Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.asOther(ctx) }},
		{Name: "frames that break the tunnel's protocol", Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) { return t.frames(ctx) }},
		{Name: "session of a person, of a service and of nobody", Part: tunnel, Run: func(ctx context.Context, t *Try) (string, error) {
			for _, token := range []string{"", t.world.callers.admin, t.world.callers.services[tunnel], t.world.callers.services[gitcache]} {
				conn, err := t.carrier(ctx, token)
				if err == nil {
					conn.CloseWith(1000, "bye")
					return "", errors.New("it may open a session")
				}
				if refused, ok := errors.AsType[*muxws.RefusedError](err); !ok || refused.Status != http.StatusUnauthorized && refused.Status != http.StatusForbidden {
					return "", fmt.Errorf("it is refused otherwise: %w", err)
				}
			}
			return "none of 4 opens one", nil
		}},
	}
}

// fromEvil has the attacker's cluster answer the administrator once.
func (t *Try) fromEvil(ctx context.Context, answer http.HandlerFunc) (Answer, error) {
	path := "/api/v1/namespaces/" + fmt.Sprint("n", t.world.tries.Add(1))
	t.world.hostile.at(path, answer)
	return t.get(ctx, t.world.Hub[tunnel]+"/clusters/evil"+path, t.world.callers.admin)
}

func (t *Try) redirects(ctx context.Context, targets ...string) (string, error) {
	var words []string
	for _, code := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusCreated} {
		for _, target := range targets {
			a, err := t.fromEvil(ctx, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Location"] = []string{target}
				w.WriteHeader(code)
			})
			if err != nil {
				return "", err
			}
			words = append(words, fmt.Sprint(a.Code))
			at := a.Header.Get("Location")
			if at == "" {
				continue
			}
			from, _ := url.Parse(t.world.Hub[tunnel] + "/clusters/evil/api/v1/namespaces/x") // the path was asked for a moment ago
			to, err := from.Parse(at)
			if err != nil || to.Host != from.Host || !strings.HasPrefix(to.EscapedPath(), "/clusters/evil/") || strings.Contains(strings.ToLower(to.EscapedPath()), "..") || strings.Contains(strings.ToLower(to.EscapedPath()), "%2e%2e") {
				return at, fmt.Errorf("%q leads to %v", target, to)
			}
		}
	}
	slices.Sort(words)
	return fmt.Sprintf("%d redirects, answered with %s, none leads out", len(words), strings.Join(slices.Compact(words), ", ")), nil
}

func (t *Try) fields(ctx context.Context) (string, error) {
	hostile := map[string]string{
		"NEL": `{"report_to":"evil","max_age":31536000,"include_subdomains":true}`, "Report-To": `{"group":"evil","max_age":31536000,"endpoints":[{"url":"https://evil.example"}]}`,
		"Reporting-Endpoints": `evil="https://evil.example"`, "Link": "<https://evil.example/x.js>; rel=preload", "Refresh": "0; url=https://evil.example", "Www-Authenticate": "Basic realm=\"hub\"",
		"Set-Cookie": "__Host-fairlead=evil; Secure; Path=/", "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true", "Clear-Site-Data": `"*"`, "Alt-Svc": `h2="evil.example:443"`,
		"Strict-Transport-Security": "max-age=0", "X-Accel-Redirect": "/internal", "X-Sendfile": "/etc/passwd", "Service-Worker-Allowed": "/", "Sourcemap": "https://evil.example/x.map", "Public-Key-Pins": "x",
		"Content-Security-Policy-Report-Only": "report-uri https://evil.example", "Proxy-Authenticate": "Basic", "Proxy-Connection": "keep-alive", "Speculation-Rules": `"https://evil.example"`, "Origin-Agent-Cluster": "?0",
	}
	var through []string
	for _, code := range []int{http.StatusOK, http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden} {
		a, err := t.fromEvil(ctx, func(w http.ResponseWriter, _ *http.Request) {
			for name, value := range hostile {
				w.Header()[name] = []string{value}
			}
			w.WriteHeader(code)
		})
		if err != nil {
			return "", err
		}
		for name, value := range hostile {
			if got := a.Header.Get(name); got == value {
				through = append(through, name)
			}
		}
	}
	if len(through) > 0 {
		return strings.Join(through, ", "), errors.New("fields got through")
	}
	return fmt.Sprintf("none of %d fields gets through", len(hostile)), nil
}

func (t *Try) informational(ctx context.Context) (string, error) {
	const sent = 10_000
	t.world.hostile.at("/api/v1/namespaces/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<https://evil.example/x.js>; rel=preload")
		w.Header().Set("Set-Cookie", "x=y")
		for range sent {
			w.WriteHeader(http.StatusEarlyHints)
		}
		_, _ = io.WriteString(w, "{}") // seen by the count below
	})
	conn, err := t.dial(ctx, tunnel, "http/1.1")
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /clusters/evil/api/v1/namespaces/hints HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+t.world.callers.admin+"\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	answers := bufio.NewReader(conn)
	for n := 0; ; n++ {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return fmt.Sprintf("%d hints, then closed", n), nil
		}
		_ = resp.Body.Close()
		if len(resp.Header["Link"])+len(resp.Header["Set-Cookie"]) > 0 {
			return "", errors.New("a field of a 1xx answer got through")
		}
		if resp.StatusCode >= http.StatusOK {
			return fmt.Sprintf("%d of %d hints, without fields, then %d", n, sent, resp.StatusCode), nil
		}
		if n > 100 {
			return "", fmt.Errorf("more than %d answers of 1xx get through", n)
		}
	}
}

// page lets a browser that is logged in look at a page out of a cluster.
func (t *Try) page(ctx context.Context) (string, error) {
	in, err := t.send(ctx, http.MethodPost, t.world.Hub[console]+"/v1/session", t.world.callers.admin, nil, "Fairlead-Csrf", "1")
	if err != nil {
		return "", err
	}
	cookie, _, _ := strings.Cut(in.Header.Get("Set-Cookie"), ";")
	if cookie == "" {
		return in.String(), errors.New("there is no session, so that this tries nothing")
	}
	t.world.hostile.at("/api/v1/namespaces/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", "default-src *")
		w.Header().Set("X-Content-Type-Options", "")
		_, _ = io.WriteString(w, "<script>fetch('/fairlead.console.v1.GrantService/UpdateGrant')</script>") // read below
	})
	a, err := t.send(ctx, http.MethodGet, t.world.Hub[tunnel]+"/clusters/evil/api/v1/namespaces/page", "", nil, "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	if err != nil {
		return "", err
	}
	policy := strings.Join(a.Header["Content-Security-Policy"], "|")
	if a.Code != http.StatusOK || !strings.HasPrefix(policy, "sandbox;") || strings.Contains(policy, "|") || a.Header.Get("X-Content-Type-Options") != "nosniff" {
		return a.String(), fmt.Errorf("the page is not sandboxed: %q", policy)
	}
	return policy, nil
}

// endlessAnswer has a cluster send zeros without end to a caller that does not read.
func (t *Try) endlessAnswer(ctx context.Context) (string, error) {
	t.world.hostile.at("/api/v1/namespaces/endless", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		zeros := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	})
	var callers sync.WaitGroup
	var answered atomic.Int32
	for range 8 {
		callers.Go(func() {
			conn, err := t.dial(ctx, tunnel, "http/1.1")
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "GET /clusters/evil/api/v1/namespaces/endless HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer "+t.world.callers.admin+"\r\n\r\n") // seen below
			head := make([]byte, 12)
			if _, err := io.ReadFull(conn, head); err == nil && string(head) == "HTTP/1.1 200" {
				answered.Add(1)
			}
			<-time.After(5 * time.Second) // without reading
		})
	}
	callers.Wait()
	if answered.Load() != 8 {
		return "", fmt.Errorf("%d of 8 callers were answered, so that this tries nothing", answered.Load())
	}
	return "8 callers did not read an endless answer for 5 s", nil
}

// asOther opens a session with the attacker's token that claims to be of another cluster.
func (t *Try) asOther(ctx context.Context) (string, error) {
	stop, err := t.session(ctx, t.world.evil.token, map[string]string{"cluster": "a", "name": "a", "subject": "agent:a", "version": "9.9.9"}, t.world.hostile)
	if err == nil {
		defer stop()
	}
	for range 20 {
		a, err := t.get(ctx, t.world.Hub[tunnel]+"/clusters/a/api/v1/namespaces/default", t.world.callers.admin)
		if err != nil {
			return "", err
		}
		if strings.Contains(a.Body, evilAnswer) || a.Code != http.StatusOK {
			return a.String(), errors.New("the attacker answers for cluster a")
		}
	}
	return "cluster a is answered by its own agent", nil
}

// frames opens sessions that break the protocol after the handshake, each in another way. The tunnel has to end each.
func (t *Try) frames(ctx context.Context) (string, error) {
	hello := func(window, streams uint32) []byte {
		return mux.Hello{MinVersion: 1, MaxVersion: 1, Window: window, MaxStreams: streams}.Append(nil)
	}
	good := mux.AppendFrame(nil, mux.TypeHello, 0, hello(256<<10, 100))
	lies := map[string][][]byte{
		"another protocol":         {[]byte("GET / HTTP/1.1\r\n\r\n")},
		"no versions in common":    {mux.AppendFrame(nil, mux.TypeHello, 0, mux.Hello{MinVersion: 9, MaxVersion: 9, Window: 1, MaxStreams: 1}.Append(nil))},
		"two hellos":               {good, good},
		"a stream that it opens":   {good, mux.AppendFrame(nil, mux.TypeOpen, 1, []byte("x"))},
		"data of no stream":        {good, mux.AppendFrame(nil, mux.TypeData, 77, make([]byte, 1024))},
		"data of the session":      {good, mux.AppendFrame(nil, mux.TypeData, 0, make([]byte, 1024))},
		"an unknown frame":         {good, mux.AppendFrame(nil, 99, 0, nil)},
		"half a frame":             {good, {4, 0, 16, 0, 0}},
		"a length of 16 MiB":       {good, {4, 0xff, 0xff, 0xff, 0, 0, 0, 1}},
		"credit of 2^32-1, twice":  {good, mux.AppendFrame(nil, mux.TypeWindow, 1, binary.BigEndian.AppendUint32(nil, 1<<32-1)), mux.AppendFrame(nil, mux.TypeWindow, 1, binary.BigEndian.AppendUint32(nil, 1<<32-1))},
		"a hello cut short":        {mux.AppendFrame(nil, mux.TypeHello, 0, hello(1, 1)[:6])},
		"a window of 4 GiB":        {mux.AppendFrame(nil, mux.TypeHello, 0, hello(1<<32-1, 1<<32-1)), mux.AppendFrame(nil, mux.TypeHello, 0, hello(1, 1))},
		"a batch of 8 MiB":         {good, make([]byte, 8<<20)},
		"pongs that nobody wanted": {good, slices.Concat(slices.Repeat([][]byte{mux.AppendFrame(nil, mux.TypePong, 0, make([]byte, 8))}, 10_000)...), mux.AppendFrame(nil, 99, 0, nil)},
	}
	for name, batches := range lies {
		conn, err := t.carrier(ctx, t.world.evil.token)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		for _, batch := range batches {
			if err := conn.Send(batch); err != nil {
				break // the tunnel has ended the session already
			}
		}
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := conn.Receive(); err != nil {
					ended <- err
					return
				}
			}
		}()
		select {
		case <-ended: //nolint:errcheck // that it ended is what counts
		case <-time.After(30 * time.Second):
			_ = conn.Close()
			return name, errors.New("the tunnel keeps the session")
		}
		_ = conn.Close() // the tunnel has closed it
	}
	// The session that keeps to the protocol lives.
	err := process.Await(ctx, "the other session answers", func(ctx context.Context) error {
		a, err := t.get(ctx, t.world.Hub[tunnel]+"/clusters/evil/version", t.world.callers.admin)
		if err == nil && a.Code != http.StatusOK {
			err = errors.New(a.String())
		}
		return err
	})
	return fmt.Sprintf("%d sessions were ended, the honest one lives", len(lies)), err
}
