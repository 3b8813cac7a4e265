package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"fairlead.dev/e2e/seeded"
)

// A link that is copied from any state of a page opens that state for another person.
func TestPersonOpensWhatAnotherOneSeesInABrowser(t *testing.T) {
	t.Parallel()
	needsABrowser(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	c := startSeeded(ctx, t, seeded.Size{Clusters: 20, Services: 150, Sources: 4, Objects: 20})
	links := make([]string, 0, 2)
	for _, user := range []string{"ada", "grace"} {
		link, err := c.LoginLinkOf(ctx, user)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, strings.TrimSpace(link))
	}
	inChromium(ctx, t, "links.mjs", func(event string) error { return fmt.Errorf("the script says %q", event) },
		append(links, seeded.Failing, seeded.Large, "shop", seeded.Charts, c.Cluster(2), os.Getenv("SHOTS"))...)
}
