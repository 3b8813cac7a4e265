package prune

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

// stuck is a cluster with one object of ours that was deleted and does not go.
type stuck struct {
	API

	since time.Time
}

func (s stuck) Metadata(context.Context, object.Ref) (*metav1.PartialObjectMetadata, error) {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		UID: "1", Labels: map[string]string{object.ServiceLabel: "shop"}, Finalizers: []string{"harbour.dev/hold"},
		DeletionTimestamp: &metav1.Time{Time: s.since},
	}}, nil
}

func TestFinalizerPastItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := New(stuck{since: begin}, nil, nil, apply.NewWidth())
		entries := []inventory.Entry{
			{
				Ref: object.Ref{Key: object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "held"}, Version: "v1"},
				UID: "1",
			},
			{Ref: object.Ref{Key: object.Key{Kind: "Namespace", Name: "shop"}, Version: "v1"}, UID: "1"},
		}
		left := p.Prune(t.Context(), "shop", entries).Left
		if time.Since(begin) != 0 {
			t.Errorf("it waited for %s", time.Since(begin))
		}
		if len(left) != 2 || left[0].Why != "waits for its finalizers: harbour.dev/hold" ||
			left[1].Why != "waits for the objects that have to go before it" {
			t.Errorf("got %v", left)
		}
		<-time.After(Patience + time.Second)
		left = p.Prune(t.Context(), "shop", entries[:1]).Left
		if want := "waits for its finalizers since " + begin.UTC().Format(time.RFC3339) +
			": harbour.dev/hold. See to it that what should take them off runs, or take them off"; len(left) != 1 ||
			left[0].Why != want {
			t.Errorf("got %v, want %s", left, want)
		}
	})
}

// full is a cluster with a namespace of ours that is being deleted, and has something in it that does not go.
type full struct{ stuck }

func (f full) Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
	meta, err := f.stuck.Metadata(ctx, ref)
	meta.Finalizers = nil
	return meta, err
}

func (f full) Get(context.Context, object.Ref) (*unstructured.Unstructured, error) {
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "NamespaceDeletionContentFailure", "status": "False", "message": "All content was deleted"},
		map[string]any{
			"type": "NamespaceFinalizersRemaining", "status": "True",
			"message": "Some content in the namespace has finalizers remaining: harbour.dev/hold in 1 resource instances.",
		},
	}}}}, nil
}

func TestANamespaceThatDoesNotGoSaysWhatIsInIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := New(full{stuck{since: begin}}, nil, nil, apply.NewWidth())
		<-time.After(Patience + time.Second)
		left := p.Prune(t.Context(), "shop", []inventory.Entry{
			{Ref: object.Ref{Key: object.Key{Kind: "Namespace", Name: "shop"}, Version: "v1"}, UID: "1"},
		}).Left
		want := "is being deleted since " + begin.UTC().Format(time.RFC3339) +
			": Some content in the namespace has finalizers remaining: harbour.dev/hold in 1 resource instances"
		if len(left) != 1 || left[0].Why != want {
			t.Errorf("got %v, want %s", left, want)
		}
	})
}

// away is a cluster that does not serve a kind, at least not in the version that it was applied in.
type away struct {
	API

	version string // that it is served in
	doubt   error
	deleted []string
}

func (u *away) Metadata(_ context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
	if u.version == "" || ref.Version != u.version {
		return nil, &cluster.UnknownKindError{GVK: ref.GVK()}
	}
	if len(u.deleted) > 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, ref.Name)
	}
	return &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{UID: "1", Labels: map[string]string{object.ServiceLabel: "shop"}},
	}, nil
}

func (u *away) Served(context.Context, schema.GroupKind) (string, error) { return u.version, u.doubt }

func (u *away) Delete(_ context.Context, ref object.Ref, _ types.UID) error {
	u.deleted = append(u.deleted, ref.Version)
	return nil
}

func TestObjectsOfAKindThatIsNotServedStayOnTheList(t *testing.T) {
	t.Parallel()
	entries := []inventory.Entry{
		{Ref: object.Ref{Key: object.Key{Group: "sail.dev", Kind: "Raft", Name: "r"}, Version: "v1"}, UID: "1"},
	}
	for name, one := range map[string]struct {
		cluster *away
		left    bool
		deleted string
	}{
		"its server is down":           {&away{doubt: &cluster.DoubtError{Why: "it does not answer"}}, true, ""},
		"it has another version now":   {&away{version: "v2"}, false, "v2"},
		"its definition is gone":       {&away{}, false, ""},
		"its definition is not served": {&away{doubt: &cluster.DoubtError{Why: "it is defined"}}, true, ""},
	} {
		for _, orphan := range []bool{false, true} {
			if orphan && one.deleted != "" {
				continue // the object would be released
			}
			left := New(one.cluster, nil, nil, apply.NewWidth()).Remove(t.Context(), "shop", inventory.Record{
				Entries: entries, Orphan: orphan,
			}).Left
			if len(left) > 0 != one.left {
				t.Errorf("%s: got %v", name, left)
			}
			for _, l := range left {
				if !strings.HasPrefix(l.Why, "is of a kind that the cluster does not serve at the moment") {
					t.Errorf("%s: got %s", name, l.Why)
				}
			}
		}
		if got := strings.Join(one.cluster.deleted, ","); got != one.deleted {
			t.Errorf("%s: deleted in %q, want %q", name, got, one.deleted)
		}
	}
}

// kept is a cluster with objects of ours. It notes what becomes of them.
type kept struct {
	API

	annotations map[string]string
	said        []string
}

func (k *kept) Metadata(_ context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
	if len(k.said) > 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, ref.Name)
	}
	return &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{
			UID: "1", Labels: map[string]string{object.ServiceLabel: "before"}, Annotations: k.annotations,
		},
	}, nil
}

func (k *kept) Delete(context.Context, object.Ref, types.UID) error {
	k.said = append(k.said, "deleted")
	return nil
}

func (k *kept) Disown(context.Context, object.Ref, types.UID) error {
	k.said = append(k.said, "let go of")
	return nil
}

// Another annotation of the object in the cluster, which anybody may have set, does not undo that it stays.
func TestAnObjectStaysWhateverElseItsAnnotationsSay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		become      string
	}{
		"stays":              {map[string]string{object.PruneAnnotation: "never"}, "let go of"},
		"in an odd wave":     {map[string]string{object.PruneAnnotation: "never", object.WaveAnnotation: "odd"}, "let go of"},
		"goes":               {map[string]string{object.WaveAnnotation: "odd"}, "deleted"},
		"a word of no sense": {map[string]string{object.PruneAnnotation: "newer"}, "let go of"},
	} {
		api := &kept{annotations: test.annotations}
		key := object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
		New(api, inventory.New(nil, nil), nil, apply.NewWidth()).Prune(t.Context(), "before",
			[]inventory.Entry{{Ref: object.Ref{Key: key, Version: "v1"}, UID: "1"}})
		if got := strings.Join(api.said, ", "); got != test.become {
			t.Errorf("%s: it was %s, want %s", name, got, test.become)
		}
	}
}

// A service that was renamed is another one: its data must not go with the old name.
func TestDataThatAnotherServiceWaitsForIsLeftToIt(t *testing.T) {
	t.Parallel()
	claim := object.Key{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data"}
	settings := object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	const sentence = "PersistentVolumeClaim shop/data stays, without the service's mark: " +
		"service \"after\" has it in its manifests, too, and takes it over."
	for name, test := range map[string]struct {
		key      object.Key
		wanted   []object.Key
		stays    bool
		become   string
		sentence string
	}{
		"data":                       {claim, []object.Key{settings, claim}, true, "let go of", sentence},
		"data of nobody":             {claim, []object.Key{settings}, true, "deleted", ""},
		"one that is removed, too":   {claim, []object.Key{claim}, false, "deleted", ""},
		"what can be made once more": {settings, []object.Key{settings}, true, "deleted", ""},
	} {
		api, inventories := &kept{}, inventory.New(nil, nil)
		inventories.Want("after", test.wanted)
		p := New(api, inventories, func(string) bool { return test.stays }, apply.NewWidth())
		entry := inventory.Entry{Ref: object.Ref{Key: test.key, Version: "v1"}, UID: "1"}
		out := p.Prune(t.Context(), "before", []inventory.Entry{entry})
		if strings.Join(api.said, ", ") != test.become || strings.Join(out.Kept, " ") != test.sentence ||
			len(out.Left) > 0 {
			t.Errorf("%s: it was %v, kept %q, left %v", name, api.said, out.Kept, out.Left)
		}
	}
}

// The removal of the old name of a service may come before the new one could say what it has.
func TestDataWaitsForAServiceOfWhichItIsNotKnownWhatItHas(t *testing.T) {
	t.Parallel()
	claim := object.Key{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data"}
	settings := object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	for name, test := range map[string]struct {
		key       object.Key
		undecided string
		wants     bool // it says so while the pruner asks
		become    string
		why       string
	}{
		"not known": {
			claim, "after", false, "",
			`waits until it is known whether service "after" has it in its manifests, too`,
		},
		"known meanwhile":            {claim, "after", true, "let go of", ""},
		"known of all":               {claim, "", false, "deleted", ""},
		"what can be made once more": {settings, "after", false, "deleted", ""},
	} {
		api, inventories := &kept{}, inventory.New(nil, nil)
		p := New(api, inventories, func(string) bool { return true }, apply.NewWidth())
		p.Undecided = func(service string) string {
			if service != "before" {
				t.Errorf("%s: %s asks", name, service)
			}
			if test.wants {
				inventories.Want("after", []object.Key{claim})
			}
			return test.undecided
		}
		entry := inventory.Entry{Ref: object.Ref{Key: test.key, Version: "v1"}, UID: "1"}
		left, why := p.Prune(t.Context(), "before", []inventory.Entry{entry}).Left, ""
		if len(left) > 0 {
			why = left[0].Why
		}
		if become := strings.Join(api.said, ", "); become != test.become || why != test.why {
			t.Errorf("%s: it was %q, and stays because it %q", name, become, why)
		}
	}
}
