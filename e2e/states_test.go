package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"fairlead.dev/e2e/seeded"
	"fairlead.dev/e2e/stack"
)

// Each page says in words that the network is cut, that the person may not see something, that it is not there or that
// the hub is empty, and keeps what it shows and what was typed while the hub is away or the session is over.
func TestPersonIsToldWhatIsWrongOnEachPageInABrowser(t *testing.T) {
	t.Parallel()
	if os.Getenv("STATES") == "" {
		t.Skip("it takes some four minutes: make states runs it")
	}
	needsABrowser(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	bins, err := stack.FindBinaries(ctx, "..")
	if err != nil {
		t.Fatal(err)
	}
	full, err := seeded.Start(ctx, bins, t.TempDir(), seeded.Size{Clusters: 20, Services: 60, Sources: 4, Objects: 20})
	if err != nil {
		t.Fatal(err)
	}
	empty, err := seeded.StartEmpty(ctx, bins, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	links := make([]string, 0, 2)
	for _, c := range []*seeded.Console{full, empty} {
		stopAtEnd(t, c)
		link, err := c.LoginLink(ctx)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, strings.TrimSpace(link))
	}
	inChromium(ctx, t, "states.mjs", func(event string) error {
		switch event {
		case "stop":
			return full.Away()
		case "start":
			return full.Back()
		}
		return fmt.Errorf("the script says %q", event)
	}, append(links, full.Cluster(1), seeded.Failing, "shop", os.Getenv("SHOTS"))...)
}
