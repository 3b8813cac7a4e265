package object

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWishes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		annotations map[string]string
		want        Wishes
	}{
		{"none", map[string]string{"a": "b"}, Wishes{}},
		{"wave", map[string]string{WaveAnnotation: "-3"}, Wishes{Wave: -3}},
		{
			"wave of Argo CD",
			map[string]string{"argocd.argoproj.io/sync-wave": "5", "helm.sh/hook-weight": "7"},
			Wishes{Wave: 5},
		},
		{"weight of no hook", map[string]string{"helm.sh/hook-weight": "7"}, Wishes{}},
		{"ours win", map[string]string{WaveAnnotation: "1", "argocd.argoproj.io/sync-wave": "5"}, Wishes{Wave: 1}},
		{
			"depends",
			map[string]string{DependsAnnotation: "apps/Deployment/shop/db, Namespace//shop,Namespace//shop"},
			Wishes{Depends: []Key{
				{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "db"}, {Kind: "Namespace", Name: "shop"},
			}},
		},
		{
			"hook",
			map[string]string{HookAnnotation: "pre-sync,sync-fail", HookDeleteAnnotation: "succeeded"},
			Wishes{Hook: PreSync | SyncFail, Flags: DeleteSucceeded},
		},
		{
			"hook of Argo CD",
			map[string]string{
				"argocd.argoproj.io/hook":               "PostSync",
				"argocd.argoproj.io/hook-delete-policy": "HookSucceeded,HookFailed",
			},
			Wishes{Hook: PostSync, Flags: DeleteSucceeded | DeleteFailed},
		},
		{"skipped by Argo CD", map[string]string{"argocd.argoproj.io/hook": "Skip"}, Wishes{Hook: Never}},
		{
			"hook of Helm",
			map[string]string{
				"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "-5",
				"helm.sh/hook-delete-policy": "before-hook-creation",
			},
			Wishes{Hook: PreInstall | PreUpgrade, Wave: -5, Flags: DeleteBefore | InTurn},
		},
		{
			"case is ignored for Helm",
			map[string]string{
				"helm.sh/hook":               " Post-Install, POST-upgrade",
				"helm.sh/hook-delete-policy": "Hook-Succeeded, HOOK-FAILED",
			},
			Wishes{Hook: PostInstall | PostUpgrade, Flags: DeleteSucceeded | DeleteFailed | InTurn},
		},
		{
			"weight that is no number, for Helm",
			map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-weight": "first"},
			Wishes{Hook: PreInstall, Flags: InTurn},
		},
		{
			"policy that Helm does not know",
			map[string]string{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "maybe,hook-failed"},
			Wishes{Hook: PreInstall, Flags: DeleteFailed | InTurn},
		},
		{
			"event that Helm does not know",
			map[string]string{"helm.sh/hook": "pre-install,install"},
			Wishes{Hook: Never, Flags: InTurn},
		},
		{"no event of Helm", map[string]string{"helm.sh/hook": ""}, Wishes{Hook: Never, Flags: InTurn}},
		{
			"Argo CD's hook of a chart",
			map[string]string{
				"argocd.argoproj.io/hook": "Sync", "helm.sh/hook": "pre-install", "helm.sh/hook-weight": "3",
			},
			Wishes{Hook: Sync, Wave: 3},
		},
		{"test of Helm", map[string]string{"helm.sh/hook": "test"}, Wishes{Hook: Test, Flags: InTurn}},
		{
			"also a test",
			map[string]string{"helm.sh/hook": "test,post-install"},
			Wishes{Hook: PostInstall | Test, Flags: InTurn},
		},
		{
			"around a removal, for Helm",
			map[string]string{"helm.sh/hook": "pre-delete,post-delete"},
			Wishes{Hook: PreDelete | PostDelete, Flags: InTurn},
		},
		{
			"around a removal, for Argo CD",
			map[string]string{"argocd.argoproj.io/hook": "PostSync,PreDelete,PostDelete"},
			Wishes{Hook: PostSync | PreDelete | PostDelete},
		},
		{
			"around a removal",
			map[string]string{HookAnnotation: "pre-delete,post-delete"},
			Wishes{Hook: PreDelete | PostDelete},
		},
		{"CRD of Helm 2", map[string]string{"helm.sh/hook": "crd-install"}, Wishes{Hook: Never, Flags: InTurn}},
		{"stays", map[string]string{PruneAnnotation: "never"}, Wishes{Flags: PruneNever}},
		{
			"stays for Flux",
			map[string]string{"kustomize.toolkit.fluxcd.io/prune": "disabled"},
			Wishes{Flags: PruneNever},
		},
		{
			"goes for Argo CD when somebody confirms it",
			map[string]string{"argocd.argoproj.io/sync-options": "Prune=confirm"},
			Wishes{Flags: PruneNever},
		},
		{"stays for Helm", map[string]string{"helm.sh/resource-policy": "keep"}, Wishes{Flags: PruneNever}},
		{
			"options of Argo CD",
			map[string]string{
				"argocd.argoproj.io/sync-options": "Prune=false,Replace=true,SkipDryRunOnMissingResource=true",
			},
			Wishes{Flags: PruneNever | Recreate | LateKind},
		},
		{
			"options of a sync",
			map[string]string{"argocd.argoproj.io/sync-options": "ServerSideApply=true, PruneLast=true"},
			Wishes{Flags: PruneLast},
		},
		{
			"options that say no",
			map[string]string{
				"argocd.argoproj.io/sync-options": "ServerSideApply=false,PruneLast=false,SkipDryRunOnMissingResource=false",
			},
			Wishes{},
		},
		{
			"ignore",
			map[string]string{IgnoreAnnotation: "/spec/replicas, /spec/template/spec/containers/*/image"},
			Wishes{Flags: Ignore, Ignore: []string{"/spec/replicas", "/spec/template/spec/containers/*/image"}},
		},
		{
			"rest",
			map[string]string{
				RecreateAnnotation: "allowed", HoldAnnotation: "at night", AdoptAnnotation: "always",
				TimeoutAnnotation: "90s",
			},
			Wishes{Flags: Recreate | Hold | AdoptAlways, HoldReason: "at night", Timeout: 90 * time.Second},
		},
	}
	for _, test := range tests {
		got, err := WishesOf(test.annotations)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v %v, want %+v", test.name, got, err, test.want)
		}
	}
}

func TestAnObjectInTheClusterSaysThatItStays(t *testing.T) {
	t.Parallel()
	const flux = "kustomize.toolkit.fluxcd.io/prune"
	for name, test := range map[string]struct {
		meta  metav1.ObjectMeta
		stays bool
	}{
		"nothing said":         {metav1.ObjectMeta{}, false},
		"annotation":           {metav1.ObjectMeta{Annotations: map[string]string{PruneAnnotation: "never"}}, true},
		"annotation in doubt":  {metav1.ObjectMeta{Annotations: map[string]string{PruneAnnotation: "perhaps"}}, true},
		"annotation of Flux":   {metav1.ObjectMeta{Annotations: map[string]string{flux: "disabled"}}, true},
		"label of Flux":        {metav1.ObjectMeta{Labels: map[string]string{flux: "Disabled"}}, true},
		"other label of Flux":  {metav1.ObjectMeta{Labels: map[string]string{flux: "enabled"}}, false},
		"a label of our names": {metav1.ObjectMeta{Labels: map[string]string{PruneAnnotation: "never"}}, false},
	} {
		if got := StaysPruned(&test.meta); got != test.stays {
			t.Errorf("%s: stays %t, want %t", name, got, test.stays)
		}
	}
}

func TestAnnotationsThatMakeNoSenseAreNamed(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		WaveAnnotation: "first", DependsAnnotation: "shop/db", HookAnnotation: "PreSync",
		HookDeleteAnnotation: "maybe", PruneAnnotation: "no",
		IgnoreAnnotation: "spec.replicas", RecreateAnnotation: "true", AdoptAnnotation: "yes", TimeoutAnnotation: "10",
		"argocd.argoproj.io/sync-wave": "1.5",
	} {
		_, err := WishesOf(map[string]string{name: value})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), value) {
			t.Errorf("%s: %s: %v", name, value, err)
		}
	}
}

func TestAnAnnotationThatNobodyReadsIsNamed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"fairlead.dev/prun":     "its annotation fairlead.dev/prun means nothing; did you mean fairlead.dev/prune?",
		"fairlead.dev/dependOn": "its annotation fairlead.dev/dependOn means nothing; did you mean fairlead.dev/depends-on?",
		"fairlead.dev/keep": "its annotation fairlead.dev/keep means nothing. Known are wave, depends-on, hook, " +
			"hook-delete, prune, ignore, recreate, hold, adopt, timeout, test-report.",
		PruneAnnotation:      "",
		TestReportAnnotation: "",
		"harbour.dev/prun":   "",
	} {
		if got := UnreadAnnotation(map[string]string{name: "never", HoldAnnotation: "why"}); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
