package console

import (
	"context"
	"fmt"
	"net/url"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/giturl"
	"fairlead.dev/services/gitcache/internal/browse"
	"fairlead.dev/services/gitcache/internal/status"
	"fairlead.dev/services/gitcache/internal/webhook"
)

// Live is all sources as they were published last, in the order of their names.
func (c *Catalog) Live() []status.Published {
	sources := c.catalog.Sources()
	published := make([]status.Published, 0, len(sources))
	for _, s := range sources {
		published = append(published, status.Published{
			UID: s.GetMetadata().GetUid(), Name: s.GetMetadata().GetName(), URL: withoutUser(catalog.UpstreamOf(s.GetSpec()).URL),
			Heads: Heads(s.GetStatus().GetHeads()), Problem: Problem(s.GetStatus().GetProblem()),
		})
	}
	return published
}

// withoutUser is a URL as anybody may see it.
func withoutUser(text string) string {
	u, err := giturl.Parse(text)
	if err != nil {
		u, err = giturl.ParseFolder(text) // of charts
	}
	if err != nil {
		u, err = giturl.ParseRegistry(text)
	}
	if err != nil {
		u, err = giturl.ParseBucket(text)
	}
	if err != nil {
		return "" // of a catalog that was less strict
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return shown.String()
}

// Browse is a source to look into.
func (c *Catalog) Browse(name string) (browse.Source, bool) {
	s, ok := c.catalog.Source(name)
	return browse.Source{
		UID: s.GetMetadata().GetUid(), Submodules: s.GetSpec().GetGit().GetSubmodules(),
		Heads: Heads(s.GetStatus().GetHeads()), Problem: s.GetStatus().GetProblem().GetMessage(),
	}, ok
}

// Head is the commit of a canonical ref of a source as it was published last, or of the id of a commit that was.
func (c *Catalog) Head(source, ref string) (commit string, ok bool) {
	s, _ := c.catalog.Source(source)
	return headAt(s.GetStatus().GetHeads(), ref)
}

// Webhook is what a source says of webhooks. False: none is taken.
func (c *Catalog) Webhook(name string) (webhook.Source, bool) {
	s, ok := c.catalog.Source(name)
	secret, known := c.catalog.Secret(catalog.UpstreamOf(s.GetSpec()).WebhookSecret)
	return webhook.Source{
		UID: s.GetMetadata().GetUid(), Secret: secret.GetMetadata().GetName(),
		SecretUID: secret.GetMetadata().GetUid(), SecretRevision: secret.GetMetadata().GetRevision(),
	}, ok && known
}

// WebhookToken reads what Git hosts authenticate with.
func (c *Console) WebhookToken(ctx context.Context, secret string) (string, error) {
	resp, err := c.secrets.AccessSecret(ctx, &consolev1.AccessSecretRequest{Name: secret})
	if err != nil {
		return "", fmt.Errorf("secret %q can't be read: the console answers %s", secret, connect.CodeOf(err))
	}
	return resp.GetData()["token"], nil
}
