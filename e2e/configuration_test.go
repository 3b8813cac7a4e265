package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/leak"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
)

// planted are secrets by where they are put. Nothing but the cluster that they are for may have them.
type planted map[string]string

func plant() planted {
	p := planted{}
	for _, at := range []string{"project", "set", "cluster", "service", "secret", "broken", "refused", "second"} {
		p[at] = "planted" + at + "0secret0Xq7Zt"
	}
	return p
}

// in names one of them that stands in a text.
func (p planted) in(text []byte) string { return leak.In(p, text) }

const (
	configuredObjects = `apiVersion: v1
kind: ConfigMap
metadata: {name: shown}
data:
  host: {{ .Configuration.host | quote }}
  replicas: {{ .Configuration.replicas | quote }}
  first: {{ index .Configuration.list 0 | quote }}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData:
  project: {{ .Configuration.project }}
  set: {{ .Configuration.set }}
  cluster: {{ .Configuration.cluster }}
  service: {{ .Configuration.service }}
  url: {{ .Configuration.url }}
`
	brokenTemplate = `{{ fail (printf "it is %s" .Configuration.broken) }}`
	refusedObject  = `apiVersion: v1
kind: ConfigMap
metadata: {name: refused, labels: {bad: "{{ .Configuration.refused }}!!"}}
`
)

// resources are what is applied; CLUSTER is where the services go.
func (p planted) resources(cluster string) string {
	return fmt.Sprintf(`apiVersion: fairlead.dev/v1
kind: Secret
metadata: {name: conf}
data: {password: %[2]s}
---
apiVersion: fairlead.dev/v1
kind: Project
metadata: {name: conf}
spec: {sources: ["*"], clusters: {all: true}, config: {project: {secret: %[3]s}}}
---
apiVersion: fairlead.dev/v1
kind: ConfigSet
metadata: {name: conf}
spec:
  entries:
    set: {secret: %[4]s}
    host: {text: "${service.name}.${cluster.name}.example.com"}
    replicas: {number: 3}
    list: {json: '["${host}"]'}
    password: {ref: {path: conf, key: password}}
    url: {text: "postgres://app:${password}@db"}
---
apiVersion: fairlead.dev/v1
kind: Cluster
metadata: {name: %[1]s}
spec: {config: {cluster: {secret: %[5]s}}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: conf}
spec:
  source: sample
  path: conf/good
  cluster: %[1]s
  namespace: conf
  render: {renderer: template}
  project: conf
  configSets: [conf]
  config: {service: {secret: %[6]s}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: conf-broken}
spec: {source: sample, path: conf/broken, cluster: %[1]s, namespace: conf, render: {renderer: template}, config: {broken: {secret: %[7]s}}}
---
apiVersion: fairlead.dev/v1
kind: Service
metadata: {name: conf-refused}
spec: {source: sample, path: conf/refused, cluster: %[1]s, namespace: conf, render: {renderer: template}, config: {refused: {secret: %[8]s}}}
`, cluster, p["secret"], p["project"], p["set"], p["cluster"], p["service"], p["broken"], p["refused"])
}

// TestConfigurationReachesItsClusterAndNothingElse plants secrets in every place that takes one, has everything told
// that tells of them, kills everything in between, and looks for them in all that was said and written.
func TestConfigurationReachesItsClusterAndNothingElse(t *testing.T) {
	t.Parallel()
	bins, err := stack.FindBinaries(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	s, err := stack.Up(ctx, bins, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = s.Stop()
		}
	})
	if _, err := s.Kubectl(ctx, s.Clusters[0].Kubeconfig, "create", "namespace", "conf"); err != nil {
		t.Fatal(err)
	}
	p := plant()
	repository, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repository.Push(ctx, "conf", map[string]string{
		"conf/good/all.yaml": configuredObjects, "conf/broken/a.yaml": brokenTemplate,
		"conf/refused/a.yaml": refusedObject,
	}); err != nil {
		t.Fatal(err)
	}
	one, other := s.Clusters[0], s.Clusters[1]
	said := p.listen(t, s)
	said("apply", p.resources(one.Name), "apply", "-f", "-", "--dry-run")
	if out := said("apply", p.resources(one.Name), "apply", "-f", "-"); !strings.Contains(out, "service/conf created") {
		t.Fatalf("got %s", out)
	}
	hidden := func(key, want string) {
		t.Helper()
		err := process.Await(ctx, key+" is in the cluster", func(ctx context.Context) error {
			out, err := s.Kubectl(ctx, one.Kubeconfig, "-n", "conf", "get", "secret", "hidden", "-o",
				"jsonpath={.data."+key+"}")
			if got, _ := base64.StdEncoding.DecodeString(out); err == nil && string(got) != want {
				return fmt.Errorf("%s is another", key)
			}
			return err
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, s.Tail("up"))
		}
	}
	for key, want := range map[string]string{
		"project": p["project"], "set": p["set"], "cluster": p["cluster"], "service": p["service"],
		"url": "postgres://app:" + p["secret"] + "@db",
	} {
		hidden(key, want)
	}
	if out, err := s.Kubectl(ctx, one.Kubeconfig, "-n", "conf", "get", "configmap", "shown", "-o",
		"jsonpath={.data}"); err != nil ||
		!strings.Contains(out, `"host":"conf.`+one.Name+`.example.com"`) || !strings.Contains(out, `"replicas":"3"`) ||
		!strings.Contains(out, `"first":"conf.`) {
		t.Errorf("got %s, %v", out, err)
	}
	for _, name := range []string{"conf-broken", "conf-refused"} {
		err := process.Await(ctx, name+" fails", func(context.Context) error {
			if out := said("why", "", "get", "service", name, "-o", "yaml"); !strings.Contains(out, "state: failed") ||
				!strings.Contains(out, "***") {
				return fmt.Errorf("got %s", out)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	// A change of one secret is one of what is in the cluster, and nothing of it is told either.
	changed := p.resources(one.Name)
	changed = strings.ReplaceAll(changed, p["secret"], p["second"])
	if out := said("diff", changed, "apply", "-f", "-", "--dry-run"); !strings.Contains(out, "*** (changed)") {
		t.Errorf("got %s", out)
	}
	if err := s.KillUp(ctx); err != nil {
		t.Fatal(err)
	}
	said("apply again", changed, "apply", "-f", "-")
	hidden("url", "postgres://app:"+p["second"]+"@db")

	for _, args := range [][]string{
		{"config", "conf"},
		{"config", "conf", "-o", "json"},
		{"config", "conf", "-o", "wide"},
		{"export"},
		{"get", "services", "-o", "json"},
		{"get", "services", "-o", "wide"},
		{"get", "configsets", "-o", "yaml"},
		{"get", "clusters", "-o", "yaml"},
		{"get", "projects", "-o", "yaml"},
		{"get", "secrets"},
		{"get", "objects"},
		{"audit", "-o", "json"},
		{"tree", "service", "conf"},
		{"trace", "service", "conf"},
		{"check"},
	} {
		said(strings.Join(args, " "), "", args...)
	}
	if out, err := s.Kubectl(ctx, other.Kubeconfig, "get", "secrets,configmaps", "-A", "-o", "yaml"); err != nil ||
		p.in([]byte(out)) != "" {
		t.Errorf("another cluster has the secret of %q, %v", p.in([]byte(out)), err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	stopped = true
	p.search(t, s.Dir, one.Name)
}

// listen runs commands and looks at what they say.
func (p planted) listen(t *testing.T, s *stack.Stack) func(what, stdin string, args ...string) string {
	return func(what, stdin string, args ...string) string {
		t.Helper()
		out, err := s.FairleadStdin(t.Context(), stdin, args...)
		if err != nil {
			out += err.Error()
		}
		if at := p.in([]byte(out)); at != "" {
			t.Errorf("%s tells the secret of %q", what, at)
		}
		return out
	}
}

// search looks into every file but those of the cluster and its agent.
func (p planted) search(t *testing.T, dir, cluster string) {
	t.Helper()
	files, own, began := 0, 0, time.Now()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := p.in(text)
		switch files++; {
		case at == "":
		case strings.Contains(path, "/"+cluster+"/"):
			own++
		default:
			t.Errorf("%s has the secret of %q", strings.TrimPrefix(path, dir), at)
		}
		return nil
	})
	if err != nil || own == 0 {
		t.Errorf("looked at %d files, and the cluster's own have nothing: %v", files, err)
	}
	t.Logf("looked at %d files in %.1f s", files, time.Since(began).Seconds())
}
