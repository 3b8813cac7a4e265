package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

// api calls the hub as an administrator.
type api struct {
	open     consolev1connect.IdentityServiceClient // without a credential
	identity consolev1connect.IdentityServiceClient
	sources  consolev1connect.SourceServiceClient
	clusters consolev1connect.ClusterServiceClient
	services consolev1connect.ServiceServiceClient
	audits   consolev1connect.AuditServiceClient
	applies  consolev1connect.ApplyServiceClient
	views    consolev1connect.ClusterViewServiceClient
	live     gitcachev1connect.SourceServiceClient
	plain    *http.Client
}

func newAPI(ctx context.Context, hc *http.Client, urls map[string]string, secretFile string) (*api, error) {
	secret, err := os.ReadFile(secretFile)
	if err != nil {
		return nil, err
	}
	console := urls["console"]
	a := &api{open: consolev1connect.NewIdentityServiceClient(hc, console, client.Options()...)}
	// The token lives for longer than any run.
	resp, err := a.open.ExchangeHubSecret(ctx, &consolev1.ExchangeHubSecretRequest{
		HubSecret: strings.TrimSpace(string(secret)), Subject: &consolev1.ExchangeHubSecretRequest_Administrator{Administrator: "fleet"},
	})
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	token := identity.StaticToken(resp.GetToken().GetToken())
	options := append(client.Options(), client.WithToken(token))
	a.identity = consolev1connect.NewIdentityServiceClient(hc, console, options...)
	a.sources = consolev1connect.NewSourceServiceClient(hc, console, options...)
	a.clusters = consolev1connect.NewClusterServiceClient(hc, console, options...)
	a.services = consolev1connect.NewServiceServiceClient(hc, console, options...)
	a.applies = consolev1connect.NewApplyServiceClient(hc, console, options...)
	a.views = consolev1connect.NewClusterViewServiceClient(hc, console, options...)
	a.audits = consolev1connect.NewAuditServiceClient(hc, console, options...)
	a.live = gitcachev1connect.NewSourceServiceClient(hc, urls["gitcache"], options...)
	a.plain = &http.Client{Transport: client.Authorize(hc.Transport, token)}
	return a, nil
}

// refresh does what a Git host's webhook does after a push.
func (a *api) refresh(ctx context.Context, source string) error {
	_, err := a.live.RefreshSource(ctx, &gitcachev1.RefreshSourceRequest{Name: source})
	return err
}

// digests are those that the hub says it hands out, by service.
func (a *api) digests(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for token := ""; ; {
		resp, err := a.services.ListServices(ctx, &consolev1.ListServicesRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return nil, fmt.Errorf("list services: %w", err)
		}
		for _, s := range resp.GetServices() {
			all[s.GetMetadata().GetName()] = s.GetStatus().GetHub().GetDigest()
		}
		if token = resp.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

// unhealthy is a service that lists show in another state than healthy; empty: there is none.
func (a *api) unhealthy(ctx context.Context) (string, error) {
	resp, err := a.services.ListServices(ctx, &consolev1.ListServicesRequest{PageSize: 1, Filter: "state != healthy"})
	if err != nil {
		return "", fmt.Errorf("list services: %w", err)
	}
	if list := resp.GetServices(); len(list) > 0 {
		return list[0].GetMetadata().GetName(), nil
	}
	return "", nil
}

// metric reads one metric without labels from a part's /metrics.
func (a *api) metric(ctx context.Context, url, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := a.plain.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut("\n"+string(text), "\n"+name+" ")
	if !ok {
		return 0, fmt.Errorf("no metric %s at %s: %s", name, url, resp.Status)
	}
	value, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(value, 64)
}
