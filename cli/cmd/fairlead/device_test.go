package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"fairlead.dev/services/console"
)

// people is the provider's memory of its users, who are in a group.
type people struct{ *storage.Storage }

// deviceClient is a public client that may use the device flow, and whose ID tokens say who it is.
type deviceClient struct{ op.Client }

func (deviceClient) IDTokenUserinfoClaimsAssertion() bool { return true }
func (deviceClient) GrantTypes() []oidc.GrantType         { return []oidc.GrantType{oidc.GrantTypeDeviceCode} }

func (p people) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	return deviceClient{c}, err
}

func (p people) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest,
	scopes []string,
) error {
	err := p.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
	info.AppendClaims("groups", []string{"staff"})
	return err
}

// CompleteDeviceAuthorization takes what people log in with for the id that the example has for them.
func (p people) CompleteDeviceAuthorization(ctx context.Context, code, _ string) error {
	return p.Storage.CompleteDeviceAuthorization(ctx, code, "id1")
}

// startProvider runs an OpenID server that others wrote.
func startProvider(t *testing.T) string {
	t.Helper()
	var handler atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.Load().(http.Handler).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	storage.RegisterClients(storage.NativeClient("cli"))
	handler.Store(http.Handler(exampleop.SetupServer(srv.URL,
		people{storage.NewStorage(storage.NewUserStore(srv.URL))}, slog.New(slog.DiscardHandler), false)))
	return srv.URL
}

var openAndEnter = regexp.MustCompile(`^Open (\S+) and enter the code (\S+)\n$`)

// fairlead login asks a person to log in at the provider, on any device, and waits.
func TestLoginByTheDeviceFlow(t *testing.T) {
	t.Parallel()
	provider := startProvider(t)
	hub, _ := startConsole(t, func(c *console.Config) {
		c.OIDC.Issuer, c.OIDC.ClientID, c.OIDC.CLIClientID = provider, "cli", "cli"
		c.OIDC.UserClaim, c.OIDC.GroupsClaim, c.OIDC.AdminGroup = "email", "groups", "staff"
	})
	for _, c := range []struct{ answer, want string }{
		{"allowed", "logged in to " + hub + " as test-user@"},
		{"denied", "log in at " + provider + ": "},
	} {
		t.Run(c.answer, func(t *testing.T) {
			t.Parallel()
			env := append(os.Environ(), "FAIRLEAD_CONFIG="+filepath.Join(t.TempDir(), "config.yaml"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "fairlead", "login", hub)
			cmd.Env = env
			var out bytes.Buffer
			cmd.Stdout = &out
			said, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(said)
			first, err := lines.ReadString('\n')
			found := openAndEnter.FindStringSubmatch(first)
			if err != nil || found == nil || !strings.HasPrefix(found[1], provider+"/device") {
				t.Fatalf("%q, %v", first, err)
			}
			answer(ctx, t, provider, found[2], c.answer)
			rest, err := io.ReadAll(lines)
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); (err == nil) != (c.answer == "allowed") ||
				!strings.Contains(out.String()+string(rest), c.want) {
				t.Fatalf("%v\n%s%s", err, &out, rest)
			}
			if c.answer != "allowed" {
				return
			}
			who := exec.CommandContext(ctx, "fairlead", "can-i", "edit", "Service")
			who.Env = env
			if text, err := who.CombinedOutput(); err != nil || !strings.HasPrefix(string(text), "yes, ") {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
}

// answer is a person with a browser who logs in at the provider and says yes or no.
func answer(ctx context.Context, t *testing.T, provider, code, answer string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	hc := &http.Client{Jar: jar}
	user := "test-user@" + strings.Split(strings.TrimPrefix(provider, "http://"), ":")[0]
	for _, page := range []struct {
		path string
		form url.Values
	}{
		{"/device/login", url.Values{"user_code": {code}, "username": {user}, "password": {"verysecure"}}},
		{"/device/confirm", url.Values{"action": {answer}}},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, provider+page.path,
			strings.NewReader(page.form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || resp.Request.URL.Path != page.path {
			t.Fatalf("%s: %s, %v", resp.Request.URL, text, err)
		}
	}
}
