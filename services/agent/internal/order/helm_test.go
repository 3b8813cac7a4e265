package order_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/order"
	"fairlead.dev/services/agent/internal/set"
)

// manifest is an object of a chart as it is written down.
type manifest struct {
	kind, name  string
	annotations map[string]string
}

func (m manifest) String() string {
	text := "apiVersion: v1\nkind: " + m.kind + "\nmetadata:\n  name: " + m.name + "\n  annotations:\n    a: b\n"
	for key, value := range m.annotations {
		text += fmt.Sprintf("    %s: %q\n", key, value)
	}
	return text
}

func manifests(t *rapid.T) []manifest {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) manifest {
		m := manifest{
			kind: rapid.SampledFrom([]string{
				"Job", "Pod", "ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Secret", "Deployment", "Boat",
				"Anchor", "Namespace",
			}).Draw(t, "kind"),
			name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), annotations: map[string]string{},
		}
		if rapid.IntRange(0, 5).Draw(t, "hook") > 0 {
			m.annotations["helm.sh/hook"] = strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
				"pre-install", "Pre-Install ", " pre-upgrade", "post-install", "test", "pre-rollback",
				"crd-install", "",
			}), 1, 2).Draw(t, "events"), ",")
		}
		if weight := rapid.SampledFrom([]string{"", "0", "-5", "7", "+7", " 1", "1.5", "first"}).Draw(t,
			"weight"); weight != "" {
			m.annotations["helm.sh/hook-weight"] = weight
		}
		return m
	}), 1, 8).Draw(t, "manifests")
}

// byHelm are the hooks of an event as the linked version of Helm runs them.
func byHelm(t *rapid.T, all []manifest, event release.HookEvent) []string {
	var text strings.Builder
	for _, m := range all {
		text.WriteString("---\n" + m.String())
	}
	hooks, _, err := releaseutil.SortManifests(map[string]string{"a.yaml": text.String()}, nil,
		releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	var running []*release.Hook
	for _, hook := range hooks {
		if slices.Contains(hook.Events, event) {
			running = append(running, hook)
		}
	}
	slices.SortStableFunc(running, func(a, b *release.Hook) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Name, b.Name))
	})
	var names []string
	for _, hook := range running {
		names = append(names, fmt.Sprint(hook.Kind, hook.Name, hook.Weight))
	}
	return names
}

// FuzzHooksOfHelm compares the hooks that run, and their order, with those of the linked version of Helm.
func FuzzHooksOfHelm(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(compareWithHelm))
}

func TestHooksRunInTheOrderOfHelm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, compareWithHelm)
}

func compareWithHelm(t *rapid.T) {
	all := manifests(t)
	var items []set.Item
	for _, m := range all {
		wishes, err := object.WishesOf(m.annotations)
		if err != nil {
			t.Fatal(err)
		}
		for _, moment := range wishes.Hook.Moments() {
			kind := schema.GroupVersionKind{Version: "v1", Kind: m.kind}
			items = append(items, set.Item{
				Ref:  object.Ref{Key: object.Key{Kind: kind.Kind, Namespace: "n", Name: m.name}, Version: kind.Version},
				Hook: moment, Wave: wishes.Wave, Flags: wishes.Flags, Nth: len(items),
			})
		}
	}
	for event, moment := range map[release.HookEvent]set.Hook{
		release.HookPreInstall: object.PreInstall, release.HookPreUpgrade: object.PreUpgrade,
		release.HookPostInstall: object.PostInstall,
	} {
		var got []string
		for _, step := range order.Hooks(items, moment) {
			if !step.Gate && !step.Drop {
				for _, item := range step.Items {
					got = append(got, fmt.Sprint(item.Kind, item.Name, item.Wave))
				}
			}
		}
		if want := byHelm(t, all, event); !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %v\nwant %v", event, got, want)
		}
	}
}
