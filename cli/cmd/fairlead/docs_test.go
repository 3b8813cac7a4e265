package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/command"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console"
)

// startConsole runs a console alone: what is written into its catalog nobody fetches.
func startConsole(t *testing.T, change ...func(*console.Config)) (url, secretFile string) {
	t.Helper()
	dir := t.TempDir()
	secretFile = filepath.Join(dir, "hub.secret") // the console makes its own only when it runs
	if err := os.WriteFile(secretFile, []byte("a hub secret for tests\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := console.Config{Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: dir}
	for _, f := range change {
		f(&cfg)
	}
	c, err := console.New(cfg,
		console.Deps{Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c.URL(), secretFile
}

// blocks are the YAML of a page.
func blocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, part := range strings.Split(string(text), "\n```yaml\n")[1:] {
		block, _, ok := strings.Cut(part, "\n```\n")
		if !ok {
			t.Fatalf("a block of %s does not end", page)
		}
		found = append(found, block+"\n")
	}
	return found
}

// Resources as the page on sources shows them can be applied, come back as they were written, and have every field
// that there is.
func TestSourcesPageCanBeApplied(t *testing.T) {
	t.Parallel()
	written, seen := applyPage(t, "sources.md", []string{"sources", "services"})
	if len(written) < 20 {
		t.Fatalf("the page has %d resources only", len(written))
	}
	for _, m := range []proto.Message{
		&consolev1.GitSource{}, &consolev1.HelmSource{}, &consolev1.OCISource{}, &consolev1.BucketSource{},
		&consolev1.LayerSelector{}, &consolev1.Verification{}, &consolev1.Verify{}, &consolev1.ServiceSpec{},
	} {
		// the fields are about objects, not about sources
		shows(t, m, seen, "namespace", "render", "sync", "tests", "test_request")
	}
}

// Resources as the page on syncing shows them can be applied, too, and have all of it.
func TestSyncingPageCanBeApplied(t *testing.T) {
	t.Parallel()
	_, seen := applyPage(t, "syncing.md", []string{"services"})
	// which a lever sets, and another page's
	shows(t, &deliveryv1.SyncSpec{}, seen, "request_time", "request_override", "request_overrides", "request_only",
		"windows")
	shows(t, &deliveryv1.RenderSpec{}, seen, "helm") // which is another page's
	shows(t, &consolev1.ServiceSpec{}, seen, "chart", "version", "sources", "include", "ignore", "tests",
		"test_request")
}

// Resources as the page on windows shows them can be applied.
func TestWindowsPageCanBeApplied(t *testing.T) {
	t.Parallel()
	_, seen := applyPage(t, "windows.md", []string{"projects", "clusters", "services"})
	if !seen["fairlead.console.v1.ProjectSpec.windows"] || !seen["fairlead.console.v1.ClusterSpec.windows"] {
		t.Errorf("the page has no windows: %v", seen)
	}
}

// applyPage applies what a page shows, and expects it back as it was written. seen are the fields that are set.
func applyPage(t *testing.T, page string,
	kinds []string,
) (written map[string]proto.Message, seen map[protoreflect.FullName]bool) {
	t.Helper()
	url, secret := startConsole(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	fairlead := func(stdin string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		err := command.Run(t.Context(), args, app.IO{
			Getenv: func(name string) string {
				return map[string]string{"FAIRLEAD_CONFIG": config, "USER": "ada"}[name]
			},
			Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Now: time.Now,
		})
		if err != nil {
			t.Fatalf("fairlead %s: %v\n%s", strings.Join(args, " "), err, errs.String())
		}
		return out.String()
	}
	fairlead("", "login", url, "--hub-secret-file", secret)
	written = map[string]proto.Message{}
	for _, block := range blocks(t, page) {
		fairlead(block, "apply", "-f", "-")
		objects, err := catalogyaml.Decode(page, []byte(block))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			written[o.Ref()] = o.Message
		}
	}
	seen = map[protoreflect.FullName]bool{}
	for _, kind := range kinds {
		back := fairlead("", "get", kind, "-o", "yaml")
		for line := range strings.Lines(fairlead(back, "apply", "-f", "-")) {
			if !strings.HasSuffix(line, " unchanged\n") {
				t.Errorf("what is printed is applied as: %s", line)
			}
		}
		objects, err := catalogyaml.Decode("get", []byte(back))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			o.Message.GetMetadata().Etag = ""
			if !proto.Equal(o.Message, written[o.Ref()]) {
				t.Errorf("%s: got %v\nwant %v", o.Ref(), o.Message, written[o.Ref()])
			}
			collect(o.Message.ProtoReflect(), seen)
		}
	}
	return written, seen
}

// shows expects that a page has all fields of a message, but for some.
func shows(t *testing.T, m proto.Message, seen map[protoreflect.FullName]bool, but ...string) {
	t.Helper()
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Number() >= 30 || slices.Contains(but, string(fd.Name())) {
			continue // from 30 on it is about what bounds and configures a service
		}
		if !seen[fd.FullName()] {
			t.Errorf("the page does not show %s", fd.FullName())
		}
	}
}

// collect notes the fields that are set.
func collect(m protoreflect.Message, seen map[protoreflect.FullName]bool) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		seen[fd.FullName()] = true
		if fd.Kind() == protoreflect.MessageKind && !fd.IsList() && !fd.IsMap() {
			collect(v.Message(), seen)
		}
		return true
	})
}
