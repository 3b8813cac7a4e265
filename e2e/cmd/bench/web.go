package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/seeded"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

const (
	// webTabs is how many streams of the kind that pages hold are open at once, of webPeople people.
	webTabs, webPeople = 100, 10
	// webRate is changes a second, and webBusy how long the streams are measured.
	webRate = 20
	webBusy = 30 * time.Second
)

func webSize() seeded.Size {
	return seeded.Size{Clusters: 2000, Services: 10_000, Sources: 500, Objects: 1500}
}

// webAll is all parts over one console.
func webAll(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withSeeded(ctx, bins, dir, func(c *seeded.Console) error {
		if err := webStreams(ctx, c, stdout); err != nil {
			return err
		}
		return webPages(ctx, bins, c, stdout)
	})
}

// webTabsAlone measures what open pages cost the console.
func webTabsAlone(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withSeeded(ctx, bins, dir, func(c *seeded.Console) error { return webStreams(ctx, c, stdout) })
}

func withSeeded(ctx context.Context, bins stack.Binaries, dir string, measure func(*seeded.Console) error) error {
	c, err := seeded.Start(ctx, bins, dir, webSize())
	if err != nil {
		return err
	}
	return errors.Join(measure(c), c.Stop())
}

// webStreams opens the streams of many tabs while services change.
func webStreams(ctx context.Context, c *seeded.Console, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	var tabs sync.WaitGroup
	defer tabs.Wait()
	defer cancel()
	standing := make(chan error, webTabs)
	for i := range webPeople {
		api, err := c.Person(ctx, fmt.Sprint("tab-", i))
		if err != nil {
			return err
		}
		for range webTabs / webPeople {
			tabs.Go(func() { webTab(ctx, api, standing) })
		}
	}
	for range webTabs {
		if err := <-standing; err != nil {
			return err
		}
	}
	began, before := time.Now(), gitcache.CPU(c.Pid())
	if err := webChange(ctx, c, webBusy); err != nil {
		return err
	}
	cores := (gitcache.CPU(c.Pid()) - before).Seconds() / time.Since(began).Seconds()
	_, err := fmt.Fprintf(stdout, "BENCH web.console_cores_100_tabs %.2f cores\n", cores)
	return err
}

// webTab holds the stream of a page with services, and tells when it stands.
func webTab(ctx context.Context, api consolev1connect.LiveServiceClient, standing chan<- error) {
	stream, err := api.WatchQueries(ctx, &consolev1.WatchQueriesRequest{Queries: []*consolev1.Query{
		{Name: "page", Query: &consolev1.Query_List{List: &consolev1.ListQuery{
			Kind: consolev1.Kind_KIND_SERVICE, PageSize: 100, OrderBy: "state desc, state_since desc",
			ReadMask: &fieldmaskpb.FieldMask{Paths: []string{
				"metadata.name", "spec.cluster", "spec.source",
				"status.state", "status.state_message", "status.state_since",
			}},
		}}},
		{Name: "total", OnlyChanges: true, Query: &consolev1.Query_Counts{Counts: &consolev1.CountResourcesRequest{Kind: consolev1.Kind_KIND_SERVICE, GroupBy: []string{"cluster", "state"}}}},
	}})
	if err != nil {
		standing <- err
		return
	}
	defer func() { _ = stream.Close() }() // the stream has ended
	stands := false
	for stream.Receive() {
		if stream.Msg().GetHeartbeat() != nil && !stands {
			stands = true
			standing <- nil
		}
	}
	if !stands {
		standing <- errors.Join(errors.New("a stream ended before it stood"), stream.Err())
	}
}

// webChange has services change for some time.
func webChange(ctx context.Context, c *seeded.Console, long time.Duration) error {
	ticker := time.NewTicker(time.Second / webRate)
	defer ticker.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			if _, err := c.Change(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// webPages has the browser measure. The browser asks for changes by lines, and goes on when a line comes back.
func webPages(ctx context.Context, bins stack.Binaries, c *seeded.Console, stdout io.Writer) error {
	root := filepath.Dir(bins.Dir)
	chromium, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		return errors.New("no browser: run tools/install.sh")
	}
	if text, err := exec.CommandContext(ctx, filepath.Join(root, "tools/buf.sh"), "--prepare").CombinedOutput(); err != nil {
		return fmt.Errorf("install playwright: %w\n%s", err, text)
	}
	link, err := c.LoginLink(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(root, "e2e/browser/bench.mjs"), chromium, strings.TrimSpace(link))
	cmd.Env = append(os.Environ(), "NODE_MODULES="+filepath.Join(root, "tools/node_modules"))
	cmd.Stderr = os.Stderr
	answers, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(said); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "BENCH":
			_, err = fmt.Fprintln(stdout, lines.Text())
		case "break":
			err = c.Break(ctx, 200, rest)
		case "busy":
			var long time.Duration
			if long, err = time.ParseDuration(rest); err == nil {
				err = webChange(ctx, c, long)
			}
		}
		if err == nil && word != "BENCH" {
			_, err = io.WriteString(answers, "\n")
		}
		if err != nil {
			return errors.Join(err, answers.Close(), cmd.Process.Kill(), cmd.Wait())
		}
	}
	return cmd.Wait()
}
