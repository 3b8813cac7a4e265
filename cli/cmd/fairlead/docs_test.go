package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairlead.dev/cli/internal/command"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/manifest"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console"
)

// startConsole runs a console alone: what is written into its catalog nobody fetches.
func startConsole(t *testing.T) (url, secretFile string) {
	t.Helper()
	dir := t.TempDir()
	c, err := console.New(console.Config{Server: server.Config{Listen: "127.0.0.1:0"}, DataDir: dir},
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
	return c.URL(), filepath.Join(dir, "hub.secret")
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

// What the page on sources tells people to write can be applied, comes back as it was written, and has
// every field that there is.
func TestSourcesPageCanBeApplied(t *testing.T) {
	t.Parallel()
	url, secret := startConsole(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	fairlead := func(stdin string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		err := command.Run(t.Context(), args, command.IO{
			Getenv: func(name string) string { return map[string]string{"FAIRLEAD_CONFIG": config, "USER": "ada"}[name] },
			Stdin:  strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Now: time.Now,
		})
		if err != nil {
			t.Fatalf("fairlead %s: %v\n%s", strings.Join(args, " "), err, errs.String())
		}
		return out.String()
	}
	fairlead("", "login", url, "--hub-secret-file", secret)
	written := map[string]proto.Message{}
	for _, block := range blocks(t, "sources.md") {
		fairlead(block, "apply", "-f", "-")
		objects, err := manifest.Decode("sources.md", []byte(block))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			written[o.Ref()] = o.Message
		}
	}
	if len(written) < 20 {
		t.Fatalf("the page has %d resources only", len(written))
	}
	seen := map[protoreflect.FullName]bool{}
	for _, kind := range []string{"sources", "services"} {
		back := fairlead("", "get", kind, "-o", "yaml")
		for line := range strings.Lines(fairlead(back, "apply", "-f", "-")) {
			if !strings.HasSuffix(line, " unchanged\n") {
				t.Errorf("what is printed is applied as: %s", line)
			}
		}
		objects, err := manifest.Decode("get", []byte(back))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if !proto.Equal(o.Message, written[o.Ref()]) {
				t.Errorf("%s: got %v\nwant %v", o.Ref(), o.Message, written[o.Ref()])
			}
			collect(o.Message.ProtoReflect(), seen)
		}
	}
	for _, m := range []proto.Message{&consolev1.GitSource{}, &consolev1.Verification{}, &consolev1.ServiceSpec{}} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			name := fields.Get(i).FullName()
			if fields.Get(i).Number() >= 30 {
				continue // about what bounds and configures a service
			}
			switch name {
			case "fairlead.console.v1.ServiceSpec.namespace", "fairlead.console.v1.ServiceSpec.render", "fairlead.console.v1.ServiceSpec.sync":
				continue // these are about objects, not about sources
			}
			if !seen[name] {
				t.Errorf("the page does not show %s", name)
			}
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
