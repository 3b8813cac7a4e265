package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"fairlead.dev/deploy"
	"fairlead.dev/platform/kubetest"
)

const (
	deployDir = "../../deploy"
	// patience covers two starts of a cluster, and some thirty calls of kubectl, on a machine that is starved.
	patience = 20 * time.Minute
)

// digest of no image.
var digest = "sha256:" + strings.Repeat("0", 64)

// sets are values that the charts are rendered with, besides those of deploy/kustomize.
func sets() map[string]map[string]any {
	hub := map[string]any{"url": "https://hub.example.com"}
	return map[string]map[string]any{
		"hub/minimal": {},
		"hub/all-on": {
			"image": map[string]any{
				"registry": "registry.example.com:5000/fairlead", "tag": "v1",
				"digests": map[string]any{"tunnel": digest},
			},
			"imagePullSecrets": []any{map[string]any{"name": "pull"}},
			"secrets":          map[string]any{"redis": "r", "database": "d", "metrics": "m"},
			"tls":              map[string]any{"privateCA": false},
			"urls":             map[string]any{"console": "https://console.example.com"},
			"console": map[string]any{
				"replicas": 3, "persistence": map[string]any{"storageClass": "fast"},
				"args":           []any{"--oidc-issuer=https://login.example.com"},
				"allowAddresses": []any{"10.0.0.0/8", "fd00::/8"},
			},
			"gitcache": map[string]any{
				"replicas": 3, "allowAddresses": []any{"10.0.0.0/8", "fd00::/8"},
				"env": []any{map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}},
			},
			"distributor": map[string]any{
				"kind": "DaemonSet", "cache": map[string]any{"hostPath": "/var/cache/fairlead"},
			},
			"tunnel": map[string]any{"autoscaling": map[string]any{
				"enabled":  true,
				"behavior": map[string]any{"scaleDown": map[string]any{"stabilizationWindowSeconds": 60}},
			}},
			"ingress": map[string]any{
				"enabled": true, "className": "nginx", "hosts": map[string]any{"console": "console.example.com"},
				"tlsSecret": "t",
			},
			"podAnnotations":    map[string]any{"a": "b"},
			"nodeSelector":      map[string]any{"kubernetes.io/os": "linux"},
			"tolerations":       []any{map[string]any{"operator": "Exists"}},
			"priorityClassName": "system-cluster-critical",
			"trustedProxies":    []any{"10.1.0.0/16", "fd01::/16"},
			"backup":            map[string]any{"schedule": "0 3 * * *", "claim": "backups", "keep": 3},
		},
		"hub/gateway": {
			"tls": map[string]any{"privateCA": false},
			"gateway": map[string]any{
				"enabled": true, "parentRefs": []any{map[string]any{"name": "public"}},
				"annotations": map[string]any{"a": "b"}, "hosts": map[string]any{"console": "console.example.com"},
			},
		},
		"hub/any-user":   {"runAsUser": 0, "backup": map[string]any{"schedule": "0 3 * * *", "claim": "backups"}},
		"agent/any-user": {"hub": hub, "runAsUser": 0},
		"agent/minimal":  {"hub": hub, "createNamespace": true},
		"agent/inline": {
			"hub":  map[string]any{"url": "https://hub.example.com", "ca": "-----BEGIN CERTIFICATE-----\n<&>\n"},
			"join": map[string]any{"tokens": []any{"one", "two"}}, "replicas": 2,
		},
		"agent/all-on": {
			"createNamespace": true, "hub": map[string]any{"url": "https://hub.example.com", "caSecret": "ca"},
			"image":            map[string]any{"repository": "registry.example.com:5000/agent", "digest": digest},
			"imagePullSecrets": []any{map[string]any{"name": "pull"}},
			"join":             map[string]any{"existingSecret": "join"},
			"persistence":      map[string]any{"storageClass": "fast", "size": "1Gi"},
			"rbac": map[string]any{
				"mode": "least", "bindAdmins": true,
				"bind": []any{map[string]any{"group": "oidc:/dev", "role": "view"}},
			},
			"tunnel": map[string]any{
				"users": []any{"ada"}, "groups": []any{"dev"},
				"impersonation": map[string]any{
					"users": []any{"bob"}, "groups": []any{"ops"}, "uids": true, "extras": []any{"example.com/team"},
				},
				"readOnly": true, "allowSystem": true, "namespaces": []any{"shop", "web"},
			},
			"requireImpersonation": true, "tracesThroughHub": true, "logLevel": "debug", "logFormat": "text",
			"env":            []any{map[string]any{"name": "NO_PROXY", "value": "10.0.0.0/8"}},
			"metrics":        map[string]any{"existingSecret": "metrics"},
			"podAnnotations": map[string]any{"a": "b"}, "nodeSelector": map[string]any{"kubernetes.io/os": "linux"},
			"tolerations": []any{map[string]any{"operator": "Exists"}}, "priorityClassName": "system-cluster-critical",
			"serviceAccount": map[string]any{"annotations": map[string]any{"a": "b"}},
		},
		"agent/bare": {
			"hub": hub, "persistence": map[string]any{"enabled": false}, "rbac": map[string]any{"mode": "none"},
			"networkPolicy": map[string]any{"enabled": false},
		},
	}
}

func chartDir(chart string) string { return filepath.Join(deployDir, "charts", chart) }

func namespaceOf(chart string) string {
	if chart == "agent" {
		return "fairlead-system"
	}
	return "fairlead"
}

// manifests are all renders by name, with or without the API of the Prometheus operator.
func manifests(t *testing.T, apis ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, values := range sets() {
		chart, _, _ := strings.Cut(name, "/")
		text, err := helm(chartDir(chart), namespaceOf(chart), values, apis...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = text
	}
	for _, r := range renders() {
		if slices.Contains(r.apis, monitoring) && len(apis) == 0 {
			continue
		}
		all["kustomize "+r.chart+"/"+r.name] = build(t, r.chart+"/"+r.name)
	}
	for _, name := range []string{"hub/example", "agent/example"} {
		all["kustomize "+name] = build(t, name)
	}
	return all
}

func build(t *testing.T, folder string) string {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(deployDir, "kustomize", folder))
	if err != nil {
		t.Fatalf("kustomize %s: %v", folder, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents splits a manifest.
func documents(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for part := range strings.SplitSeq("\n"+text, "\n---\n") {
		object := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(part), &object); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		if len(object) > 0 {
			all = append(all, object)
		}
	}
	return all
}

// at walks down an object; numbers are places in lists.
func at(object any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			inner, _ := object.(map[string]any)
			object = inner[step]
		case int:
			inner, _ := object.([]any)
			if step >= len(inner) {
				return nil
			}
			object = inner[step]
		}
	}
	return object
}

func TestChartsAreLinted(t *testing.T) {
	t.Parallel()
	for name, values := range sets() {
		chart, _, _ := strings.Cut(name, "/")
		result := lint.RunAll(chartDir(chart), values, namespaceOf(chart))
		for _, m := range result.Messages {
			t.Errorf("%s: %s", name, m)
		}
	}
}

func TestSchemaRefusesUnknownAndWrongValues(t *testing.T) {
	t.Parallel()
	hub := map[string]any{"url": "https://hub.example.com"}
	for _, c := range []struct {
		chart  string
		values map[string]any
		want   string
	}{
		{"agent", map[string]any{"hub": hub, "replica": 2}, "replica"},
		{"agent", map[string]any{"hub": map[string]any{"url": "hub.example.com"}}, "/hub/url"},
		{"agent", map[string]any{"hub": hub, "replicas": 0}, "/replicas"},
		{"agent", map[string]any{"hub": hub, "rbac": map[string]any{"mode": "most"}}, "/rbac/mode"},
		{"agent", map[string]any{"hub": hub, "image": map[string]any{"digest": "abc"}}, "/image/digest"},
		{"agent", map[string]any{}, "hub.url is missing"},
		{"hub", map[string]any{"console": map[string]any{"replicas": "two"}}, "/console/replicas"},
		{"hub", map[string]any{"gitcache": map[string]any{"allowAdresses": []any{}}}, "allowAdresses"},
		{"hub", map[string]any{"secrets": map[string]any{"tls": ""}}, "/secrets/tls"},
		{"hub", map[string]any{"distributor": map[string]any{"kind": "Pod"}}, "/distributor/kind"},
		{
			"hub", map[string]any{"tunnel": map[string]any{"autoscaling": map[string]any{"behavior": map[string]any{"scaledown": 1}}}},
			"scaledown",
		},
		{"hub", map[string]any{"console": map[string]any{"replicas": 2}}, "needs PostgreSQL"},
		{"hub", map[string]any{"tunnel": map[string]any{"replicas": 2}}, "needs Redis"},
		{"hub", map[string]any{"gitcache": map[string]any{"replicas": 2}}, "needs Redis"},
		{"hub", map[string]any{"distributor": map[string]any{"kind": "DaemonSet"}}, "needs Redis"},
		{
			"hub", map[string]any{"distributor": map[string]any{"cache": map[string]any{"hostPath": "/x"}}},
			"set distributor.kind to DaemonSet",
		},
		{"hub", map[string]any{"backup": map[string]any{"schedule": "0 3 * * *"}}, "backup.claim is missing"},
		{
			"hub", map[string]any{"backup": map[string]any{"schedule": "0 3 * * *", "claim": "c", "keep": 0}},
			"/backup/keep",
		},
		{"hub", map[string]any{"runAsUser": "nobody"}, "/runAsUser"},
		{"hub", map[string]any{"gateway": map[string]any{"enabled": true}}, "gateway.parentRefs is missing"},
		{
			"hub",
			map[string]any{
				"gateway": map[string]any{"enabled": true, "parentRefs": []any{map[string]any{"name": "public"}}},
			},
			"gateway.caConfigMap is missing",
		},
	} {
		_, err := helm(chartDir(c.chart), namespaceOf(c.chart), c.values)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v, want %s", c.chart, c.values, err, c.want)
		}
	}
}

// The schema is of the very values that the chart has.
func TestSchemaKnowsEveryValue(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"agent", "hub"} {
		values, err := os.ReadFile(filepath.Join(chartDir(chart), "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		schema, err := os.ReadFile(filepath.Join(chartDir(chart), "values.schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		own := map[string]any{}
		if err := yaml.UnmarshalStrict(values, &own); err != nil {
			t.Fatal(err)
		}
		if err := util.ValidateAgainstSingleSchema(own, schema); err != nil {
			t.Errorf("%s: %v", chart, err)
		}
	}
}

func TestGoldenRenders(t *testing.T) {
	t.Parallel()
	for _, r := range renders() {
		want, err := r.text(deployDir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(r.file(deployDir))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the chart gives: run `make manifests`, and look at what changes",
				r.file(deployDir))
		}
	}
}

func TestChartHasTheRules(t *testing.T) {
	t.Parallel()
	from, to := rules(deployDir)
	want, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not %s: run `make manifests`", to, from)
	}
	written := map[string]any{}
	if err := yaml.UnmarshalStrict(want, &written); err != nil {
		t.Fatal(err)
	}
	objects := documents(t, manifests(t, monitoring)["kustomize hub/monitoring"])
	place := slices.IndexFunc(objects, func(o map[string]any) bool { return o["kind"] == "PrometheusRule" })
	if place < 0 || !reflect.DeepEqual(objects[place]["spec"], any(written)) {
		t.Error("hub/monitoring has no PrometheusRule, or one with other rules")
	}
	if strings.Contains(fmt.Sprint(manifests(t)), "kind: PrometheusRule") {
		t.Error("there is a PrometheusRule without its CRD")
	}
}

func TestConsoleRendersWhatHelmRenders(t *testing.T) {
	t.Parallel()
	for name, values := range sets() {
		chart, _, _ := strings.Cut(name, "/")
		if chart != "agent" {
			continue
		}
		want, err := helm(chartDir(chart), namespaceOf(chart), values)
		if err != nil {
			t.Fatal(err)
		}
		got, err := deploy.Agent(values, "dev")
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s: the console renders\n%s\nand Helm\n%s", name, got, want)
		}
	}
}

// A pod is restarted for what a restart mends, and for nothing else.
func TestLivenessDependsOnNothing(t *testing.T) {
	t.Parallel()
	pods := 0
	for name, text := range manifests(t, monitoring) {
		for _, object := range documents(t, text) {
			container := at(object, "spec", "template", "spec", "containers", 0)
			if container == nil {
				continue
			}
			pods++
			for probe, want := range map[string]string{
				"livenessProbe": "/healthz", "startupProbe": "/healthz", "readinessProbe": "/readyz",
			} {
				if got := at(container, probe, "httpGet", "path"); got != want {
					t.Errorf("%s %v: %s asks %v, want %s", name, at(object, "metadata", "name"), probe, got, want)
				}
			}
			if at(container, "securityContext", "readOnlyRootFilesystem") != true ||
				at(object, "spec", "template", "spec", "securityContext", "runAsNonRoot") != true {
				t.Errorf("%s %v: may write to its root, or be root", name, at(object, "metadata", "name"))
			}
		}
	}
	if pods < 20 {
		t.Errorf("only %d pods were looked at", pods)
	}
}

// A console serves nothing while it waits for its database or brings it up to date: its start is not cut short.
func TestConsoleHasTimeToStart(t *testing.T) {
	t.Parallel()
	consoles := 0
	for name, text := range manifests(t) {
		for _, object := range documents(t, text) {
			if at(object, "metadata", "name") != "fairlead-console" || at(object, "spec", "template") == nil {
				continue
			}
			consoles++
			probe := at(object, "spec", "template", "spec", "containers", 0, "startupProbe")
			period, _ := at(probe, "periodSeconds").(float64)
			failures, _ := at(probe, "failureThreshold").(float64)
			if limit := time.Duration(period*failures) * time.Second; limit < time.Hour {
				t.Errorf("%s: a console that needs longer than %s to start is killed", name, limit)
			}
		}
	}
	if consoles == 0 {
		t.Error("no console was looked at")
	}
}

// A distributor that fills its volume is evicted, again and again: its cache stays below the volume's limit. What
// people say of it in args or env goes before.
func TestCacheFitsItsVolume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size string
		want string
		more map[string]any
	}{
		"small":         {"5Gi", "--cache-bytes=4831838208", nil},
		"the default":   {"20Gi", "--cache-bytes=19327352832", nil},
		"decimal":       {"1.5G", "--cache-bytes=1350000000", nil},
		"in bytes":      {"1000000", "--cache-bytes=900000", nil},
		"a node's disk": {"5Gi", "", map[string]any{"kind": "DaemonSet", "cache": map[string]any{"size": "5Gi", "hostPath": "/var/c"}}},
		"by args":       {"5Gi", "--cache-bytes=7", map[string]any{"args": []any{"--cache-bytes=7"}}},
		"by env":        {"5Gi", "", map[string]any{"env": []any{map[string]any{"name": "FAIRLEAD_CACHE_BYTES", "value": "7"}}}},
	} {
		of := map[string]any{"cache": map[string]any{"size": c.size}}
		maps.Copy(of, c.more)
		text, err := helm(chartDir("hub"), "fairlead", map[string]any{
			"distributor": of, "secrets": map[string]any{"redis": "r"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range documents(t, text) {
			args, _ := at(object, "spec", "template", "spec", "containers", 0, "args").([]any)
			if at(object, "metadata", "name") != "fairlead-distributor" || args == nil {
				continue
			}
			last := "" // the one that counts
			for _, arg := range args {
				if strings.HasPrefix(fmt.Sprint(arg), "--cache-bytes") {
					last = fmt.Sprint(arg)
				}
			}
			if last != c.want {
				t.Errorf("%s: the cache of %s is %q, want %q", name, c.size, last, c.want)
			}
		}
	}
}

// TestPagesShowValuesThatWork: what pages say to put into values of the hub's chart is taken, and nothing is lost by
// it.
func TestPagesShowValuesThatWork(t *testing.T) {
	t.Parallel()
	for page, shown := range map[string]string{
		"install.md": "(?s)```yaml\n   # values.yaml\n(.*?)```",
		"observe.md": "(?m)((?:^    (?:console|networkPolicy): .*\n)+)",
	} {
		text, err := os.ReadFile(filepath.Join("../../docs/operate", page))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(shown).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s shows no values", page)
		}
		values := map[string]any{}
		if err := yaml.UnmarshalStrict(found[1], &values); err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		rendered, err := helm(chartDir("hub"), "fairlead", values)
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		for _, object := range documents(t, rendered) {
			if object["kind"] == "NetworkPolicy" &&
				!strings.Contains(fmt.Sprint(at(object, "spec", "egress")), "port:6379") &&
				at(object, "spec", "egress", 0, "ports") != nil {
				t.Errorf("%s: %v may not dial Redis", page, at(object, "metadata", "name"))
			}
		}
	}
}

// TestPodsAreSpreadAndShutIn: each has an account of its own, a policy of its network and bounds; with several there is
// a disruption budget. The pods of the hub can't ask the Kubernetes API.
func TestPodsAreSpreadAndShutIn(t *testing.T) {
	t.Parallel()
	for name, text := range manifests(t, monitoring) {
		objects := documents(t, text)
		covers := func(kind string, selector []any, workload map[string]any) bool {
			return slices.ContainsFunc(objects, func(o map[string]any) bool {
				wanted, _ := at(o, selector...).(map[string]any)
				labels, _ := at(workload, "spec", "template", "metadata", "labels").(map[string]any)
				for label, value := range wanted {
					if labels[label] != value {
						return false
					}
				}
				return o["kind"] == kind && len(wanted) > 0
			})
		}
		for _, o := range objects {
			pod := at(o, "spec", "template", "spec")
			if pod == nil {
				continue
			}
			where := fmt.Sprintf("%s %v", name, at(o, "metadata", "name"))
			account, hub := at(pod, "serviceAccountName"), !strings.Contains(name, "agent/")
			if !slices.ContainsFunc(objects, func(o map[string]any) bool {
				return o["kind"] == "ServiceAccount" && at(o, "metadata", "name") == account
			}) {
				t.Errorf("%s: account %v is not there", where, account)
			}
			if hub && (at(pod, "automountServiceAccountToken") != false ||
				strings.Contains(text, "rbac.authorization.k8s.io")) {
				t.Errorf("%s may ask the Kubernetes API", where)
			}
			if name != "agent/bare" && !covers("NetworkPolicy", []any{"spec", "podSelector", "matchLabels"}, o) {
				t.Errorf("%s: no policy for its network", where)
			}
			replicas, _ := at(o, "spec", "replicas").(float64)
			if many := replicas > 1 || o["kind"] != "DaemonSet" && at(o, "spec", "replicas") == nil; many &&
				!covers("PodDisruptionBudget", []any{"spec", "selector", "matchLabels"}, o) {
				t.Errorf("%s: no disruption budget for %v replicas", where, replicas)
			}
			if o["kind"] != "DaemonSet" && !spreadOverNodes(pod) {
				t.Errorf("%s is not spread over nodes", where)
			}
			container := at(pod, "containers", 0)
			if at(container, "resources", "limits", "memory") == nil ||
				at(container, "resources", "requests", "cpu") == nil ||
				at(container, "securityContext", "allowPrivilegeEscalation") != false ||
				fmt.Sprint(at(container, "securityContext", "capabilities")) != "map[drop:[ALL]]" ||
				at(pod, "securityContext", "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%s is not bounded: %v", where, container)
			}
		}
	}
}

// TestPathsLeadWhereTheFrontLeadsThem: a path of type Prefix also matches itself without its last slash.
func TestPathsLeadWhereTheFrontLeadsThem(t *testing.T) {
	t.Parallel()
	seen := map[any]int{}
	for name, text := range manifests(t) {
		for _, object := range documents(t, text) {
			kind := object["kind"]
			if kind != "Ingress" && kind != "HTTPRoute" || at(object, "metadata", "name") != "fairlead-console" {
				continue
			}
			seen[kind]++
			paths := pathsOf(object)
			for path, want := range map[string]string{
				"/": "console", "/clusters": "console", "/clusters/": "tunnel", "/clusters/edge-1/api": "tunnel",
				"/clustersx": "console", "/cluster/edge-1": "console",
				"/fairlead.tunnel.v1.TunnelService/ListSessions":  "tunnel",
				"/fairlead.gitcache.v1.SourceService/Browse":      "gitcache",
				"/fairlead.console.v1.SourceService/Get":          "console",
				"/fairlead.gitcache.v1.ShardService/ListReplicas": "gitcache",
				"/fairlead.gitcache.v1.HandoffService/CopyMirror": "console",
			} {
				if got := led(paths, path); got != "fairlead-"+want {
					t.Errorf("%s, %s: %s leads to %q, want the %s", name, kind, path, got, want)
				}
			}
		}
	}
	if seen["Ingress"] < 3 || seen["HTTPRoute"] < 2 {
		t.Errorf("only %v of the console were looked at", seen)
	}
}

// A route waits as long as its requests last, and the Gateway knows each pod by the name of its Service.
func TestGatewayLimitsNoRequestAndVerifiesPods(t *testing.T) {
	t.Parallel()
	routes, policies := 0, 0
	for _, object := range documents(t, build(t, "hub/gateway")) {
		name, _ := at(object, "metadata", "name").(string)
		switch object["kind"] {
		case "HTTPRoute":
			routes++
			rules, _ := at(object, "spec", "rules").([]any)
			for i, rule := range rules {
				if at(rule, "timeouts", "request") != "0s" || at(rule, "timeouts", "backendRequest") != "0s" {
					t.Errorf("%s: rule %d has the time limits %v", name, i, at(rule, "timeouts"))
				}
			}
		case "BackendTLSPolicy":
			policies++
			if at(object, "spec", "validation", "hostname") != name+".fairlead.svc" ||
				at(object, "spec", "targetRefs", 0, "name") != name ||
				at(object, "spec", "validation", "caCertificateRefs", 0, "name") != "fairlead-ca" {
				t.Errorf("%s: %v", name, object["spec"])
			}
		}
	}
	if routes != 4 || policies != 4 {
		t.Errorf("%d routes and %d policies, want 4 of each", routes, policies)
	}
}

// leading is a path of an Ingress or HTTPRoute.
type leading struct {
	path, service string
	exact         bool
}

func pathsOf(object map[string]any) (all []leading) {
	paths, _ := at(object, "spec", "rules", 0, "http", "paths").([]any)
	for _, p := range paths {
		path, _ := at(p, "path").(string)
		service, _ := at(p, "backend", "service", "name").(string)
		all = append(all, leading{path, service, at(p, "pathType") == "Exact"})
	}
	if object["kind"] == "Ingress" {
		return all
	}
	rules, _ := at(object, "spec", "rules").([]any)
	for _, rule := range rules {
		service, _ := at(rule, "backendRefs", 0, "name").(string)
		matches, _ := at(rule, "matches").([]any)
		for _, match := range matches {
			path, _ := at(match, "path", "value").(string)
			all = append(all, leading{path, service, at(match, "path", "type") == "Exact"})
		}
	}
	return all
}

// led is the service that a path is led to, as both APIs say: an exact match comes first, then the longest prefix in
// whole elements.
func led(paths []leading, path string) (service string) {
	longest := -1
	for _, p := range paths {
		if p.exact {
			if path == p.path {
				return p.service
			}
			continue
		}
		if prefix := strings.TrimSuffix(p.path, "/"); len(prefix) > longest && strings.HasPrefix(path+"/", prefix+"/") {
			longest, service = len(prefix), p.service
		}
	}
	return service
}

// A cluster that chooses users itself, as OpenShift does, gets pods that name none. Elsewhere every pod names its user,
// and its volumes' group.
func TestPodsNameTheirUserUnlessTheClusterChooses(t *testing.T) {
	t.Parallel()
	for name, text := range manifests(t) {
		for _, object := range documents(t, text) {
			pod := at(object, "spec", "template", "spec")
			if object["kind"] == "CronJob" {
				pod = at(object, "spec", "jobTemplate", "spec", "template", "spec")
			}
			if pod == nil {
				continue
			}
			for _, field := range []string{"runAsUser", "runAsGroup", "fsGroup"} {
				got, named := at(pod, "securityContext", field).(float64)
				if chosen := strings.HasSuffix(name, "/any-user"); named == chosen || named && got != 65532 {
					t.Errorf("%s %v: %s is %v", name, at(object, "metadata", "name"), field,
						at(pod, "securityContext", field))
				}
			}
			if at(pod, "securityContext", "runAsNonRoot") != true {
				t.Errorf("%s %v: may be root", name, at(object, "metadata", "name"))
			}
		}
	}
}

// The database in a console's volume is for one process: the next begins when the one before has ended, as only a
// StatefulSet sees to.
func TestOneConsoleUsesAVolume(t *testing.T) {
	t.Parallel()
	for name, text := range manifests(t, monitoring) {
		consoles := 0
		for _, object := range documents(t, text) {
			if at(object, "metadata", "name") != "fairlead-console" || at(object, "spec", "template") == nil {
				continue
			}
			consoles++
			alone := !strings.Contains(fmt.Sprint(at(object, "spec", "template", "spec", "containers", 0, "env")),
				"FAIRLEAD_DATABASE_URL")
			if object["kind"] != "StatefulSet" || alone && fmt.Sprint(at(object, "spec", "replicas")) != "1" {
				t.Errorf("%s: the console is a %v of %v", name, object["kind"], at(object, "spec", "replicas"))
			}
		}
		if hub := strings.Contains(name, "hub/"); hub != (consoles == 1) {
			t.Errorf("%s has %d consoles", name, consoles)
		}
	}
	two := map[string]any{"console": map[string]any{"replicas": 2}}
	if _, err := helm(chartDir("hub"), "fairlead", two); err == nil ||
		!strings.Contains(err.Error(), "needs PostgreSQL") {
		t.Errorf("two consoles over SQLite: %v", err)
	}
}

var flagName = regexp.MustCompile(`^--([a-z][a-z-]*)(?:=|$)`)

// Every flag and variable that the charts set is one that the program has.
func TestFlagsExist(t *testing.T) {
	t.Parallel()
	known := map[string]map[string]bool{}
	for name, text := range manifests(t, monitoring) {
		for _, object := range documents(t, text) {
			container := at(object, "spec", "template", "spec", "containers", 0)
			program, _ := at(container, "name").(string)
			if program == "" {
				continue
			}
			if known[program] == nil {
				known[program] = flagsOf(t, program)
			}
			args, _ := at(container, "args").([]any)
			if len(args) == 0 {
				t.Errorf("%s: %s has no flags", name, program)
			}
			for _, arg := range args {
				flag := flagName.FindStringSubmatch(arg.(string))
				if flag == nil || !known[program][flag[1]] {
					t.Errorf("%s: %s has no flag %s", name, program, arg)
				}
			}
			env, _ := at(container, "env").([]any)
			for _, variable := range env {
				given := at(variable, "name").(string)
				if own, ok := strings.CutPrefix(given, "FAIRLEAD_"); ok {
					if flag := strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(own, "_FILE"), "_",
						"-")); !known[program][flag] {
						t.Errorf("%s: %s does not read %s", name, program, given)
					}
				}
			}
		}
	}
}

var helpLine = regexp.MustCompile(`(?m)^  -([a-z-]+)`)

// flagsOf asks a built program for its flags.
func flagsOf(t *testing.T, program string) map[string]bool {
	t.Helper()
	bin := os.Getenv("FAIRLEAD_BIN")
	if bin == "" {
		bin = "../../bin"
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, program), "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: run `make build`\n%s", program, err, out)
	}
	flags := map[string]bool{}
	for _, m := range helpLine.FindAllStringSubmatch(string(out), -1) {
		flags[m[1]] = true
	}
	return flags
}

// operator stands for the Prometheus operator's CRDs.
const operator = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: ServiceMonitor, plural: servicemonitors, singular: servicemonitor}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: PrometheusRule, plural: prometheusrules, singular: prometheusrule}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// gatewayAPI is the folder of the Gateway API's module, of which the types hold the version in go.mod.
func gatewayAPI(t *testing.T) string {
	t.Helper()
	module, _, _ := strings.Cut(reflect.TypeFor[gatewayv1.HTTPRoute]().PkgPath(), "/apis/")
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(dir))
}

func TestAPIServerAcceptsEveryManifest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cluster, err := kubetest.Start(ctx, t.TempDir(), "manifests")
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Stop()
	for _, name := range []string{"fairlead", "fairlead-system"} {
		if _, err := cluster.Kubectl(ctx, "", "create", "namespace", name); err != nil {
			t.Fatal(err)
		}
	}
	crds, err := filepath.Glob(filepath.Join(gatewayAPI(t), "config/crd/standard/gateway.networking.k8s.io_*s.yaml"))
	if err != nil || len(crds) < 2 {
		t.Fatalf("definitions of the Gateway API: %q, %v", crds, err)
	}
	for _, file := range crds {
		if _, err := cluster.Kubectl(ctx, "", "apply", "--server-side", "-f", file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cluster.Kubectl(ctx, "", "wait", "--for=condition=Established", "crd", "--all"); err != nil {
		t.Fatal(err)
	}
	accepts := func(kind string, all map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			namespace := namespaceOf(strings.TrimPrefix(strings.Split(name, "/")[0], "kustomize "))
			args := []string{"apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"}
			if !strings.HasPrefix(name, "kustomize") && namespace == "fairlead" {
				args = append(args, "--namespace", namespace)
			}
			if out, err := cluster.Kubectl(ctx, all[name], args...); err != nil {
				t.Errorf("%s, %s: %v", kind, name, err)
			} else if said := strings.Count(out, "serverside-applied"); said != len(documents(t, all[name])) {
				t.Errorf("%s, %s: %d of %d objects were accepted:\n%s", kind, name, said, len(documents(t,
					all[name])), out)
			} else if strings.Contains(out, "Warning") {
				t.Errorf("%s, %s: %s", kind, name, out)
			}
		}
	}
	without := manifests(t)
	accepts("without the Prometheus operator", without)
	if _, err := cluster.Kubectl(ctx, operator, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Kubectl(ctx, "", "wait", "--for=condition=Established",
		"crd/servicemonitors.monitoring.coreos.com", "crd/prometheusrules.monitoring.coreos.com"); err != nil {
		t.Fatal(err)
	}
	with := manifests(t, monitoring)
	accepts("with the Prometheus operator", with)
	if monitors := strings.Count(fmt.Sprint(with), "kind: ServiceMonitor"); monitors < 9 ||
		strings.Contains(fmt.Sprint(without), "kind: ServiceMonitor") {
		t.Errorf("%d ServiceMonitors with their CRD, and some or none without", monitors)
	}
}

// spreadOverNodes says whether replicas of a pod prefer nodes of their own, also where nodes have no zones: the scheduler leaves out nodes that lack the
// label of any constraint.
func spreadOverNodes(pod any) bool {
	const node = "kubernetes.io/hostname"
	constraints, _ := at(pod, "topologySpreadConstraints").([]any)
	if len(constraints) == 1 && at(constraints[0], "topologyKey") == node {
		return true
	}
	terms, _ := at(pod, "affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution").([]any)
	return slices.ContainsFunc(terms, func(term any) bool { return at(term, "podAffinityTerm", "topologyKey") == node })
}
