package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/answers"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/lookup"
	"fairlead.dev/services/agent/internal/mode"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/render"
	"fairlead.dev/services/agent/internal/set"
)

// setOf names the set that a service is rendered to.
func setOf(service desired.Service) set.ID { return set.IDOf(service.Content(), "") }

// openWanted opens the set of what is wanted, and renders it first if that was not done yet.
// The verdict tells whether they are what is going to be applied.
func (s *site) openWanted(ctx, patience context.Context, service desired.Service, record inventory.Record, verdict mode.Verdict) (*set.Set, *problem) {
	before := staysAsItWas(record)
	found, err := s.controller.Sets.Open(s.name, setOf(service))
	switch {
	case err == nil && !found.Made().Before(service.Sync.GetRequestTime().AsTime()) && !s.isOutdated(found.Environment()) && !s.hasMisplaced(ctx, found) && s.allowsImages(found):
		return found, nil
	case err == nil:
		// A sync was asked for since, or the cluster has changed: what it tells a chart may be different now. Or images
		// were narrowed: the render says which are not allowed any more.
		err = found.Close()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return nil, retriedProblem(err).withState(before)
	}
	rendered, err := s.renderSet(ctx, patience, service, record, verdict)
	if nothing, ok := errors.AsType[*nothingError](err); ok {
		return nil, emptyProblem(service, nothing.renderer, record)
	}
	if err != nil {
		return nil, mistakeOrRetry(err).withState(before)
	}
	s.keepSets(record)
	return rendered, nil
}

// openPlanned opens the set that is being brought into the cluster. A plan that was begun goes on as it was planned,
// whatever the cluster can do by now: objects of another render are not those of the plan.
func (w *worker) openPlanned(ctx, patience context.Context, service desired.Service, record inventory.Record) (*set.Set, *problem) {
	if w.progress != nil {
		found, err := w.site.controller.Sets.Open(w.site.name, setOf(service))
		if err == nil && w.site.allowsImages(found) {
			return found, nil
		}
		if err == nil {
			_ = found.Close() // it was only read
		}
		w.progress = nil
	}
	return w.site.openWanted(ctx, patience, service, record, w.stance.verdict)
}

// allowsImages tells whether all images of a set may still be pulled. A set is looked at once for what is narrowed.
func (s *site) allowsImages(objects *set.Set) bool {
	registries := s.controller.currentNarrower().Registries
	if len(registries) == 0 {
		return true
	}
	about := fmt.Sprint(objects.Name(), objects.Made().UnixNano(), registries)
	if s.renders.isAllowed(about) {
		return true
	}
	if allowed, err := objects.AllowsImages(registries); err != nil || !allowed {
		return false // a render says what is wrong
	}
	s.renders.allowImages(about)
	return true
}

// hasMisplaced tells that an object was taken for one in a namespace before its kind was known, and is none.
func (s *site) hasMisplaced(ctx context.Context, objects *set.Set) bool {
	items, err := objects.Items()
	if err != nil {
		return false // the next to read it says so
	}
	return slices.ContainsFunc(items, func(item set.Item) bool {
		if item.Flags&object.LateKind == 0 || item.Namespace == "" {
			return false
		}
		namespaced, err := s.controller.Scopes.Namespaced(ctx, item.GVK())
		return err == nil && !namespaced
	})
}

// nothingError: a render gave no objects.
type nothingError struct{ renderer deliveryv1.Renderer }

func (e *nothingError) Error() string { return describeNothing(e.renderer) }

// renderSet renders a service. The part that did not change since the applied set is taken from there. Without any
// objects there is no set, but a nothingError.
func (s *site) renderSet(ctx, patience context.Context, service desired.Service, record inventory.Record, verdict mode.Verdict) (*set.Set, error) {
	building, err := s.controller.Sets.Create(set.Target{
		Service: s.name, ID: setOf(service), Namespace: service.Namespace, Scopes: s.controller.Scopes, Rules: service.Rules, Registries: s.controller.currentNarrower().Registries, CRDs: service.Render.GetHelm().GetCrds(),
	})
	if err != nil {
		return nil, err
	}
	defer building.Discard()
	if last, err := s.appliedSet(record); err == nil && len(building.Registries) == 0 { // else all images are looked at
		defer func() { _ = last.Close() }()
		if err := building.After(last); err != nil {
			return nil, err
		}
	}
	out, err := s.renderInto(ctx, patience, service, record, building, building.Add)
	if err != nil {
		return nil, err
	}
	if building.Len() == 0 {
		return nil, &nothingError{out.folder.Renderer}
	}
	if wanted := service.Sync.GetCreateNamespace(); wanted != nil {
		if err := building.AddNamespace(ctx, wanted); err != nil {
			return nil, err
		}
	}
	// A chart that leaves out what it found would have it removed, and made again by the next render.
	for _, ref := range out.lookups.Found() {
		if err := building.Hold(ctx, ref, kubeyaml.Position{File: path.Join(service.Path, out.folder.Root())}); err != nil {
			return nil, err
		}
	}
	building.For(joinEnvironment(out.environment, out.kept.Renewal(), out.versions))
	if err := out.kept.Save(ctx); err != nil {
		return nil, err
	}
	if out.folder.Renderer == deliveryv1.Renderer_RENDERER_HELM && verdict.Apply { // else the render is not what is going to be applied
		if err := s.tellNotes(service, out); err != nil {
			return nil, err
		}
	}
	return building.Commit(ctx)
}

// rendered is what a render says besides objects.
type rendered struct {
	folder  *render.Folder
	lookups *lookup.Lookups
	kept    *answers.Memo
	// environment that the objects depend on, and versions of the objects in the cluster that values are from.
	environment, versions string
	// notes of a chart.
	notes string
}

// renderInto renders a service's folder, and gives its objects to add.
func (s *site) renderInto(ctx, patience context.Context, service desired.Service, record inventory.Record, building *set.Builder, add func(context.Context, *unstructured.Unstructured, kubeyaml.Position) error) (out rendered, err error) {
	out.lookups = lookup.New(s.controller.Lookup(service), service, record, func(values []string) { s.controller.Desired.Hide(s.name, values) })
	out.kept = s.controller.Answers.Memo(s.name, service.Values(), record.Applied.Values)
	in := render.Input{
		Recall:  out.kept.Recall,
		Answers: out.kept.Note,
		Lookup:  out.lookups.LookUp,
		Warn:    building.Warn,
		Notes:   func(text string) { out.notes = text },
		Memo:    func(at kubeyaml.Position) (bool, error) { return building.Copy(ctx, at) },
	}
	if in.Folder, err = render.Scan(service, func() (io.ReadCloser, error) { return s.controller.Artifacts.Open(patience, service) }); err != nil {
		return out, err
	}
	out.folder = in.Folder
	if in.Folder.Scoped() {
		if in.Scope, err = s.controller.Scope(ctx, service); err != nil {
			return out, err
		}
		release := record.ReleaseOf(service.RevisionDigest())
		in.Scope.Release = render.ReleaseScope{Revision: release.Revision, Install: release.Install}
		in.Depends = func() {
			out.environment = in.Scope.Cluster.Environment()
			s.noteSeen(out.environment)
		}
	}
	if in.Folder.Renderer == deliveryv1.Renderer_RENDERER_HELM {
		if in.Scope.Given, out.versions, err = s.givenOf(ctx, service); err != nil {
			return out, err
		}
		if in.Scope.ReleaseService, err = s.releaseService(ctx, service, record); err != nil {
			return out, err
		}
		if in.Scope.ReleaseService == releasedByHelm {
			building.ReleasedBy(releasedByHelm)
		}
	}
	begin := time.Now()
	ctx, span := telemetry.Child(ctx, s.controller.Tracer, "agent.render")
	defer span.End()
	if err := s.controller.Renderer.Render(ctx, in, func(obj *unstructured.Unstructured, at kubeyaml.Position) error { return add(ctx, obj, at) }); err != nil {
		return out, err
	}
	telemetry.Observe(ctx, s.controller.metrics.renders, time.Since(begin))
	return out, nil
}

// tellNotes hands over the notes of a chart, when a render gave other ones than before. An agent that renders nothing
// tells none. Random values and those of Secrets that the chart looked up are left out of them, as secrets are: most
// are passwords.
func (s *site) tellNotes(service desired.Service, out rendered) error {
	secrets := slices.Clip(out.lookups.Secrets())
	for _, answer := range out.kept.Used() {
		secrets = append(secrets, desired.Texts(answer.Value)...)
	}
	notes := s.maskText(service, out.notes)
	if mask := (desired.Service{}).Mask(secrets...); mask != nil {
		notes = mask(notes)
	}
	return s.controller.Details.Set(&deliveryv1.ServiceDetail{Service: s.name, Digest: service.Digest, Detail: &deliveryv1.ServiceDetail_Notes{Notes: &deliveryv1.Notes{Text: notes}}})
}

// appliedSet opens the set that was applied last. fs.ErrNotExist: the disk does not have it.
func (s *site) appliedSet(record inventory.Record) (*set.Set, error) {
	return s.namedSet(record.Applied.Set)
}

func (s *site) namedSet(name string) (*set.Set, error) {
	id, err := set.ParseID(name)
	if err != nil {
		return nil, fs.ErrNotExist
	}
	return s.controller.Sets.Open(s.name, id)
}

// keepSets removes the sets of a service but the applied one, one that was begun with, and the wanted one.
func (s *site) keepSets(record inventory.Record) {
	service, _ := s.controller.Desired.Get(s.name)
	keep := []set.ID{setOf(service), testSetOf(service)}
	for _, name := range []string{record.Applied.Set, record.Begun} {
		if id, err := set.ParseID(name); err == nil {
			keep = append(keep, id)
		}
	}
	if err := s.controller.Sets.Keep(s.name, keep...); err != nil {
		s.log.Warn("old manifests stay on disk", "err", err)
	}
}

// emptyProblem is the problem of a folder without manifests. The problem never means "remove everything". The hub
// announces no commits to the agent that leave the folder as it is, so the newest commit may be another one.
func emptyProblem(service desired.Service, renderer deliveryv1.Renderer, record inventory.Record) *problem {
	folder := path.Join("/", service.Path)
	if service.Path != "" {
		folder = service.Path
	}
	text := fmt.Sprintf("%s, unchanged since %.8s, %s.", folder, service.Commit, describeNothing(renderer))
	if count := len(record.Entries); count > 0 {
		stays := "the object that was applied stays. To remove it delete the service; to keep it"
		if count > 1 {
			stays = fmt.Sprintf("the %d objects that were applied stay. To remove them delete the service; to keep them", count)
		}
		text += fmt.Sprintf(" Nothing is removed for an empty folder: %s put the manifests back and push.", stays)
	} else {
		text += " Check the path of the service, or push some."
	}
	return &problem{text: text, final: true}
}

// describeNothing tells what a folder without objects lacks.
func describeNothing(renderer deliveryv1.Renderer) string {
	switch renderer {
	case deliveryv1.Renderer_RENDERER_KUSTOMIZE:
		return "has a kustomization that builds no objects"
	case deliveryv1.Renderer_RENDERER_HELM:
		return "has a chart that renders no objects with these values"
	case deliveryv1.Renderer_RENDERER_TEMPLATE:
		return "has templates that render no objects"
	default:
		return "holds no manifests (.yaml, .yml or .json)"
	}
}

// The words that the templates of a chart see as .Release.Service, and mostly write into the label
// app.kubernetes.io/managed-by or heritage. Agents said Fairlead once; a service that they applied keeps it while
// another word would do harm.
const (
	releasedByHelm     = "Helm"
	releasedByFairlead = "Fairlead"
)

// releaseService is what the chart of a service sees as .Release.Service: Helm, so that objects are those of a Helm
// release. A service that was applied as Fairlead stays so for as long as folder and values do, as the label may be in
// a checksum that restarts pods, and for ever where the label is in a field that can't be changed.
func (s *site) releaseService(ctx context.Context, service desired.Service, record inventory.Record) (string, error) {
	switch {
	case record.Applied.ReleaseService == releasedByHelm || len(record.Entries) == 0:
		return releasedByHelm, nil
	case record.Applied.Set == setOf(service).String():
		return releasedByFairlead, nil
	}
	ask := s.controller.Lookup(service)
	for _, entry := range record.Entries {
		if !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}, entry.Kind) || entry.Group != "apps" || entry.UID == "" {
			continue
		}
		var spec map[string]any
		_, err := ask(ctx, entry.GVK(), entry.Namespace, entry.Name, func(live *unstructured.Unstructured) {
			spec, _ = live.Object["spec"].(map[string]any)
		})
		// The service's account may only write it, or its project has become narrower.
		if _, refused := errors.AsType[*render.RefusedError](err); refused || apierrors.IsForbidden(err) {
			return releasedByFairlead, nil
		}
		if err != nil {
			return "", err
		}
		if mentionsText(spec["selector"], releasedByFairlead) || mentionsText(spec["volumeClaimTemplates"], releasedByFairlead) {
			return releasedByFairlead, nil
		}
	}
	return releasedByHelm, nil
}

// mentionsText tells whether a text is somewhere in a value.
func mentionsText(value any, text string) bool {
	switch value := value.(type) {
	case string:
		return value == text
	case []any:
		return slices.ContainsFunc(value, func(item any) bool { return mentionsText(item, text) })
	case map[string]any:
		for _, item := range value {
			if mentionsText(item, text) {
				return true
			}
		}
	}
	return false
}
