package acceptance

import (
	"encoding/base64"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/inventory"
)

// passwordChart has an unguarded password, a key pair in two objects, and reads what the cluster can do.
func passwordChart(group string) map[string]string {
	return map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/secret.yaml": `{{ $pair := genSelfSignedCert "a" nil nil 365 }}
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: {{ randAlphaNum 20 | quote }}, key: {{ $pair.Key | quote }}}
---
` + templated("trust", `{{ $pair.Cert | b64enc }}`),
		"templates/kind.yaml": `{{ if .Capabilities.APIVersions.Has "` + group + `/v1/Raft" }}` +
			configMap("with", "1") + "{{ else }}" + configMap("without", "1") + "{{ end }}",
	}
}

// login is what passwordChart made: password and key, and the certificate beside them.
func (w *world) login() string {
	w.t.Helper()
	secret, err := w.cluster.Secrets(w.namespace).Get(w.t.Context(), "login", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	trust, err := w.get("v1", "ConfigMap", w.namespace, "trust")
	if err != nil {
		w.t.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	cert, _, _ := unstructured.NestedString(trust.Object, "data", "x")
	if data["password"] == "" || data["key"] == "" || cert == "" {
		w.t.Fatalf("something is missing: %v, certificate %q", data, cert)
	}
	return data["password"] + " " + data["key"] + " " + cert
}

func TestRandomValuesAreNewForNewContentOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	group := w.namespace + ".example.com"
	chart := w.service("chart")
	files := passwordChart(group)
	first := w.hub.push(t, chart, w.namespace, files)
	w.hub.awaitPhase(t, chart, first, healthy)
	login := w.login()
	same := func(what string) {
		t.Helper()
		if now := w.login(); now != login {
			t.Errorf("%s: other values", what)
		}
	}

	asked := w.hub.sync(chart, &deliveryv1.SyncSpec{RequestTime: timestamppb.Now()})
	w.hub.awaitPhase(t, chart, asked, healthy)
	same("a sync was asked for")

	stop()
	kubectl(w, strings.NewReplacer("GROUP", group).Replace(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rafts.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Raft, plural: rafts}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`), "apply", "-f", "-")
	await.True(w.t, "the kind is listed", func() bool {
		versions, err := w.cluster.APIVersions(t.Context())
		return err == nil && slices.Contains(versions, group+"/v1/Raft")
	})
	stop = w.start()
	await.True(w.t, "it is rendered anew", func() bool { return w.has("with") && !w.has("without") })
	same("the cluster has a new kind")

	stop()
	w.lose() // another agent has nothing, either
	stop = w.start()
	w.hub.awaitPhase(t, chart, asked, healthy)
	kubectl(w, "", "delete", "secret", "login")
	await.True(w.t, "the Secret is made again", func() bool {
		_, err := w.get("v1", "Secret", w.namespace, "login")
		return err == nil
	})
	same("the disk was lost, and one of two objects")

	files["templates/more.yaml"] = configMap("more", "1")
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	if w.login() == login {
		t.Error("new content has the values of the old one, which an upgrade with Helm would not have")
	}
	delete(files, "templates/more.yaml")
	w.hub.awaitPhase(t, chart, w.hub.push(t, chart, w.namespace, files), healthy)
	same("the content before is back")

	stop()
	kubectl(w, "", "-n", inventory.Namespace, "delete", "secret", inventory.ValuesName(chart))
	w.start()
	w.hub.awaitPhase(t, chart, w.hub.sync(chart, &deliveryv1.SyncSpec{RequestTime: timestamppb.Now()}), healthy)
	if w.login() == login {
		t.Error("values that were ordered to be made again are the old ones")
	}
	w.hub.remove(chart)
	w.hub.await(t, chart, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "Secret", inventory.Namespace, inventory.ValuesName(chart))
}

// Another replica that leads has rendered nothing of what is applied. Random values are the same, also of what it makes
// anew.
func TestAnotherReplicaKeepsRandomValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.elects = true
	kill := w.process()
	chart := w.service("chart")
	digest := w.hub.push(t, chart, w.namespace, passwordChart(w.namespace+".example.com"))
	w.hub.awaitPhase(t, chart, digest, healthy)
	login := w.login()
	second := w.another()
	second.start()
	await.True(w.t, "the other replica stands by", second.named)
	kill()
	await.True(w.t, "the other replica leads", func() bool { return w.leader() == second.name() })
	asked := w.hub.sync(chart, &deliveryv1.SyncSpec{RequestTime: timestamppb.Now()})
	w.hub.awaitPhase(t, chart, asked, healthy)
	if w.login() != login {
		t.Error("a sync by the other replica has other values")
	}
	kubectl(w, "", "delete", "secret", "login")
	await.True(w.t, "the Secret is made again", func() bool {
		_, err := w.get("v1", "Secret", w.namespace, "login")
		return err == nil
	})
	if w.login() != login {
		t.Error("half of a pair is another one")
	}
}

// A kept value is in the cluster before what it feeds: an agent that is killed in between sends the same.
func TestAKillBeforeTheFirstObjectChangesNoRandomValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chart := w.service("chart")
	reached := w.api.stallOn(http.MethodPatch, "/secrets/login")
	kill := w.process()
	digest := w.hub.push(t, chart, w.namespace, passwordChart("none.example.com"))
	waitFor(t, reached, "the first object is sent")
	kill()
	kept := w.kept(chart)
	if len(kept) == 0 {
		t.Fatal("nothing is kept while the first object is on its way")
	}
	w.api.set(nil)
	w.lose()
	w.start()
	w.hub.awaitPhase(t, chart, digest, healthy)
	password, err := base64.StdEncoding.DecodeString(strings.Fields(w.login())[0])
	if err != nil || !strings.Contains(kept, string(password)) {
		t.Errorf("the password is none of those that were kept: %v", err)
	}
	if w.kept(chart) != kept {
		t.Error("the second render kept something else")
	}
}

// kept is the text of all that is kept of a service.
func (w *world) kept(service string) string {
	w.t.Helper()
	secret, err := w.cluster.Secrets(inventory.Namespace).Get(w.t.Context(), inventory.ValuesName(service),
		metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	var all strings.Builder
	for _, one := range data {
		text, err := base64.StdEncoding.DecodeString(one)
		if err != nil {
			w.t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

func TestCertificatesAreRenewedBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	chart := w.service("chart")
	digest := w.hub.push(t, chart, w.namespace, passwordChart("none.example.com"))
	w.hub.awaitPhase(t, chart, digest, healthy)
	login := strings.Fields(w.login())
	stop()
	w.ageCertificates(chart)
	w.start()
	await.True(w.t, "the key pair is another", func() bool {
		now := strings.Fields(w.login())
		return now[1] != login[1] && now[2] != login[2]
	})
	w.hub.awaitPhase(t, chart, digest, healthy)
	if now := strings.Fields(w.login()); now[0] != login[0] {
		t.Error("the password changed, too")
	}
}

// ageCertificates makes the time come to renew the certificates of a service, while no agent runs: what is kept says
// so, and so does the inventory; the disk is lost.
func (w *world) ageCertificates(chart string) {
	w.t.Helper()
	secret, err := w.cluster.Secrets(inventory.Namespace).Get(w.t.Context(), inventory.ValuesName(chart),
		metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	for id, one := range data {
		text, err := base64.StdEncoding.DecodeString(one)
		if err != nil {
			w.t.Fatal(err)
		}
		before, rest, found := strings.Cut(string(text), `"renew":"`)
		if !found {
			w.t.Fatal("no certificate is kept")
		}
		data[id] = base64.StdEncoding.EncodeToString([]byte(before + `"renew":"2020` + rest[4:]))
	}
	if err := unstructured.SetNestedStringMap(secret.Object, data, "data"); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.cluster.Secrets(inventory.Namespace).Update(w.t.Context(), secret,
		metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	record := w.record(chart)
	environment, _, found := strings.Cut(record.Applied.Environment, "@")
	if !found {
		w.t.Fatalf("the inventory does not say when to renew: %q", record.Applied.Environment)
	}
	record.Applied.Environment = environment + "@1577836800"
	store := inventory.New(w.cluster.ConfigMaps(inventory.Namespace), w.cluster)
	if err := store.Load(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := store.Save(w.t.Context(), record); err != nil {
		w.t.Fatal(err)
	}
	if err := os.RemoveAll(w.data + "/sets"); err != nil {
		w.t.Fatal(err)
	}
}

// A key pair whose Secret is a hook is renewed as a whole, and what runs to its end is not run again for it.
func TestCertificateOfAHookIsRenewedWithWhatTrustsIt(t *testing.T) {
	t.Parallel()
	for _, moments := range []string{"pre-install", "pre-install,pre-upgrade"} {
		t.Run(moments, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			stop := w.start()
			chart := w.service("chart")
			files := passwordChart("none.example.com")
			files["templates/secret.yaml"] = strings.Replace(files["templates/secret.yaml"], "{name: login}",
				`{name: login, annotations: {helm.sh/hook: "`+moments+`"}}`, 1)
			files["templates/job.yaml"] = job("once", "helm.sh/hook: post-install")
			digest := w.hub.push(t, chart, w.namespace, files)
			w.end("once", "Complete")
			w.hub.awaitPhase(t, chart, digest, healthy)
			login := strings.Fields(w.login())
			stop()
			w.ageCertificates(chart)
			w.start()
			await.True(w.t, "the certificate is another", func() bool { return strings.Fields(w.login())[2] != login[2] })
			w.hub.awaitPhase(t, chart, digest, healthy)
			await.True(w.t, "the key is another, too", func() bool { return strings.Fields(w.login())[1] != login[1] })
			if made := w.api.patches("/jobs/once"); made != 1 {
				t.Errorf("the Job was made %d times", made)
			}
		})
	}
}

func TestRandomValuesThatAreTooManyAreNamedInTheStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	chart := w.service("chart")
	w.hub.push(t, chart, w.namespace, map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/a.yaml": templated("a", "\n    {{ range until 300 }}{{ randAlphaNum 1000 }}{{ end }}"),
	})
	w.hub.await(t, chart, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == healthy &&
			strings.Contains(r.GetMessage(), "too many to be kept: web/templates/a.yaml, line 6 (randAlphaNum).")
	})
}

// lose takes the disk from the agent that is started next.
func (w *world) lose() {
	w.t.Helper()
	w.data = w.t.TempDir()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.joined = false
}
