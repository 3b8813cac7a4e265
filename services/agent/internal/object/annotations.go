package object

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.dev/platform/typo"
)

// The annotations by which a manifest says how it wants to be treated. The annotations are sent as they are.
// Annotations of Argo CD and of Helm that mean the same are understood, too; ours win over Argo CD's, and those over
// Helm's.
const (
	WaveAnnotation       = "fairlead.dev/wave"
	DependsAnnotation    = "fairlead.dev/depends-on"
	HookAnnotation       = "fairlead.dev/hook"
	HookDeleteAnnotation = "fairlead.dev/hook-delete"
	PruneAnnotation      = "fairlead.dev/prune"
	IgnoreAnnotation     = "fairlead.dev/ignore"
	RecreateAnnotation   = "fairlead.dev/recreate"
	HoldAnnotation       = "fairlead.dev/hold"
	AdoptAnnotation      = "fairlead.dev/adopt"
	TimeoutAnnotation    = "fairlead.dev/timeout"
	// TestReportAnnotation of a Job or Pod names the file in which a test leaves its JUnit report.
	TestReportAnnotation = "fairlead.dev/test-report"
)

// ownPrefix begins the names of our annotations.
const ownPrefix = "fairlead.dev/"

// LastApplied is kubectl's note of what it sent: a whole object, with the values of a Secret.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Hook says at which moments of a sync an object is made, if it is no ordinary one: a set of bits.
type Hook uint16

// The moments.
const (
	PreSync Hook = 1 << iota
	Sync
	PostSync
	SyncFail
	// Never is for hooks of tools that mean nothing here, such as Argo CD's Skip.
	Never
	// PostDelete is when the service was removed.
	PostDelete
	// PreDelete is before the service is removed.
	PreDelete
	// Helm tells the first delivery of a service (install) from those after it (upgrade).
	PreInstall
	PreUpgrade
	PostInstall
	PostUpgrade
	// Test is a run of the service's tests: no sync, and no removal, makes such an object.
	Test
)

// Moments of an operation. A hook of none of them is left alone by it.
const (
	Install = PreSync | Sync | PostSync | SyncFail | PreInstall | PostInstall
	Upgrade = PreSync | Sync | PostSync | SyncFail | PreUpgrade | PostUpgrade
	// Before and After are the moments around the ordinary objects of a sync.
	Before = PreSync | PreInstall | PreUpgrade
	After  = PostSync | PostInstall | PostUpgrade
	// Removal are the moments of a removal.
	Removal = PreDelete | PostDelete
)

// Moments are its bits one by one; that of no hook is 0.
func (h Hook) Moments() []Hook {
	if h == 0 {
		return []Hook{0}
	}
	var moments []Hook
	for one := PreSync; one <= Test; one <<= 1 {
		if h&one != 0 {
			moments = append(moments, one)
		}
	}
	return moments
}

// Flags are the other wishes of an object that are yes or no: a set of bits.
type Flags uint32

// The wishes.
const (
	// PruneNever keeps an object that left the manifests, without the service's mark.
	PruneNever Flags = 1 << iota
	// Recreate allows to delete the object, and make it anew, where a change can't be made otherwise.
	Recreate
	// Hold: it is neither applied nor repaired.
	Hold
	// Ignore: some of its fields are left to others.
	Ignore
	AdoptAlways
	AdoptNever
	// When a hook's object is deleted. With none of the three it is before the next one is made.
	DeleteBefore
	DeleteSucceeded
	DeleteFailed
	// Scaled: an autoscaler of the service sets its number of replicas. The flag is no wish of the object's own.
	Scaled
	// InTurn: the hook runs as Helm runs hooks: one after the other, and only Jobs and Pods are waited for.
	InTurn
	// Generated: the name is the beginning of one (metadata.generateName), and each run of the hook has its own.
	Generated
	// PruneLast: an object that left the manifests goes when all others are healthy.
	PruneLast
	// LateKind: the kind may come while the service is applied. Until the cluster serves it, it is taken for one of
	// namespaces.
	LateKind
	// MakeOnce: made if it is not there, and nobody's then. The flag is no wish of the object's own, and neither is the
	// next one.
	MakeOnce
	// LeftOut: neither made nor applied; it is in the set so that it is not taken for one that left the manifests.
	LeftOut
)

// NotKept are the flags of objects that the service does not have, though its manifests do.
const NotKept = MakeOnce | LeftOut

// Wishes is what an object's annotations say.
type Wishes struct {
	Wave    int32
	Hook    Hook
	Flags   Flags
	Depends []Key
	// Ignore are the JSON pointers of fields that are left to others.
	Ignore []string
	// HoldReason is for people; see Hold.
	HoldReason string
	// Timeout of waiting for its health, 0: the usual.
	Timeout time.Duration
}

// WishesOf reads annotations. The error names the one that makes no sense.
func WishesOf(annotations map[string]string) (Wishes, error) {
	var w Wishes
	if len(annotations) == 0 {
		return w, nil
	}
	for _, read := range []func(map[string]string) error{w.wave, w.hook, w.hookDelete, w.depends, w.words, w.others} {
		if err := read(annotations); err != nil {
			return Wishes{}, err
		}
	}
	return w, nil
}

// fluxPrune is an annotation of Flux, or a label.
const fluxPrune = "kustomize.toolkit.fluxcd.io/prune"

// StaysPruned tells whether an object in the cluster says that it stays when it is to be removed. An object of which
// that can't be told stays: others may have written what makes no sense.
func StaysPruned(meta metav1.Object) bool {
	var w Wishes
	return w.words(meta.GetAnnotations()) != nil || w.Flags&PruneNever != 0 ||
		strings.EqualFold(meta.GetLabels()[fluxPrune], "disabled")
}

// UnreadAnnotation says in a sentence of an annotation that it looks like one of ours and is none, so that its wish is
// not heeded; empty: there is no such one.
func UnreadAnnotation(annotations map[string]string) string {
	known := []string{
		WaveAnnotation, DependsAnnotation, HookAnnotation, HookDeleteAnnotation, PruneAnnotation, IgnoreAnnotation,
		RecreateAnnotation, HoldAnnotation, AdoptAnnotation, TimeoutAnnotation, TestReportAnnotation,
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(name, ownPrefix) || slices.Contains(known, name) {
			continue
		}
		words := make([]string, 0, len(known))
		for _, one := range known {
			words = append(words, strings.TrimPrefix(one, ownPrefix))
		}
		word := strings.TrimPrefix(name, ownPrefix)
		if near := typo.Nearest(word, words); near != "" {
			return fmt.Sprintf("its annotation %s means nothing; did you mean %s?", name, ownPrefix+near)
		}
		return fmt.Sprintf("its annotation %s means nothing. Known are %s.", name, strings.Join(words, ", "))
	}
	return ""
}

// first is the annotation that counts, of several that mean the same.
func first(annotations map[string]string, names ...string) (name, value string, ok bool) {
	for _, name := range names {
		if value, ok := annotations[name]; ok {
			return name, strings.TrimSpace(value), true
		}
	}
	return "", "", false
}

func list(value string) []string {
	var parts []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func wrong(name, value, want string) error {
	return fmt.Errorf("annotation %s: %q must be %s", name, value, want)
}

// Annotations of Helm.
const (
	helmHook   = "helm.sh/hook"
	helmWeight = "helm.sh/hook-weight"
	helmDelete = "helm.sh/hook-delete-policy"
)

func (w *Wishes) wave(annotations map[string]string) error {
	name, value, ok := first(annotations, WaveAnnotation, "argocd.argoproj.io/sync-wave")
	if !ok {
		if _, hook := annotations[helmHook]; hook { // Helm reads the weight of hooks only, and takes one that is no number for 0.
			weight, _ := strconv.ParseInt(annotations[helmWeight], 10, 32)
			w.Wave = int32(weight)
		}
		return nil
	}
	wave, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return wrong(name, value, `a whole number in quotes, such as "-1"`)
	}
	w.Wave = int32(wave)
	return nil
}

func (w *Wishes) hook(annotations map[string]string) error {
	name, value, ok := first(annotations, HookAnnotation, "argocd.argoproj.io/hook", helmHook)
	if !ok {
		return nil
	}
	if name == helmHook {
		w.Hook, w.Flags = ofHelm(value), w.Flags|InTurn
		return nil
	}
	moments := map[string]Hook{
		HookAnnotation + "pre-sync": PreSync, HookAnnotation + "sync": Sync, HookAnnotation + "post-sync": PostSync,
		HookAnnotation + "sync-fail": SyncFail, HookAnnotation + "pre-delete": PreDelete, HookAnnotation + "post-delete": PostDelete,
		HookAnnotation + "test":          Test,
		"argocd.argoproj.io/hookPreSync": PreSync, "argocd.argoproj.io/hookSync": Sync, "argocd.argoproj.io/hookPostSync": PostSync,
		"argocd.argoproj.io/hookSyncFail": SyncFail, "argocd.argoproj.io/hookPreDelete": PreDelete, "argocd.argoproj.io/hookPostDelete": PostDelete,
		"argocd.argoproj.io/hookSkip": Never,
	}
	for _, word := range list(value) {
		moment, known := moments[name+word]
		if !known {
			return wrong(name, value, "of pre-sync, sync, post-sync, sync-fail, pre-delete, post-delete, test, or one of Argo CD's or Helm's hooks in their own annotation")
		}
		w.Hook |= moment
	}
	if w.Hook != Never {
		w.Hook &^= Never
	}
	return nil
}

// ofHelm reads Helm's annotation as Helm does: case is ignored, and an object with an event that Helm does not know is
// left out.
func ofHelm(value string) Hook {
	events := map[string]Hook{
		"pre-install": PreInstall, "pre-upgrade": PreUpgrade, "post-install": PostInstall, "post-upgrade": PostUpgrade,
		"pre-delete": PreDelete, "post-delete": PostDelete,
		"test": Test, "test-success": Test,
		// A revision that goes back is an upgrade here.
		"pre-rollback": Never, "post-rollback": Never,
	}
	var hook Hook
	for word := range strings.SplitSeq(value, ",") {
		event, known := events[strings.ToLower(strings.TrimSpace(word))]
		if !known {
			return Never
		}
		hook |= event
	}
	if hook != Never {
		hook &^= Never
	}
	return hook
}

func (w *Wishes) hookDelete(annotations map[string]string) error {
	name, value, ok := first(annotations, HookDeleteAnnotation, "argocd.argoproj.io/hook-delete-policy", helmDelete)
	if !ok {
		return nil
	}
	if name == helmDelete {
		value = strings.ToLower(value)
	}
	for _, word := range list(value) {
		switch word {
		case "before-creation", "BeforeHookCreation", "before-hook-creation":
			w.Flags |= DeleteBefore
		case "succeeded", "HookSucceeded", "hook-succeeded":
			w.Flags |= DeleteSucceeded
		case "failed", "HookFailed", "hook-failed":
			w.Flags |= DeleteFailed
		default:
			if name != helmDelete { // Helm leaves out policies that it does not know.
				return wrong(name, value, "of before-creation, succeeded, failed")
			}
		}
	}
	return nil
}

func (w *Wishes) depends(annotations map[string]string) error {
	for _, text := range list(annotations[DependsAnnotation]) {
		key, ok := parseKey(text)
		if !ok {
			return wrong(DependsAnnotation, text, "group/Kind/namespace/name, or Kind/namespace/name of the core group; the namespace is empty for kinds that have none")
		}
		if !slices.Contains(w.Depends, key) {
			w.Depends = append(w.Depends, key)
		}
	}
	return nil
}

func parseKey(text string) (Key, bool) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		parts = append([]string{""}, parts...)
	}
	if len(parts) != 4 || parts[1] == "" || parts[3] == "" {
		return Key{}, false
	}
	return Key{Group: parts[0], Kind: parts[1], Namespace: parts[2], Name: parts[3]}, true
}

// words reads the annotations whose values are one word of a few.
func (w *Wishes) words(annotations map[string]string) error {
	for _, one := range []struct {
		name   string
		values map[string]Flags
		want   string
	}{
		{PruneAnnotation, map[string]Flags{"never": PruneNever}, `"never"`},
		{RecreateAnnotation, map[string]Flags{"allowed": Recreate}, `"allowed"`},
		{AdoptAnnotation, map[string]Flags{"always": AdoptAlways, "never": AdoptNever}, `"always" or "never"`},
	} {
		value, ok := annotations[one.name]
		if !ok {
			continue
		}
		flag, ok := one.values[value]
		if !ok {
			return wrong(one.name, value, one.want)
		}
		w.Flags |= flag
	}
	if strings.EqualFold(strings.TrimSpace(annotations["helm.sh/resource-policy"]), "keep") { // as Helm reads it when it uninstalls
		w.Flags |= PruneNever
	}
	if strings.EqualFold(annotations[fluxPrune], "disabled") {
		w.Flags |= PruneNever
	}
	for _, option := range list(annotations["argocd.argoproj.io/sync-options"]) {
		switch option {
		case "Prune=false", "Delete=false", "Prune=confirm", "Delete=confirm": // nobody is asked to confirm it here
			w.Flags |= PruneNever
		case "Replace=true":
			w.Flags |= Recreate
		case "PruneLast=true":
			w.Flags |= PruneLast
		case "SkipDryRunOnMissingResource=true":
			w.Flags |= LateKind
		}
		// ServerSideApply=true says how everything is applied.
	}
	return nil
}

func (w *Wishes) others(annotations map[string]string) error {
	if reason, ok := annotations[HoldAnnotation]; ok {
		w.Flags |= Hold
		w.HoldReason = reason
	}
	for _, pointer := range list(annotations[IgnoreAnnotation]) {
		if !strings.HasPrefix(pointer, "/") || strings.HasSuffix(pointer, "/") {
			return wrong(IgnoreAnnotation, pointer, "a JSON pointer, such as /spec/replicas")
		}
		w.Ignore = append(w.Ignore, pointer)
	}
	if len(w.Ignore) > 0 {
		w.Flags |= Ignore
	}
	if value, ok := annotations[TimeoutAnnotation]; ok {
		timeout, err := time.ParseDuration(value)
		if err != nil || timeout <= 0 {
			return wrong(TimeoutAnnotation, value, "a duration, such as 5m")
		}
		w.Timeout = timeout
	}
	return nil
}
