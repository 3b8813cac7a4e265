package agentconfig_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/agentconfig"
)

func config(name string, clusters *consolev1.ClusterSelector,
	settings *deliveryv1.AgentSettings,
) *consolev1.AgentConfig {
	return &consolev1.AgentConfig{
		Metadata: &consolev1.Metadata{Name: name},
		Spec:     &consolev1.AgentConfigSpec{Clusters: clusters, Settings: settings},
	}
}

func layer(name string, settings *deliveryv1.AgentSettings) *deliveryv1.AgentLayer {
	return &deliveryv1.AgentLayer{Name: name, Settings: settings}
}

func TestConfigurationsChooseByNameAndLabelsAndAll(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"site": "edge", "env": "prod"}
	settings := &deliveryv1.AgentSettings{Concurrency: 2}
	all := []*consolev1.AgentConfig{
		config("b-labels", &consolev1.ClusterSelector{Labels: map[string]string{"site": "edge"}}, settings),
		config("a-all", &consolev1.ClusterSelector{All: true}, settings),
		config("c-names", &consolev1.ClusterSelector{Names: []string{"edge-1"}}, settings),
		config("d-other", &consolev1.ClusterSelector{Labels: map[string]string{"site": "edge", "env": "test"}},
			settings),
		config("e-none", &consolev1.ClusterSelector{}, settings),
	}
	names := func(d *deliveryv1.AgentConfigDelivery) (out []string) {
		for _, l := range d.GetLayers() {
			out = append(out, l.GetName())
		}
		return out
	}
	got := agentconfig.For(all, "edge-1", labels)
	if want := []string{"a-all", "b-labels", "c-names"}; !slices.Equal(names(got), want) {
		t.Errorf("got %v, want %v", names(got), want)
	}
	slices.Reverse(all)
	if again := agentconfig.For(all, "edge-1", labels); again.GetDigest() != got.GetDigest() ||
		!strings.HasPrefix(got.GetDigest(), "sha256:") {
		t.Errorf("in another order: %q, want %q", again.GetDigest(), got.GetDigest())
	}
	if other := agentconfig.For(all, "edge-2", labels); other.GetDigest() == got.GetDigest() {
		t.Error("two clusters with other layers have the same digest")
	}
	if none := agentconfig.For(nil, "edge-1", labels); none.GetDigest() != "" {
		t.Errorf("without layers: %q", none.GetDigest())
	}
}

// narrow and wide are two values of each setting, the first narrower than the second.
func narrow() *deliveryv1.AgentSettings {
	return &deliveryv1.AgentSettings{
		Poll:        &deliveryv1.AgentPoll{Interval: durationpb.New(4 * time.Minute), Jitter: 12},
		Concurrency: 1, ApiRequests: 2,
		Renderer: &deliveryv1.AgentRenderer{
			Time: durationpb.New(time.Second), Cpu: durationpb.New(time.Second), Memory: 64,
		},
		Images:        &deliveryv1.AgentImages{Registries: []string{"ghcr.io/acme"}},
		Impersonation: &deliveryv1.AgentImpersonation{Required: true, Accounts: []string{"shop/deployer"}},
		Tunnel: &deliveryv1.AgentTunnel{
			ReadOnly: true, NoImpersonation: true, ImpersonateUsers: []string{"ada"},
			ImpersonateGroups: []string{"sre"},
		},
		Off: []string{"tunnel", "streams", "views"}, LogLevel: "error",
	}
}

func wide() *deliveryv1.AgentSettings {
	return &deliveryv1.AgentSettings{
		Poll:        &deliveryv1.AgentPoll{Interval: durationpb.New(5 * time.Second), Jitter: 1},
		Concurrency: 4, ApiRequests: 32,
		Renderer: &deliveryv1.AgentRenderer{
			Time: durationpb.New(time.Minute), Cpu: durationpb.New(30 * time.Second), Memory: 512,
		},
		Images:        &deliveryv1.AgentImages{Registries: []string{"ghcr.io", "docker.io"}},
		Impersonation: &deliveryv1.AgentImpersonation{Accounts: []string{"*/*"}},
		Tunnel: &deliveryv1.AgentTunnel{
			ImpersonateUsers: []string{"ada", "bob"}, ImpersonateGroups: []string{"sre", "dev"},
		},
		LogLevel: "debug",
	}
}

// keys are the settings of a message, one by one: a setting that is added to the contract is tried without another line
// here.
func keys(m protoreflect.Message, at string,
	each func(path string, m protoreflect.Message, fd protoreflect.FieldDescriptor),
) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		path := at + fd.JSONName()
		if fd.Message() != nil && fd.Message().ParentFile().Package() == "fairlead.delivery.v1" {
			keys(m.Mutable(fd).Message(), path+".", each)
			continue
		}
		each(path, m, fd)
	}
}

// TestALayerOnlyNarrows puts each setting alone beside all others.
func TestALayerOnlyNarrows(t *testing.T) {
	t.Parallel()
	keys(narrow().ProtoReflect(), "", func(path string, m protoreflect.Message, fd protoreflect.FieldDescriptor) {
		if !m.Has(fd) {
			t.Errorf("%s: the test has no narrow value of it", path)
		}
	})
	n, w := layer("narrow", narrow()), layer("wide", wide())
	alone, both, reversed := agentconfig.Merge([]*deliveryv1.AgentLayer{n}), agentconfig.Merge([]*deliveryv1.AgentLayer{
		n, w,
	}), agentconfig.Merge([]*deliveryv1.AgentLayer{w, n})
	lists := func(s agentconfig.Settings) agentconfig.Settings { // of which those of both layers hold
		s.Registries, s.Accounts, s.ImpersonateUsers, s.ImpersonateGroups = nil, nil, nil, nil
		return s
	}
	of := func(s agentconfig.Settings) string {
		return fmt.Sprintf("%+v", strings.Split(fmt.Sprintf("%+v", lists(s)), " from:")[0])
	}
	if *both.LogLevel != slog.LevelError || *reversed.LogLevel != slog.LevelError {
		t.Errorf("log levels %v and %v", both.LogLevel, reversed.LogLevel)
	}
	alone.LogLevel, both.LogLevel, reversed.LogLevel = nil, nil, nil // else the texts have addresses
	if of(both) != of(alone) || of(reversed) != of(alone) {
		t.Errorf("a wider layer widened:\n%s\n%s\n%s", of(alone), of(both), of(reversed))
	}
	for name, got := range map[string][][]string{
		"registries": both.Registries, "accounts": both.Accounts, "users": both.ImpersonateUsers,
		"groups": both.ImpersonateGroups,
	} {
		if len(got) != 2 {
			t.Errorf("%s: %v, want the lists of both", name, got)
		}
	}
	values := map[string]agentconfig.Value{}
	for _, v := range both.Values() {
		values[v.Key] = v
	}
	keys(narrow().ProtoReflect(), "", func(path string, _ protoreflect.Message, _ protoreflect.FieldDescriptor) {
		if path == agentconfig.Off {
			path = "off.views"
		}
		if v, ok := values[path]; !ok || v.Text == "" || !slices.Contains(v.From, "narrow") {
			t.Errorf("%s: %+v is not said to be of the narrow layer", path, v)
		}
	})
}

// TestLayersHaveNoOrder merges random layers in random orders.
func TestLayersHaveNoOrder(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var layers []*deliveryv1.AgentLayer
		for i := range 2 + random.IntN(4) {
			s := proto.CloneOf([]*deliveryv1.AgentSettings{narrow(), wide()}[random.IntN(2)])
			keys(s.ProtoReflect(), "", func(_ string, m protoreflect.Message, fd protoreflect.FieldDescriptor) {
				if random.IntN(2) == 0 {
					m.Clear(fd)
				}
			})
			layers = append(layers, layer(fmt.Sprint("l", i), s))
		}
		comparable := func(s agentconfig.Settings) []agentconfig.Value {
			values := s.Values()
			for i := range values {
				slices.Sort(values[i].From)
				parts := strings.Split(values[i].Text, " and ")
				slices.Sort(parts)
				values[i].Text = strings.Join(parts, " and ")
			}
			return values
		}
		want := comparable(agentconfig.Merge(layers))
		random.Shuffle(len(layers), func(i, j int) { layers[i], layers[j] = layers[j], layers[i] })
		if got := comparable(agentconfig.Merge(layers)); !reflect.DeepEqual(got, want) {
			t.Fatalf("in another order:\n%v\n%v", got, want)
		}
	}
}

func TestImagesAreOfRegistries(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		image   string
		allowed bool
	}{
		{"ghcr.io/acme/web:1.2", true},
		{"ghcr.io/acme/web@sha256:00", true},
		{"ghcr.io/acme", true},
		{"ghcr.io/acmex/web", false},
		{"ghcr.io.evil.example/acme/web", false},
		{"nginx", false},
		{"docker.io/library/nginx", false},
		{"registry:5000/team/app:1", true},
		{"registry/team/app", false}, // docker.io/registry/team/app
		{"", false},
	} {
		if got := agentconfig.AllowsImage([][]string{{"ghcr.io/acme", "registry:5000"}}, tc.image); got != tc.allowed {
			t.Errorf("%q: %v", tc.image, got)
		}
	}
	if agentconfig.AllowsImage([][]string{{"ghcr.io"}, {"docker.io"}}, "ghcr.io/acme/web") {
		t.Error("an image of one list of two was allowed")
	}
	for _, image := range []string{
		"nginx", "nginx:1.2", "library/nginx", "docker.io/nginx", "index.docker.io/library/nginx",
	} {
		if !agentconfig.AllowsImage([][]string{{"docker.io/library"}}, image) {
			t.Errorf("%q is not of docker.io/library", image)
		}
	}
	if !agentconfig.AllowsImage(nil, "anything") {
		t.Error("without lists an image was refused")
	}
}
