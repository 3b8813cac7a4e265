package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"fairlead.dev/e2e/attack/githost"
)

// allowedInside is an address that the console's --allow-addresses lists, for the answers of a hostile backend.
const allowedInside = "127.250.0.1"

const backendToken = "leaked-token-of-a-backend"

// backends are attacks by where a backend of configuration is, and by what it answers.
func backends() (attacks []Attack) {
	answers := []struct {
		name, cve string
		answer    func(inside string) http.HandlerFunc
		words     []string
	}{
		{"redirect to an address inside", "CVE-2025-54468", func(inside string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside, http.StatusFound) }
		}, []string{"redirects are not followed"}},
		{"redirect to the cloud's metadata", "CVE-2025-54468", func(string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
			}
		}, []string{"redirects are not followed"}},
		{"token in the error", "CVE-2025-55190", func(string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Error(w, `{"errors":["your token `+r.Header.Get("X-Vault-Token")+` is wrong"]}`, http.StatusForbidden)
			}
		}, []string{"does not let us"}},
		{"values that are no JSON", "", func(string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "<html>"+r.Header.Get("X-Vault-Token")) //nolint:gosec // read by the console, and no browser
			}
		}, []string{"something else than JSON"}},
		{"values that are nested 100,000 deep", "", func(string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat(`{"data":`, 100_000)+"1"+strings.Repeat("}", 100_000)) // as above
			}
		}, nil},
		{"head of a megabyte", "", func(string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				for i := range 100 {
					w.Header().Set(fmt.Sprintf("X-Junk-%d", i), strings.Repeat("j", 10<<10))
				}
			}
		}, nil},
		{"answer of one byte a second", "", func(string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for {
					select {
					case <-r.Context().Done():
						return
					case <-tick.C:
						_, _ = io.WriteString(w, " ") // the console gives up
						_ = http.NewResponseController(w).Flush()
					}
				}
			}
		}, nil},
	}
	for _, b := range answers {
		a := Attack{Name: "backend: " + b.name, Part: console, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.lyingBackend(ctx, b.answer, b.words...)
		}}
		if b.cve != "" {
			a.CVE = []string{b.cve}
		}
		attacks = append(attacks, a)
	}
	return append(
		attacks,
		Attack{Name: "backend: addresses inside", CVE: []string{"CVE-2025-54468"}, Part: console, Run: func(ctx context.Context, t *Try) (string, error) { return t.inwardBackend(ctx) }},
		Attack{Name: "backend: body without end", Part: console, Alone: true, Slow: true, Run: func(ctx context.Context, t *Try) (string, error) {
			return t.flat(ctx, console, 32, func() (string, error) {
				return t.lyingBackend(ctx, func(string) http.HandlerFunc {
					return func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.WriteString(w, `{"data":{"data":{"a":"`) // as below
						junk := strings.Repeat("x", 1<<20)
						for r.Context().Err() == nil {
							if _, err := io.WriteString(w, junk); err != nil {
								return
							}
						}
					}
				}, "holds more than")
			})
		}},
	)
}

// checkBackend has the console read from a Vault at an address, which need not be written.
func (t *Try) checkBackend(ctx context.Context, address string) (problem string, keys []string, err error) {
	spec := map[string]any{"vault": map[string]any{"address": address, "secret": "backend-token"}, "interval": "5s"}
	a, err := t.call(ctx, console, consoleV1+"BackendService/CheckBackend", t.world.callers.admin, map[string]any{
		"backend": map[string]any{"metadata": map[string]any{"name": "tried"}, "spec": spec}, "path": "shop/db",
	})
	if err != nil {
		return "", nil, err
	}
	var told struct {
		Problem string
		Keys    []string
	}
	if a.Code != http.StatusOK {
		return "", nil, errors.New(a.String())
	}
	err = json.Unmarshal([]byte(a.Body), &told)
	return told.Problem, told.Keys, err
}

// inwardBackend has the console look for backends at addresses inside: none of them is dialled.
func (t *Try) inwardBackend(ctx context.Context) (string, error) {
	if err := t.honestBackend(ctx); err != nil {
		return "", err
	}
	inside := githost.New()
	defer inside.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(inside.URL, "http://"))
	if err != nil {
		return "", err
	}
	redis := strings.TrimSuffix(strings.TrimPrefix(t.world.redis.URL(), "redis://"), "/0")
	addresses := []string{
		inside.URL, "http://localhost:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port, "http://[::]:" + port, "http://127.1.2.3:" + port,
		"http://" + redis, t.world.Hub[gitcache], "https://169.254.169.254", "http://169.254.169.254/latest/meta-data", "https://[::ffff:169.254.169.254]", "https://[fd00:ec2::254]", "https://100.100.100.200",
		"https://168.63.129.16", "https://224.0.0.1", "https://[ff02::1]", "https://[fe80::1]", "https://[64:ff9b::a9fe:a9fe]", "https://[2002:a9fe:a9fe::1]", "https://255.255.255.255",
	}
	var problem string
	for _, address := range addresses {
		if problem, _, err = t.checkBackend(ctx, address); err != nil {
			return problem, fmt.Errorf("%s: %w", address, err)
		}
		if err := errors.Join(says(problem, "the address", "--allow-addresses"), silentOf(problem, backendToken)); err != nil {
			return problem, fmt.Errorf("%s is not refused for its address: %w", address, err)
		}
	}
	if seen := inside.Seen(); len(seen) > 0 {
		return problem, fmt.Errorf("the server inside was asked for %v", seen)
	}
	return fmt.Sprintf("%d addresses; the last: %s", len(addresses), problem), nil
}

// hostileBackend is a server at the address that the console may dial.
func hostileBackend(ctx context.Context, answer http.HandlerFunc) (*httptest.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", allowedInside+":0")
	if err != nil {
		return nil, err
	}
	server := httptest.NewUnstartedServer(answer)
	_ = server.Listener.Close() // which is at another address
	server.Listener = listener
	server.Start()
	return server, nil
}

// honestBackend is the twin: what is at the address that the console may dial is read.
func (t *Try) honestBackend(ctx context.Context) error {
	secret := "apiVersion: fairlead.dev/v1\nkind: Secret\nmetadata: {name: backend-token}\ndata: {token: " + backendToken + "}\n"
	if err := t.world.apply(ctx, secret); err != nil {
		return err
	}
	server, err := hostileBackend(ctx, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") != backendToken {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"data":{"data":{"honest":"x"}}}`) // read below
	})
	if err != nil {
		return err
	}
	defer server.Close()
	problem, keys, err := t.checkBackend(ctx, server.URL)
	if err != nil || problem != "" || len(keys) != 1 || keys[0] != "honest" {
		return fmt.Errorf("an honest backend is not read, so that this tries nothing: %s: %w", problem, err)
	}
	return nil
}

// lyingBackend has a backend answer so, and looks at what the console says of it.
func (t *Try) lyingBackend(ctx context.Context, answer func(inside string) http.HandlerFunc, words ...string) (string, error) {
	if err := t.honestBackend(ctx); err != nil {
		return "", err
	}
	inside := githost.New()
	defer inside.Close()
	asked := make(chan struct{}, 100)
	lying := answer(inside.URL + "/latest")
	server, err := hostileBackend(ctx, func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		lying(w, r)
	})
	if err != nil {
		return "", err
	}
	defer server.Close()
	defer server.CloseClientConnections()
	begin := time.Now()
	problem, keys, err := t.checkBackend(ctx, server.URL)
	if err != nil {
		return problem, err
	}
	const most = 30 * time.Second
	switch took := time.Since(begin); {
	case len(asked) == 0:
		return problem, errors.New("the backend was not asked, so that this tries nothing")
	case problem == "" || len(keys) > 0:
		return problem, fmt.Errorf("the answer is taken: %v", keys)
	case took > most:
		return problem, fmt.Errorf("it took %s", took)
	}
	if len(inside.Asked("latest")) > 0 {
		return problem, errors.New("the redirect was followed")
	}
	return problem, errors.Join(says(problem, words...), silentOf(problem, backendToken, "<html>"))
}
