package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"fairlead.dev/e2e/process"
	"fairlead.dev/platform/gitserver"
)

// TestOverlayRunsWithABaseOfAnotherRepository: the hub brings the base at a fixed commit, which the source shows, and
// the agent builds with it.
func TestOverlayRunsWithABaseOfAnotherRepository(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	base := serveBase(ctx, t)
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := s.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = repo.Push(ctx, "remote base", map[string]string{
		"based/kustomization.yaml": "namePrefix: based-\nresources:\n- " + base + "//app?ref=main\npatches:\n- patch: |-\n    {apiVersion: v1, kind: ConfigMap, metadata: {name: note}, data: {patched: 'yes'}}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster := s.Clusters[0]
	resources := fmt.Sprintf("apiVersion: fairlead.dev/v1\nkind: Source\nmetadata: {name: based}\nspec: {git: {url: %q, interval: 5s, allow: [%q]}}\n---\napiVersion: fairlead.dev/v1\nkind: Service\nmetadata: {name: based}\nspec: {source: based, path: based, cluster: %s, namespace: default}\n", s.GitURL, at.Host, cluster.Name)
	if _, err := s.FairleadStdin(ctx, resources, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	err = process.Await(ctx, "the overlay runs", func(ctx context.Context) error {
		got, err := s.Kubectl(ctx, cluster.Kubeconfig, "get", "configmap", "based-note", "-n", "default",
			"--ignore-not-found", "-o", "jsonpath={.data.text} {.data.patched}")
		if err == nil && got != "far yes" {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := s.Fairlead(ctx, "get", "source", "based", "-o", "yaml")
	if err != nil || !strings.Contains(shown, "base:"+base+"@main") {
		t.Errorf("the source shows %s, %v", shown, err)
	}
}

// serveBase serves a repository with a base in app/, until the test ends, and gives its URL.
func serveBase(ctx context.Context, t *testing.T) string {
	t.Helper()
	server, err := gitserver.New(gitserver.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0",
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = server.Create(ctx, "far", fstest.MapFS{
		"app/kustomization.yaml":    {Data: []byte("resources: [../common]\n")},
		"common/kustomization.yaml": {Data: []byte("resources: [note.yaml]\n")},
		"common/note.yaml":          {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\ndata: {text: far}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server.URL("far")
}
