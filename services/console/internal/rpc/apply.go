package rpc

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/rogpeppe/go-internal/diff"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

type applies struct{ Deps }

func (s *applies) Apply(ctx context.Context, req *consolev1.ApplyRequest) (*consolev1.ApplyResponse, error) {
	a := catalog.Application{
		Set: req.GetSet(), Prune: req.GetPrune(), Dry: req.GetDryRun(), Confirmation: req.GetConfirmation(),
	}
	for i, r := range req.GetResources() {
		e, err := s.draft(r)
		if err != nil {
			return nil, s.fail(ctx, fmt.Errorf("resource %d: %w", i, err))
		}
		a.Edits = append(a.Edits, e)
	}
	written, err := s.Catalog.Apply(ctx, by(ctx), a)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if !a.Dry {
		s.revoked(ctx, written)
	}
	out := &consolev1.ApplyResponse{}
	for _, w := range written {
		result, err := s.applied(w, a.Dry)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		out.Results = append(out.Results, result)
	}
	return out, nil
}

// revoked puts the revocations in force of clusters' agents and of service accounts.
func (d Deps) revoked(ctx context.Context, written []catalog.Written) {
	for _, w := range written {
		if w.Kind == store.KindCluster && w.Outcome == catalog.Removed || w.Kind == store.KindServiceAccount && w.Outcome != catalog.Unchanged {
			d.reload(ctx)
			return
		}
	}
}

// draft gets a resource ready to be written. Faults of the resource itself are reported with the other faults.
func (s *applies) draft(r *consolev1.Resource) (e catalog.Edit, err error) {
	var m manifest.Message
	var kind store.Kind
	want := func(m catalog.Meta) catalog.Expectation { return catalog.Expectation{ETag: m.ETag, AllowMissing: true} }
	switch r := r.GetResource().(type) {
	case *consolev1.Resource_Secret:
		m, kind = r.Secret, store.KindSecret
		in := catalog.Secret{Meta: decodeMeta(r.Secret.GetMetadata()), Data: r.Secret.GetData()}
		e, err = s.Catalog.DraftSecret(in, want(in.Meta))
	case *consolev1.Resource_Source:
		m, kind = r.Source, store.KindSource
		in := decodeSource(r.Source)
		e, err = in.Draft(want(in.Meta))
	case *consolev1.Resource_Cluster:
		m, kind = r.Cluster, store.KindCluster
		in := decodeCluster(r.Cluster)
		e, err = in.Draft(want(in.Meta))
	case *consolev1.Resource_Service:
		m, kind = r.Service, store.KindService
		in := decodeService(r.Service)
		e, err = in.Draft(want(in.Meta))
	case *consolev1.Resource_Grant:
		m, kind = r.Grant, store.KindGrant
		in := decodeGrant(r.Grant)
		e, err = in.Draft(want(in.Meta))
	case *consolev1.Resource_Project:
		m, kind = r.Project, store.KindProject
		var in catalog.Project
		if in, err = decodeProject(r.Project); err == nil {
			e, err = catalog.Projects().Draft(in, want(in.Meta))
		}
	case *consolev1.Resource_Role:
		m, kind = r.Role, store.KindRole
		in := catalog.Resource[catalog.RoleSpec]{Meta: decodeMeta(r.Role.GetMetadata()), Spec: decodeRole(r.Role.GetSpec())}
		e, err = catalog.Roles().Draft(in, want(in.Meta))
	case *consolev1.Resource_ServiceAccount:
		m, kind = r.ServiceAccount, store.KindServiceAccount
		in := decodeServiceAccount(r.ServiceAccount)
		e, err = catalog.ServiceAccounts().Draft(in, want(in.Meta))
	case *consolev1.Resource_ConfigSet:
		m, kind = r.ConfigSet, store.KindConfigSet
		in := decodeConfigSet(r.ConfigSet)
		e, err = catalog.ConfigSets().Draft(in, want(in.Meta))
	case *consolev1.Resource_Backend:
		m, kind = r.Backend, store.KindBackend
		in := decodeBackend(r.Backend)
		e, err = catalog.Backends().Draft(in, want(in.Meta))
	case *consolev1.Resource_Sink:
		m, kind = r.Sink, store.KindSink
		in := decodeSink(r.Sink)
		e, err = catalog.Sinks().Draft(in, want(in.Meta))
	case *consolev1.Resource_GlobalService:
		m, kind = r.GlobalService, store.KindGlobalService
		var in catalog.GlobalService
		if in, err = decodeGlobal(r.GlobalService); err == nil {
			e, err = catalog.GlobalServices().Draft(in, want(in.Meta))
		}
	default:
		return e, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("is a %T: this console does not know that yet", r))
	}
	if err != nil {
		return catalog.Broken(kind, m.GetMetadata().GetName(), err), nil
	}
	return e, nil
}

func (s *applies) applied(w catalog.Written, dry bool) (*consolev1.Applied, error) {
	out := &consolev1.Applied{Kind: encodeKind(w.Kind), Name: w.Name}
	switch w.Outcome {
	case catalog.Created:
		out.Outcome = consolev1.ApplyOutcome_APPLY_OUTCOME_CREATED
	case catalog.Updated:
		out.Outcome = consolev1.ApplyOutcome_APPLY_OUTCOME_UPDATED
	case catalog.Unchanged:
		out.Outcome = consolev1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED
	case catalog.Removed:
		out.Outcome = consolev1.ApplyOutcome_APPLY_OUTCOME_DELETED
	}
	if w.After != nil {
		out.Etag = w.After.ETag()
	}
	out.Note = strings.Join(append(w.Notes, sideNote(w.Side)...), ", ")
	if !dry || w.Outcome == catalog.Unchanged {
		return out, nil
	}
	var err error
	out.Diff, err = s.diff(w.Name, w.Before, w.After)
	return out, err
}

// sideNote says what else came of a write, in words.
func sideNote(side []catalog.Written) []string {
	counts := map[catalog.Outcome]int{}
	for _, w := range side {
		counts[w.Outcome]++
	}
	var parts []string
	for _, o := range []catalog.Outcome{catalog.Created, catalog.Updated, catalog.Removed} {
		switch n := counts[o]; n {
		case 0:
		case 1:
			parts = append(parts, fmt.Sprintf("1 service %s", o))
		default:
			parts = append(parts, fmt.Sprintf("%d services %s", n, o))
		}
	}
	return parts
}

// diff shows what changes, as people write it down.
func (d Deps) diff(name string, before, after *store.Resource) (string, error) {
	before, after, err := catalog.AsFiles(before, after)
	if err != nil {
		return "", err
	}
	was, err := d.text(before, before)
	if err != nil {
		return "", err
	}
	is, err := d.text(before, after)
	if err != nil {
		return "", err
	}
	return string(diff.Diff("is "+name, was, "will be "+name, is)), nil
}

// text is told as YAML; nothing for none. Of a service it is what files say, where that changes, and else what is in force.
func (d Deps) text(before, r *store.Resource) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	m, err := d.told(before, r)
	if err != nil {
		return nil, err
	}
	return manifest.YAML(m)
}

// told is what people write down of a resource, with its secrets masked; of a value that is not that of before, this
// is said.
func (d Deps) told(before, r *store.Resource) (manifest.Message, error) {
	changed, err := d.Catalog.ChangedSettings(before, r)
	if err != nil {
		return nil, err
	}
	m, err := d.unmasked(r)
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *consolev1.Secret:
		if r.Sealed == nil { // of the history, which keeps no values
			for key := range m.GetData() {
				m.Data[key] = catalog.Masked
			}
		} else if m.Data, err = d.Catalog.MaskSecret(before, *r); err != nil {
			return nil, err
		}
	case *consolev1.ConfigSet:
		maskSettings(m.GetSpec().GetEntries(), changed)
	case *consolev1.Sink:
		maskSink(m.GetSpec(), changed)
	case *consolev1.Service:
		maskSettings(m.GetSpec().GetConfig(), changed)
	case *consolev1.Cluster:
		maskSettings(m.GetSpec().GetConfig(), changed)
	case *consolev1.Project:
		maskSettings(m.GetSpec().GetConfig(), changed)
	}
	return m, nil
}

// unmasked is what people write down of a resource. The message has no secret values, which are not in its spec.
func (d Deps) unmasked(r *store.Resource) (manifest.Message, error) {
	switch r.Kind { // of which followers are not told
	case store.KindGlobalService:
		global, err := catalog.GlobalServices().Decode(*r)
		return &consolev1.GlobalService{Metadata: head(r), Spec: encodeGlobal(global).GetSpec()}, err
	case store.KindConfigSet:
		set, err := catalog.ConfigSets().Decode(*r)
		return &consolev1.ConfigSet{Metadata: head(r), Spec: encodeConfigSet(set).GetSpec()}, err
	case store.KindBackend:
		backend, err := catalog.Backends().Decode(*r)
		return &consolev1.Backend{Metadata: head(r), Spec: encodeBackend(backend).GetSpec()}, err
	case store.KindSink:
		sink, err := catalog.Sinks().Decode(*r)
		return &consolev1.Sink{Metadata: head(r), Spec: encodeSink(sink).GetSpec()}, err
	case store.KindServiceAccount:
		account, err := catalog.ServiceAccounts().Decode(*r)
		return &consolev1.ServiceAccount{Metadata: head(r), Spec: encodeServiceAccount(account).GetSpec()}, err
	}
	decoded, err := catalog.DecodeChange(store.Change{Kind: r.Kind, Name: r.Name, UID: r.UID, Resource: *r, Heads: store.Heads{State: []byte("{}")}})
	if err != nil {
		return nil, err
	}
	m := written(encodeChange(decoded), head(r))
	if m == nil {
		return nil, fmt.Errorf("%s %q can't be shown", r.Kind, r.Name)
	}
	return m, nil
}

// head is the part of the metadata that people write.
func head(r *store.Resource) *consolev1.Metadata {
	return &consolev1.Metadata{Name: r.Name, Labels: r.Labels}
}

// written is what people write down of a resource that a change brings.
func written(c *consolev1.Change, head *consolev1.Metadata) manifest.Message {
	switch c := c.GetChange().(type) {
	case *consolev1.Change_Source:
		return &consolev1.Source{Metadata: head, Spec: c.Source.GetSpec()}
	case *consolev1.Change_Cluster:
		return &consolev1.Cluster{Metadata: head, Spec: c.Cluster.GetSpec()}
	case *consolev1.Change_Service:
		return &consolev1.Service{Metadata: head, Spec: c.Service.GetSpec()}
	case *consolev1.Change_Secret:
		return &consolev1.Secret{Metadata: head, Data: c.Secret.GetData()}
	case *consolev1.Change_Grant:
		return &consolev1.Grant{Metadata: head, Spec: c.Grant.GetSpec()}
	case *consolev1.Change_Project:
		return &consolev1.Project{Metadata: head, Spec: c.Project.GetSpec()}
	case *consolev1.Change_Role:
		return &consolev1.Role{Metadata: head, Spec: c.Role.GetSpec()}
	}
	return nil
}
