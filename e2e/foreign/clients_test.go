// Package foreign tests that clients which others wrote reach the console's API: what grpcurl is made of, by
// reflection, and pages in a real browser by Connect and gRPC-web, from where they are allowed.
package foreign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jhump/protoreflect/grpcreflect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/dynamicpb"

	"fairlead.dev/e2e/process"
)

const patience = 3 * time.Minute

// hub is a console that runs, and what a client knows of it that has no generated code.
type hub struct {
	url, secret string
	conn        *grpc.ClientConn
	reflected   *grpcreflect.Client
	token       string
}

func startHub(ctx context.Context, t *testing.T, origins ...string) *hub {
	t.Helper()
	dir := t.TempDir()
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	listen := addresses[0]
	program, err := filepath.Abs("../../bin/console")
	if err != nil {
		t.Fatal(err)
	}
	p := process.New(dir, "console", program, "--listen", listen, "--data-dir", filepath.Join(dir, "data"),
		"--allowed-origins", strings.Join(origins, ","))
	if err := p.Start(); err != nil {
		t.Fatal("run `make build`: ", err)
	}
	t.Cleanup(func() {
		if err := p.Stop(patience); err != nil {
			t.Error(err)
		}
	})
	h := &hub{url: "http://" + listen}
	err = process.Await(ctx, "the console is ready", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Tail())
	}
	secret, err := os.ReadFile(filepath.Join(dir, "data", "hub.secret"))
	if err != nil {
		t.Fatal(err)
	}
	h.secret = strings.TrimSpace(string(secret))
	if h.conn, err = grpc.NewClient(listen, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.conn.Close() })
	return h
}

// invoke calls a procedure as `grpcurl -d JSON HOST NAME` does: what it takes and gives, reflection tells.
func (h *hub) invoke(ctx context.Context, t *testing.T, procedure, request string) (map[string]any, error) {
	t.Helper()
	service, name, _ := strings.Cut(procedure, "/")
	described, err := h.reflected.ResolveService(service)
	if err != nil {
		t.Fatal(err)
	}
	method := described.FindMethodByName(name)
	if method == nil {
		t.Fatalf("%s has no %s", service, name)
	}
	in := dynamicpb.NewMessage(method.GetInputType().UnwrapMessage())
	if err := protojson.Unmarshal([]byte(request), in); err != nil {
		t.Fatalf("%s: %v", procedure, err)
	}
	if h.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+h.token)
	}
	out := dynamicpb.NewMessage(method.GetOutputType().UnwrapMessage())
	if err := h.conn.Invoke(ctx, "/"+procedure, in, out); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer, nil
}

func (h *hub) must(ctx context.Context, t *testing.T, procedure, request string) map[string]any {
	t.Helper()
	answer, err := h.invoke(ctx, t, procedure, request)
	if err != nil {
		t.Fatalf("%s: %v", procedure, err)
	}
	return answer
}

// login makes h an administrator's, as curl can: reflection is for who is known.
func (h *hub) login(ctx context.Context, t *testing.T) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"hubSecret": h.secret, "administrator": "kim"})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		h.url+"/fairlead.console.v1.IdentityService/ExchangeHubSecret", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Token struct{ Token string } }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Token.Token == "" {
		t.Fatal(resp.Status, err)
	}
	h.token = answer.Token.Token
	h.reflected = grpcreflect.NewClientAuto(metadata.AppendToOutgoingContext(ctx, "authorization",
		"Bearer "+h.token), h.conn)
	t.Cleanup(h.reflected.Reset)
}

func TestReflectionTellsAllThatIsNeededToCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h := startHub(ctx, t)
	h.login(ctx, t)
	services, err := h.reflected.ListServices()
	if err != nil || len(services) < 20 || !slices.Contains(services, "fairlead.console.v1.ClusterService") {
		t.Fatal(services, err)
	}
	for _, service := range services {
		if described, err := h.reflected.ResolveService(service); err != nil || len(described.GetMethods()) == 0 {
			t.Errorf("%s can't be described: %v", service, err)
		}
	}
	h.must(ctx, t, "fairlead.console.v1.ClusterService/UpdateCluster",
		`{"cluster": {"metadata": {"name": "one"}}, "allowMissing": true}`)
	listed := h.must(ctx, t, "fairlead.console.v1.ClusterService/ListClusters", `{"filter": "name = one"}`)
	if clusters, _ := listed["clusters"].([]any); len(clusters) != 1 {
		t.Errorf("got %v", listed)
	}
	if _, err := h.invoke(ctx, t, "fairlead.console.v1.ClusterService/GetCluster",
		`{"name": "two"}`); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	h.token = ""
	if _, err := h.invoke(ctx, t, "fairlead.console.v1.ClusterService/ListClusters",
		`{}`); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
}

// said is what a page has to say.
type said struct {
	Error            string
	Connect, GrpcWeb struct {
		Refused          string
		Listed, Streamed []string
	}
}

func TestPagesReachTheAPIFromWhereTheyMay(t *testing.T) {
	t.Parallel()
	site := serveSite(t.Context(), t) // npm and the network take their time
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ours, theirs := httptest.NewServer(site), httptest.NewServer(site)
	t.Cleanup(ours.Close)
	t.Cleanup(theirs.Close)
	h := startHub(ctx, t, ours.URL)
	h.login(ctx, t)
	h.must(ctx, t, "fairlead.console.v1.ClusterService/UpdateCluster",
		`{"cluster": {"metadata": {"name": "one"}}, "allowMissing": true}`)
	pages := browse(ctx, t, h.page(ctx, t, ours.URL), h.page(ctx, t, theirs.URL))

	if got := pages[0]; got.Error != "" {
		t.Errorf("an allowed page: %s", got.Error)
	}
	for protocol, got := range map[string]struct {
		Refused          string
		Listed, Streamed []string
	}{"connect": pages[0].Connect, "gRPC-web": pages[0].GrpcWeb} {
		if !strings.Contains(got.Refused, "no token") || !slices.Contains(got.Listed, "one") ||
			!slices.Contains(got.Streamed, "one") || len(got.Streamed) <= len(got.Listed) {
			t.Errorf("%s: got %+v", protocol, got)
		}
	}
	if got := pages[1]; !strings.Contains(got.Error, "Failed to fetch") {
		t.Errorf("a page of another origin: %+v", got)
	}
}

// link makes what a person logs in with once.
func (h *hub) link(ctx context.Context, t *testing.T) string {
	t.Helper()
	link, _ := h.must(ctx, t, "fairlead.console.v1.LoginService/CreateLoginLink",
		`{"user": "kim", "groups": ["fairlead:admins"]}`)["link"].(string)
	_, code, _ := strings.Cut(link, "#")
	return code
}

// page is the address of the page, with what it needs to log in twice.
func (h *hub) page(ctx context.Context, t *testing.T, site string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"hub": h.url, "link": []string{h.link(ctx, t), h.link(ctx, t)}})
	if err != nil {
		t.Fatal(err)
	}
	return site + "/#" + url.PathEscape(string(text))
}

// browse opens pages in Chromium.
func browse(ctx context.Context, t *testing.T, urls ...string) []said {
	t.Helper()
	chromium, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Fatal("no browser: run tools/install.sh")
	}
	cmd := exec.CommandContext(ctx, "node", append([]string{"page/browse.mjs", chromium}, urls...)...)
	cmd.Env = append(os.Environ(), "NODE_MODULES="+modules(t), "HOME="+t.TempDir())
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &failure)
	}
	t.Log(failure.String()) // the errors that the pages report
	var pages []said
	if err := json.Unmarshal(out, &pages); err != nil || len(pages) != len(urls) {
		t.Fatalf("%s: %v", out, err)
	}
	return pages
}

func modules(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../tools/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// serveSite generates the client's code, and is a site with the page, that code and the libraries as they are
// published.
func serveSite(ctx context.Context, t *testing.T) http.Handler {
	t.Helper()
	generate := exec.CommandContext(ctx, "../../tools/buf.sh", "generate", "--template", "e2e/foreign/buf.gen.yaml")
	if text, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("generate: %v\n%s", err, text)
	}
	importMap, err := json.Marshal(map[string]any{
		"imports": imports(t, "@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-web"),
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/modules/", http.StripPrefix("/modules/", http.FileServer(http.Dir(modules(t)))))
	mux.Handle("/gen/", http.StripPrefix("/gen/", http.FileServer(http.Dir("../../.cache/foreign-es"))))
	mux.HandleFunc("/page.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "page/page.js") })
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		// the browser may be gone
		_, _ = w.Write([]byte(`<!doctype html><script type="importmap">` + string(importMap) +
			`</script><script type="module" src="/page.js"></script>`))
	})
	return mux
}

// imports says where a browser finds the modules of packages, as their package.json says it.
func imports(t *testing.T, packages ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range packages {
		text, err := os.ReadFile(filepath.Join(modules(t), name, "package.json"))
		if err != nil {
			t.Fatal(err)
		}
		var about struct {
			Exports map[string]struct{ Import string }
		}
		if err := json.Unmarshal(text, &about); err != nil {
			t.Fatal(err)
		}
		for path, export := range about.Exports {
			found[name+strings.TrimPrefix(path, ".")] = "/modules/" + name + strings.TrimPrefix(export.Import, ".")
		}
	}
	return found
}
