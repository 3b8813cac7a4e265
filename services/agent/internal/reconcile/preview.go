package reconcile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/lookup"
	"fairlead.dev/services/agent/internal/render"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/veil"
)

// Content takes the place of what the hub has for a service, for a look.
type Content struct {
	// Artifact is the digest of the bytes that Open gives.
	Artifact artifact.Digest
	// Open gives a tar, which nobody has looked at yet. Open is called more than once.
	Open func() (io.ReadCloser, error)
}

// PreviewNow tells what a service would become with other content: it is rendered as the hub's would be, with the
// options, the configuration and the bounds of the service, and compared as CompareNow does. Objects that templates
// look up are read as the person, within the bounds of the service. No secret is in the render: see package veil.
// PreviewNow applies and remembers nothing.
func (c *Controller) PreviewNow(ctx context.Context, name string, person impersonate.Person, content Content) (*deliveryv1.ServiceDetail, error) {
	k, service, record, err := c.findCompared(ctx, name)
	if err != nil {
		return nil, err
	}
	if content.Artifact == service.Artifact {
		detail, err := c.CompareNow(ctx, name, person) // with the random values that it has
		if !errors.Is(err, ErrNotRendered) {
			return detail, err
		}
	}
	ctx = impersonate.As(ctx, service.Sync.GetImpersonate())
	trial := service
	trial.Artifact = content.Artifact
	hidden := veil.New()
	if trial.Configuration, err = hidden.CoverConfiguration(service.Configuration); err != nil {
		return nil, err
	}
	preview := &preview{site: k.site, service: trial, record: record, person: person, veil: hidden, content: content}
	id := set.IDOf(rand.Text(), "")
	objects, err := preview.renderInTurn(ctx, id)
	if err != nil {
		return nil, preview.maskError(err)
	}
	defer func() { _ = objects.Close() }()
	if err := c.Sets.Remove(name, id); err != nil {
		return nil, err
	}
	release, err := takeTurn(ctx, c.comparing)
	if err != nil {
		return nil, err
	}
	defer release()
	out, err := k.site.compareAs(ctx, person, service, record, objects, hidden.MaskText, k.site.secretMask(service))
	if errors.Is(err, ErrMayNotRead) {
		return nil, err
	}
	if err != nil {
		return nil, errors.New(hidden.DescribeFailure(err.Error()))
	}
	hidden.ConcealDiff(out)
	return &deliveryv1.ServiceDetail{Service: name, Digest: service.Digest, Detail: &deliveryv1.ServiceDetail_Diff{Diff: out}}, nil
}

// ErrContent: the content is at fault, and gives the same error again.
var ErrContent = errors.New("the content can't be rendered")

// preview is one render of other content.
type preview struct {
	site *site

	service desired.Service
	record  inventory.Record
	person  impersonate.Person
	veil    *veil.Veil
	content Content
	// refused: the person may not read what a template looks up.
	refused error
}

// renderInTurn renders once no other preview does. Comparisons are not kept waiting: a render may take a minute.
func (p *preview) renderInTurn(ctx context.Context, id set.ID) (*set.Set, error) {
	release, err := takeTurn(ctx, p.site.controller.previewing)
	if err != nil {
		return nil, err
	}
	defer release()
	return p.renderContent(ctx, id)
}

// renderContent renders the content to a set of its own.
func (p *preview) renderContent(ctx context.Context, id set.ID) (*set.Set, error) {
	building, err := p.site.controller.Sets.Create(set.Target{
		Service: p.site.name, ID: id, Namespace: p.service.Namespace, Scopes: p.site.controller.Scopes, Rules: p.service.Rules, Registries: p.site.controller.currentNarrower().Registries, CRDs: p.service.Render.GetHelm().GetCrds(),
	})
	if err != nil {
		return nil, err
	}
	defer building.Discard()
	looked := lookup.New(p.lookUp, p.service, p.record, func([]string) {})
	in := render.Input{Lookup: looked.LookUp, Warn: building.Warn}
	if in.Folder, err = render.Scan(p.service, p.content.Open); err != nil {
		return nil, err
	}
	if in.Folder.Scoped() {
		if in.Scope, err = p.site.controller.Scope(ctx, p.service); err != nil {
			return nil, err
		}
		release := p.record.ReleaseOf(p.service.RevisionDigest())
		in.Scope.Release = render.ReleaseScope{Revision: release.Revision, Install: release.Install}
	}
	if in.Folder.Renderer == deliveryv1.Renderer_RENDERER_HELM {
		if in.Scope.Given, err = p.readGiven(ctx); err != nil {
			return nil, err
		}
		if in.Scope.ReleaseService, err = p.site.releaseService(ctx, p.service, p.record); err != nil {
			return nil, err
		}
	}
	err = p.site.controller.Renderer.Render(ctx, in, func(obj *unstructured.Unstructured, at kubeyaml.Position) error {
		isRevealed := p.veil.RevealValues(obj)
		err := building.Add(ctx, obj, at)
		if mistake := (*kubeyaml.Error)(nil); isRevealed && errors.As(err, &mistake) {
			return &kubeyaml.Error{Position: at, Problem: "this object can't be applied. There are secret values in it, and what is wrong is not shown"}
		}
		return err
	})
	switch {
	case p.refused != nil:
		return nil, p.refused
	case err != nil:
		return nil, err
	case building.Len() == 0:
		return nil, &nothingError{in.Folder.Renderer}
	}
	if wanted := p.service.Sync.GetCreateNamespace(); wanted != nil {
		if err := building.AddNamespace(ctx, wanted); err != nil {
			return nil, err
		}
	}
	for _, ref := range looked.Found() {
		if err := building.Hold(ctx, ref, kubeyaml.Position{File: path.Join(p.service.Path, in.Folder.Root())}); err != nil {
			return nil, err
		}
	}
	return building.Commit(ctx)
}

// lookUp reads the cluster as the person, within the bounds of the service.
func (p *preview) lookUp(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, change func(*unstructured.Unstructured)) (json.RawMessage, error) {
	found, err := p.site.controller.Lookup(p.service)(impersonate.AsPerson(ctx, p.person), gvk, namespace, name, func(obj *unstructured.Unstructured) {
		p.veil.CoverObject(obj)
		change(obj)
	})
	if apierrors.IsForbidden(err) {
		p.refused = fmt.Errorf("%w what a template looks up: kind %s%s", ErrMayNotRead, gvk.Kind, inNamespace(namespace))
		return nil, p.refused
	}
	return found, err
}

// readGiven reads the values that a chart gets from the cluster, as the person.
func (p *preview) readGiven(ctx context.Context) (all []render.Given, err error) {
	for i, from := range p.service.Render.GetHelm().GetValuesFrom() {
		ref := sourcesOf(p.service)[i]
		text, _, err := p.site.valueAt(impersonate.AsPerson(ctx, p.person), p.service, ref, from)
		switch {
		case apierrors.IsForbidden(err):
			return nil, fmt.Errorf("%w what render.helm.valuesFrom names: kind %s%s", ErrMayNotRead, ref.Kind, inNamespace(ref.Namespace))
		case err != nil:
			return nil, err
		case text == nil:
			continue
		}
		hidden := from.GetKind() == "Secret"
		if hidden {
			if *text, err = p.veil.CoverGiven(from, *text); err != nil {
				return nil, fmt.Errorf("render.helm.valuesFrom: Secret %s, key %s: %w", from.GetName(), keyOf(from), err)
			}
		}
		all = append(all, render.Given{From: shownKey(ref, from), Text: *text, Path: from.GetTargetPath(), Secret: hidden})
	}
	return all, nil
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// maskError says what went wrong without a secret, and whether the content is at fault.
func (p *preview) maskError(err error) error {
	text := err.Error()
	kind := error(nil)
	mistake, nothing := (*kubeyaml.Error)(nil), (*nothingError)(nil)
	switch {
	case errors.Is(err, ErrMayNotRead):
		return err
	case errors.As(err, &mistake):
		kind = ErrContent
	case errors.As(err, &nothing):
		kind, text = ErrContent, fmt.Sprintf("%s %s", path.Join("/", p.service.Path), text)
	case errors.Is(err, fs.ErrNotExist):
		text = "the rendered manifests were cleaned up meanwhile. Ask again"
	}
	text = p.veil.MaskText(text)
	if kind != nil {
		return fmt.Errorf("%w: %s", kind, text)
	}
	return errors.New(text)
}
