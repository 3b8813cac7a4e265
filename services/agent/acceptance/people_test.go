package acceptance

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/mux/muxhttp"
)

// person lets somebody do something with objects of kinds in the test's namespace, as a role says.
func (w *world) person(name string, rule ...string) muxhttp.Caller {
	w.t.Helper()
	user := name + "." + w.namespace
	if len(rule) > 0 {
		w.kubectl(append([]string{"create", "role", name}, rule...)...)
		w.kubectl("create", "rolebinding", name, "--role="+name, "--user="+user)
	}
	return muxhttp.Caller{User: user, Groups: []string{"people"}}
}

// asked is what the agent answers a person through the tunnel, once it knows the service; an error is in its own words.
func (w *world) asked(as muxhttp.Caller, method, path string,
	body io.Reader,
) (detail *deliveryv1.ServiceDetail, code int, message string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://edge/fairlead/v1/services/"+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := muxhttp.Transport{Session: w.hub.tunnel.session(w.t), Caller: as}.RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		w.t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		var status struct{ Message string }
		if err := json.Unmarshal(text, &status); err != nil {
			w.t.Fatalf("%d %s: %v", answer.StatusCode, text, err)
		}
		return nil, answer.StatusCode, status.Message
	}
	detail = &deliveryv1.ServiceDetail{}
	if err := protojson.Unmarshal(text, detail); err != nil {
		w.t.Fatal(err)
	}
	return detail, answer.StatusCode, ""
}

func secretObject(name, value string) string {
	return "---\napiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {x: " + value + "}\n"
}

// An object that would be removed, and a Secret that differs, is told by name to those only who may read it in the
// cluster.
func TestAComparisonNamesNoObjectThatThePersonMayNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.tunnel = &testTunnel{}
	w.start()
	name := w.service("hello")
	w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("keeps", "1") + "---\n" + configMap("leaves", "1") + secretObject("token", "one") +
			secretObject("old", "one"),
	})
	w.hub.awaitPhase(t, name, w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, "a look")), held)
	w.hub.awaitPhase(t, name, w.hub.sync(name, nil), healthy)
	w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, "a look"))
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("keeps", "2") + secretObject("token", "two") + secretObject("new", "one"),
		}), held)

	reader := w.person("reader", "--verb=get", "--resource=configmaps")
	detail, code, message := w.asked(reader, http.MethodGet, name+"/diff", nil)
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, message)
	}
	text := protojson.Format(detail)
	if d := detail.GetDiff(); d.GetCreated() != 1 || d.GetChanged() != 2 || d.GetRemoved() != 2 ||
		len(d.GetObjects()) != 5 {
		t.Errorf("counted %s", text)
	}
	for _, secret := range []string{"token", "old", "new"} {
		if strings.Contains(text, `"`+secret+`"`) {
			t.Errorf("Secret %q is named: %s", secret, text)
		}
	}
	if !strings.Contains(text, `"leaves"`) || !strings.Contains(text, `"keeps"`) ||
		!strings.Contains(text, "not named") {
		t.Errorf("what may be read is not told: %s", text)
	}

	_, code, message = w.asked(w.person("some", "--verb=get", "--resource=configmaps", "--resource-name=keeps"),
		http.MethodGet, name+"/diff", nil)
	if code != http.StatusForbidden || strings.Contains(message, "leaves") ||
		!strings.Contains(message, "kind ConfigMap in namespace "+w.namespace) {
		t.Errorf("an object that would be removed and may not be read: %d, %s", code, message)
	}
	_, code, message = w.asked(w.person("nobody"), http.MethodGet, name+"/diff", nil)
	if code != http.StatusForbidden || strings.Contains(message, "keeps") {
		t.Errorf("somebody without rights: %d, %s", code, message)
	}

	all, code, message := w.asked(w.person("all", "--verb=get", "--resource=configmaps,secrets"), http.MethodGet,
		name+"/diff", nil)
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, message)
	}
	if got := changes(all.GetDiff()); got["token"] != "UPDATE" || got["old"] != "REMOVE" || got["new"] != "CREATE" ||
		got["leaves"] != "REMOVE" {
		t.Errorf("got %v", got)
	}
}

// folder is a tar as the CLI sends it.
func folder(t *testing.T, files map[string]string) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := artifact.NewWriter(&out, artifact.Limits{})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.File(name, false, int64(len(files[name])), strings.NewReader(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// A folder of a person's is rendered and compared as the hub's would be, in the service's bounds, and nothing is
// applied.
func TestAFolderIsComparedAsIfItWereTheHubs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.tunnel = &testTunnel{}
	w.start()
	name := w.service("hello")
	first := map[string]string{"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1")}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, first), healthy)
	ada := w.person("ada", "--verb=get", "--resource=configmaps")
	compare := func(files map[string]string) (*deliveryv1.ServiceDetail, int, string) {
		t.Helper()
		return w.asked(ada, http.MethodPost, name+"/diff", folder(t, files))
	}
	detail, code, message := compare(map[string]string{"a.yaml": configMap("a", "2") + "---\n" + configMap("c", "1")})
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, message)
	}
	if got := changes(detail.GetDiff()); !maps.Equal(got, map[string]string{
		"a": "UPDATE", "b": "REMOVE", "c": "CREATE",
	}) {
		t.Errorf("got %v", got)
	}
	if detail, _, _ = compare(first); detail.GetDiff().GetUnchanged() != 2 || len(changes(detail.GetDiff())) != 0 {
		t.Errorf("the hub's own folder differs: %v", detail)
	}
	if _, code, message = compare(map[string]string{"a.yaml": "kind: ["}); code != http.StatusUnprocessableEntity ||
		!strings.Contains(message, "apps/hello/a.yaml") {
		t.Errorf("a mistake is told as %d, %s", code, message)
	}
	if _, code, message = compare(map[string]string{"README.md": "none"}); code != http.StatusUnprocessableEntity ||
		!strings.Contains(message, "holds no manifests") {
		t.Errorf("a folder without manifests is told as %d, %s", code, message)
	}
	if _, code, message = w.asked(ada, http.MethodPost, name+"/diff",
		strings.NewReader("no tar")); code != http.StatusServiceUnavailable && code != http.StatusUnprocessableEntity {
		t.Errorf("what is no tar: %d, %s", code, message)
	}
	if _, code, message = w.asked(ada, http.MethodPost, name+"/diff",
		io.LimitReader(zeros{}, artifact.PreviewBytes+1)); code != http.StatusRequestEntityTooLarge ||
		!strings.Contains(message, "more than 32 MiB") {
		t.Errorf("too large: %d, %s", code, message)
	}
	w.hub.awaitPhase(t, name,
		w.hub.bound(name, &deliveryv1.ObjectRules{Project: "shop", DeniedKinds: []string{"Secret"}}), healthy)
	if _, code, message = compare(map[string]string{
		"a.yaml": configMap("a", "1") + secretObject("s", "1"),
	}); code != http.StatusUnprocessableEntity || !strings.Contains(message, `project "shop" does not allow`) {
		t.Errorf("beyond the bounds of the project: %d, %s", code, message)
	}
	w.mustData("a", "1")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c")
	if files, err := filepath.Glob(filepath.Join(w.data, ".preview*")); err != nil || len(files) > 0 {
		t.Errorf("left on the disk: %v, %v", files, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Templates of a folder that somebody chose see no secret, however they turn it around, and the comparison is about the
// secret all the same.
func TestAFolderLearnsNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.tunnel = &testTunnel{}
	w.start()
	name := w.service("chart")
	const configured, kept = "hunter2-configured", "hunter3-in-the-cluster"
	w.kubectl("create", "secret", "generic", "own", "--from-literal=password="+kept)
	w.kubectl("create", "secret", "generic", "guesses", "--from-literal=password="+configured)
	plain := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/a.yaml": templated("url", "postgres://web:{{ .Values.configuration.password }}@db") + "---\n" +
			templated("other", "1"),
		"templates/s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {x: {{ .Values.configuration.password | b64enc }}}\n",
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, plain), failed) // its configuration is missing, which alone mends it
	w.hub.awaitPhase(t, name, w.hub.change(name, func(d *deliveryv1.ServiceDelivery) {
		d.Configuration = &deliveryv1.Configuration{Revision: "1", Entries: []*deliveryv1.ConfigurationEntry{
			{Name: "flag", Secret: true, Value: &deliveryv1.ConfigurationEntry_Flag{Flag: true}},
			{Name: "password", Secret: true, Value: &deliveryv1.ConfigurationEntry_Text{Text: configured}},
			{Name: "tree", Secret: true, Value: &deliveryv1.ConfigurationEntry_Json{Json: `{"on": [true]}`}},
		}}
	}), healthy)
	w.mustData("url", "postgres://web:"+configured+"@db")
	ada := w.person("ada", "--verb=get", "--resource=configmaps,secrets")
	look := func(as muxhttp.Caller, template string) (*deliveryv1.ServiceDetail, int, string) {
		t.Helper()
		files := maps.Clone(plain)
		files["templates/other.yaml"] = template
		return w.asked(as, http.MethodPost, name+"/diff", folder(t, files))
	}
	detail, code, message := look(ada, configMap("new", "1"))
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, message)
	}
	if got := changes(detail.GetDiff()); !maps.Equal(got, map[string]string{"new": "CREATE"}) {
		t.Errorf("what has the secret in it differs: %v", detail)
	}

	files := maps.Clone(plain)
	const lookup = `(index (lookup "v1" "Secret" .Release.Namespace "own").data "password")`
	for _, turned := range []string{
		`{{ .Values.configuration.password }}`, `{{ .Values.configuration.password | b64enc }}`,
		`{{ regexReplaceAll "(.)" .Values.configuration.password "${1} " }}`,
		`{{ .Values.configuration.password | b32enc }}`,
		`{{ ` + lookup + ` }}`, `{{ ` + lookup + ` | b64dec }}`,
		`{{ regexReplaceAll "(.)" (` + lookup + ` | b64dec) "${1} " }}`,
		`{{ if eq .Values.configuration.password "` + configured + `" }}guessed{{ end }}`,
		`{{ (lookup "v1" "Secret" .Release.Namespace "own").metadata.annotations }}`,
		`{{ if .Values.configuration.flag }}guessed{{ end }}`,
		`{{ if has true .Values.configuration.tree.on }}guessed{{ end }}`,
		`{{ if eq .Values.configuration.password (index (lookup "v1" "Secret" .Release.Namespace "guesses").data "password" | b64dec) }}guessed{{ end }}`,
	} {
		files["templates/a.yaml"] = templated("url", "x") + "---\n" +
			templated("other", strings.ReplaceAll(turned, `"`, "`"))
		detail, code, message := w.asked(ada, http.MethodPost, name+"/diff", folder(t, files))
		text := message + protojson.Format(detail)
		if code != http.StatusOK {
			t.Errorf("%s: %d %s", turned, code, message)
		}
		bare := strings.ReplaceAll(text, " ", "")
		for _, secret := range []string{
			configured, kept, base64.StdEncoding.EncodeToString([]byte(configured)),
			base64.StdEncoding.EncodeToString([]byte(kept)), base32.StdEncoding.EncodeToString([]byte(configured)),
			"guessed",
		} {
			if strings.Contains(strings.ReplaceAll(bare, "postgres://web:"+configured, ""), secret) {
				t.Errorf("%s: %q is told: %s", turned, secret, text)
			}
		}
	}
	_, code, message = look(ada, `{{ fail (printf "it is %s" .Values.configuration.password) }}`)
	if code != http.StatusUnprocessableEntity || strings.Contains(message, configured) ||
		!strings.Contains(message, "it is ***") {
		t.Errorf("failed as %d, %s", code, message)
	}
	_, code, message = look(ada,
		"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 80, name: {{ .Values.configuration.password }}}]}\n")
	if strings.Contains(message, configured) || code != http.StatusForbidden && code != http.StatusOK {
		t.Errorf("refused as %d, %s", code, message)
	}
	_, code, message = look(w.person("bob", "--verb=get", "--resource=configmaps"),
		templated("more", `{{ len (lookup "v1" "Secret" .Release.Namespace "own") }}`))
	if code != http.StatusForbidden || !strings.Contains(message, "kind Secret in namespace "+w.namespace) {
		t.Errorf("somebody who may not read what a template looks up: %d, %s", code, message)
	}

	// Guesses come back as they were written, right or wrong: a mask that finds one confirms it.
	guest := w.person("guest", "--verb=get", "--resource=configmaps,secrets,services")
	const guesses = "hunter1-configured|" + configured + "|" + kept
	for what, template := range map[string]string{
		"a message":                             `{{ fail "` + guesses + `" }}`,
		"an object":                             configMap("other", guesses),
		"a name that is refused":                configMap(`"`+guesses+`"`, "1"),
		"an object that the API server refuses": "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 80, name: \"" + guesses + "\"}]}\n",
		"an object beside a secret":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: url}\ndata: {x: {{ .Values.configuration.password }}, guess: \"" + guesses + "\"}\n",
	} {
		files := maps.Clone(plain)
		files["templates/a.yaml"] = templated("url", "x") + "---\n" + templated("other", "1")
		switch what {
		case "an object":
			files["templates/a.yaml"] = templated("url", "x")
		case "an object beside a secret":
			files["templates/a.yaml"] = templated("other", "1")
		}
		files["templates/guess.yaml"] = template
		detail, code, message := w.asked(guest, http.MethodPost, name+"/diff", folder(t, files))
		if text := message + protojson.Format(detail); !strings.Contains(text, guesses) {
			t.Errorf("%s comes back changed: %d %s", what, code, text)
		}
		if detail.GetDiff().GetFingerprint() != "" {
			t.Errorf("%s: there is a sum over values that are not shown", what)
		}
	}
	// The same text elsewhere in an object shows nothing of a value.
	files["templates/a.yaml"] = templated("other", "1") +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: url}\ndata: {x: {{ .Values.configuration.password }}, guess: " + configured + "}\n"
	detail, code, message = w.asked(ada, http.MethodPost, name+"/diff", folder(t, files))
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, message)
	}
	for _, f := range detail.GetDiff().GetObjects()[0].GetFields() {
		if f.GetPointer() == "/data/x" && (f.GetWanted() != "" || f.GetLive() != "") {
			t.Errorf("a value is shown since the same text stands elsewhere: %v", detail)
		}
	}
}
