package acceptance

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/object"
)

// field reads a field straight from the API server; "" if it is not there.
func (w *world) field(apiVersion, kind, name string, path ...string) string {
	w.t.Helper()
	obj, err := w.get(apiVersion, kind, w.namespace, name)
	if err != nil {
		return ""
	}
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func (w *world) value(name string) string { return w.field("v1", "ConfigMap", name, "data", "x") }

const webDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: pause}]}}}
`

func TestDriftIsRepairedOnTheEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1"), "web.yaml": webDeployment,
		"role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n",
	})
	w.hub.awaitPhase(t, name, digest, healthy)
	steps := []struct {
		what  string
		do    func()
		right func() bool
	}{
		{
			"a value", func() { w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"2"}}`) },
			func() bool { return w.value("a") == "1" },
		},
		{
			"a value that is taken out",
			func() { w.kubectl("patch", "configmap", "a", "--type=json", `-p=[{"op":"remove","path":"/data/x"}]`) },
			func() bool { return w.value("a") == "1" },
		},
		{
			"the replicas", func() { w.kubectl("scale", "deployment", "web", "--replicas=5") },
			func() bool { return w.field("apps/v1", "Deployment", "web", "spec", "replicas") == "2" },
		},
		{"a rule", func() {
			w.kubectl("patch", "role", "r", "--type=json",
				`-p=[{"op":"replace","path":"/rules/0/verbs","value":["*"]}]`)
		}, func() bool {
			return strings.Contains(w.field("rbac.authorization.k8s.io/v1", "Role", "r", "rules"), "[get]")
		}},
		{"a deletion", func() { w.kubectl("delete", "configmap", "b") }, func() bool { return w.value("b") == "1" }},
		{"the label", func() { w.kubectl("label", "configmap", "b", object.ServiceLabel+"-") }, func() bool {
			return w.field("v1", "ConfigMap", "b", "metadata", "labels", object.ServiceLabel) == name
		}},
	}
	for _, step := range steps {
		before := w.api.count("PATCH ")
		step.do()
		await.True(w.t, step.what+" is put right", step.right)
		if patches := w.api.count("PATCH ") - before; patches > 2 {
			t.Errorf("%s took %d patches", step.what, patches)
		}
	}
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == healthy && r.GetObjectsHealthy() == 4
	})
}

// A repair right before a kill is known to the next agent, though the inventory is behind: it is not sent again.
func TestRepairsAreNotMadeAgainAfterAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("hello")
	kill := w.process()
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml":   configMap("a", "1") + "---\n" + configMap("b", "1") + "---\n" + configMap("c", "1"),
		"web.yaml": webDeployment,
	})
	w.hub.awaitPhase(t, name, digest, healthy)
	repaired := func(count uint64, what string, do func(), right func() bool) {
		t.Helper()
		do()
		await.True(w.t, what+" is put right", right)
		w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
			return r.GetPhase() == healthy && r.GetRepairs() == count
		})
	}
	edit := func(object string) (func(), func() bool) {
		return func() {
			w.kubectl("patch", "configmap", object, "--type=merge", `-p={"data":{"x":"2"}}`)
		}, func() bool { return w.value(object) == "1" }
	}
	do, right := edit("c")
	repaired(1, "the first edit", do, right)
	await.True(w.t, "the inventory knows of the first repair", func() bool { return w.record(name).Repairs == 1 })
	do, right = edit("a")
	repaired(2, "an edit", do, right)
	repaired(3, "the same edit again", do, right)
	repaired(4, "a deletion", func() { w.kubectl("delete", "configmap", "b") },
		func() bool { return w.value("b") == "1" })
	repaired(5, "the replicas", func() { w.kubectl("scale", "deployment", "web", "--replicas=5") },
		func() bool { return w.field("apps/v1", "Deployment", "web", "spec", "replicas") == "2" })
	if w.record(name).Repairs != 1 {
		t.Fatal("the inventory knows of all repairs: this test shows nothing")
	}
	kill()
	before := w.api.count("PATCH ")
	w.process()
	// The agent hears of a kind's objects in order: once these are repaired it has heard of all.
	do, right = edit("c")
	repaired(6, "the edit after the kill", do, right)
	w.kubectl("scale", "deployment", "web", "--replicas=6")
	await.True(w.t, "the replicas are put right",
		func() bool { return w.field("apps/v1", "Deployment", "web", "spec", "replicas") == "2" })
	if patches := w.api.count("PATCH ") - before; patches != 2 {
		t.Errorf("%d patches after the kill, want 2", patches)
	}
}

// A change of others to fields of their own is seen and costs nothing.
func TestForeignFieldsCostNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "web.yaml": webDeployment,
		}), healthy)
	w.viewed()
	before := w.api.count("")
	w.kubectl("annotate", "deployment", "web", "harbour.dev/note=x")
	w.kubectl("annotate", "configmap", "a", "harbour.dev/note=x")
	w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"other":"2"}}`)
	w.kubectl("patch", "deployment", "web", "--type=merge",
		`-p={"spec":{"template":{"metadata":{"annotations":{"harbour.dev/note":"x"}}}}}`)
	w.kubectl("rollout", "status", "deployment", "web", "--timeout=5m")
	// The agent hears of it in order: once this one is repaired, it has heard of all.
	w.kubectl("patch", "configmap", "b", "--type=merge", `-p={"data":{"x":"2"}}`)
	await.True(w.t, "the drift is repaired", func() bool { return w.value("b") == "1" })
	// the repair itself is noted once a minute, and the first at once
	requests := slices.DeleteFunc(w.api.since(before), func(line string) bool {
		return strings.HasPrefix(line, "PUT ") && strings.Contains(line, "/configmaps/inventory.")
	})
	// The repair itself is a look at who changed what, and a patch.
	if len(requests) != 2 || !strings.HasSuffix(requests[0], "/configmaps/b") ||
		!strings.HasSuffix(requests[1], "/configmaps/b") {
		t.Errorf("it cost requests: %v", requests)
	}
	if w.field("v1", "ConfigMap", "a", "data", "other") != "2" {
		t.Error("the foreign field is gone")
	}
}

func TestForeignWriteUnderOurNameIsDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	obj, err := w.get("v1", "ConfigMap", w.namespace, "a")
	if err != nil {
		t.Fatal(err)
	}
	// The same fields, by the same name: only the time tells, in seconds.
	await.True(w.t, "the second is over",
		func() bool { return time.Since(obj.GetManagedFields()[0].Time.Time) > 1100*time.Millisecond })
	if _, err := kube.Cluster(t).Kubectl(t.Context(),
		fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {%s: %s}}\ndata: {x: \"2\"}\n",
			object.ServiceLabel, name),
		"apply", "-n", w.namespace, "--server-side", "--field-manager="+object.FieldManager, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	await.True(w.t, "it is put right", func() bool { return w.value("a") == "1" })
}

func TestDoubleEditWithinASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	before := w.api.patches("/configmaps/a")
	maps := w.cluster.ConfigMaps(w.namespace)
	for i := range 4 { // as fast as it goes, so that some fall between the repair and its news
		patch := fmt.Sprintf(`{"data":{"x":"edit %d"}}`, i)
		if _, err := maps.Patch(t.Context(), "a", "application/merge-patch+json", []byte(patch),
			patchOptions); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			await.True(w.t, "it is put right", func() bool { return w.value("a") == "1" })
		}
	}
	if patches := w.api.patches("/configmaps/a") - before; patches > 4 {
		t.Errorf("%d patches for four edits", patches)
	}
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == healthy })
}

func TestFightNamesTheRivalAndBacksOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"web.yaml": webDeployment}), healthy)
	replicas := func() string { return w.field("apps/v1", "Deployment", "web", "spec", "replicas") }
	meddle := func() {
		w.kubectl("patch", "deployment", "web", "--type=merge", "--field-manager=scaler", `-p={"spec":{"replicas":7}}`)
	}
	want := "Deployment " + w.namespace +
		"/web: scaler keeps changing /spec/replicas: add it to sync.ignore, or take it out of Git."
	told := func(r *deliveryv1.ServiceReport) bool {
		return r.GetMessage() == want && slices.ContainsFunc(r.GetObjects(), func(o *deliveryv1.ObjectReport) bool {
			return o.GetName() == "web" && o.GetVersion() == "v1" && o.GetRival() == "scaler" &&
				slices.Equal(o.GetFields(), []string{"/spec/replicas"})
		})
	}
	before, rounds := w.api.patches("/deployments/web"), 0
	// Three repairs make a fight. A field that is put right by the end of an apply, or while it is not known yet who
	// did it, is none.
	for isTold := false; !isTold; rounds++ {
		if rounds == 7 {
			t.Fatal("nobody is named")
		}
		meddle()
		await.True(w.t, "it is put right, or somebody is named", func() bool {
			isTold = w.hub.said(name, told)
			return isTold || replicas() == "2"
		})
	}
	meddle()
	// healthy again as soon as its objects are, and not before
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == degraded && told(r) && r.GetObjectsDrifted() == 1
	})
	digest := w.hub.sync(name, &deliveryv1.SyncSpec{
		Ignore: []*deliveryv1.IgnoreRule{{Group: "apps", Kind: "Deployment", Pointers: []string{"/spec/replicas"}}},
	})
	w.hub.awaitPhase(t, name, digest, healthy) // long before the truce is over
	if replicas() != "7" {
		t.Errorf("there was no truce until the rival was given the field: there are %s", replicas())
	}
	if patches := w.api.patches("/deployments/web") - before; patches > rounds+1 { // the last gives the field up
		t.Errorf("%d patches after %d changes", patches, rounds+1)
	}
}

func TestIgnoredFieldsAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	files := map[string]string{"web.yaml": webDeployment, "a.yaml": configMap("a", "1")}
	w.hub.push(t, name, w.namespace, files)
	digest := w.hub.sync(name, &deliveryv1.SyncSpec{
		Ignore: []*deliveryv1.IgnoreRule{{Group: "apps", Kind: "Deployment", Pointers: []string{"/spec/replicas"}}},
	})
	w.hub.awaitPhase(t, name, digest, healthy)
	replicas := func() string { return w.field("apps/v1", "Deployment", "web", "spec", "replicas") }
	if replicas() != "2" {
		t.Errorf("at first there are %s", replicas())
	}
	for _, want := range []string{"5", "4"} {
		before := w.api.patches("/deployments/web")
		w.kubectl("scale", "deployment", "web", "--replicas="+want)
		w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"2"}}`)
		await.True(w.t, "what is not ignored is put right", func() bool { return w.value("a") == "1" })
		w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == healthy })
		if patches := w.api.patches("/deployments/web") - before; patches > 1 { // the first gives the field up
			t.Errorf("%d patches", patches)
		}
		if replicas() != want {
			t.Errorf("there are %s, want %s", replicas(), want)
		}
	}
	files["web.yaml"] = strings.ReplaceAll(webDeployment, "image: pause", "image: other")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	if replicas() != "4" || !strings.Contains(w.field("apps/v1", "Deployment", "web", "spec", "template"), "other") {
		t.Errorf("after a push there are %s", replicas())
	}
}

// A webhook that changes what is applied is named; it is no drift, and no reason to apply again and again.
func TestWebhookThatChangesOurApplyIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &review)
		patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"replace","path":"/spec/replicas","value":1}]`))
		fmt.Fprintf(rw, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true,"patchType":"JSONPatch","patch":%q}}`, review.Request.UID, patch)
	}))
	t.Cleanup(hook.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: hook.Certificate().Raw,
	}))
	if _, err := kube.Cluster(t).Kubectl(t.Context(), fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: one.harbour.dev
  clientConfig: {url: %q, caBundle: %s}
  rules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  sideEffects: None
  admissionReviewVersions: [v1]
`, w.namespace, hook.URL, ca, w.namespace), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = kube.Cluster(t).Kubectl(context.WithoutCancel(t.Context()), "", "delete",
			"mutatingwebhookconfiguration", w.namespace)
	})
	w.start()
	name := w.service("hello")
	w.hub.push(t, name, w.namespace, map[string]string{"web.yaml": webDeployment, "a.yaml": configMap("a", "1")})
	want := "Deployment " + w.namespace +
		"/web: an admission webhook changes /spec/replicas of what is applied: add it to sync.ignore, or take it out of Git."
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == degraded && r.GetMessage() == want
	})
	w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"2"}}`)
	await.True(w.t, "drift is put right beside it", func() bool { return w.value("a") == "1" })
	if patches := w.api.patches("/deployments/web"); patches > 2 {
		t.Errorf("%d patches", patches)
	}
}

// The data of Secrets stays out of the agent: what somebody adds to one is nowhere in its memory.
func TestSecretsNeverEnterMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("hello")
	pid, kill := w.processID()
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {ours: value}\n",
		"a.yaml": configMap("a", "1"),
	}), healthy)
	value := rand.Text() + rand.Text()
	w.kubectl("patch", "secret", "s", "--type=merge", fmt.Sprintf(`-p={"stringData":{"theirs":%q}}`, value))
	w.kubectl("label", "secret", "s", "marker-"+strings.ToLower(value[:8])+"=seen")
	w.kubectl("patch", "secret", "s", "--type=merge", `-p={"stringData":{"ours":"changed"}}`)
	w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"2"}}`)
	await.True(w.t, "drift is put right", func() bool {
		return w.value("a") == "1" && w.field("v1", "Secret", "s", "metadata", "name") != "" &&
			w.api.patches("/secrets/s") > 1
	})
	found := searchMemory(t, pid, value, base64.StdEncoding.EncodeToString([]byte(value)),
		"marker-"+strings.ToLower(value[:8]))
	kill()
	if found[0] || found[1] {
		t.Error("the value is in the agent's memory")
	}
	if !found[2] {
		t.Error("the label is not: the search finds nothing")
	}
}

// searchMemory looks for texts in what a process has written to its memory.
func searchMemory(t *testing.T, pid int, texts ...string) []bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Skip("this system does not show memory: ", err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Skip("this system does not show memory: ", err)
	}
	defer func() { _ = mem.Close() }()
	found := make([]bool, len(texts))
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "rw") {
			continue
		}
		buf := make([]byte, 1<<20)
		const overlap = 256
		for at := from; at < to; at += int64(len(buf)) - overlap {
			n, _ := mem.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
			for i, text := range texts {
				found[i] = found[i] || strings.Contains(string(buf[:n]), text)
			}
		}
	}
	return found
}

func TestRepairsGoOnBehindAGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	const soon = "fairlead.dev/timeout: 5s"
	files := map[string]string{
		"a.yaml": annotated("a", "1", soon), "b.yaml": annotated("b", "1", soon),
		"z.yaml": annotated("z", "1", `fairlead.dev/wave: "1"`),
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	files["a.yaml"], files["d.yaml"] = annotated("a", "2", soon), stuckDeployment
	files["z.yaml"] = annotated("z", "2", `fairlead.dev/wave: "1"`)
	digest := w.hub.push(t, name, w.namespace, files)
	meddle := func(when string) {
		t.Helper()
		for _, name := range []string{"a", "b", "z"} {
			w.kubectl("patch", "configmap", name, "--type=merge", `-p={"data":{"x":"other"}}`)
		}
		await.True(w.t, when+" what was sent is put right, and what was not, too",
			func() bool { return w.value("a") == "2" && w.value("b") == "1" && w.value("z") == "1" })
	}
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && strings.Contains(r.GetMessage(), "what comes after it waits")
	})
	meddle("at a gate")
	w.hub.awaitPhase(t, name, digest, failed)
	meddle("at one that is overdue")
	// A mistake changes nothing, and keeps nothing from being repaired.
	files["a.yaml"] = "kind: ["
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), failed)
	meddle("after a mistake")
}

// A service whose content is lost waits for the hub. Other services are repaired meanwhile.
func TestRepairsWithTheHubAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	lost, fine := w.service("lost"), w.service("fine")
	w.hub.awaitPhase(t, lost, w.hub.push(t, lost, w.namespace, configMaps(0, 40)), healthy)
	w.hub.awaitPhase(t, fine, w.hub.push(t, fine, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	stop()
	for _, pattern := range []string{"sets/" + lost + ".*", "artifacts/*"} {
		files, err := filepath.Glob(filepath.Join(w.data, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v %v", pattern, files, err)
		}
		for _, file := range files {
			if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.hub.setHanging(true)
	w.start()
	w.kubectl("delete", "configmaps", "-l", object.ServiceLabel+"="+lost)
	await.True(w.t, "the other service is repaired again and again", func() bool {
		if w.value("a") != "1" {
			return false
		}
		w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"other"}}`)
		await.True(w.t, "it is put right", func() bool { return w.value("a") == "1" })
		return true
	})
	w.hub.setHanging(false)
	await.True(w.t, "the lost one is back, too", func() bool { return w.value("c39") == "1" && w.value("c0") == "1" })
}

// Metadata tells whose fields are: the values of a Secret are not read for them.
func TestIgnoredFieldsOfSecretsAreNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	secret := func(value string) map[string]string {
		return map[string]string{
			"s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {fairlead.dev/ignore: /data/theirs}}\nstringData: {x: " + value + ", theirs: git}\n",
		}
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, secret("one")), healthy)
	w.kubectl("patch", "secret", "s", "--type=merge", `-p={"stringData":{"theirs":"people"}}`)
	var mu sync.Mutex // guards whole
	whole := 0
	w.api.set(func(r *http.Request) int {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/secrets/s") &&
			!strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			mu.Lock()
			defer mu.Unlock()
			whole++
		}
		return 0
	})
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, secret("two")), healthy)
	out, err := kube.Cluster(t).Kubectl(t.Context(), "", "get", "secret", "s", "-n", w.namespace, "-o",
		"jsonpath={.data.x} {.data.theirs}")
	if err != nil || !strings.Contains(out, "dHdv cGVvcGxl") {
		t.Errorf("got %s %v", out, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if whole > 0 {
		t.Errorf("the whole Secret was read %d times", whole)
	}
}
