package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/object"
)

// in is the world of a subtest.
func (w *world) in(t *testing.T) *world {
	own := *w
	own.t = t
	return &own
}

// loseDisk takes everything from an agent that was stopped. The agent may join once more.
func (w *world) loseDisk() {
	w.t.Helper()
	w.data = w.t.TempDir()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.joined = false
}

// lax lets a service shrink as much as a test wants.
func lax() *deliveryv1.SyncSpec {
	return &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{MaxPercent: new(int32(100))}}
}

const stuckDeployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db, annotations: {fairlead.dev/timeout: 5s}}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: pause}]}}}\n"

// A holder of a namespace is named, whatever it is. Objects that our own objects brought along hold none.
func TestWhatHoldsANamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	cluster := func(stdin string, args ...string) {
		t.Helper()
		if _, err := kube.Cluster(t).Kubectl(t.Context(), stdin, args...); err != nil {
			t.Fatal(err)
		}
	}
	group := w.namespace + ".org"
	cluster(crd(group)+"---\n"+
		strings.NewReplacer("rafts", "boats", "Raft", "Boat", "name: v1,", "name: v2,").Replace(crd(group)), "apply",
		"-f", "-")
	cluster("", "wait", "--for=condition=Established", "crd/rafts."+group, "crd/boats."+group, "--timeout=1m")
	cluster("", "create", "clusterrole", w.namespace, "--verb=get", "--resource=pods")
	owner, err := w.get("rbac.authorization.k8s.io/v1", "ClusterRole", "", w.namespace)
	if err != nil {
		t.Fatal(err)
	}
	own := "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAME}\n---\n" +
		strings.Replace(webDeployment, "{name: web}", "{name: web, namespace: NAME}", 1) +
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: NAME}\nspec: {selector: {a: b}, ports: [{port: 80}]}\n"
	claims := "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: NAME}\nspec:\n  serviceName: db\n  selector: {matchLabels: {a: c}}\n" +
		"  template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: pause}]}}\n  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}]\n"
	for _, one := range []struct{ name, files, foreign, holds string }{
		{
			"child", own,
			fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: child, ownerReferences: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: %s, uid: %s}]}\n", owner.GetName(), owner.GetUID()),
			"Secret SPACE/child",
		},
		{"other-version", own, raft(group, "afloat"), "Raft SPACE/afloat"},
		{"claim", own + claims, "", "PersistentVolumeClaim SPACE/data-db-0"},
		{"free", own, "", ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name, space := w.service(one.name), w.namespace+"-"+one.name
			w.hub.await(t, name, progressed(w.hub.pushSynced(t, name, w.namespace,
				map[string]string{
					"a.yaml": strings.ReplaceAll(one.files, "NAME", space), "c.yaml": configMap(one.name, "1"),
				}, lax())))
			await.True(w.t, "its pods are there", func() bool {
				out, err := kube.Cluster(t).Kubectl(t.Context(), "", "get", "pods", "-n", space, "-o", "name")
				return err == nil && strings.Contains(out, "pod/web-")
			})
			if one.foreign != "" {
				cluster(one.foreign, "apply", "-n", space, "-f", "-")
			}
			if strings.Contains(one.holds, "Claim") {
				await.True(w.t, "the claim is there",
					func() bool {
						_, err := w.get("v1", "PersistentVolumeClaim", space, "data-db-0")
						return err == nil
					})
			}
			report := w.hub.awaitPhase(t, name,
				w.hub.push(t, name, w.namespace, map[string]string{"c.yaml": configMap(one.name, "2")}), healthy)
			if one.holds == "" {
				w.mustBeGone("v1", "Namespace", "", space)
				return
			}
			kept, err := w.get("v1", "Namespace", "", space)
			if err != nil || kept.GetDeletionTimestamp() != nil || object.Owner(kept) != "" {
				t.Errorf("the namespace is not let go of: %v %v", kept, err)
			}
			if want := "Namespace " + space + " stays, without the service's mark: " +
				strings.ReplaceAll(one.holds, "SPACE", space) +
				" is in it."; !strings.Contains(report.GetMessage(), want) {
				t.Errorf("got %s, want %s", report.GetMessage(), want)
			}
		})
	}
}

// progressed: a digest is applied, healthy or not.
func progressed(digest string) func(*deliveryv1.ServiceReport) bool {
	return func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest }
}

func TestLostDiskRemovesAsTheServicesAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	w.kubectl("create", "serviceaccount", "deployer")
	w.kubectl("create", "role", "deployer", "--verb=get,list,create,patch,update,delete", "--resource=configmaps")
	w.kubectl("create", "rolebinding", "deployer", "--role=deployer", "--serviceaccount="+w.namespace+":deployer")
	name := w.service("web")
	w.hub.awaitPhase(t, name,
		w.hub.pushSynced(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")},
			&deliveryv1.SyncSpec{Impersonate: w.namespace + "/deployer"}), healthy)
	stop()
	w.loseDisk()
	w.hub.remove(name)
	var mu sync.Mutex // guards users
	var users []string
	w.api.set(func(r *http.Request) int {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/configmaps/a") {
			mu.Lock()
			defer mu.Unlock()
			users = append(users, r.Header.Get("Impersonate-User"))
		}
		return 0
	})
	w.start()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	mu.Lock()
	defer mu.Unlock()
	if want := "system:serviceaccount:" + w.namespace + ":deployer"; len(users) != 1 || users[0] != want {
		t.Errorf("it was deleted by %q, want %s", users, want)
	}
}

// The fate of the objects is known before an apply ends that may never do so.
func TestOrphansStayThoughTheDiskWasLostInTheMiddleOfAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("web")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	bad := w.hub.pushSynced(t, name, w.namespace, map[string]string{"a.yaml": "kind: ["}, &deliveryv1.SyncSpec{
		OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN,
	})
	w.hub.awaitPhase(t, name, bad, failed)
	stop()
	w.loseDisk()
	w.hub.remove(name)
	w.start()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustData("a", "1")
}

func TestObjectThatIsHeldInTheClusterKeepsADigestOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	first := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
	})
	w.hub.awaitPhase(t, name, first, healthy)
	w.kubectl("annotate", "configmap", "a", "fairlead.dev/hold=ada looks at it")
	// The agent hears of it in order: once this one is repaired, it has heard of the hold.
	w.kubectl("patch", "configmap", "b", "--type=merge", `-p={"data":{"x":"other"}}`)
	await.True(w.t, "the other one is put right", func() bool { return w.value("b") == "1" })
	second := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "2"), "b.yaml": configMap("b", "2"),
	})
	report := w.hub.awaitPhase(t, name, second, held)
	if want := "ConfigMap " + w.namespace +
		"/a is held by its annotation fairlead.dev/hold in the cluster"; report.GetAppliedDigest() != first ||
		!strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %v, want %s", report, want)
	}
	w.mustData("a", "1")
	w.mustData("b", "2")
	w.mustData("c", "1") // no object goes before all is applied
	w.kubectl("annotate", "configmap", "a", "fairlead.dev/hold-")
	w.hub.awaitPhase(t, name, second, healthy)
	w.mustData("a", "2")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c")

	// The held object is not removed, either.
	w.kubectl("annotate", "configmap", "b", "fairlead.dev/hold=ada looks at it")
	third := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "3")})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetAppliedDigest() == third &&
			strings.Contains(r.GetMessage(),
				"ConfigMap "+w.namespace+"/b is held by its annotation fairlead.dev/hold in the cluster")
	})
	w.mustData("b", "2")
	w.kubectl("annotate", "configmap", "b", "fairlead.dev/hold-")
	w.hub.awaitPhase(t, name, third, healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
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

// Below ten objects, too.
func TestGuardOfFewObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprint(i, ".yaml")] = configMap(fmt.Sprint("NAME-", i), "1")
	}
	hooks := annotated("NAME-hook", "1", "fairlead.dev/hook: post-sync")
	for name, one := range map[string]struct {
		next    map[string]string
		percent *int32
		guarded bool
	}{
		"most": {map[string]string{"0.yaml": configMap("NAME-0", "1")}, nil, true},
		"others": {
			map[string]string{"x.yaml": configMap("NAME-x", "1"), "y.yaml": configMap("NAME-y", "1")}, nil, true,
		},
		"hooks":   {map[string]string{"h.yaml": hooks}, new(int32(100)), true},
		"allowed": {map[string]string{"0.yaml": configMap("NAME-0", "1")}, new(int32(100)), false},
		"few": {
			map[string]string{
				"0.yaml": configMap("NAME-0", "1"), "1.yaml": configMap("NAME-1", "1"),
				"2.yaml": configMap("NAME-2", "1"),
			},
			nil, false,
		},
		"threshold": {
			map[string]string{
				"0.yaml": configMap("NAME-0", "1"), "1.yaml": configMap("NAME-1", "1"),
				"2.yaml": configMap("NAME-2", "1"),
			},
			new(int32(20)), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			service := w.service(name)
			of := func(files map[string]string) map[string]string {
				out := map[string]string{}
				for file, text := range files {
					out[file] = strings.ReplaceAll(text, "NAME", name)
				}
				return out
			}
			spec := &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{MaxPercent: one.percent}}
			w.hub.awaitPhase(t, service, w.hub.pushSynced(t, service, w.namespace, of(files), spec), healthy)
			digest := w.hub.pushSynced(t, service, w.namespace, of(one.next), spec)
			report := w.hub.await(t, service, func(r *deliveryv1.ServiceReport) bool {
				return r.GetDigest() == digest && r.GetPhase() != deliveryv1.Phase_PHASE_APPLYING
			})
			if guarded := report.GetPhase() == waiting && report.GetGuard().GetId() != ""; guarded != one.guarded {
				t.Errorf("got %v", report)
			}
			if one.guarded {
				w.mustData(name+"-4", "1")
			} else {
				w.mustBeGone("v1", "ConfigMap", w.namespace, name+"-4")
			}
		})
	}
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

// A cold namespace is one request per kind.
func TestStrangersAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("many")
	w.kubectl("create", "configmap", "c7")
	digest := w.hub.pushSynced(t, name, w.namespace, configMaps(0,
		30), &deliveryv1.SyncSpec{Adoption: deliveryv1.Adoption_ADOPTION_NEVER})
	w.start()
	if report := w.hub.awaitPhase(t, name, digest, failed); !strings.Contains(report.GetMessage(), "c7") {
		t.Errorf("got %s", report.GetMessage())
	}
	w.kubectl("delete", "configmap", "c7")
	w.hub.awaitPhase(t, name, digest, healthy)
	if asked := w.api.count("GET /api/v1/namespaces/" + w.namespace + "/configmaps/c"); asked > 0 {
		t.Errorf("%d objects were asked for one by one", asked)
	}
}

func TestHeldStrangerIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	w.kubectl("create", "configmap", "a", "--from-literal=x=theirs")
	w.kubectl("annotate", "configmap", "a", "fairlead.dev/hold=ada looks at it")
	digest := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	if report := w.hub.awaitPhase(t, name, digest,
		failed); !strings.Contains(report.GetMessage(), "held by its annotation fairlead.dev/hold") {
		t.Errorf("got %s", report.GetMessage())
	}
	w.mustData("a", "theirs")
	w.kubectl("annotate", "configmap", "a", "fairlead.dev/hold-")
	w.hub.awaitPhase(t, name, digest, healthy)
	w.mustData("a", "1")
}
