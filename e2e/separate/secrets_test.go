package separate

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/e2e/leak"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// receiver is an OTLP collector that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex // guards text
	text []byte
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body io.Reader = req.Body
		if req.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unzipped
		}
		data, err := io.ReadAll(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.text = append(r.text, data...)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) said() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text
}

// secretResources are what is applied, with a secret in every place that takes one.
func secretResources(p map[string]string, cluster string) string {
	return fmt.Sprintf(`apiVersion: fairlead.dev/v1
kind: Secret
metadata: {name: catalog}
data: {password: %[2]s}
---
apiVersion: fairlead.dev/v1
kind: Secret
metadata: {name: git}
data: {username: app, password: %[3]s}
---
apiVersion: fairlead.dev/v1
kind: Secret
metadata: {name: vault}
data: {token: %[4]s}
---
apiVersion: fairlead.dev/v1
kind: Secret
metadata: {name: kubernetes}
data: {token: %[5]s}
---
apiVersion: fairlead.dev/v1
kind: Backend
metadata: {name: files}
spec: {files: {}, interval: 5s}
---
apiVersion: fairlead.dev/v1
kind: Backend
metadata: {name: vault}
spec: {vault: {address: "http://127.0.0.1:1", secret: vault}, interval: 5s}
---
apiVersion: fairlead.dev/v1
kind: Backend
metadata: {name: kubernetes}
spec: {kubernetes: {server: "https://127.0.0.1:1", secret: kubernetes}, interval: 5s}
---
apiVersion: fairlead.dev/v1
kind: Source
metadata: {name: unreachable}
spec: {git: {url: "http://127.0.0.1:1/x.git", secret: git, interval: 5s}}
---
apiVersion: fairlead.dev/v1
kind: Cluster
metadata: {name: %[1]s}
spec: {config: {cluster: {secret: %[6]s}}}
---
apiVersion: fairlead.dev/v1
kind: ConfigSet
metadata: {name: all}
spec:
  imports: [{backend: files, path: shop.yaml}]
  entries: {set: {secret: %[7]s}, catalog: {ref: {path: catalog, key: password}}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: good}
spec: {source: sample, path: good, cluster: %[1]s, namespace: default, render: {renderer: template}, configSets: [all], config: {service: {secret: %[8]s}}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: broken}
spec: {source: sample, path: broken, cluster: %[1]s, namespace: default, render: {renderer: template}, configSets: [all]}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: refused}
spec: {source: sample, path: refused, cluster: %[1]s, namespace: default, render: {renderer: template}, configSets: [all]}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: away}
spec: {source: unreachable, path: x, cluster: %[1]s, namespace: default, config: {a: {ref: {backend: vault, path: shop/db, key: a}}, b: {ref: {backend: kubernetes, path: secret/shop/db, key: b}}}}
`, cluster, p["catalog"], p["git"], p["vault"], p["kubernetes"], p["cluster"], p["set"], p["service"])
}

const secretObject = `apiVersion: v1
kind: Secret
metadata: {name: good}
stringData: {file: "{{ .Configuration.file }}", set: "{{ .Configuration.set }}", catalog: "{{ .Configuration.catalog }}", service: "{{ .Configuration.service }}"}
`

// TestSecretsAreNowhere plants a secret in every way that one can come in, at debug level and with traces exported,
// provokes errors and crashes of every part, and looks for the secrets in everything that is said and written.
func TestSecretsAreNowhere(t *testing.T) { // not parallel: it sets the environment of all parts
	otlp := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp.URL)
	t.Setenv("GOTRACEBACK", "all")
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	s, servers := stack.Separate(ctx, t, bins)
	p := map[string]string{}
	for _, name := range []string{
		"catalog", "git", "vault", "kubernetes", "cluster", "set", "service", "file", "userinfo", "bearer",
	} {
		p[name] = "planted" + name + "0secret0Xq7Zt"
	}
	said := func(stdin string, args ...string) string {
		t.Helper()
		out, err := s.FairleadStdin(ctx, stdin, args...)
		if err != nil {
			out += err.Error()
		}
		if name := leak.In(p, []byte(out)); name != "" {
			t.Errorf("fairlead %s tells the secret of %q", strings.Join(args, " "), name)
		}
		return out
	}
	if err := os.WriteFile(filepath.Join(s.ConfigDir(), "shop.yaml"), []byte("file: "+p["file"]+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	repository, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repository.Push(ctx, "secrets", map[string]string{
		"good/a.yaml":    secretObject,
		"broken/a.yaml":  `{{ fail (printf "%s %s" .Configuration.file .Configuration.set) }}`,
		"refused/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused, labels: {bad: \"{{ .Configuration.file }}!!\"}}\n",
	}); err != nil {
		t.Fatal(err)
	}
	one := s.Clusters[0]
	said(secretResources(p, one.Name), "apply", "-f", "-", "--dry-run")
	if out := said(secretResources(p, one.Name), "apply", "-f", "-"); !strings.Contains(out, "service/good created") {
		t.Fatalf("got %s", out)
	}
	said(fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: userinfo}\nspec: {git: {url: \"http://app:%s@127.0.0.1:1/x.git\", interval: 5s}}\n", p["userinfo"]), "apply", "-f", "-")
	bearer(ctx, t, s, p["bearer"])

	arrived := func() {
		t.Helper()
		err := process.Await(ctx, "the secrets are in the cluster that they are for", func(ctx context.Context) error {
			for key, want := range map[string]string{
				"file": p["file"], "set": p["set"], "catalog": p["catalog"], "service": p["service"],
			} {
				out, err := s.Kubectl(ctx, one.Kubeconfig, "get", "secret", "good", "-o", "jsonpath={.data."+key+"}")
				if got, _ := base64.StdEncoding.DecodeString(out); err != nil || string(got) != want {
					return fmt.Errorf("%s is another one: %w", key, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	arrived()
	for _, name := range []string{"broken", "refused"} {
		if err := process.Await(ctx, name+" fails", func(context.Context) error {
			if out := said("", "get", "service", name, "-o", "yaml"); !strings.Contains(out, "state: failed") ||
				!strings.Contains(out, "***") {
				return fmt.Errorf("got %s", out)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := process.Await(ctx, "what is away is told", func(context.Context) error {
		if out := said("", "get", "backends") + said("", "get", "sources"); strings.Count(out, "Failing") < 3 {
			return fmt.Errorf("got %s", out)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	// Each part dies with the stacks of all its goroutines in its log, and works on.
	for _, part := range s.Parts() {
		if strings.HasPrefix(part, "kubernetes-") {
			continue
		}
		if err := s.Signal(part, syscall.SIGABRT); err != nil {
			t.Fatal(err)
		}
		if err := process.Await(ctx, part+" has crashed",
			func(context.Context) error { return s.Start(part) }); err != nil {
			t.Fatal(err)
		}
	}
	if log := s.Tail("console"); log == "" {
		t.Error("the console has said nothing")
	}
	if _, err := s.Kubectl(ctx, one.Kubeconfig, "delete", "secret", "good"); err != nil {
		t.Fatal(err)
	}
	arrived()

	for _, args := range []string{
		"config good", "config good -o json", "config away", "export", "get services -o json", "get services -o wide",
		"get sources -o yaml", "get sources -o wide",
		"get backends -o yaml", "get configsets -o yaml", "get clusters -o yaml", "get secrets -o yaml", "get objects",
		"audit -o json", "events", "tree service good", "trace service good",
		"trace service broken", "history service good", "admin check-backend files shop.yaml",
		"admin check-backend vault shop/db", "check",
	} {
		said("", strings.Fields(args)...)
	}
	dump, err := exec.CommandContext(ctx, "pg_dump", servers.Database).CombinedOutput()
	if err != nil || !strings.Contains(string(dump), "CREATE TABLE public.places") {
		t.Fatalf("pg_dump: %v\n%.500s", err, dump)
	}
	if name := leak.In(p, dump); name != "" {
		t.Errorf("the database has the secret of %q", name)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if name := leak.In(p, otlp.said()); name != "" || len(otlp.said()) == 0 {
		t.Errorf("%d bytes of traces have the secret of %q", len(otlp.said()), name)
	}
	search(t, s, p, one.Name)
}

// bearer has every service refuse a token.
func bearer(ctx context.Context, t *testing.T, s *stack.Stack, token string) {
	t.Helper()
	for _, url := range s.Hub {
		for _, args := range [][]string{{"-H", "Authorization: Bearer " + token}, {"-u", "app:" + token}} {
			out, err := exec.CommandContext(ctx, "curl",
				append(args, "-sS", "--cacert", s.CAFile, "-H", "Content-Type: application/json", "-d", "{}",
					url+"/fairlead.console.v1.ServiceService/ListServices")...).CombinedOutput()
			if err != nil || strings.Contains(string(out), token) {
				t.Errorf("%s: %v: %s", url, err, out)
			}
		}
	}
}

// search looks into every file but those of the cluster that the secrets are for, and of its agent.
func search(t *testing.T, s *stack.Stack, p map[string]string, cluster string) {
	t.Helper()
	files, own, crashes := 0, 0, 0
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "SIGABRT") {
			crashes++
		}
		rel := strings.TrimPrefix(path, s.Dir+"/")
		name := leak.In(p, text)
		switch files++; {
		case name == "":
		case strings.HasPrefix(rel,
			"cluster-"+cluster+"/"), strings.HasPrefix(rel,
			"agent-"+cluster+".data/"), strings.HasPrefix(rel, "values/"):
			own++
		default:
			t.Errorf("%s has the secret of %q", rel, name)
		}
		return nil
	})
	if err != nil || own == 0 || crashes == 0 {
		t.Errorf("looked at %d files: %d of the cluster's own have one, %d tell of a crash: %v", files, own,
			crashes, err)
	}
	t.Logf("looked at %d files, %d of them tell of a crash", files, crashes)
}
