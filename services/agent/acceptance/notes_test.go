package acceptance

import (
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// The notes of a chart are told when a render gives them, and without what is secret in them.
func TestNotesOfAChartAreToldWithoutSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("chart")
	w.hub.renders(name, &deliveryv1.HelmSpec{
		ValuesFrom: []*deliveryv1.ValuesReference{
			{Kind: "Secret", Name: "login", Key: "password", TargetPath: "password"},
		},
	})
	kubectl(w, loginSecret("password", "opensesame"), "-n", w.namespace, "apply", "-f", "-")
	files := map[string]string{
		"Chart.yaml": chartOnly, "templates/a.yaml": configMap("a", "1"),
		"templates/NOTES.txt":           "Thanks for {{ .Release.Name }}. {{ .Values.password }} {{ randAlphaNum 20 }}\n",
		"charts/db/Chart.yaml":          "apiVersion: v2\nname: db\nversion: 1.0.0\n",
		"charts/db/templates/NOTES.txt": "Of the dependency.",
	}
	notes := func(digest string) string {
		t.Helper()
		return w.hub.awaitDetail(t, name,
			func(d *deliveryv1.ServiceDetail) bool {
				return d.GetNotes() != nil && d.GetDigest() == digest
			}).GetNotes().GetText()
	}
	digest := w.hub.push(t, name, w.namespace, files)
	w.hub.awaitPhase(t, name, digest, healthy)
	if got, want := notes(digest), "Thanks for "+name+". *** ***\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	count := func() (count int) {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		for _, d := range w.hub.details {
			if d.GetNotes() != nil {
				count++
			}
		}
		return count
	}
	// A restart renders nothing, and tells nothing.
	before := count()
	stop()
	w.start()
	files["templates/a.yaml"] = configMap("a", "2")
	files["templates/NOTES.txt"] = strings.Repeat("long ", 10_000)
	digest = w.hub.push(t, name, w.namespace, files)
	w.hub.awaitPhase(t, name, digest, healthy)
	if got := notes(digest); len(got) > 33<<10 ||
		!strings.HasSuffix(got, "(The notes have 50000 bytes; these are the first 32768.)\n") {
		t.Errorf("got %d bytes: %q", len(got), got[len(got)-80:])
	}
	if after := count(); after != before+1 {
		t.Errorf("notes were told %d times, want %d", after, before+1)
	}
	// A chart that has no notes any more has none.
	delete(files, "templates/NOTES.txt")
	digest = w.hub.push(t, name, w.namespace, files)
	w.hub.awaitPhase(t, name, digest, healthy)
	if got := notes(digest); got != "" {
		t.Errorf("got %q", got)
	}
}

// A value that a chart finds in Secrets of the cluster is told neither in its notes nor in what it says when it fails.
func TestWhatAChartLooksUpInSecretsIsNotTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("chart")
	kubectl(w, loginSecret("password", "opensesame"), "-n", w.namespace, "apply", "-f", "-")
	const value = `{{ index (lookup "v1" "Secret" .Release.Namespace "login").data "password"`
	files := map[string]string{
		"Chart.yaml": chartOnly, "templates/a.yaml": configMap("a", "1"),
		"templates/NOTES.txt": "Log in with " + value + " | b64dec }} or " + value +
			" }}{{ range (lookup \"v1\" \"Secret\" .Release.Namespace \"\").items }} {{ index .data \"password\" | b64dec }}{{ end }}{{ (lookup \"v1\" \"Secret\" .Release.Namespace \"login\").metadata.name }}.\n",
	}
	digest := w.hub.push(t, name, w.namespace, files)
	w.hub.awaitPhase(t, name, digest, healthy)
	got := w.hub.awaitDetail(t, name,
		func(d *deliveryv1.ServiceDetail) bool {
			return d.GetNotes() != nil && d.GetDigest() == digest
		}).GetNotes().GetText()
	if want := "Log in with *** or *** ***login.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	files["templates/a.yaml"] = `{{ fail (printf "bad %s" (index (lookup "v1" "Secret" .Release.Namespace "login").data "password" | b64dec)) }}`
	digest = w.hub.push(t, name, w.namespace, files)
	if report := w.hub.awaitPhase(t, name, digest, failed); strings.Contains(report.GetMessage(), "opensesame") ||
		!strings.Contains(report.GetMessage(), "bad ***") {
		t.Errorf("got %q", report.GetMessage())
	}
}
