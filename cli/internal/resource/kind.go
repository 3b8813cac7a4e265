// Package resource is how a command line names resources of the hub (kinds, references, selectors), and how commands
// read them.
package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/platform/catalogyaml"
	kindtable "fairlead.dev/platform/kind"
	"fairlead.dev/platform/typo"
)

// PageSize of lists: a thousand are bounded in bytes by the server's own limit per message.
const PageSize = 500

// Kind is a kind of resources.
type Kind struct {
	kindtable.Kind
	ID catalogyaml.Kind
}

// ListKinds returns all kinds in the order of their numbers, which is about that in which people meet them.
func ListKinds() []Kind {
	var out []Kind
	for _, k := range kindtable.All() {
		out = append(out, Kind{k, catalogyaml.Kind(k.Name())})
	}
	slices.SortFunc(out, func(a, b Kind) int { return cmp.Compare(a.Number(), b.Number()) })
	return out
}

// kindOf is the kind of resources that a command is made for.
func kindOf(name catalogyaml.Kind) Kind {
	k, _ := kindtable.Named(string(name)) // the tests look up each
	return Kind{k, name}
}

// SourceKind is the kind of sources.
func SourceKind() Kind { return kindOf(catalogyaml.Source) }

// ClusterKind is the kind of clusters.
func ClusterKind() Kind { return kindOf(catalogyaml.Cluster) }

// ServiceKind is the kind of services.
func ServiceKind() Kind { return kindOf(catalogyaml.Service) }

// BackendKind is the kind of backends.
func BackendKind() Kind { return kindOf(catalogyaml.Backend) }

// SinkKind is the kind of sinks.
func SinkKind() Kind { return kindOf(catalogyaml.Sink) }

// GlobalServiceKind is the kind of global services.
func GlobalServiceKind() Kind { return kindOf(catalogyaml.Global) }

func (k Kind) getResource(ctx context.Context, h *hubclient.Hub, name string) (catalogyaml.Message, error) {
	return h.Resource(ctx, k.Kind, name)
}

func (k Kind) readPage(ctx context.Context, h *hubclient.Hub, q Question) ([]catalogyaml.Message, string, error) {
	return h.Resources(ctx, k.Kind, hubclient.Question{Filter: q.Filter, Order: q.Sort, Token: q.token, Size: PageSize})
}

// RemoveResource deletes a resource; confirmation is what a call before asked for.
func (k Kind) RemoveResource(ctx context.Context, h *hubclient.Hub, name, confirmation string) error {
	return h.Delete(ctx, k.Kind, name, confirmation)
}

// FindKind takes a kind in singular or plural.
func FindKind(name string) (Kind, error) {
	var known []string
	for _, k := range ListKinds() {
		if strings.EqualFold(name, k.Singular()) || strings.EqualFold(name, k.Plural()) {
			return k, nil
		}
		known = append(known, k.Plural())
	}
	unknown := fmt.Sprintf("unknown kind %q: known are %s", name,
		strings.Join(append(known, "sessions", "logins"), ", "))
	if advice := KindElsewhere(name); advice != "" {
		unknown += "; " + advice
	} else if near := typo.Nearest(name, known); near != "" {
		unknown += "; did you mean " + near + "?"
	}
	return Kind{}, errors.New(unknown)
}

// ReadOne reads a resource by name.
func (k Kind) ReadOne(ctx context.Context, h *hubclient.Hub, name string) (catalogyaml.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	m, err := k.getResource(ctx, h, name)
	if err != nil {
		return nil, k.ExplainMissing(name, err)
	}
	return m, nil
}

// ExplainMissing says where to look when there is no such resource.
func (k Kind) ExplainMissing(name string, err error) error {
	if IsMissing(err) {
		return fmt.Errorf("%w %s %q: see `fairlead get %s`", errMissing, k.Singular(), name, k.Plural())
	}
	return err
}

// errMissing begins what is said of a resource that is not there.
var errMissing = errors.New("no")

// IsMissing tells that a resource is not there from all else.
func IsMissing(err error) bool {
	if errors.Is(err, errMissing) {
		return true
	}
	return connect.CodeOf(err) == connect.CodeNotFound && !strings.Contains(err.Error(), "may not view") // which says more
}

// Question is what is asked of a list.
type Question struct{ Filter, Sort, token string }

// ReadAll reads every resource, page by page.
func (k Kind) ReadAll(ctx context.Context, h *hubclient.Hub) ([]catalogyaml.Message, error) {
	return k.ReadMatching(ctx, h, Question{})
}

// ReadMatching reads every resource that is asked for, page by page.
func (k Kind) ReadMatching(ctx context.Context, h *hubclient.Hub, q Question) ([]catalogyaml.Message, error) {
	var all []catalogyaml.Message
	for {
		page, next, err := k.OnePage(ctx, h, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		if next == q.token {
			return nil, fmt.Errorf("list %s: the hub repeats a page", k.Plural())
		}
		q.token = next
	}
}

// OnePage reads a page of a list.
func (k Kind) OnePage(ctx context.Context, h *hubclient.Hub, q Question) ([]catalogyaml.Message, string, error) {
	ctx, cancel := context.WithTimeout(ctx, hubclient.CallTimeout)
	defer cancel()
	return k.readPage(ctx, h, q)
}

// Declared is a resource that a folder declares, with its kind.
type Declared struct {
	Kind Kind
	catalogyaml.Message
}

// ReadDeclared reads what the folder of a service declares, kind by kind: what the person may view of it.
func ReadDeclared(ctx context.Context, h *hubclient.Hub, service string) (all []Declared, err error) {
	for _, k := range ListKinds() {
		if k.ID == catalogyaml.Secret {
			continue // which no folder declares
		}
		list, err := k.ReadMatching(ctx, h, Question{Filter: "labels." + DeclaredLabel + " = " + service})
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			all = append(all, Declared{k, m})
		}
	}
	return all, nil
}
