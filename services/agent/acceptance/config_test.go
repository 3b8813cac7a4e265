package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
)

func settings(s *deliveryv1.AgentSettings) *deliveryv1.AgentLayer {
	return &deliveryv1.AgentLayer{Name: "edge", Settings: s}
}

func podTemplate(name, image string) string {
	return "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: " + name +
		"}\ntemplate: {spec: {containers: [{name: c, image: " + image + "}]}}\n"
}

// What the hub configures holds at once, and no longer than it is wanted.
func TestTheHubNarrowsWhatServicesMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.kubectl("create", "serviceaccount", "deployer")
	w.kubectl("create", "rolebinding", "deployer", "--clusterrole=admin", "--serviceaccount="+w.namespace+":deployer")
	name := w.service("web")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	in := func(digest string) func(*deliveryv1.AgentConfigState) bool {
		return func(s *deliveryv1.AgentConfigState) bool { return s.GetInForce() == digest }
	}
	for _, tc := range []struct {
		what     string
		settings *deliveryv1.AgentSettings
		files    map[string]string
		account  string
		want     string
	}{
		{
			"no account", &deliveryv1.AgentSettings{Impersonation: &deliveryv1.AgentImpersonation{Required: true}},
			map[string]string{"b.yaml": configMap("b", "1")},
			"", "impersonation.required",
		},
		{
			"another account",
			&deliveryv1.AgentSettings{Impersonation: &deliveryv1.AgentImpersonation{Accounts: []string{"shop/*"}}},
			map[string]string{"b.yaml": configMap("b", "2")},
			w.namespace + "/deployer", "impersonation.accounts",
		},
		{
			"another registry",
			&deliveryv1.AgentSettings{Images: &deliveryv1.AgentImages{Registries: []string{"ghcr.io/acme"}}},
			map[string]string{"b.yaml": podTemplate("b", "docker.io/nginx")},
			"", `image "docker.io/nginx"`,
		},
	} {
		w.hub.awaitConfig(t, w.hub.working, in(w.hub.configure(settings(tc.settings))))
		w.hub.sync(name, &deliveryv1.SyncSpec{Impersonate: tc.account})
		digest := w.hub.push(t, name, w.namespace, tc.files)
		report := w.hub.awaitPhase(t, name, digest, failed)
		if !strings.Contains(report.GetMessage(), tc.want) || !strings.Contains(report.GetMessage(), "AgentConfig") {
			t.Errorf("%s: got %s", tc.what, report.GetMessage())
		}
		w.hub.awaitConfig(t, w.hub.working, in(w.hub.configure()))
		w.hub.awaitPhase(t, name, digest, healthy) // it is tried again
	}
}

// What was rendered before images were narrowed is no way around it: for a dry run, for the rest of an apply that
// waits, and for tests.
func TestImagesOfWhatWasRenderedBeforeAreNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	acme := settings(&deliveryv1.AgentSettings{Images: &deliveryv1.AgentImages{Registries: []string{"ghcr.io/acme"}}})
	narrow := func(layers ...*deliveryv1.AgentLayer) {
		digest := w.hub.configure(layers...)
		w.hub.awaitConfig(t, w.hub.working,
			func(s *deliveryv1.AgentConfigState) bool { return s.GetInForce() == digest })
	}
	refused := func(name, digest string) {
		report := w.hub.awaitPhase(t, name, digest, failed)
		if !strings.Contains(report.GetMessage(), `image "docker.io/nginx"`) {
			t.Errorf("%s: got %s", name, report.GetMessage())
		}
		w.mustBeGone("v1", "PodTemplate", w.namespace, name)
	}
	dry := w.service("dry")
	w.hub.push(t, dry, w.namespace, map[string]string{"a.yaml": podTemplate(dry, "docker.io/nginx")})
	w.hub.awaitPhase(t, dry, w.hub.sync(dry, spec(deliveryv1.SyncMode_SYNC_MODE_DRY_RUN, "")), differs)
	begun := w.service("begun")
	late := strings.Replace(podTemplate(begun, "docker.io/nginx"), "{name: "+begun+"}",
		"{name: "+begun+`, annotations: {fairlead.dev/wave: "1"}}`, 1)
	digest := w.hub.push(t, begun, w.namespace, map[string]string{
		"a.yaml": job("waits", "fairlead.dev/hook: pre-sync"), "b.yaml": late,
	})
	w.hub.await(t, begun, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), "what comes after it waits")
	})
	tested := w.service("tested")
	w.hub.awaitPhase(t, tested, w.hub.push(t, tested, w.namespace, map[string]string{"a.yaml": configMap("a", "1") +
		job("first", `fairlead.dev/hook: test, fairlead.dev/wave: "-1"`) + job("second", "fairlead.dev/hook: test")}),
		healthy)
	w.hub.ask(tested, "one")
	w.found("batch/v1", "Job", "first")
	narrow(acme)
	refused(dry, w.hub.sync(dry, nil))
	refused(begun, digest)
	if run := w.ends(tested, "one"); run.GetOutcome() != broken ||
		!strings.Contains(run.GetMessage(), "images.registries") {
		t.Errorf("got %v", run)
	}
	w.mustBeGone("batch/v1", "Job", w.namespace, "second")
}

// Neither trial nor refusal outlives the disk, and no start of the agent.
func TestAConfigurationThatKillsTheAgentIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	bad := w.hub.configure(settings(&deliveryv1.AgentSettings{Concurrency: 1, LogLevel: "error"}))
	trial := func(s *deliveryv1.AgentConfigState) bool { return s.GetInForce() == bad && s.GetTrial() }
	w.hub.awaitConfig(t, w.hub.working, trial)
	for range 2 {
		kill()
		w.hub.forgetConfigured()
		kill = w.process()
		w.hub.awaitConfig(t, w.hub.working,
			func(s *deliveryv1.AgentConfigState) bool { return trial(s) || s.GetRefusal() != "" })
	}
	w.hub.awaitConfig(t, w.hub.working, func(s *deliveryv1.AgentConfigState) bool {
		return s.GetWanted() == bad && s.GetInForce() == "" && !s.GetTrial() &&
			strings.Contains(s.GetRefusal(), "started 2 times")
	})
	name := w.service("web")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	kill()
}

func TestFeaturesAreOffAndOnAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hub.poll = time.Second // without a stream polls find changes
	w.start()
	name := w.service("web")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	await.True(w.t, "a stream", func() bool { return w.hub.streams() == 1 })
	off := w.hub.configure(settings(&deliveryv1.AgentSettings{Off: []string{"streams", "views", "tunnel"}}))
	w.hub.awaitConfig(t, w.hub.working, func(s *deliveryv1.AgentConfigState) bool { return s.GetInForce() == off })
	await.True(w.t, "no stream", func() bool { return w.hub.streams() == 0 })
	await.True(w.t, "no views", func() bool { return !w.hub.can(deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS) })
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")}),
		healthy)
	w.hub.configure()
	await.True(w.t, "a stream again", func() bool { return w.hub.streams() == 1 })
	await.True(w.t, "views again", func() bool { return w.hub.can(deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS) })
}

// People come through an agent that stands by, too.
func TestAnAgentThatStandsByIsConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.elects = true
	w.start()
	name := w.service("web")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	digest := w.hub.configure(settings(&deliveryv1.AgentSettings{Tunnel: &deliveryv1.AgentTunnel{ReadOnly: true}}))
	second := w.another()
	second.start()
	await.True(w.t, "the configuration of the agent that stands by", func() bool {
		data, err := os.ReadFile(filepath.Join(second.data, "config.json"))
		return err == nil && strings.Contains(string(data), digest)
	})
	w.hub.awaitConfig(t, func() *deliveryv1.AgentConfigState { return w.hub.standing },
		func(s *deliveryv1.AgentConfigState) bool { return s.GetStandsBy() })
	w.hub.awaitConfig(t, w.hub.working,
		func(s *deliveryv1.AgentConfigState) bool { return s.GetInForce() == digest && !s.GetStandsBy() })
}
