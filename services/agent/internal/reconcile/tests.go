package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/trial"
)

// testSetOf names the set of a service's tests.
func testSetOf(service desired.Service) set.ID {
	return set.IDOf(service.Content()+" "+service.Tests.GetServiceAccount(), "tests")
}

// runTests runs the tests of what is applied, and says when to look again.
func (w *worker) runTests(ctx, patience context.Context, service desired.Service, isHealthy bool) time.Duration {
	record, err := w.site.controller.Inventory.Get(ctx, w.site.name) // as it was written last
	if err != nil || patience.Err() != nil || service.Tests == nil && service.TestRequest == nil && len(record.Tests) == 0 {
		return 0
	}
	in := w.testInput(patience, service, record)
	in.IsHealthy = isHealthy && in.Why == ""
	wait, isNews := w.trial.Step(ctx, patience, in)
	if isNews {
		w.site.wakeKeeper() // for the report
	}
	return wait
}

func (w *worker) testInput(patience context.Context, service desired.Service, record inventory.Record) trial.Input {
	in := trial.Input{Service: service, Record: record, Mask: w.site.testMask(service, record), Set: testSetOf(service).String(), Open: func(ctx context.Context, since time.Time) (*set.Set, error) {
		return w.site.testSet(ctx, patience, service, record, since)
	}}
	if !w.stance.same {
		in.Why = "The revision that is wanted is not the one that is applied, and its tests can't be run. " + w.stance.verdict.Text
	}
	if isSuspended(service) {
		in.Why = "The service is suspended: no tests are run."
	}
	return in
}

// testMask is maskOf for what tests say: those of the run that goes on, which may be of an earlier revision, and else
// those to come.
func (s *site) testMask(service desired.Service, record inventory.Record) func(string) string {
	mask := sync.OnceValue(func() func(string) string {
		id := testSetOf(service)
		if _, text, runs := trial.Running(record); runs {
			if of, err := set.ParseID(text); err == nil {
				id = of
			}
		}
		objects, err := s.controller.Sets.Open(s.name, id)
		if errors.Is(err, fs.ErrNotExist) { // then this agent has run no test of it, and there is no log
			return func(text string) string { return s.maskText(service, text) }
		}
		if err != nil {
			return func(string) string { return desired.Masked }
		}
		defer func() { _ = objects.Close() }() // the set was only read
		masked := s.maskOf(service, record, objects)
		masked("") // reads the Secrets while the set is open
		return masked
	})
	return func(text string) string { return mask()(text) }
}

func isSuspended(service desired.Service) bool {
	return service.Sync.GetMode() == deliveryv1.SyncMode_SYNC_MODE_SUSPEND
}

// refuseTests ends what was asked of tests of a revision that can't be applied.
func (w *worker) refuseTests(ctx, patience context.Context, service desired.Service, why string) {
	record, err := w.site.controller.Inventory.Get(ctx, w.site.name)
	if err != nil || service.TestRequest == nil {
		return
	}
	in := w.testInput(patience, service, record)
	in.Why = "The revision is not applied, so that its tests can't be run: " + why
	if _, isNews := w.trial.Step(ctx, patience, in); isNews {
		w.site.wakeKeeper()
	}
}

// endTests ends a run that is not of what is wanted now.
func (w *worker) endTests(ctx context.Context, service desired.Service, record inventory.Record) (inventory.Record, error) {
	digest, tests, runs := trial.Running(record)
	switch {
	case !runs:
		return record, nil
	case isSuspended(service):
		return w.trial.Abort(ctx, trial.Input{Service: service, Record: record, Mask: w.site.testMask(service, record)}, "The service was suspended.")
	case digest != service.RevisionDigest():
		return w.trial.Abort(ctx, trial.Input{Service: service, Record: record, Mask: w.site.testMask(service, record)}, "A newer revision came.")
	case tests != testSetOf(service).String():
		return w.trial.Abort(ctx, trial.Input{Service: service, Record: record, Mask: w.site.testMask(service, record)}, "Its tests were changed.")
	}
	return record, nil
}

// removeTests ends a run of a service that leaves.
func (w *worker) removeTests(ctx context.Context, service desired.Service, record inventory.Record) (inventory.Record, error) {
	if _, _, runs := trial.Running(record); !runs {
		return record, nil
	}
	return w.trial.Abort(ctx, trial.Input{Service: service, Record: record, Mask: w.site.testMask(service, record)}, "The service was removed.")
}

// judgeTests makes a service Degraded whose last run of tests failed, if it says so.
func judgeTests(service desired.Service, record inventory.Record, report *deliveryv1.ServiceReport) {
	why := trial.Failing(record)
	if !service.Tests.GetDegrades() || why == "" {
		return
	}
	switch report.GetPhase() {
	case deliveryv1.Phase_PHASE_HEALTHY, deliveryv1.Phase_PHASE_PROGRESSING:
		report.Phase = deliveryv1.Phase_PHASE_DEGRADED
		report.Message = strings.TrimSpace("Its tests failed: " + why + " " + report.GetMessage())
	}
}

// testSet opens the set of a service's tests, and renders the set first if that was not done since then: what a chart
// reads from the cluster has changed, or a certificate was renewed. A set with images that are not allowed any more is
// rendered anew, too, which says so.
func (s *site) testSet(ctx, patience context.Context, service desired.Service, record inventory.Record, since time.Time) (*set.Set, error) {
	found, err := s.controller.Sets.Open(s.name, testSetOf(service))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil || !found.Made().Before(since) && s.allowsImages(found):
		return found, err
	default:
		if err := found.Close(); err != nil {
			return nil, err
		}
	}
	if err := s.controller.Artifacts.Prepare(patience, service); err != nil {
		return nil, err
	}
	release, ok := s.slot(patience)
	if !ok {
		return nil, patience.Err()
	}
	defer release()
	building, err := s.controller.Sets.Create(set.Target{
		Service: s.name, ID: testSetOf(service), Namespace: service.Namespace, Scopes: s.controller.Scopes, Rules: service.Rules, Registries: s.controller.currentNarrower().Registries, Tests: true,
	})
	if err != nil {
		return nil, err
	}
	defer building.Discard()
	add := func(ctx context.Context, obj *unstructured.Unstructured, at kubeyaml.Position) error {
		if err := trial.Prepare(obj, service.Tests); err != nil {
			return &kubeyaml.Error{Position: at, Line: at.Line, Problem: err.Error()}
		}
		return building.Add(ctx, obj, at)
	}
	out, err := s.renderInto(ctx, patience, service, record, building, add)
	if err != nil {
		return nil, err
	}
	if folder := service.Tests.GetPath(); folder != "" {
		if node, ok := out.folder.Node(path.Join(out.folder.Base(), folder)); !ok || !node.Folder && node.Link == "" {
			return nil, out.folder.Mistake(path.Join(out.folder.Base(), folder), "there is no such folder. Mend tests.path, or push the folder")
		}
		if _, err := s.renderInto(ctx, patience, ofTests(service), record, building, func(ctx context.Context, obj *unstructured.Unstructured, at kubeyaml.Position) error {
			markTest(obj)
			return add(ctx, obj, at)
		}); err != nil {
			return nil, err
		}
	}
	return building.Commit(ctx)
}

// ofTests is a service whose folder is that of its tests.
func ofTests(service desired.Service) desired.Service {
	spec := &deliveryv1.RenderSpec{}
	if service.Render != nil {
		spec = proto.CloneOf(service.Render)
	}
	spec.Path = service.Tests.GetPath()
	if spec.GetRenderer() != deliveryv1.Renderer_RENDERER_TEMPLATE {
		spec.Renderer = deliveryv1.Renderer_RENDERER_UNSPECIFIED
	}
	service.Render, service.Tests = spec, nil
	return service
}

// markTest makes an object one of tests, if it is none yet.
func markTest(obj *unstructured.Unstructured) {
	annotations := obj.GetAnnotations()
	if wishes, err := object.WishesOf(annotations); err != nil || wishes.Hook&object.Test != 0 {
		return // Add says what is wrong
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[object.HookAnnotation] = "test"
	obj.SetAnnotations(annotations)
}
