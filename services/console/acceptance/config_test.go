package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

type settings = map[string]*consolev1.ConfigSetting

func textOf(v string) *consolev1.ConfigSetting {
	return &consolev1.ConfigSetting{Value: &consolev1.ConfigSetting_Text{Text: v}}
}

func secretOf(v string) *consolev1.ConfigSetting {
	return &consolev1.ConfigSetting{Value: &consolev1.ConfigSetting_Secret{Secret: v}}
}

func refTo(secret, key string) *consolev1.ConfigSetting {
	return &consolev1.ConfigSetting{Value: &consolev1.ConfigSetting_Ref{Ref: &consolev1.ConfigRef{
		Path: secret,
		Key:  key,
	}}}
}

func newSet(name string, entries settings) *consolev1.ConfigSet {
	return &consolev1.ConfigSet{Metadata: meta(name), Spec: &consolev1.ConfigSetSpec{Entries: entries}}
}

func newSecret(name, key, value string) *consolev1.Secret {
	return &consolev1.Secret{Metadata: meta(name), Data: map[string]string{key: value}}
}

// configured is a service with configuration.
func configured(s *consolev1.Service, sets []string, own settings) *consolev1.Service {
	s.Spec.ConfigSets, s.Spec.Config = sets, own
	return s
}

// shown is a preview, a line per entry.
func (a api) shown(t testing.TB, service string) string {
	t.Helper()
	resp, err := a.configs.PreviewConfig(t.Context(),
		&consolev1.PreviewConfigRequest{Of: &consolev1.PreviewConfigRequest_Service{Service: service}})
	if err != nil {
		t.Fatal(err)
	}
	return previewOf(resp)
}

func previewOf(resp *consolev1.PreviewConfigResponse) string {
	var lines []string
	for _, e := range resp.GetEntries() {
		line := fmt.Sprintf("%s=%s of %s", e.GetName(), e.GetValue(),
			strings.Join(append([]string{e.GetOrigin()}, e.GetOverrides()...), " < "))
		if e.GetProblem() != "" {
			line += ": " + e.GetProblem()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// revisions are those of all services, by name.
func (a api) revisions(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for token := ""; ; {
		resp, err := a.services.ListServices(t.Context(), &consolev1.ListServicesRequest{PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range resp.GetServices() {
			out[s.GetMetadata().GetName()] = s.GetStatus().GetConfigRevision()
		}
		if token = resp.GetNextPageToken(); token == "" {
			return out
		}
	}
}

// values are what a distributor gets, by name.
func (a api) values(t testing.TB, uid, revision string) map[string]string {
	t.Helper()
	resp, err := a.configs.AccessConfigs(t.Context(),
		&consolev1.AccessConfigsRequest{Services: []*consolev1.ConfigWanted{{ServiceUid: uid, Revision: revision}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetServices()) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, v := range resp.GetServices()[0].GetValues() {
		out[v.GetName()] = v.GetValue()
	}
	return out
}

func TestConfigurationIsPutTogether(t *testing.T) {
	t.Parallel()
	for name, db := range eitherDatabase(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHub(t, db).start(t)
			admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
			project := shopProject()
			project.Spec.Config = settings{"team": textOf("shop"), "host": textOf("project")}
			cluster := newCluster("edge-1", "env", "prod")
			cluster.Spec = &consolev1.ClusterSpec{Config: settings{"host": textOf("${service.name}.${cluster.labels.env}.example.com")}}
			web := inProject("shop", configured(newService("web", "shop", "edge-1"), []string{"base", "db"},
				settings{"own": secretOf("hunter2-own"), "level": textOf("debug")}))
			admin.must(t, newSource("shop"), cluster, project, newSecret("pw", "password", "hunter2-secret"),
				newSet("base", settings{"level": textOf("info"), "host": textOf("base")}),
				newSet("db", settings{"pw": refTo("pw", "password"), "url": textOf("postgres://${pw}@${host}")}), web)
			want := `host=web.prod.example.com of cluster/edge-1 < configset/base < project/shop
level=debug of service/web < configset/base
own=*** of service/web
pw=*** of configset/db (secret "pw")
team=shop of project/shop
url=*** of configset/db`
			if got := admin.shown(t, "web"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			got, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			uid, revision := got.GetService().GetMetadata().GetUid(), got.GetService().GetStatus().GetConfigRevision()
			values := distributor.values(t, uid, revision)
			if values["url"] != "postgres://hunter2-secret@web.prod.example.com" || values["own"] != "hunter2-own" ||
				len(values) != 6 {
				t.Errorf("got %v", values)
			}
			distributor.values(t, uid, revision) // which is no news
			if got, want := admin.reasons(t, "config.access", 1), []string{"distributor web 127.0.0.1: secret values of the configuration of web"}; !slices.Equal(got, want) {
				t.Errorf("the trail has %q, want %q", got, want)
			}
			f := newFollower()
			f.follow(t, distributor, func() bool { return f.snapshots == 1 && !f.inside })
			if s := f.services["web"]; s.GetStatus().GetConfigRevision() != revision ||
				len(s.GetSpec().GetConfig()) > 0 || len(f.clusters["edge-1"].GetSpec().GetConfig()) > 0 {
				t.Errorf("a follower is told %v", s)
			}
			// A resource that is read can be written back: no value is lost, and nothing is changed.
			if _, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{Service: got.GetService()}); err != nil {
				t.Fatal(err)
			}
			if now := admin.revisions(t)["web"]; now != revision {
				t.Errorf("writing what is there made %s of %s", now, revision)
			}
			for _, who := range []string{identity.ServiceGitcache, identity.ServiceTunnel} {
				_, err := r.service(t, who).configs.AccessConfigs(t.Context(),
					&consolev1.AccessConfigsRequest{Services: []*consolev1.ConfigWanted{{
						ServiceUid: uid,
						Revision:   revision,
					}}})
				wantCode(t, err, connect.CodePermissionDenied)
			}
			_, err = admin.configs.AccessConfigs(t.Context(),
				&consolev1.AccessConfigsRequest{Services: []*consolev1.ConfigWanted{{
					ServiceUid: uid,
					Revision:   revision,
				}}})
			wantCode(t, err, connect.CodePermissionDenied)
		})
	}
}

func TestExactlyTheTouchedServicesChangeRevision(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.must(t, newSource("shop"), newSecret("pw", "password", "one"), newSet("base", settings{"a": textOf("1")}),
			newSet("db", settings{"pw": refTo("pw", "password")}))
		all := &consolev1.Project{
			Metadata: meta("shop"),
			Spec:     &consolev1.ProjectSpec{Sources: []string{"*"}, Clusters: &consolev1.ClusterSelector{All: true}},
		}
		admin.must(t, all, newCluster("edge-0", "env", "test"), newCluster("edge-1"))
		var list []*consolev1.Resource
		in := map[string]map[string]bool{"project": {}, "base": {}, "db": {}, "edge-0": {}, "one": {}}
		for i := range 100 {
			name := fmt.Sprintf("s%02d", i)
			s := newService(name, "shop", fmt.Sprint("edge-", i%2))
			in["edge-0"][name] = i%2 == 0
			if in["base"][name] = i%3 == 0; i%3 == 0 {
				s.Spec.ConfigSets = append(s.Spec.ConfigSets, "base")
			}
			if in["db"][name] = i%5 == 0; i%5 == 0 {
				s.Spec.ConfigSets = append(s.Spec.ConfigSets, "db")
			}
			if in["project"][name] = i%7 == 0; i%7 == 0 {
				s.Spec.Project = "shop"
			}
			in["one"][name] = i == 42
			list = append(list, anyOf(s)...)
		}
		if _, err := admin.apply(t, &consolev1.ApplyRequest{Resources: list}); err != nil {
			t.Fatal(err)
		}
		before := admin.revisions(t)
		changes := []string{}
		expect := func(what string, touched map[string]bool) {
			t.Helper()
			after := admin.revisions(t)
			changes = changes[:0]
			for _, name := range slices.Sorted(maps.Keys(after)) {
				if after[name] != before[name] {
					changes = append(changes, name)
				}
			}
			var want []string
			for _, name := range slices.Sorted(maps.Keys(touched)) {
				if touched[name] {
					want = append(want, name)
				}
			}
			if !slices.Equal(changes, want) {
				t.Errorf("%s: changed %v, want %v", what, changes, want)
			}
			before = after
		}
		all.Spec.Config = settings{"p": textOf("x")}
		admin.must(t, all)
		expect("the project", in["project"])
		admin.must(t, newSet("base", settings{"a": textOf("2")}))
		expect("a set", in["base"])
		admin.must(t, newSecret("pw", "password", "two"))
		expect("a secret", in["db"])
		edge := newCluster("edge-0", "env", "test")
		edge.Spec = &consolev1.ClusterSpec{Config: settings{
			"host": textOf("${cluster.labels.env}"),
			"pw":   secretOf("hunter2"),
		}}
		admin.must(t, edge)
		expect("a cluster", in["edge-0"])
		edge.Spec.Config["pw"] = secretOf("hunter3")
		admin.must(t, edge)
		expect("a secret of a cluster", in["edge-0"])
		edge.Metadata.Labels = map[string]string{"env": "test", "more": "x"}
		admin.must(t, edge)
		expect("a label that nobody refers to", nil)
		edge.Metadata.Labels = map[string]string{"env": "prod"}
		admin.must(t, edge)
		expect("a label", in["edge-0"])
		one := configured(newService("s42", "shop", "edge-0"), []string{"base"}, settings{"mine": textOf("1")})
		one.Spec.Project = "shop"
		admin.must(t, one)
		expect("a service", in["one"])
		admin.must(t, newSet("base", settings{"a": textOf("2"), "b": textOf("")}))
		admin.must(t, newSet("base", settings{"a": textOf("2")}))
		expect("there and back", nil)
	})
}

func TestWhatCanNotBeDeliveredIsHeldBack(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin, distributor := r.admin(t), r.service(t, identity.ServiceDistributor)
	web := configured(newService("web", "shop", "edge-1"), nil, settings{"pw": refTo("pw", "nope")})
	admin.must(t, newSource("shop"), newCluster("edge-1"), newCluster("edge-2"),
		newSecret("pw", "password", "hunter2"), web)
	status := func() *consolev1.Service {
		t.Helper()
		got, err := admin.services.GetService(t.Context(), &consolev1.GetServiceRequest{Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetService()
	}
	if s := status().GetStatus(); s.GetConfigRevision() != "held" ||
		!strings.Contains(s.GetConfigProblem().GetMessage(),
			`"pw" (service/web (secret "pw")): secret "pw" has no key "nope"`) {
		t.Errorf("got %v", s)
	}
	web.Spec.Config["pw"] = refTo("pw", "password")
	admin.must(t, web)
	good := status()
	if s := good.GetStatus(); s.GetConfigProblem() != nil ||
		distributor.values(t, good.GetMetadata().GetUid(), s.GetConfigRevision())["pw"] != "hunter2" {
		t.Errorf("got %v", s)
	}
	// The delivered configuration stays while the newest can't be: but not at another cluster.
	admin.must(t, newSecret("pw", "other", "x"))
	if s := status().GetStatus(); s.GetConfigRevision() != good.GetStatus().GetConfigRevision() ||
		s.GetConfigProblem() == nil {
		t.Errorf("got %v", s)
	}
	web.Spec.Cluster = "edge-2"
	admin.must(t, web)
	if s := status().GetStatus(); s.GetConfigRevision() != "held" {
		t.Errorf("got %v", s)
	}
	if got := distributor.values(t, good.GetMetadata().GetUid(), good.GetStatus().GetConfigRevision()); got != nil {
		t.Errorf("what was for one cluster is still given out: %v", got)
	}
}

func TestConfigurationIsBounded(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		bound := newSet("bound", settings{"a": textOf("1")})
		bound.Spec.Project = "shop"
		admin.must(t, newSource("shop"), newCluster("prod", "env", "prod"), shopProject(), bound)
		for want, s := range map[string]*consolev1.Service{
			`configuration set "bound" is for services of project "shop"`:       configured(newService("web", "shop", "prod"), []string{"bound"}, nil),
			`spec.configSets[0]: configset "nope" does not exist`:               configured(newService("web", "shop", "prod"), []string{"nope"}, nil),
			`spec.config["a"].ref.path: secret "nope" does not exist`:           configured(newService("web", "shop", "prod"), nil, settings{"a": refTo("nope", "x")}),
			`spec.config["pw"].secret: has no value yet: write one`:             configured(newService("web", "shop", "prod"), nil, settings{"pw": secretOf("")}),
			`spec.config["cluster.name"]: ${cluster.name} is known`:             configured(newService("web", "shop", "prod"), nil, settings{"cluster.name": textOf("x")}),
			`spec.config["a"].ref.backend: backend "vault" does not exist`:      configured(newService("web", "shop", "prod"), nil, settings{"a": fromBackend("vault", "a", "b")}),
			`spec.config["a"].ref.plain: the values of Secrets are never shown`: configured(newService("web", "shop", "prod"), nil, settings{"a": {Value: &consolev1.ConfigSetting_Ref{Ref: &consolev1.ConfigRef{Path: "a", Key: "b", Plain: true}}}}),
			`spec.config["a"].json: is not JSON`:                                configured(newService("web", "shop", "prod"), nil, settings{"a": {Value: &consolev1.ConfigSetting_Json{Json: "{"}}}),
		} {
			if _, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(s)}); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		admin.must(t, inProject("shop", configured(newService("web", "shop", "prod"), []string{"bound"}, nil)))
		bound.Spec.Project = ""
		admin.must(t, bound)
		admin.must(t, &consolev1.Project{Metadata: meta("other"), Spec: &consolev1.ProjectSpec{}})
		bound.Spec.Project = "other"
		if _, err := admin.apply(t, &consolev1.ApplyRequest{Resources: anyOf(bound)}); err == nil ||
			!strings.Contains(err.Error(), `service "web" names it`) {
			t.Errorf("got %v", err)
		}
		_, err := admin.sets.DeleteConfigSet(t.Context(), &consolev1.DeleteConfigSetRequest{Name: "bound"})
		wantCode(t, err, connect.CodeFailedPrecondition, `service "web"`)
	})
}

func TestDraftsArePreviewedAndNotWritten(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		admin.must(t, newSource("shop"), newCluster("edge-1"),
			newSet("base", settings{"a": textOf("${service.namespace}"), "pw": secretOf("hunter2")}))
		draft := configured(newService("web", "shop", "edge-1"), []string{"base"}, settings{"own": secretOf("hunter3")})
		resp, err := admin.configs.PreviewConfig(t.Context(),
			&consolev1.PreviewConfigRequest{Of: &consolev1.PreviewConfigRequest_Draft{Draft: draft}})
		if err != nil || previewOf(resp) != "a=default of configset/base\nown=*** of service/web\npw=*** of configset/base" || resp.GetRevision() == "" {
			t.Errorf("got %v, %v", resp, err)
		}
		if got := admin.revisions(t); len(got) > 0 {
			t.Errorf("wrote %v", got)
		}
	})
}

// A person who may write some service could else try values of another one, by drafts that nobody sees.
func TestRevisionsDoNotTellWhetherServicesHaveTheSameSecrets(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		same := settings{"pw": secretOf("hunter2")}
		admin.must(t, newSource("shop"), newCluster("edge-1"),
			configured(newService("web", "shop", "edge-1"), nil, same))
		draft := configured(newService("other", "shop", "edge-1"), nil, same)
		resp, err := admin.configs.PreviewConfig(t.Context(),
			&consolev1.PreviewConfigRequest{Of: &consolev1.PreviewConfigRequest_Draft{Draft: draft}})
		if err != nil || resp.GetRevision() == "" || resp.GetRevision() == admin.revisions(t)["web"] {
			t.Errorf("got %v, %v; web has %v", resp, err, admin.revisions(t))
		}
	})
}

// A person who may write services, and not see secrets, must not have them delivered to where they can be read.
func TestSecretsAreUsedByWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	r := h.start(t)
	admin := r.admin(t)
	admin.must(t, newSource("shop"), newCluster("edge-1"), newSecret("pw", "password", "hunter2"), newSet("base", settings{"pw": refTo("pw", "password")}),
		&consolev1.Grant{Metadata: meta("team"), Spec: &consolev1.GrantSpec{
			Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "eve"}}}, Role: "deployer",
			Clusters: &consolev1.GrantClusters{All: true},
		}})
	eve := r.as(t, h.sign(t, identity.Identity{Kind: identity.KindUser, Name: "eve"}))
	s := configured(newService("web", "shop", "edge-1"), nil, settings{"pw": refTo("pw", "password")})
	_, err := eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(s)})
	wantCode(t, err, connect.CodePermissionDenied, `secret "pw"`)
	_, err = eve.configs.PreviewConfig(t.Context(),
		&consolev1.PreviewConfigRequest{Of: &consolev1.PreviewConfigRequest_Draft{Draft: s}})
	wantCode(t, err, connect.CodePermissionDenied, `secret "pw"`)
	_, err = eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(newSet("mine", settings{"pw": refTo("pw", "password")}))})
	wantCode(t, err, connect.CodePermissionDenied, `secret "pw"`)
	global := &consolev1.GlobalService{Metadata: meta("all"), Spec: &consolev1.GlobalServiceSpec{Clusters: &consolev1.ClusterSelector{All: true}, Template: &consolev1.ServiceSpec{
		Source: "shop", Config: settings{"pw": refTo("pw", "password")},
	}}}
	_, err = eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(global)})
	wantCode(t, err, connect.CodePermissionDenied, `secret "pw"`)
	// Values that an administrator has put into a set are for people who may name the set.
	s.Spec.Config, s.Spec.ConfigSets = nil, []string{"base"}
	eve.must(t, s)
	// The refusal does not show which secrets there are.
	_, err = eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(configured(s, nil, settings{"pw": refTo("pw", "password")}))})
	wantCode(t, err, connect.CodePermissionDenied, `secret "pw"`)
	_, none := eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(configured(s, nil, settings{"pw": refTo("nowhere", "password")}))})
	if none == nil || strings.ReplaceAll(none.Error(), "nowhere", "pw") != err.Error() {
		t.Errorf("of a secret that there is\n%v\nof another\n%v", err, none)
	}
	// And who changes something else of it keeps it.
	admin.must(t, configured(newService("web", "shop", "edge-1"), nil, settings{"pw": refTo("pw", "password")}))
	s = configured(newService("web", "shop", "edge-1"), nil, settings{"pw": refTo("pw", "password"), "a": textOf("1")})
	eve.must(t, s)
	// But who takes it to others needs to see the secret, too.
	admin.must(t, newCluster("edge-2"), &consolev1.Project{
		Metadata: meta("hers"),
		Spec:     &consolev1.ProjectSpec{Sources: []string{"*"}, Clusters: &consolev1.ClusterSelector{All: true}},
	})
	s.Spec.Cluster = "edge-2"
	_, err = eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(s)})
	wantCode(t, err, connect.CodePermissionDenied, `secret "pw"`)
	// A resource of another project is not named to a person who may not see the project.
	bound := newSet("bound", nil)
	bound.Spec.Project = "hers"
	admin.must(t, bound)
	s = configured(newService("web", "shop", "edge-1"), []string{"bound"}, settings{"pw": refTo("pw", "password")})
	_, err = eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(s)})
	wantCode(t, err, connect.CodeFailedPrecondition, `configuration set "bound" is for services of another project`)
	admin.must(t, newSet("moving", settings{"pw": refTo("pw", "password")}))
	moved := newSet("moving", settings{"pw": refTo("pw", "password")})
	moved.Spec.Project = "hers"
	_, err = eve.apply(t, &consolev1.ApplyRequest{Resources: anyOf(moved)})
	wantCode(t, err, connect.CodePermissionDenied, `secret "pw"`)
}

func TestOverridesOfGlobalServicesConfigure(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		g := newGlobal("logs", prod())
		g.Spec.Template.ConfigSets, g.Spec.Template.Config = []string{"base"}, settings{"level": textOf("info")}
		g.Spec.Overrides = []*consolev1.GlobalOverride{{
			Clusters: &consolev1.ClusterSelector{Labels: map[string]string{"zone": "x"}}, ConfigSets: []string{"near"},
			Config: settings{"level": textOf("debug")},
		}}
		admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod", "zone", "x"),
			newSet("base", settings{"host": textOf("far"), "port": textOf("1")}),
			newSet("near", settings{"host": textOf("near")}))
		if got := admin.putGlobal(t, g); !proto.Equal(got.GetSpec(), g.GetSpec()) {
			t.Errorf("got %v", got.GetSpec())
		}
		for service, want := range map[string]string{
			"logs-a": "host=far of configset/base\nlevel=info of service/logs-a\nport=1 of configset/base",
			"logs-b": "host=near of configset/near < configset/base\nlevel=debug of service/logs-b\nport=1 of configset/base",
		} {
			if got := admin.shown(t, service); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
	})
}

// users are those of a resource, a line per service, on pages of two.
func (a api) users(t testing.TB, kind consolev1.Kind, name, entry string) string {
	t.Helper()
	var lines []string
	for token := ""; ; {
		resp, err := a.configs.ListConfigUsers(t.Context(),
			&consolev1.ListConfigUsersRequest{Kind: kind, Name: name, Entry: entry, PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.GetUsers()) > 2 {
			t.Errorf("a page has %v", resp.GetUsers())
		}
		for _, u := range resp.GetUsers() {
			line := u.GetService() + " on " + u.GetCluster() + ":"
			for _, e := range u.GetEntries() {
				line += " " + e.GetName()
				if e.GetOverriddenBy() != "" {
					line += " (over it " + e.GetOverriddenBy() + ")"
				}
			}
			lines = append(lines, line)
		}
		if token = resp.GetNextPageToken(); token == "" {
			return strings.Join(lines, "\n")
		}
	}
}

func TestUsersOfValuesAreListed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, admin api) {
		plain := func(name, set string) *consolev1.Service {
			return configured(newService(name, "shop", "edge-1"), []string{set}, nil)
		}
		own := configured(newService("c", "shop", "edge-1"), []string{"base"}, settings{"level": textOf("debug")})
		admin.must(t, newSource("shop"), newCluster("edge-1"), newSecret("pw", "password", "hunter2"),
			newSet("base", settings{"level": textOf("info"), "pw": refTo("pw", "password")}),
			newSet("other", settings{"level": textOf("warn")}),
			newSet("unused", settings{"a": textOf("1")}), plain("a", "base"), plain("b", "base"), own,
			plain("d", "other"), newService("e", "shop", "edge-1"))
		set, secret := consolev1.Kind_KIND_CONFIG_SET, consolev1.Kind_KIND_SECRET
		for _, want := range []struct {
			kind        consolev1.Kind
			name, entry string
			users       string
		}{
			{set, "base", "", "a on edge-1: level pw\nb on edge-1: level pw\nc on edge-1: level (over it service/c) pw"},
			{set, "base", "level", "a on edge-1: level\nb on edge-1: level\nc on edge-1: level (over it service/c)"},
			{set, "base", "none", ""},
			{set, "unused", "", ""},
			{secret, "pw", "", "a on edge-1: pw\nb on edge-1: pw\nc on edge-1: pw"},
			{consolev1.Kind_KIND_CLUSTER, "edge-1", "", ""},
		} {
			if got := admin.users(t, want.kind, want.name, want.entry); got != want.users {
				t.Errorf("%s %q of %s:\n%s\nwant\n%s", want.kind, want.entry, want.name, got, want.users)
			}
		}
		_, err := admin.configs.ListConfigUsers(t.Context(),
			&consolev1.ListConfigUsersRequest{Kind: set, Name: "nowhere"})
		wantCode(t, err, connect.CodeNotFound, `"nowhere"`)
		_, err = admin.configs.ListConfigUsers(t.Context(),
			&consolev1.ListConfigUsersRequest{Kind: set, Name: "base", PageToken: "?"})
		wantCode(t, err, connect.CodeInvalidArgument, "page_token")
	})
}

// A person gets to know neither the services of others nor whether there is a secret.
func TestUsersOfValuesAreThoseThatTheCallerSees(t *testing.T) {
	t.Parallel()
	h := newHub(t, "")
	r := h.start(t)
	admin := r.admin(t)
	admin.must(t, newSource("shop"), newCluster("edge-1"), newCluster("edge-2"), newSecret("pw", "password", "hunter2"),
		newSet("base", settings{"level": textOf("info"), "pw": refTo("pw", "password")}),
		configured(newService("mine", "shop", "edge-1"), []string{"base"}, nil),
		configured(newService("foreign", "shop", "edge-2"), []string{"base"}, nil),
		&consolev1.Grant{Metadata: meta("team"), Spec: &consolev1.GrantSpec{
			Subjects: []*consolev1.GrantSubject{{Subject: &consolev1.GrantSubject_User{User: "eve"}}}, Role: "viewer",
			Clusters: &consolev1.GrantClusters{Names: []string{"edge-1"}},
		}})
	eve := r.as(t, h.sign(t, identity.Identity{Kind: identity.KindUser, Name: "eve"}))
	_, own := eve.sets.GetConfigSet(t.Context(), &consolev1.GetConfigSetRequest{Name: "base"})
	resp, err := eve.configs.ListConfigUsers(t.Context(),
		&consolev1.ListConfigUsersRequest{Kind: consolev1.Kind_KIND_CONFIG_SET, Name: "base"})
	if connect.CodeOf(own) != connect.CodeOf(err) ||
		err == nil && (len(resp.GetUsers()) != 1 || resp.GetUsers()[0].GetService() != "mine") {
		t.Errorf("the set: %v, its users: %v, %v", own, resp, err)
	}
	if got := eve.users(t, consolev1.Kind_KIND_CLUSTER, "edge-1", ""); got != "" {
		t.Errorf("users of the cluster: %s", got)
	}
	_, err = eve.configs.ListConfigUsers(t.Context(),
		&consolev1.ListConfigUsersRequest{Kind: consolev1.Kind_KIND_SECRET, Name: "pw"})
	_, none := eve.configs.ListConfigUsers(t.Context(),
		&consolev1.ListConfigUsersRequest{Kind: consolev1.Kind_KIND_SECRET, Name: "no"})
	if err == nil || none == nil || strings.ReplaceAll(none.Error(), `"no"`, `"pw"`) != err.Error() {
		t.Errorf("of a secret that there is\n%v\nof another\n%v", err, none)
	}
}

// The value of a secret setting changes, and nothing else of the service.
func TestASecretSettingOfAServiceIsWrittenAgain(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.must(t, newSource("shop"), newCluster("edge-1"))
	for _, value := range []string{"hunter2", "hunter3", "hunter4"} {
		admin.must(t, configured(newService("web", "shop", "edge-1"), nil, settings{"own": secretOf(value)}))
		if got := admin.current(t, r.service(t, identity.ServiceDistributor), "web")["own"]; got != value {
			t.Errorf("written: %s, delivered: %s", value, got)
		}
	}
}
