package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

func status(reason metav1.StatusReason, message string, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 500, Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Name: "x", Kind: "Thing", Causes: causes},
	}}
}

// The messages are what API servers of 1.36 say.
func TestProblemsInWords(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err         error
		secret      bool
		text        string
		fixManifest bool
	}{
		"types": {
			err:  status("", "failed to create typed patch object (/hello; /v1, Kind=ConfigMap): errors:\n  .data.x: expected string, got &value.valueUnstructured{Value:1}\n  .data.y: expected string, got &value.valueUnstructured{Value:true}\n  .data.z: expected string, got &value.valueUnstructured{Value:[]interface {}{1}}\n  .data.w: expected string, got &value.valueUnstructured{Value:1.5}"),
			text: "data.w: expected string, got number; data.x: expected string, got integer; data.y: expected string, got boolean; and 1 more", fixManifest: true,
		},
		"unknown field": {
			err:  status("", "failed to create typed patch object (/hello; /v1, Kind=ConfigMap): .datas: field not declared in schema"),
			text: "datas: there is no such field", fixManifest: true,
		},
		"duplicate keys": {
			err:  status("", "failed to create typed patch object (/e; apps/v1, Kind=Deployment): .spec.template.spec.containers[name=\"c\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]"),
			text: "spec.template.spec.containers[name=\"c\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]", fixManifest: true,
		},
		"immutable": {
			err: status(metav1.StatusReasonInvalid, "Deployment.apps \"d\" is invalid", metav1.StatusCause{
				Type:    metav1.CauseTypeFieldValueInvalid,
				Message: "Invalid value: {\"matchLabels\":{\"a\":\"2\"}}: field is immutable", Field: "spec.selector",
			}),
			text: "spec.selector: field is immutable", fixManifest: true,
		},
		"the same mistakes in another order": {
			err: status(metav1.StatusReasonInvalid, "",
				metav1.StatusCause{
					Message: "Required value", Field: "spec.template",
				}, metav1.StatusCause{Message: "Required value", Field: "spec.selector"}),
			text: "spec.selector: Required value; spec.template: Required value", fixManifest: true,
		},
		"invalid Secret": {
			err: status(metav1.StatusReasonInvalid, "", metav1.StatusCause{
				Type:    metav1.CauseTypeFieldValueInvalid,
				Message: `Invalid value: "hunter2: \"x\": y": a type must be good`, Field: "type",
			}),
			secret: true, text: "type: a type must be good", fixManifest: true,
		},
		"invalid Secret with a structure": {
			err: status(metav1.StatusReasonInvalid, "", metav1.StatusCause{
				Type: metav1.CauseTypeFieldValueInvalid, Message: `Invalid value: {"a":"hunter2"}: must be good`,
				Field: "data",
			}),
			secret: true, text: "data: invalid value", fixManifest: true,
		},
		"Secret refused by a webhook": {
			err: status(metav1.StatusReasonForbidden,
				`admission webhook "guard.dev" denied the request: password hunter2 is weak`),
			secret: true, text: `admission webhook "guard.dev" denied the request`, fixManifest: true,
		},
		"Secret and an odd answer": {
			err: status(metav1.StatusReasonInternalError, "hunter2 made me stumble"), secret: true,
			text: "the API server refused it (500 InternalError)",
		},
		"access rules": {
			err: status(metav1.StatusReasonForbidden,
				`secrets "x" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "secrets" in API group "" in the namespace "c"`),
			text: `User "system:serviceaccount:a:b" cannot patch resource "secrets" in API group "" in the namespace "c"`,
		},
		"timeout": {err: context.DeadlineExceeded, text: "the API server did not answer in time"},
		"unreachable": {
			err: errors.New("dial tcp: refused"), text: "the API server can't be reached: dial tcp: refused",
		},
		"cut off": {
			err:  errors.New("read tcp 10.0.0.1:53412->10.0.0.2:443: connection reset"),
			text: "the API server can't be reached: read tcp 10.0.0.2:443: connection reset",
		},
		"cut off, v6": {
			err:  errors.New("read tcp [::1]:53412->[::1]:443: connection reset"),
			text: "the API server can't be reached: read tcp [::1]:443: connection reset",
		},
		"an essay": {
			err:  status(metav1.StatusReasonForbidden, strings.Repeat("ü", 5000)),
			text: strings.Repeat("ü", 512) + " ...",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problem := describeError(test.secret, test.err)
			if got := shortenText(problem.Text); got != test.text {
				t.Errorf("got\n%s\nwant\n%s", got, test.text)
			}
			if problem.Mistake != test.fixManifest || problem.Advice == "" {
				t.Errorf("mistake %v, advice %q", problem.Mistake, problem.Advice)
			}
		})
	}
}

// Not every message of the API server about a field that can't be changed has the word immutable in it.
func TestFieldsThatCannotBeChangedAreKnownByTheirMessages(t *testing.T) {
	t.Parallel()
	for kind, cause := range map[string]metav1.StatusCause{
		"StatefulSet": {
			Type:    metav1.CauseType("FieldValueForbidden"),
			Message: "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template' and 'minReadySeconds' are forbidden",
			Field:   "spec",
		},
		"StorageClass": {
			Type: metav1.CauseType("FieldValueForbidden"), Message: "Forbidden: updates to parameters are forbidden.", Field: "parameters",
		},
		"RoleBinding": {
			Type: metav1.CauseTypeFieldValueInvalid, Field: "roleRef",
			Message: `Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"b"}: cannot change roleRef`,
		},
	} {
		if err := status(metav1.StatusReasonInvalid, kind+" \"x\" is invalid", cause); !isImmutable(err) {
			t.Errorf("%s: %+v", kind, describeError(false, err))
		}
	}
	forbidden := metav1.StatusCause{Type: metav1.CauseType("FieldValueForbidden"), Message: "Forbidden: may not be set", Field: "spec.x"}
	if err := status(metav1.StatusReasonInvalid, "x is invalid", forbidden); isImmutable(err) {
		t.Error("any forbidden field is taken for one that can't be changed")
	}
}

// Objects that take data or other objects along are not deleted for a change, and the advice does not name the
// annotation.
func TestNamespacesClaimsVolumesAndDefinitionsAreNeverMadeAnew(t *testing.T) {
	t.Parallel()
	refused := status(metav1.StatusReasonInvalid, "x is invalid", metav1.StatusCause{
		Type: metav1.CauseTypeFieldValueInvalid, Message: "field is immutable", Field: "spec.x",
	})
	for kind, want := range map[string]bool{
		"Deployment": true, "Job": true, "Service": true,
		"Namespace": false, "PersistentVolumeClaim": false, "PersistentVolume": false,
		"CustomResourceDefinition": false,
	} {
		item := set.Item{}
		item.Kind = kind
		if got := mayRecreate(item); got != want {
			t.Errorf("%s may be made anew: %v, want %v", kind, got, want)
		}
		if named := strings.Contains(explainError(item, refused).Advice, "fairlead.dev/recreate"); named != want {
			t.Errorf("%s: %q", kind, explainError(item, refused).Advice)
		}
	}
}

// A sync that names single objects deletes none: it does not advise to allow what is allowed.
func TestAnObjectThatMayBeMadeAnewIsSyncedWithAll(t *testing.T) {
	t.Parallel()
	refused := status(metav1.StatusReasonInvalid, "", metav1.StatusCause{Message: "field is immutable", Field: "spec"})
	item := set.Item{Flags: object.Recreate}
	if got := explainError(item, refused).Advice; got != recreatesByAll {
		t.Errorf("got %q", got)
	}
	if item.Hook = object.PreSync; explainError(item, refused).Advice == recreatesByAll {
		t.Error("a sync does not delete a hook's object for it")
	}
}

// FuzzSecretProblem: whatever the API server answers about a Secret, a value in it is not repeated.
func FuzzSecretProblem(f *testing.F) {
	const value = "hunter2hunter2"
	f.Add("failed to create typed patch object (/a; /v1, Kind=Secret): .data.x: expected string, got &{V}",
		"Invalid value: \"V\": bad", "")
	f.Add("failed to create typed patch object (/a; /v1, Kind=Secret): errors:\n  .data: expected map, got V\n V: expected V", "Invalid value: V", "Forbidden")
	f.Add("V", "Invalid value: {\"a\":\"V\"}: bad", "Invalid")
	f.Fuzz(func(t *testing.T, message, cause, reason string) {
		message, cause = strings.ReplaceAll(message, "V", value), strings.ReplaceAll(cause, "V", value)
		// A path names keys, not values; the value never stands before the word that follows the path.
		for line := range strings.SplitSeq(message, "\n") {
			if before, _, found := strings.Cut(line, ": expected "); found && strings.Contains(before, value) ||
				strings.Contains(line, value+": field not declared") {
				return
			}
		}
		if strings.Contains(cause, ": "+value) && !strings.HasPrefix(cause, "Invalid value: ") ||
			strings.Contains(message, "User \"") || strings.Contains(message, "admission webhook") {
			return
		}
		if _, detail, found := strings.Cut(cause, "\": "); found && strings.Contains(detail, value) {
			return
		}
		problem := describeError(true,
			status(metav1.StatusReason(reason), message, metav1.StatusCause{
				Type: metav1.CauseTypeFieldValueInvalid, Message: cause, Field: "data",
			}))
		if strings.Contains(problem.Text, value) && !strings.Contains(reason, value) {
			t.Errorf("%q tells the value", problem.Text)
		}
	})
}
