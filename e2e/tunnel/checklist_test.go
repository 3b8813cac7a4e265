package tunnel

import (
	"strings"
	"testing"
)

// check is one line of the checklist. NS in its arguments and its input stands for a namespace of the way's own.
type check struct {
	name  string
	stdin string
	args  string // of kubectl, separated by blanks
	// after are run afterwards; their answers are compared too.
	after []string
	fails bool // kubectl has to fail, in the same words
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {a: one, b: \"\\u20ac\"}\n"

// checklist is what people do all day. Each answer is compared byte for byte with the one of a kubectl
// that goes straight to the API server.
func checklist() []check {
	named := func(name string) string { return strings.ReplaceAll(configMap, "NAME", name) }
	return []check{
		{name: "get", args: "get nodes -o jsonpath={.items[*].metadata.uid}"},
		{name: "get as a table", args: "get configmaps -n many -l many=ours --sort-by=.metadata.name --no-headers -o custom-columns=N:.metadata.name,U:.metadata.uid"},
		{name: "get -A with 5000 objects", args: "get configmaps -A -l many=ours -o json"},
		{name: "get by pages", args: "get configmaps -A -l many=ours -o name --chunk-size=100"},
		{name: "get what is not there", args: "get configmap none -n NS", fails: true},
		{name: "get an unknown kind", args: "get nonsense", fails: true},
		{name: "describe", args: "describe clusterrole view"},
		{name: "apply --server-side", stdin: named("applied"), args: "apply --server-side -n NS -f -", after: []string{
			"get configmap applied -n NS -o jsonpath={.data}{.metadata.managedFields[*].manager}",
			"delete configmap applied -n NS",
		}},
		{name: "apply", stdin: named("applied-here"), args: "apply -n NS -f -", after: []string{"delete configmap applied-here -n NS"}},
		{name: "diff", stdin: named("differs"), args: "apply --dry-run=server -n NS -f -"},
		{name: "apply what is wrong", stdin: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong}\ndata: {a: {b: c}}\n", args: "apply --server-side -n NS -f -", fails: true},
		{name: "patch", stdin: named("patched"), args: "create -n NS -f -", after: []string{
			"patch configmap patched -n NS --type=merge -p {\"data\":{\"a\":\"two\"}}",
			"patch configmap patched -n NS --type=json -p [{\"op\":\"remove\",\"path\":\"/data/b\"}]",
			"get configmap patched -n NS -o jsonpath={.data}",
			"label configmap patched -n NS mine=yes",
			"annotate configmap patched -n NS why=because",
			"delete configmap -n NS -l mine=yes",
		}},
		{name: "delete and wait", stdin: named("deleted"), args: "create -n NS -f -", after: []string{"delete configmap deleted -n NS --wait --timeout=60s"}},
		{name: "scale", args: "create deployment scaled --image=web -n NS", after: []string{
			"scale deployment scaled -n NS --replicas=3",
			"wait deployment/scaled -n NS --for=jsonpath={.status.readyReplicas}=3 --timeout=60s",
			"delete deployment scaled -n NS",
		}},
		{name: "explain", args: "explain deployment.spec.strategy"},
		{name: "api-resources", args: "api-resources --sort-by=name"},
		{name: "api-versions", args: "api-versions"},
		{name: "auth can-i", args: "auth can-i delete secrets -A"},
		{name: "auth can-i --list", args: "auth can-i --list -n NS"},
		{name: "auth whoami", args: "auth whoami"},
		{name: "version", args: "version -o yaml"},
		{name: "raw OpenAPI v2", args: "get --raw /openapi/v2"},
		{name: "raw OpenAPI v3", args: "get --raw /openapi/v3"},
		{name: "raw OpenAPI of a group", args: "get --raw /openapi/v3/apis/apps/v1"},
		{name: "raw aggregated discovery", args: "get --raw /apis"},
		{name: "raw group", args: "get --raw /apis/apps/v1"},
		{name: "raw APIServices", args: "get --raw /apis/apiregistration.k8s.io/v1/apiservices/v1.apps/status"},
		{name: "aggregated API", args: "get callers." + aggregatedGroup + " me -o yaml"},
		{name: "raw aggregated API", args: "get --raw /apis/" + aggregatedGroup + "/v1/callers/me?a=b%20c&d=%2F"},
		{name: "raw what is not there of an aggregated API", args: "get --raw /apis/" + aggregatedGroup + "/v1/none", fails: true},
		{name: "raw health", args: "get --raw /readyz?verbose"},
		{name: "raw what is not there", args: "get --raw /apis/none.example.com/v1", fails: true},
		{name: "logs", args: "logs web -n NS --limit-bytes=30"},
	}
}

func TestChecklist(t *testing.T) {
	t.Parallel()
	h := shared(t)
	direct := straight(t)
	for _, c := range checklist() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := c.run(t, direct, "straight")
			for _, a := range want {
				if (a.code != 0) != c.fails {
					t.Fatalf("straight to the API server: %s", a)
				}
			}
			for _, w := range ways() {
				t.Run(w.name, func(t *testing.T) {
					got := c.run(t, through(t, h, w), w.namespace())
					for i := range got {
						if got[i] != want[i] {
							t.Errorf("the answer is another:\n%s\nstraight to the API server:\n%s\nthey differ at %s",
								got[i], want[i], difference(got[i].stdout, want[i].stdout))
						}
					}
				})
			}
		})
	}
}

// run returns the answers as they would be in any namespace.
func (c check) run(t *testing.T, k kubectl, namespace string) []answer {
	t.Helper()
	var answers []answer
	for i, args := range append([]string{c.args}, c.after...) {
		stdin := ""
		if i == 0 {
			stdin = c.stdin
		}
		a := k.run(t, stdin, strings.Fields(strings.ReplaceAll(args, "NS", namespace))...)
		a.stdout = strings.ReplaceAll(a.stdout, namespace, "NS")
		a.stderr = strings.ReplaceAll(a.stderr, namespace, "NS")
		answers = append(answers, a)
	}
	return answers
}

// difference shows where two texts part.
func difference(a, b string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	from := max(0, i-40)
	return "…" + a[from:min(len(a), i+80)] + "…, not …" + b[from:min(len(b), i+80)] + "…"
}
