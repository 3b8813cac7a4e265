package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"fairlead.dev/e2e/seeded"
	"fairlead.dev/e2e/stack"
)

// A person sees in a browser what agents see in their clusters: it follows what agents push, a cluster that is away
// shows its last view with its age, and no cluster is asked.
func TestPersonSeesWhatIsInClustersInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := startSeeded(ctx, t, seeded.Size{Clusters: 20, Services: 150, Sources: 4, Objects: 20})
	link, err := c.LoginLink(ctx)
	if err != nil {
		t.Fatal(err)
	}
	inChromium(ctx, t, "clusterviews.mjs", func(event string) error {
		switch event {
		case "fail":
			return errors.Join(c.View(ctx, 2, "broken-5f6d-abcde", "<b>bold</b>"), c.View(ctx, 3, "a", "b", "c", "d"))
		case "recover":
			return errors.Join(c.View(ctx, 2), c.View(ctx, 3))
		}
		return fmt.Errorf("the script says %q", event)
	}, strings.TrimSpace(link), c.Cluster(2), c.Cluster(3), c.Cluster(13), os.Getenv("SHOTS"))

	// The same console has services enough to work through a list.
	if link, err = c.LoginLink(ctx); err != nil {
		t.Fatal(err)
	}
	token := ""
	inChromium(ctx, t, "worklist.mjs", func(event string) (err error) {
		switch event {
		case "token":
			token, err = c.APIToken(ctx)
			return err
		case "token is revoked":
			if err := c.Counts(ctx, token); connect.CodeOf(err) != connect.CodeUnauthenticated {
				return fmt.Errorf("the token that was revoked: %w", err)
			}
			return nil
		}
		return fmt.Errorf("the script says %q", event)
	},
		strings.TrimSpace(link), seeded.Failing, seeded.Charts, c.Cluster(17), os.Getenv("SHOTS"))
	seesTheHub(ctx, t, c)
}

// seesTheHub has a person look at how the hub is, end logins, and change a configuration, and has somebody copy the
// token of an agent.
func seesTheHub(ctx context.Context, t *testing.T, c *seeded.Console) {
	t.Helper()
	const cluster = 5
	args := make([]string, 0, 6)
	for range 3 {
		link, err := c.LoginLinkOf(ctx, "grace")
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, strings.TrimSpace(link))
	}
	inChromium(ctx, t, "hub.mjs", func(event string) error {
		if event != "copy the token" {
			return fmt.Errorf("the script says %q", event)
		}
		return c.CopyToken(ctx, cluster)
	}, append(args, c.Cluster(cluster), c.Service(seeded.Configured), os.Getenv("SHOTS"))...)
}

// startSeeded starts a console with a fleet of a size. It stops when the test ends.
func startSeeded(ctx context.Context, t *testing.T, size seeded.Size) *seeded.Console {
	t.Helper()
	bins, err := stack.FindBinaries(ctx, "..")
	if err != nil {
		t.Fatal(err)
	}
	c, err := seeded.Start(ctx, bins, t.TempDir(), size)
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, c)
	return c
}

// stopAtEnd stops a console when the test ends.
func stopAtEnd(t *testing.T, c *seeded.Console) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
}
