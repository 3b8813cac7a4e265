package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hub"
	kindtable "fairlead.dev/platform/kind"
	"fairlead.dev/platform/manifest"
)

// pageSize of lists: a thousand are bounded in bytes by the server's own limit per message.
const pageSize = 500

// kind is a kind of resources.
type kind struct {
	kindtable.Kind
	kind manifest.Kind
}

func (k kind) singular() string { return k.Singular() }
func (k kind) plural() string   { return k.Plural() }

// listKinds returns all kinds in the order of their numbers, which is about that in which people meet them.
func listKinds() []kind {
	var out []kind
	for _, k := range kindtable.All() {
		out = append(out, kind{k, manifest.Kind(k.Name())})
	}
	slices.SortFunc(out, func(a, b kind) int { return cmp.Compare(a.Number(), b.Number()) })
	return out
}

// kindOf is the kind of resources that a command is made for.
func kindOf(name manifest.Kind) kind {
	k, _ := kindtable.Named(string(name)) // the tests look up each
	return kind{k, name}
}

func sourceKind() kind        { return kindOf(manifest.Source) }
func clusterKind() kind       { return kindOf(manifest.Cluster) }
func serviceKind() kind       { return kindOf(manifest.Service) }
func backendKind() kind       { return kindOf(manifest.Backend) }
func sinkKind() kind          { return kindOf(manifest.Sink) }
func globalServiceKind() kind { return kindOf(manifest.Global) }

func (k kind) getResource(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
	return h.Resource(ctx, k.Kind, name)
}

func (k kind) readPage(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
	return h.Resources(ctx, k.Kind, hub.Question{Filter: q.filter, Order: q.sort, Token: q.token, Size: pageSize})
}

// removeResource deletes a resource; confirmation is what a call before asked for.
func (k kind) removeResource(ctx context.Context, h *hub.Hub, name, confirmation string) error {
	return h.Delete(ctx, k.Kind, name, confirmation)
}

// findKind takes a kind in singular or plural.
func findKind(name string) (kind, error) {
	var known []string
	for _, k := range listKinds() {
		if strings.EqualFold(name, k.singular()) || strings.EqualFold(name, k.plural()) {
			return k, nil
		}
		known = append(known, k.plural())
	}
	unknown := fmt.Sprintf("unknown kind %q: known are %s", name, strings.Join(append(known, "sessions", "logins"), ", "))
	if advice := kindElsewhere(name); advice != "" {
		unknown += "; " + advice
	}
	return kind{}, errors.New(unknown)
}

// readOne reads a resource by name.
func (k kind) readOne(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := k.getResource(ctx, h, name)
	if err != nil {
		return nil, k.explainMissing(name, err)
	}
	return m, nil
}

// explainMissing says where to look when there is no such resource.
func (k kind) explainMissing(name string, err error) error {
	if isMissing(err) {
		return fmt.Errorf("%w %s %q: see `fairlead get %s`", errMissing, k.singular(), name, k.plural())
	}
	return err
}

// errMissing begins what is said of a resource that is not there.
var errMissing = errors.New("no")

// isMissing tells that a resource is not there from all else.
func isMissing(err error) bool {
	if errors.Is(err, errMissing) {
		return true
	}
	return connect.CodeOf(err) == connect.CodeNotFound && !strings.Contains(err.Error(), "may not view") // which says more
}

// question is what is asked of a list.
type question struct{ filter, sort, token string }

// readAll reads every resource, page by page.
func (k kind) readAll(ctx context.Context, h *hub.Hub) ([]manifest.Message, error) {
	return k.readMatching(ctx, h, question{})
}

// readMatching reads every resource that is asked for, page by page.
func (k kind) readMatching(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, error) {
	var all []manifest.Message
	for {
		page, next, err := k.onePage(ctx, h, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		if next == q.token {
			return nil, fmt.Errorf("list %s: the hub repeats a page", k.plural())
		}
		q.token = next
	}
}

func (k kind) onePage(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return k.readPage(ctx, h, q)
}
