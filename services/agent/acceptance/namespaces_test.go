package acceptance

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/object"
)

func creates(labels map[string]string, own bool) *deliveryv1.SyncSpec {
	return &deliveryv1.SyncSpec{CreateNamespace: &deliveryv1.CreateNamespace{Labels: labels, Own: own}}
}

func TestNamespaceIsMadeBeforeWhatIsInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("app"), w.namespace+"-made"
	files := map[string]string{"a.yaml": configMap("a", "1")}
	w.hub.push(t, name, space, files)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == failed })
	w.hub.awaitPhase(t, name, w.hub.sync(name, creates(map[string]string{"team": "shop"}, false)), healthy)
	made, err := w.get("v1", "Namespace", "", space)
	if err != nil || made.GetLabels()["team"] != "shop" || object.Owner(made) != "" {
		t.Fatalf("got %v, %v", made, err)
	}
	// The namespace goes on as it is, whoever labels it, and is not what the service has.
	kubectl(w, "", "label", "namespace", space, "team=bakery", "--overwrite")
	files["a.yaml"] = configMap("a", "2")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, space, files), healthy)
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	stays, err := w.get("v1", "Namespace", "", space)
	if err != nil || stays.GetUID() != made.GetUID() || stays.GetDeletionTimestamp() != nil ||
		stays.GetLabels()["team"] != "bakery" {
		t.Errorf("the namespace did not stay as it was: %v, %v", stays, err)
	}
}

func TestNamespaceThatSomebodyDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("app"), w.namespace+"-again"
	sync := creates(map[string]string{"team": "shop"}, false)
	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, space, map[string]string{"a.yaml": configMap("a", "1")}, sync), healthy)
	kubectl(w, "", "delete", "namespace", space)
	await.True(w.t, "the object is there again", func() bool {
		_, err := w.get("v1", "ConfigMap", space, "a")
		return err == nil
	})
	made, err := w.get("v1", "Namespace", "", space)
	if err != nil || made.GetLabels()["team"] != "shop" || object.Owner(made) != "" {
		t.Errorf("got %v, %v", made, err)
	}
}

func TestTwoServicesMayMakeOneNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first, second, space := w.service("first"), w.service("second"), w.namespace+"-shared"
	w.hub.push(t, first, space, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.push(t, second, space, map[string]string{"b.yaml": configMap("b", "1")})
	w.hub.awaitPhase(t, first, w.hub.sync(first, creates(nil, false)), healthy)
	w.hub.awaitPhase(t, second, w.hub.sync(second, creates(nil, false)), healthy)
}

func TestOwnNamespaceGoesWithItsService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("app"), w.namespace+"-own"
	w.hub.push(t, name, space, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, w.hub.sync(name, creates(map[string]string{"team": "shop"}, true)), healthy)
	made, err := w.get("v1", "Namespace", "", space)
	if err != nil || object.Owner(made) != name {
		t.Fatalf("got %v, %v", made, err)
	}
	w.hub.awaitPhase(t, name, w.hub.sync(name, creates(map[string]string{"team": "bakery"}, true)), healthy)
	if made, err = w.get("v1", "Namespace", "", space); err != nil || made.GetLabels()["team"] != "bakery" {
		t.Errorf("its labels are %v, %v", made.GetLabels(), err)
	}
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	if left, err := w.get("v1", "Namespace", "", space); !apierrors.IsNotFound(err) &&
		left.GetDeletionTimestamp() == nil {
		t.Errorf("the namespace stays: %v", err)
	}
}

func TestProjectBoundsTheNamespaceThatIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("app"), w.namespace+"-bound"
	w.hub.push(t, name, space, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.bound(name, &deliveryv1.ObjectRules{Project: "shop", Namespaces: []string{space}})
	w.hub.sync(name, creates(nil, false))
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == failed &&
			strings.Contains(r.GetMessage(), `project "shop" does not allow kind Namespace`) &&
			strings.Contains(r.GetMessage(), "spec.sync.createNamespace")
	})
	if _, err := w.get("v1", "Namespace", "", space); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is there: %v", err)
	}
}

// A mistake changes nothing, also where the namespaces and kinds of the objects are among the objects.
func TestMistakeChangesNothingBesideAnOwnNamespaceAndKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space, made, group := w.service("app"), w.namespace+"-own", w.namespace+"-made", w.namespace+".dev"
	manifests := func(value, label string) map[string]string {
		in := strings.NewReplacer("{name: web}", "{name: web, namespace: "+space+"}", "a: b", "a: "+label)
		return map[string]string{
			"ns.yaml":   "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + space + "}\n",
			"a.yaml":    configMap("a", value),
			"crd.yaml":  crd(group),
			"raft.yaml": raft(group, "first") + "spec: {v: \"" + value + "\"}\n",
			"web.yaml":  in.Replace(webDeployment),
		}
	}
	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, made, manifests("1", "b"), creates(nil, false)), healthy)
	report := w.hub.awaitPhase(t, name, w.hub.push(t, name, made, manifests("3", "c")), failed)
	if !strings.Contains(report.GetMessage(), "the previous state stays applied") {
		t.Errorf("got %s", report.GetMessage())
	}
	config, err := w.get("v1", "ConfigMap", made, "a")
	if err != nil {
		t.Fatal(err)
	}
	if v, _, _ := unstructured.NestedString(config.Object, "data", "x"); v != "1" {
		t.Errorf("the ConfigMap has %q", v)
	}
}

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
