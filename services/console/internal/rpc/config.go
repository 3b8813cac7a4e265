package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/config"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// configMounts are the services of configuration.
func configMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.ConfigSetServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewConfigSetServiceHandler(&configSets{d}, o...)
		}),
		server.RPC(consolev1connect.ConfigServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewConfigServiceHandler(&configs{d}, o...)
		}),
	}
}

func configPolicy() identity.Policy {
	return identity.Policy{
		// Grants decide, within reading and writing.
		consolev1connect.ConfigSetServiceGetConfigSetProcedure:    identity.RoleUser,
		consolev1connect.ConfigSetServiceListConfigSetsProcedure:  identity.RoleUser,
		consolev1connect.ConfigSetServiceUpdateConfigSetProcedure: identity.RoleUser,
		consolev1connect.ConfigSetServiceDeleteConfigSetProcedure: identity.RoleUser,

		consolev1connect.ConfigServicePreviewConfigProcedure:   identity.RoleUser,
		consolev1connect.ConfigServiceListConfigUsersProcedure: identity.RoleUser,
		consolev1connect.ConfigServiceAccessConfigsProcedure:   identity.RoleDistributor,
	}
}

type configSets struct{ Deps }

func (s *configSets) GetConfigSet(ctx context.Context, req *consolev1.GetConfigSetRequest) (*consolev1.GetConfigSetResponse, error) {
	out, err := serve(s.Deps, configSetKind()).Get(ctx, req)
	return &consolev1.GetConfigSetResponse{ConfigSet: out}, err
}

func (s *configSets) ListConfigSets(ctx context.Context, req *consolev1.ListConfigSetsRequest) (*consolev1.ListConfigSetsResponse, error) {
	out, next, err := serve(s.Deps, configSetKind()).List(ctx, req)
	return &consolev1.ListConfigSetsResponse{ConfigSets: out, NextPageToken: next}, err
}

func (s *configSets) UpdateConfigSet(ctx context.Context, req *consolev1.UpdateConfigSetRequest) (*consolev1.UpdateConfigSetResponse, error) {
	out, outcome, err := serve(s.Deps, configSetKind()).Update(ctx, req.GetConfigSet(), req)
	return &consolev1.UpdateConfigSetResponse{ConfigSet: out, Outcome: outcome}, err
}

func (s *configSets) DeleteConfigSet(ctx context.Context, req *consolev1.DeleteConfigSetRequest) (*consolev1.DeleteConfigSetResponse, error) {
	return &consolev1.DeleteConfigSetResponse{}, serve(s.Deps, configSetKind()).Delete(ctx, req)
}

// showConfigSets encodes configuration sets with their statuses.
func showConfigSets(ctx context.Context, c *catalog.Catalog, list []resource.ConfigSet) ([]*consolev1.ConfigSet, error) {
	services, err := c.CountServices(ctx, store.KindConfigSet, descriptor.Each(list, func(s resource.ConfigSet) string { return s.Meta.Name }))
	return descriptor.Each(list, func(s resource.ConfigSet) *consolev1.ConfigSet {
		out := encodeConfigSet(s)
		out.Status = &consolev1.ConfigSetStatus{Services: int32(services[s.Meta.Name])}
		return out
	}), err
}

func decodeConfigSet(c *consolev1.ConfigSet) resource.ConfigSet {
	spec := c.GetSpec()
	return resource.ConfigSet{Meta: descriptor.Meta(c.GetMetadata()), Spec: resource.ConfigSetSpec{
		Description: spec.GetDescription(), Project: spec.GetProject(), Entries: descriptor.Settings(spec.GetEntries()),
		Imports: descriptor.Each(spec.GetImports(), func(i *consolev1.ConfigImport) resource.Import {
			return resource.Import{Backend: i.GetBackend(), Path: i.GetPath(), Plain: i.GetPlain()}
		}),
	}}
}

func encodeConfigSet(c resource.ConfigSet) *consolev1.ConfigSet {
	return &consolev1.ConfigSet{Metadata: descriptor.Metadata(c.Meta), Spec: &consolev1.ConfigSetSpec{
		Description: c.Spec.Description, Project: c.Spec.Project, Entries: descriptor.ConfigSettings(c.Spec.Entries),
		Imports: descriptor.Each(c.Spec.Imports, func(i resource.Import) *consolev1.ConfigImport {
			return &consolev1.ConfigImport{Backend: i.Backend, Path: i.Path, Plain: i.Plain}
		}),
	}}
}

type configs struct{ Deps }

func (s *configs) PreviewConfig(ctx context.Context, req *consolev1.PreviewConfigRequest) (*consolev1.PreviewConfigResponse, error) {
	var p config.Preview
	var err error
	if draft := req.GetDraft(); draft != nil {
		p, err = s.Config.PreviewDraft(ctx, call.By(ctx), decodeService(draft))
	} else {
		p, err = s.Config.Preview(ctx, req.GetService())
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &consolev1.PreviewConfigResponse{Revision: p.Revision}
	for _, e := range p.Entries {
		shown := &consolev1.EffectiveConfig{
			Name: e.Name, Type: encodeType(e.Type), Value: e.Value, Secret: e.Secret, Origin: e.Origin, Overrides: e.Overrides, Stale: e.Stale, Problem: e.Problem,
		}
		if e.Secret {
			shown.Value = catalog.Masked
		}
		if e.Problem != "" {
			shown.Value = ""
		}
		out.Entries = append(out.Entries, shown)
	}
	return out, nil
}

func (s *configs) ListConfigUsers(ctx context.Context, req *consolev1.ListConfigUsersRequest) (*consolev1.ListConfigUsersResponse, error) {
	of := store.Ref{Kind: descriptor.Numbered(req.GetKind()), Name: req.GetName()}
	users, next, err := s.Config.Users(ctx, of, req.GetEntry(), catalog.Page{Size: int(req.GetPageSize()), Token: req.GetPageToken()})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ListConfigUsersResponse{NextPageToken: next, Users: descriptor.Each(users, func(u config.User) *consolev1.ConfigUser {
		return &consolev1.ConfigUser{Service: u.Service, Cluster: u.Cluster, Entries: descriptor.Each(u.Entries, func(e config.Used) *consolev1.UsedConfig {
			return &consolev1.UsedConfig{Name: e.Name, Origin: e.Origin, OverriddenBy: e.Over}
		})}
	})}, nil
}

func (s *configs) AccessConfigs(ctx context.Context, req *consolev1.AccessConfigsRequest) (*consolev1.AccessConfigsResponse, error) {
	list, failed, err := s.Config.Access(ctx, descriptor.Each(req.GetServices(), func(w *consolev1.ConfigWanted) config.Wanted {
		return config.Wanted{Service: w.GetServiceUid(), Revision: w.GetRevision()}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if failed != nil {
		s.Log.WarnContext(ctx, "a service waits for its configuration, which is damaged and can't be made again yet", "err", failed)
	}
	var read []audit.ConfigRead
	for _, v := range list {
		if v.Secrets() {
			read = append(read, audit.ConfigRead{Service: v.Name, Revision: v.Revision})
		}
	}
	s.Accesses.Configs(call.Who(ctx), read)
	return &consolev1.AccessConfigsResponse{Services: descriptor.Each(list, func(v config.Values) *consolev1.AccessedConfig {
		return &consolev1.AccessedConfig{ServiceUid: v.Service, Revision: v.Revision, Values: descriptor.Each(v.Values, func(v config.Value) *consolev1.ConfigValue {
			return &consolev1.ConfigValue{Name: v.Name, Type: encodeType(v.Type), Value: v.Value, Secret: v.Secret}
		})}
	})}, nil
}

func encodeType(t config.Type) consolev1.ConfigType {
	switch t {
	case config.Text:
		return consolev1.ConfigType_CONFIG_TYPE_TEXT
	case config.Number:
		return consolev1.ConfigType_CONFIG_TYPE_NUMBER
	case config.Flag:
		return consolev1.ConfigType_CONFIG_TYPE_FLAG
	case config.JSON:
		return consolev1.ConfigType_CONFIG_TYPE_JSON
	}
	return consolev1.ConfigType_CONFIG_TYPE_UNSPECIFIED
}
