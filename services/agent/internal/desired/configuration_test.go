package desired_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
)

func entry(name string, secret bool, value string) *deliveryv1.ConfigurationEntry {
	return &deliveryv1.ConfigurationEntry{Name: name, Secret: secret, Value: &deliveryv1.ConfigurationEntry_Text{Text: value}}
}

func TestConfigurationIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := desired.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	service := desired.Service{Name: "web", Digest: "d", Configuration: &deliveryv1.Configuration{Revision: "r1", Entries: []*deliveryv1.ConfigurationEntry{
		entry("host", false, "example.com"),
		{Name: "n", Value: &deliveryv1.ConfigurationEntry_Number{Number: 1.5}},
		{Name: "on", Value: &deliveryv1.ConfigurationEntry_Flag{Flag: true}},
		{Name: "list", Value: &deliveryv1.ConfigurationEntry_Json{Json: `[{"a":1}]`}},
	}}}
	if err := store.Update([]desired.Service{service}, nil, 1); err != nil {
		t.Fatal(err)
	}
	if store, err = desired.Open(dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	again, _ := store.Get("web")
	if !proto.Equal(again.Configuration, service.Configuration) || again.Content() != service.Content() {
		t.Errorf("got %v", again.Configuration)
	}
	values, err := desired.Values(again.Configuration)
	if text, _ := json.Marshal(values); err != nil || string(text) != `{"host":"example.com","list":[{"a":1}],"n":1.5,"on":true}` {
		t.Errorf("got %s, %v", text, err)
	}
	for _, other := range []*deliveryv1.Configuration{nil, {Revision: "r2"}} {
		changed := service
		if changed.Configuration = other; changed.Content() == service.Content() {
			t.Errorf("with %v it is rendered alike", other)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "desired.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN KEY-----\nhunter2firstline\nhunter2secondline\n-----END KEY-----\n"
	service := desired.Service{Configuration: &deliveryv1.Configuration{Entries: []*deliveryv1.ConfigurationEntry{
		entry("plain", false, "example.com"), entry("pw", true, `hunter2"<quoted>`), entry("key", true, key), entry("short", true, "no"),
		entry("start", true, "hunter3"), entry("whole", true, "hunter3-and-more"),
		{Name: "json", Secret: true, Value: &deliveryv1.ConfigurationEntry_Json{Json: `{"a":["hunter2leaf"]}`}},
	}}}
	mask := service.Mask()
	quoted, _ := json.Marshal(`hunter2"<quoted>`)
	for _, text := range []string{
		`it is hunter2"<quoted>!`, fmt.Sprintf("%q", `hunter2"<quoted>`), string(quoted), base64.StdEncoding.EncodeToString([]byte(key)),
		key, "line 2: hunter2secondline is bad", `map[a:[hunter2leaf]]`, base64.StdEncoding.EncodeToString([]byte(`hunter2"<quoted>`)),
	} {
		if got := mask(text); strings.Contains(got, "hunter2") || !strings.Contains(got, "***") || strings.Contains(got, "aHVudGVyMg") {
			t.Errorf("%s is told as %s", text, got)
		}
	}
	if got := mask("one hunter3-and-more, one hunter3"); got != "one ***, one ***" {
		t.Errorf("of a secret that begins with another is told: %s", got)
	}
	if got := mask("example.com is no secret"); got != "example.com is no secret" {
		t.Errorf("got %s", got)
	}
	if (desired.Service{}).Mask() != nil {
		t.Error("nothing is masked")
	}
}
