package deliveryclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/ticket"
)

// Content is where artifacts come from: any distributor, or else any gitcache.
type Content struct {
	Distributors *Distributors
	// Gitcaches are the URLs of those that agents reach; none is fine.
	Gitcaches func() []string
	// HTTP asks them, with the agent's credential.
	HTTP *http.Client
}

// Fetch gives the verified bytes of an artifact. The ticket came with its delivery; without one only
// distributors can be asked.
func (c *Content) Fetch(ctx context.Context, d artifact.Digest, given string) (content io.ReadCloser, err error) {
	err = c.Distributors.Try(ctx, func(ctx context.Context, one Distributor) error {
		content, err = artifact.Begin(ctx, ticket.Show(one.HTTP, given), one.URL, d)
		return err
	})
	if err == nil || ctx.Err() != nil || given == "" {
		return content, err
	}
	gitcaches := slices.Clone(c.Gitcaches())
	rand.Shuffle(len(gitcaches), func(i, j int) { gitcaches[i], gitcaches[j] = gitcaches[j], gitcaches[i] }) //nolint:gosec // spread, not secrecy
	for _, url := range gitcaches {
		content, gerr := artifact.Begin(ctx, ticket.Show(c.HTTP, given), url, d)
		if gerr == nil {
			return content, nil
		}
		err = errors.Join(err, fmt.Errorf("%s: %w", url, gerr))
	}
	return nil, err
}
