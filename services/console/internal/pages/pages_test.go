package pages_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"fairlead.dev/services/console/internal/pages"
)

func built() fstest.MapFS {
	return fstest.MapFS{
		"index.html":            {Data: []byte("<!doctype html>the document")},
		"assets/app-1a2b.js":    {Data: []byte("the script")},
		"assets/app-1a2b.js.br": {Data: []byte("br")},
		"assets/app-1a2b.js.gz": {Data: []byte("gz")},
		"icon.svg":              {Data: []byte("<svg/>")},
	}
}

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

func get(t *testing.T, files fstest.MapFS, method, path string, headers ...string) *http.Response {
	t.Helper()
	h, err := pages.New(files)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(text.String(), "\r\n\r\n")
	return after
}

func TestEveryAddressOfPeopleIsThePage(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/", "/services?q=state%20%3E%3D%20degraded", "/service/web", "/clusters", "/no/such/page", "/service/web.js",
	} {
		resp := get(t, built(), "GET", path, "Accept", browser)
		if text := body(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(text, "the document") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if resp.Header.Get("Cache-Control") != "no-cache" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
}

func TestProgramsThatAskForNothingGetNotFound(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"GET", "/services", "application/json"},
		{"GET", "/v1/no-such", browser},
		{"GET", "/fairlead.console.v1.NoSuchService/Get", browser},
		{"GET", "/assets/app-0000.js", browser},
		{"POST", "/", browser},
		{"GET", "/assets/", browser},
		{"GET", "/assets/../../../../etc/passwd", "*/*"},
	} {
		if resp := get(t, built(), c[0], c[1], "Accept", c[2]); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%v: %d", c, resp.StatusCode)
		}
	}
}

// kubectl proxy without --append-server-path asks the hub itself for what is a cluster's.
func TestProgramsThatMeanAClusterAreToldSo(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"GET", "/api/v1/namespaces"},
		{"GET", "/apis"},
		{"POST", "/apis/apps/v1/namespaces/x/deployments"},
		{"GET", "/openapi/v3"},
	} {
		resp := get(t, built(), c[0], c[1], "Accept", "application/json, */*")
		if text := body(t, resp); resp.StatusCode != http.StatusNotFound ||
			!strings.Contains(text, `"kind":"Status"`) || !strings.Contains(text, "--append-server-path") {
			t.Errorf("%v: %d %s", c, resp.StatusCode, text)
		}
	}
	if resp := get(t, built(), "GET", "/api/v1", "Accept", browser); resp.StatusCode != http.StatusOK {
		t.Errorf("a person: %s", resp.Status)
	}
}

func TestAssetsAreKeptForEverAndSentSmall(t *testing.T) {
	t.Parallel()
	for accepted, want := range map[string]string{
		"gzip, deflate, br, zstd": "br", "gzip": "gz", "br;q=0, gzip": "gz", "": "the script",
	} {
		resp := get(t, built(), "GET", "/assets/app-1a2b.js", "Accept-Encoding", accepted)
		if got := body(t, resp); got != want || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") ||
			!strings.Contains(resp.Header.Get("Content-Type"), "javascript") {
			t.Errorf("%q: %q %v", accepted, got, resp.Header)
		}
	}
}

// A stranger who asks for a script and never reads it holds no memory of the console's.
func TestNoRequestCopiesAFile(t *testing.T) {
	t.Parallel()
	files := built()
	files["assets/app-1a2b.js"].Data = make([]byte, 1<<20)
	h, err := pages.New(files)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/assets/app-1a2b.js", nil)
	one := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			h.ServeHTTP(&unread{header: http.Header{}}, r)
		}
	}).AllocedBytesPerOp()
	if one > 64<<10 {
		t.Errorf("a request takes %d bytes", one)
	}
}

// unread takes nothing of an answer.
type unread struct{ header http.Header }

func (u *unread) Header() http.Header            { return u.header }
func (u *unread) Write(data []byte) (int, error) { return len(data), nil }
func (u *unread) WriteHeader(int)                {}

func TestUnchangedPageIsNotSentAgain(t *testing.T) {
	t.Parallel()
	tag := get(t, built(), "GET", "/", "Accept", browser).Header.Get("Etag")
	if resp := get(t, built(), "GET", "/services", "Accept", browser, "If-None-Match",
		tag); resp.StatusCode != http.StatusNotModified {
		t.Errorf("%d", resp.StatusCode)
	}
}

func TestPersonAtAClustersAPIIsLedToItsPage(t *testing.T) {
	t.Parallel()
	resp := get(t, built(), "GET", "/clusters/edge-1/api/v1/pods", "Accept", browser)
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/cluster/edge-1" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	// The path of an address must never name another host.
	resp = get(t, built(), "GET", "/clusters//evil.example/x", "Accept", browser)
	if to := resp.Header.Get("Location"); to != "/cluster/" {
		t.Errorf("led to %q", to)
	}
}

func TestConsoleWithoutPagesSaysHowToBuildThem(t *testing.T) {
	t.Parallel()
	resp := get(t, fstest.MapFS{".gitkeep": {}}, "GET", "/services", "Accept", browser)
	if text := body(t, resp); resp.StatusCode != http.StatusNotFound || !strings.Contains(text, "make build") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

// A page of another site can neither show the pages in a frame nor reach their window.
func TestNoOtherPageFramesThePages(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/service/web", "/v1x"} {
		resp := get(t, built(), http.MethodGet, path, "Accept", browser)
		policy := resp.Header.Get("Content-Security-Policy")
		for _, rule := range []string{
			"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'self'",
		} {
			if !strings.Contains(policy+";", rule) {
				t.Errorf("%s: the policy has no %s: %s", path, rule, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || resp.Header.Get("Cross-Origin-Opener-Policy") != "same-origin" ||
			resp.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
}
