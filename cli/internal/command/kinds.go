package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	"fairlead.dev/cli/internal/hub"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
)

// pageSize of lists: a thousand are bounded in bytes by the server's own limit per message.
const pageSize = 500

// kind is how a kind of resource is reached.
type kind struct {
	kind manifest.Kind
	get  func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error)
	page func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error)
	// remove deletes a resource; confirmation is what a call before asked for.
	remove func(ctx context.Context, h *hub.Hub, name, confirmation string) error
}

func (k kind) singular() string { return strings.ToLower(string(k.kind)) }
func (k kind) plural() string   { return k.singular() + "s" }

func kinds() []kind {
	return []kind{sourceKind(), clusterKind(), serviceKind(), secretKind(), grantKind(), projectKind(), configSetKind(), backendKind(), sinkKind(), globalServiceKind(), roleKind(), serviceAccountKind()}
}

// findKind takes a kind in singular or plural.
func findKind(name string) (kind, error) {
	var known []string
	for _, k := range kinds() {
		if strings.EqualFold(name, k.singular()) || strings.EqualFold(name, k.plural()) {
			return k, nil
		}
		known = append(known, k.plural())
	}
	unknown := fmt.Sprintf("unknown kind %q: known are %s", name, strings.Join(append(known, "sessions"), ", "))
	if advice := kindElsewhere(name); advice != "" {
		unknown += "; " + advice
	}
	return kind{}, errors.New(unknown)
}

// messages makes a slice of the interface of a slice of resources.
func messages[M manifest.Message](ms []M) []manifest.Message {
	out := make([]manifest.Message, len(ms))
	for i, m := range ms {
		out[i] = m
	}
	return out
}

func sourceKind() kind {
	return kind{
		kind: manifest.Source,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Sources.GetSource(ctx, &consolev1.GetSourceRequest{Name: name})
			return res.GetSource(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Sources.ListSources(ctx, &consolev1.ListSourcesRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetSources()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Sources.DeleteSource(ctx, &consolev1.DeleteSourceRequest{Name: name})
			return err
		},
	}
}

func clusterKind() kind {
	return kind{
		kind: manifest.Cluster,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Clusters.GetCluster(ctx, &consolev1.GetClusterRequest{Name: name})
			return res.GetCluster(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Clusters.ListClusters(ctx, &consolev1.ListClustersRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetClusters()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Clusters.DeleteCluster(ctx, &consolev1.DeleteClusterRequest{Name: name})
			return err
		},
	}
}

func serviceKind() kind {
	return kind{
		kind: manifest.Service,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
			return res.GetService(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Services.ListServices(ctx, &consolev1.ListServicesRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetServices()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, confirmation string) error {
			_, err := h.Services.DeleteService(ctx, &consolev1.DeleteServiceRequest{Name: name, Confirmation: confirmation})
			return err
		},
	}
}

func secretKind() kind {
	return kind{
		kind: manifest.Secret,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Secrets.GetSecret(ctx, &consolev1.GetSecretRequest{Name: name})
			return res.GetSecret(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Secrets.ListSecrets(ctx, &consolev1.ListSecretsRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetSecrets()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Secrets.DeleteSecret(ctx, &consolev1.DeleteSecretRequest{Name: name})
			return err
		},
	}
}

func grantKind() kind {
	return kind{
		kind: manifest.Grant,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Grants.GetGrant(ctx, &consolev1.GetGrantRequest{Name: name})
			return res.GetGrant(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Grants.ListGrants(ctx, &consolev1.ListGrantsRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetGrants()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Grants.DeleteGrant(ctx, &consolev1.DeleteGrantRequest{Name: name})
			return err
		},
	}
}

func projectKind() kind {
	return kind{
		kind: manifest.Project,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Projects.GetProject(ctx, &consolev1.GetProjectRequest{Name: name})
			return res.GetProject(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Projects.ListProjects(ctx, &consolev1.ListProjectsRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetProjects()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Projects.DeleteProject(ctx, &consolev1.DeleteProjectRequest{Name: name})
			return err
		},
	}
}

func configSetKind() kind {
	return kind{
		kind: manifest.ConfigSet,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Sets.GetConfigSet(ctx, &consolev1.GetConfigSetRequest{Name: name})
			return res.GetConfigSet(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Sets.ListConfigSets(ctx, &consolev1.ListConfigSetsRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetConfigSets()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Sets.DeleteConfigSet(ctx, &consolev1.DeleteConfigSetRequest{Name: name})
			return err
		},
	}
}

func backendKind() kind {
	return kind{
		kind: manifest.Backend,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Backends.GetBackend(ctx, &consolev1.GetBackendRequest{Name: name})
			return res.GetBackend(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Backends.ListBackends(ctx, &consolev1.ListBackendsRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetBackends()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Backends.DeleteBackend(ctx, &consolev1.DeleteBackendRequest{Name: name})
			return err
		},
	}
}

func sinkKind() kind {
	return kind{
		kind: manifest.Sink,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Sinks.GetSink(ctx, &consolev1.GetSinkRequest{Name: name})
			return res.GetSink(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Sinks.ListSinks(ctx, &consolev1.ListSinksRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetSinks()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Sinks.DeleteSink(ctx, &consolev1.DeleteSinkRequest{Name: name})
			return err
		},
	}
}

func globalServiceKind() kind {
	return kind{
		kind: manifest.Global,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Globals.GetGlobalService(ctx, &consolev1.GetGlobalServiceRequest{Name: name})
			return res.GetGlobalService(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Globals.ListGlobalServices(ctx, &consolev1.ListGlobalServicesRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetGlobalServices()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, confirmation string) error {
			_, err := h.Globals.DeleteGlobalService(ctx, &consolev1.DeleteGlobalServiceRequest{Name: name, Confirmation: confirmation})
			return err
		},
	}
}

func roleKind() kind {
	return kind{
		kind: manifest.Role,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Roles.GetRole(ctx, &consolev1.GetRoleRequest{Name: name})
			return res.GetRole(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Roles.ListRoles(ctx, &consolev1.ListRolesRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetRoles()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Roles.DeleteRole(ctx, &consolev1.DeleteRoleRequest{Name: name})
			return err
		},
	}
}

func serviceAccountKind() kind {
	return kind{
		kind: manifest.ServiceAccount,
		get: func(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
			res, err := h.Accounts.GetServiceAccount(ctx, &consolev1.GetServiceAccountRequest{Name: name})
			return res.GetServiceAccount(), err
		},
		page: func(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, string, error) {
			res, err := h.Accounts.ListServiceAccounts(ctx, &consolev1.ListServiceAccountsRequest{PageSize: pageSize, PageToken: q.token, Filter: q.filter, OrderBy: q.sort})
			return messages(res.GetServiceAccounts()), res.GetNextPageToken(), err
		},
		remove: func(ctx context.Context, h *hub.Hub, name, _ string) error {
			_, err := h.Accounts.DeleteServiceAccount(ctx, &consolev1.DeleteServiceAccountRequest{Name: name})
			return err
		},
	}
}

// one reads a resource by name.
func (k kind) one(ctx context.Context, h *hub.Hub, name string) (manifest.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	m, err := k.get(ctx, h, name)
	if err != nil {
		return nil, k.missing(name, err)
	}
	return m, nil
}

// missing says where to look when there is no such resource.
func (k kind) missing(name string, err error) error {
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

// all reads every resource, page by page.
func (k kind) all(ctx context.Context, h *hub.Hub) ([]manifest.Message, error) {
	return k.those(ctx, h, question{})
}

// those reads every resource that is asked for, page by page.
func (k kind) those(ctx context.Context, h *hub.Hub, q question) ([]manifest.Message, error) {
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
	return k.page(ctx, h, q)
}
