package acceptance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
)

// AccessConfigs gives out what configure put there.
func (c *console) AccessConfigs(_ context.Context,
	req *consolev1.AccessConfigsRequest,
) (*consolev1.AccessConfigsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.failing != nil {
		return nil, c.failing
	}
	out := &consolev1.AccessConfigsResponse{}
	for _, w := range req.GetServices() {
		if found := c.configs[w.GetServiceUid()][w.GetRevision()]; found != nil {
			out.Services = append(out.Services, found)
		}
	}
	return out, nil
}

// configure makes a revision of web's configuration the only one.
func (c *console) configure(revision string, values ...*consolev1.ConfigValue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.configs == nil {
		c.configs = map[string]map[string]*consolev1.AccessedConfig{}
	}
	c.configs["uid-web"] = map[string]*consolev1.AccessedConfig{revision: {
		ServiceUid: "uid-web", Revision: revision,
		Values: values,
	}}
}

func configuredService(name, revision string) *consolev1.Change {
	ch := service(name, "edge-1", "apps")
	ch.GetService().Status = &consolev1.ServiceStatus{ConfigRevision: revision}
	return ch
}

func TestConfigurationGoesToItsClusterOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.commit(t, commit("1"), "apps", "all of it")
	w.console.configure("r1", &consolev1.ConfigValue{Name: "host", Type: consolev1.ConfigType_CONFIG_TYPE_TEXT, Value: "example.com"},
		&consolev1.ConfigValue{Name: "n", Type: consolev1.ConfigType_CONFIG_TYPE_NUMBER, Value: "1.5"},
		&consolev1.ConfigValue{Name: "pw", Type: consolev1.ConfigType_CONFIG_TYPE_TEXT, Value: "hunter2", Secret: true})
	w.console.Put(shop("HEAD", commit("1")), configuredService("web", "r1"), service("plain", "edge-2", "apps"))
	e := w.start()
	one, two := e.agent("edge-1"), e.agent("edge-2")
	one.awaitCommit("web", commit("1"))
	two.awaitCommit("plain", commit("1"))
	want := &deliveryv1.Configuration{Revision: "r1", Entries: []*deliveryv1.ConfigurationEntry{
		{Name: "host", Value: &deliveryv1.ConfigurationEntry_Text{Text: "example.com"}},
		{Name: "n", Value: &deliveryv1.ConfigurationEntry_Number{Number: 1.5}},
		{Name: "pw", Secret: true, Value: &deliveryv1.ConfigurationEntry_Text{Text: "hunter2"}},
	}}
	if got := one.got["web"].GetConfiguration(); !proto.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := two.got["plain"].GetConfiguration(); got != nil || two.got["web"] != nil {
		t.Errorf("another cluster got %v", got)
	}
	// Another revision is another digest; the same content is not asked for again.
	before := one.have["web"]
	w.console.configure("r2", &consolev1.ConfigValue{
		Name: "host", Type: consolev1.ConfigType_CONFIG_TYPE_TEXT,
		Value: "example.org",
	})
	w.console.Put(configuredService("web", "r2"))
	await.True(w.t, "the other configuration is delivered", func() bool {
		one.sync()
		return one.got["web"].GetConfiguration().GetRevision() == "r2"
	})
	if one.have["web"] == before {
		t.Error("the digest is the same")
	}
	// Configurations that were in memory are on no disk.
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "example.org") {
			t.Errorf("%s has values", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatHasNoConfigurationYetIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.commit(t, commit("1"), "apps", "all of it")
	w.console.configure("r1", &consolev1.ConfigValue{Name: "a", Value: "1"})
	w.console.Put(shop("HEAD", commit("1")), configuredService("web", "r1"), configuredService("new", "held"),
		service("plain", "edge-1", "apps"))
	a := w.start().agent("edge-1")
	a.awaitCommit("web", commit("1"))
	a.awaitCommit("plain", commit("1"))
	if a.sync() || a.got["new"] != nil || len(a.have) != 2 {
		t.Errorf("got %v", a.have)
	}
	// The console is away with the next revision, and another one: nothing is removed, and it is asked for soon.
	w.console.configure("r3")
	w.console.Put(configuredService("web", "r2"))
	await.True(w.t, "the other revision is known", func() bool {
		resp := a.ask(&deliveryv1.SyncRequest{Digest: a.digest(), Have: a.list()})
		return resp.GetNotModified() != nil && resp.GetRevision() != 0 && resp.GetNextPoll().AsDuration() < time.Minute
	})
	w.console.Put(configuredService("web", "r3"), configuredService("new", ""))
	await.True(w.t, "it is there", func() bool {
		a.sync()
		return a.got["web"].GetConfiguration().GetRevision() == "r3" && a.got["new"] != nil
	})
}
