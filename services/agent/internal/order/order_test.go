package order

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

func ref(kind, name string) object.Ref {
	groups := map[string]string{
		"Deployment": "apps", "Role": "rbac.authorization.k8s.io", "CustomResourceDefinition": "apiextensions.k8s.io",
		"ValidatingWebhookConfiguration": "admissionregistration.k8s.io", "Job": "batch", "Boat": "harbour.dev",
	}
	return object.Ref{Key: object.Key{Group: groups[kind], Kind: kind, Namespace: "ns", Name: name}, Version: "v1"}
}

func item(kind, name string, more ...func(*set.Item)) set.Item {
	one := set.Item{Ref: ref(kind, name), Position: kubeyaml.Position{File: name + ".yaml", Document: 1}}
	for _, do := range more {
		do(&one)
	}
	return one
}

func wave(n int32) func(*set.Item)    { return func(i *set.Item) { i.Wave = n } }
func hook(h set.Hook) func(*set.Item) { return func(i *set.Item) { i.Hook = h } }
func needs(kind, name string) func(*set.Item) {
	return func(i *set.Item) { i.Depends = append(i.Depends, ref(kind, name).Key) }
}

// Hooks that share a name are one after the other.
func TestHooksThatShareAName(t *testing.T) {
	t.Parallel()
	before := hook(object.PreSync)
	items := []set.Item{
		item("Job", "a", before), item("Job", "b", before), item("Job", "a", before),
		item("Job", "a", before, wave(-1)), item("Job", "a", hook(object.PostSync)),
	}
	if got, want := shape(Hooks(items, object.PreSync)), "a! [a!] a,b! [a,b!] a! [a!] -a,b,a,a!"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Helm's hooks run one by one: by weight, by name, and by the order in which Helm installs kinds.
func TestHooksOfHelmRunInTurn(t *testing.T) {
	t.Parallel()
	before, helm := hook(object.PreInstall), func(i *set.Item) { i.Flags |= object.InTurn }
	items := []set.Item{
		item("Job", "check", before, helm), item("Boat", "check", before, helm), item("Role", "check", before, helm),
		item("ServiceAccount", "check", before, helm),
		item("Job", "apply", before, helm), item("Job", "zero", before, helm, wave(-1)),
		item("Job", "ours", hook(object.PreSync)), item("Job", "theirs", hook(object.PreSync)),
		item("Job", "upgrade", hook(object.PreUpgrade), helm),
	}
	steps := Hooks(items, object.Before&object.Install)
	var kinds []string
	for _, step := range steps {
		if step.Gate {
			kinds = append(kinds, step.Items[0].Kind)
		}
	}
	if got, want := shape(steps), "zero! [zero!] ours,theirs! [ours,theirs!] apply! [apply!] check! [check!] check! [check!] check! [check!] check! [check!] -check,check,check,check,apply,theirs,ours,zero!"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := fmt.Sprint(kinds), "[Job Job Job ServiceAccount Role Job Boat]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if last := steps[len(steps)-2]; len(last.Earlier) != len(items)-2 {
		t.Errorf("%d hooks are before the last one", len(last.Earlier))
	}
}

// Helm's hooks begin when the objects are sent, all others when they are healthy.
func TestHooksAfterTheObjects(t *testing.T) {
	t.Parallel()
	items := []set.Item{
		item("Deployment", "web"), item("Job", "late", hook(object.PostSync)),
		item("Job", "early", hook(object.PostInstall), func(i *set.Item) { i.Flags |= object.InTurn }),
	}
	for want, late := range map[string]func(set.Item) bool{
		"web early! [early!] -early! [web] late! [late!] -late!": late,
		"web [web] late! [late!] early! [early!] -early,late!":   func(set.Item) bool { return true },
		"web late! [late!] early! [early!] -early,late!":         func(set.Item) bool { return false },
	} {
		steps, err := Plan(items, isBoat, late)
		if got := shape(steps); got != want || err != nil {
			t.Errorf("got  %s %v\nwant %s", got, err, want)
		}
	}
}

func late(item set.Item) bool { return item.Flags&object.InTurn == 0 }

func isBoat(kind schema.GroupKind) bool { return kind.Kind == "Boat" }

// shape writes steps as words: names that are sent, [names] that are waited for.
func shape(steps []Step) string {
	var parts []string
	for _, step := range steps {
		var names []string
		for _, item := range step.Items {
			names = append(names, item.Name)
		}
		text := strings.Join(names, ",")
		if step.Hook != 0 {
			text += "!"
		}
		if step.Gate {
			text = "[" + text + "]"
		}
		if step.Drop {
			text = "-" + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestPlanPutsKindsInTheirOrder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		items []set.Item
		want  string
	}{
		{
			"kinds",
			[]set.Item{
				item("ValidatingWebhookConfiguration", "hook"), item("Deployment", "web"), item("Boat", "boat"),
				item("ConfigMap", "config"),
				item("Role", "role"), item("CustomResourceDefinition", "crd", wave(7)), item("Namespace", "space"),
			},
			"crd,space config,role web boat hook",
		},
		{
			"waves",
			[]set.Item{
				item("Deployment", "late", wave(5)), item("Deployment", "web"), item("ConfigMap", "early", wave(-1)),
				item("ConfigMap", "config"),
			},
			"early [early] config web [web,config] late",
		},
		{
			"depends",
			[]set.Item{
				item("Deployment", "web", needs("Deployment", "db")), item("Deployment", "db"),
				item("ValidatingWebhookConfiguration", "hook"),
			},
			"db [db] web hook",
		},
		{
			"depends across waves",
			[]set.Item{item("Deployment", "web", wave(1), needs("Deployment", "db")), item("Deployment", "db")},
			"db [db] web",
		},
		{
			"depends on another service's",
			[]set.Item{item("Deployment", "web", needs("Deployment", "elsewhere"))},
			"[elsewhere] web",
		},
		{
			"depends on a namespace",
			[]set.Item{item("Deployment", "web", needs("Namespace", "space")), item("Namespace", "space")},
			"space [space] web",
		},
		{
			"hooks",
			[]set.Item{
				item("Deployment", "web"), item("Job", "second", hook(object.PreSync), wave(2)),
				item("Job", "first", hook(object.PreSync)), item("Namespace", "space"),
				item("Job", "after", hook(object.PostSync)), item("Job", "fail", hook(object.SyncFail)),
				item("Job", "with", hook(object.Sync)), item("Job", "test", hook(object.Never)),
			},
			"space first! [first!] second! [second!] -second,first! web with! [with!] -with! [space,web] after! [after!] -after!",
		},
		{
			"hooks between waves",
			[]set.Item{
				item("ConfigMap", "a"), item("ConfigMap", "c", wave(2)), item("Job", "b", hook(object.Sync), wave(1)),
			},
			"a [a] b! [b!] -b! c",
		},
	} {
		steps, err := Plan(test.items, isBoat, late)
		if got := shape(steps); err != nil || got != test.want {
			t.Errorf("%s: got %s %v, want %s", test.name, got, err, test.want)
		}
	}
}

func TestLongestTimeoutOfAGateCounts(t *testing.T) {
	t.Parallel()
	slow := item("Deployment", "slow")
	slow.Timeout = time.Hour
	steps, err := Plan([]set.Item{slow, item("Deployment", "usual"), item("Deployment", "late", wave(1))}, isBoat, late)
	if err != nil || len(steps) != 3 || steps[1].Timeout != time.Hour {
		t.Errorf("got %+v %v", steps, err)
	}
}

func TestCycleIsNamed(t *testing.T) {
	t.Parallel()
	for want, items := range map[string][]set.Item{
		"c.yaml, document 1: objects depend on each other in a circle: Deployment ns/c -> Deployment ns/d -> Deployment ns/c. Mend the annotation fairlead.dev/depends-on": {
			item("Deployment", "b", needs("Deployment", "c")), item("Deployment", "c", needs("Deployment", "d")),
			item("Deployment", "d", needs("Deployment", "c")), item("Deployment", "ok"),
		},
		"a.yaml, document 1: Deployment ns/a depends on Deployment ns/b, which is of a later wave (2, its own is 0). Mend the annotations fairlead.dev/wave or fairlead.dev/depends-on": {
			item("Deployment", "a", needs("Deployment", "b")), item("Deployment", "b", wave(2)),
		},
	} {
		_, err := Plan(items, isBoat, late)
		if mistake := (*kubeyaml.Error)(nil); !errors.As(err, &mistake) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestRemovalIsTheReverse(t *testing.T) {
	t.Parallel()
	entry := func(kind, name string, wave int32) inventory.Entry {
		return inventory.Entry{Ref: ref(kind, name), Wave: wave}
	}
	var got []string
	for _, group := range Removal([]inventory.Entry{
		entry("Namespace", "space", 0), entry("ConfigMap", "config", 0), entry("Deployment", "web", 0),
		entry("Deployment", "late", 3),
		entry("ValidatingWebhookConfiguration", "hook", 0), entry("CustomResourceDefinition", "boats.harbour.dev", 0),
		entry("Secret", "secret", 0), entry("Boat", "boat", 0),
	}) {
		var names []string
		for _, entry := range group {
			names = append(names, entry.Name)
		}
		slices.Sort(names)
		got = append(got, fmt.Sprint(names))
	}
	if want := "[late] [hook] [boat] [web] [config secret] [boats.harbour.dev space]"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
