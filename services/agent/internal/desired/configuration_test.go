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
	return &deliveryv1.ConfigurationEntry{
		Name: name, Secret: secret, Value: &deliveryv1.ConfigurationEntry_Text{Text: value},
	}
}

func TestConfigurationIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := desired.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	service := desired.Service{
		Name: "web", Digest: "d",
		Configuration: &deliveryv1.Configuration{Revision: "r1", Entries: []*deliveryv1.ConfigurationEntry{
			entry("host", false, "example.com"),
			{Name: "n", Value: &deliveryv1.ConfigurationEntry_Number{Number: 1.5}},
			{Name: "on", Value: &deliveryv1.ConfigurationEntry_Flag{Flag: true}},
			{Name: "list", Value: &deliveryv1.ConfigurationEntry_Json{Json: `[{"a":1}]`}},
		}},
	}
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
	if text, _ := json.Marshal(values); err != nil ||
		string(text) != `{"host":"example.com","list":[{"a":1}],"n":1.5,"on":true}` {
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
		entry("plain", false, "example.com"), entry("pw", true, `hunter2"<quoted>`), entry("key", true, key),
		entry("short", true, "no"),
		entry("start", true, "hunter3"), entry("whole", true, "hunter3-and-more"),
		{Name: "json", Secret: true, Value: &deliveryv1.ConfigurationEntry_Json{Json: `{"a":["hunter2leaf"]}`}},
	}}}
	mask := service.Mask()
	quoted, _ := json.Marshal(`hunter2"<quoted>`)
	for _, text := range []string{
		`it is hunter2"<quoted>!`, fmt.Sprintf("%q", `hunter2"<quoted>`), string(quoted),
		base64.StdEncoding.EncodeToString([]byte(key)),
		key, "line 2: hunter2secondline is bad", `map[a:[hunter2leaf]]`,
		base64.StdEncoding.EncodeToString([]byte(`hunter2"<quoted>`)),
	} {
		if got := mask(text); strings.Contains(got, "hunter2") || !strings.Contains(got, "***") ||
			strings.Contains(got, "aHVudGVyMg") {
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

// A text that was a secret is still one in what the cluster shows, when its entry has another value, is none any more,
// or left.
func TestFormerSecretsStayMasked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	store, err := desired.Open(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	wanted := func(digest string, entries ...*deliveryv1.ConfigurationEntry) {
		t.Helper()
		service := desired.Service{
			Name: "web", Digest: digest, Configuration: &deliveryv1.Configuration{Revision: digest, Entries: entries},
		}
		if err := store.Update([]desired.Service{service}, nil, 1); err != nil {
			t.Fatal(err)
		}
	}
	told := func(text string) string {
		t.Helper()
		service, _ := store.Get("web")
		if mask := service.Mask(); mask != nil {
			return mask(text)
		}
		return text
	}
	wanted("1", entry("pw", true, "hunter-one"), entry("key", true, "opened-later"))
	wanted("2", entry("pw", true, "hunter-two"), entry("key", false, "opened-later"))
	wanted("3")
	if store, err = desired.Open(dir, log); err != nil {
		t.Fatal(err)
	}
	if got := told("hunter-one hunter-two opened-later aHVudGVyLW9uZQ=="); got != "*** *** *** ***" {
		t.Errorf("told: %s", got)
	}
	if err := store.Update(nil, []string{"web"}, 2); err != nil {
		t.Fatal(err)
	}
	if got := told("hunter-two can't be removed"); got != "*** can't be removed" {
		t.Errorf("of one that leaves is told: %s", got)
	}
	wanted("4", entry("pw", true, "hunter-one"))
	for i := range 100 { // and no more than can be read in one go
		wanted(fmt.Sprint("n", i), entry("pw", true, strings.Repeat(fmt.Sprintf("long-%03d-", i), 200)))
	}
	if info, err := os.Stat(filepath.Join(dir, "desired.json")); err != nil || info.Size() > 80<<10 {
		t.Errorf("the file has %d bytes: %v", info.Size(), err)
	}
	if got := told(strings.Repeat("long-098-", 200)); got != "***" {
		t.Errorf("told: %s", got)
	}
}
