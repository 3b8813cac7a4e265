package authz_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

var whatever = catalog.Expectation{AllowMissing: true}

// world is a catalog over its own grants:
//
//	all       everybody views
//	bob       deploys what is of project shop
//	cleo      operates clusters with the label tier=test: edge-2
//	dora      is admin at edge-1, for an hour
//	emil      is admin everywhere
//	fritz     changes sources, by a role of the catalog
//
// web is of project shop at edge-1, db of project other at edge-2. The secret git goes to the URL of the source shop.
type world struct {
	*authz.Rules

	catalog *catalog.Catalog
	store   *store.Store
	clock   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := storetest.SQLite(t)
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: s, clock: time.Now()}
	w.Rules = authz.New(s, func() time.Time { return w.clock })
	w.catalog = catalog.New(w.Rules, catalog.Deps{Store: s, Box: box, Log: slog.New(slog.DiscardHandler), Hooks: func(*catalog.Catalog) []catalog.Hook {
		return []catalog.Hook{w.Rules, authz.Accounts{}}
	}})
	ada := person("ada", identity.AdminsGroup)
	for _, e := range []catalog.Edit{
		drafted(w.catalog.DraftSecret(resource.Secret{Meta: meta("git"), Data: map[string]string{"password": "x"}}, whatever)),
		sourceAt("https://git.example.com/shop"),
		clusterWith("edge-1", map[string]string{"tier": "prod"}), clusterWith("edge-2", map[string]string{"tier": "test"}),
		drafted(catalog.Draft(resource.Projects(), resource.Project{Meta: meta("shop")}, whatever)),
		drafted(catalog.Draft(resource.Projects(), resource.Project{Meta: meta("other")}, whatever)),
		service("web", "shop", "edge-1"), service("db", "other", "edge-2"),
		drafted(catalog.Draft(resource.ServiceAccounts(), resource.ServiceAccount{Meta: meta("robot")}, whatever)),
		drafted(catalog.Draft(resource.Roles(), resource.Role{Meta: meta("sourcer"), Spec: resource.RoleSpec{Rules: []resource.RoleRule{{Verbs: []string{"edit"}, Kinds: []string{access.Source}}}}}, whatever)),
		grant("all", resource.GrantSpec{Groups: []string{"staff"}, Role: "viewer", Clusters: resource.GrantClusters{All: true}}),
		grant("bob", resource.GrantSpec{Users: []string{"bob"}, Role: "deployer", Projects: []string{"shop"}, Clusters: resource.GrantClusters{All: true}}),
		grant("cleo", resource.GrantSpec{Users: []string{"cleo"}, Role: "operator", Clusters: resource.GrantClusters{Labels: map[string]string{"tier": "test"}}}),
		grant("dora", resource.GrantSpec{Users: []string{"dora"}, Role: "admin", Clusters: resource.GrantClusters{Names: []string{"edge-1"}}, Until: w.clock.Add(time.Hour)}),
		grant("emil", resource.GrantSpec{Users: []string{"emil"}, Role: "admin", Clusters: resource.GrantClusters{All: true}}),
		grant("fritz", resource.GrantSpec{Users: []string{"fritz"}, Role: "sourcer", Clusters: resource.GrantClusters{All: true}}),
	} {
		if err := w.try(t, ada, e); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func person(name string, groups ...string) identity.Identity {
	return identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups}
}

func staff(name string) identity.Identity { return person(name, "staff") }

func meta(name string) state.Meta { return state.Meta{Name: name} }

// drafted is an edit, which fails when it is written if it could not be drafted.
func drafted(e catalog.Edit, err error) catalog.Edit {
	if err != nil {
		return catalog.Broken(store.KindService, "drafted", err)
	}
	return e
}

func grant(name string, spec resource.GrantSpec) catalog.Edit {
	g := resource.Grant{Meta: meta(name), Spec: spec}
	return drafted(catalog.DraftGrant(&g, whatever))
}

func clusterWith(name string, labels map[string]string) catalog.Edit {
	c := state.Cluster{Meta: state.Meta{Name: name, Labels: labels}}
	return drafted(catalog.DraftCluster(&c, whatever))
}

func sourceAt(url string) catalog.Edit {
	s := state.Source{Meta: meta("shop"), Spec: state.SourceSpec{Git: state.GitSource{URL: url, Secret: "git"}}}
	return drafted(catalog.DraftSource(&s, whatever))
}

// service is one of the source shop, with what changes as a whole besides.
func service(name, project, cluster string, changes ...func(*state.ServiceSpec)) catalog.Edit {
	s := state.Service{Meta: meta(name), Spec: state.ServiceSpec{Source: "shop", Path: name, Project: project, Cluster: cluster}}
	for _, change := range changes {
		change(&s.Spec)
	}
	return drafted(catalog.DraftService(&s, whatever))
}

func elsewhere(s *state.ServiceSpec) { s.Path = "elsewhere" }

// asAccount makes the service one whose folder goes to the catalog.
func asAccount(s *state.ServiceSpec) {
	s.Cluster, s.Catalog, s.ServiceAccount = "", true, "robot"
}

func ofSecret(s *state.ServiceSpec) {
	s.Config = state.Settings{"password": {Ref: &state.SettingRef{Path: "git", Key: "password"}}}
}

// try writes as somebody.
func (w *world) try(t *testing.T, who identity.Identity, e catalog.Edit) error {
	t.Helper()
	_, err := w.catalog.PutAll(identity.NewContext(t.Context(), who), catalog.By{Identity: who, Subject: who.Subject()}, []catalog.Edit{e}, false)
	return err
}

// Each write is judged by what a resource was and by what it becomes.
func TestWritesAreJudgedByBothEnds(t *testing.T) {
	t.Parallel()
	lent := person("ada", identity.AdminsGroup)
	lent.Lent = true
	bounded := staff("emil")
	bounded.Limits = &identity.Limits{Role: "deployer"}
	for name, c := range map[string]struct {
		who  identity.Identity
		edit catalog.Edit
		want string // part of the refusal; empty: it is done
	}{
		"a viewer changes nothing":                {staff("zoe"), service("web", "shop", "edge-1", elsewhere), "that needs a grant"},
		"a stranger changes nothing":              {person("zoe"), service("web", "shop", "edge-1", elsewhere), "that needs a grant"},
		"a deployer changes what is of a project": {staff("bob"), service("web", "shop", "edge-1", elsewhere), ""},
		"a deployer makes one in the project":     {staff("bob"), service("api", "shop", "edge-2"), ""},
		"a deployer makes none beside it":         {staff("bob"), service("api", "other", "edge-2"), "that needs a grant"},
		"a deployer takes none into the project":  {staff("bob"), service("db", "shop", "edge-2"), "that needs a grant"},
		"a deployer gives none away":              {staff("bob"), service("web", "other", "edge-1"), "that needs a grant"},
		"a deployer deletes nothing":              {staff("bob"), catalog.Removal(store.KindService, "web", ""), "that needs a grant"},
		"an operator deletes at a cluster":        {staff("cleo"), catalog.Removal(store.KindService, "db", ""), ""},
		"an operator deletes at no other":         {staff("cleo"), catalog.Removal(store.KindService, "web", ""), "that needs a grant"},
		"an operator moves none to another":       {staff("cleo"), service("db", "other", "edge-1"), "that needs a grant"},
		"an operator moves none here":             {staff("cleo"), service("web", "shop", "edge-2"), "that needs a grant"},
		"a lent right relabels no cluster":        {staff("dora"), clusterWith("edge-1", map[string]string{"tier": "test"}), "what is lent would be outlasted"},
		"a lasting right relabels a cluster":      {staff("emil"), clusterWith("edge-1", map[string]string{"tier": "test"}), ""},
		"a lent right leaves labels as they are":  {staff("dora"), clusterWith("edge-1", map[string]string{"tier": "prod"}), ""},
		"an admin gives no rights":                {staff("emil"), grant("more", resource.GrantSpec{Users: []string{"emil"}, Role: "admin", Clusters: resource.GrantClusters{All: true}}), "fairlead:admins"},
		"a token that was handed on gives none":   {lent, grant("more", resource.GrantSpec{Users: []string{"ada"}, Role: "admin", Clusters: resource.GrantClusters{All: true}}), "a token that was handed on makes no grants"},
		"a secret is configured by who sees it":   {staff("emil"), service("web", "shop", "edge-1", ofSecret), ""},
		"a secret is configured by no other":      {staff("bob"), service("web", "shop", "edge-1", ofSecret), "that needs a grant"},
		"a secret goes to no other place":         {staff("fritz"), sourceAt("https://evil.example.com/shop"), "that needs a grant"},
		"a secret stays where it went":            {staff("fritz"), sourceAt("https://git.example.com/shop"), ""},
		"an account without grants is no one's":   {staff("bob"), service("web", "shop", "edge-1", asAccount), "has no grants yet"},
		"a token with limits is no account":       {bounded, service("web", "shop", "edge-1", asAccount), "a token with limits may not act as"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := newWorld(t).try(t, c.who, c.edit)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A person that names an account in a folder's service takes all of the account's rights.
func TestAFolderActsAsAnAccountOfNoMoreRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	robot := func(role string, projects ...string) {
		t.Helper()
		e := grant("robot", resource.GrantSpec{ServiceAccounts: []string{"robot"}, Role: role, Projects: projects, Clusters: resource.GrantClusters{All: true}})
		if err := w.try(t, person("ada", identity.AdminsGroup), e); err != nil {
			t.Fatal(err)
		}
	}
	robot("operator", "shop")
	err := w.try(t, staff("bob"), service("web", "shop", "edge-1", asAccount))
	if err == nil || !strings.Contains(err.Error(), `user "bob" may not act as service account "robot", for a grant of it gives more`) {
		t.Errorf("a deployer names an operator's account: %v", err)
	}
	robot("deployer", "shop")
	if err := w.try(t, staff("bob"), service("web", "shop", "edge-1", asAccount)); err != nil {
		t.Errorf("a deployer names a deployer's account: %v", err)
	}
}

func TestPeopleSeeWhatTheirGrantsAreAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := map[string][]string{}
	err := w.store.Read(t.Context(), func(ctx context.Context, v store.View) error {
		for _, who := range []identity.Identity{staff("zoe"), person("bob"), person("cleo"), person("emil"), person("zoe")} {
			sees, err := w.Sees(identity.NewContext(t.Context(), who))
			if err != nil {
				return err
			}
			for _, kind := range []store.Kind{store.KindService, store.KindSecret, store.KindGrant, store.KindCluster} {
				rows, err := v.List(ctx, kind, "", 100)
				if err != nil {
					return err
				}
				for _, r := range rows {
					if sees(r) {
						at := who.Name + " " + strings.Join(who.Groups, "")
						all[at] = append(all[at], string(kind)+"/"+r.Name)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"zoe staff": {"service/db", "service/web", "grant/all", "cluster/edge-1", "cluster/edge-2"},
		"bob ":      {"service/web", "grant/bob", "cluster/edge-1", "cluster/edge-2"},
		"cleo ":     {"service/db", "grant/cleo", "cluster/edge-2"},
		"emil ":     {"service/db", "service/web", "secret/git", "grant/emil", "cluster/edge-1", "cluster/edge-2"},
	}
	for who, sees := range want {
		if !slices.Equal(all[who], sees) {
			t.Errorf("%s sees %q, want %q", who, all[who], sees)
		}
	}
	if got := all["zoe "]; len(got) > 0 {
		t.Errorf("somebody without a grant sees %q", got)
	}
}

// Nothing in the words about what somebody may not see depends on whether it is there.
func TestWhatIsHiddenReadsAsWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := identity.NewContext(t.Context(), person("cleo"))
	said := map[string]string{}
	for _, ref := range []store.Ref{{Kind: store.KindSecret, Name: "git"}, {Kind: store.KindCluster, Name: "edge-1"}, {Kind: store.KindService, Name: "web"}} {
		var row store.Resource
		err := w.store.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
			row, err = v.Get(ctx, ref.Kind, ref.Name)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		hidden, gone := w.MayView(ctx, row), w.Missing(ctx, store.Ref{Kind: ref.Kind, Name: "absent"})
		if hidden == nil || gone == nil {
			t.Fatalf("%s: hidden %v, not there %v", ref.Kind, hidden, gone)
		}
		said[hidden.Error()] = strings.ReplaceAll(gone.Error(), "absent", ref.Name)
	}
	for hidden, gone := range said {
		if hidden != gone {
			t.Errorf("what is hidden reads\n%s\nand what is not there\n%s", hidden, gone)
		}
	}
	if err := w.Missing(identity.NewContext(t.Context(), person("ada", identity.AdminsGroup)), store.Ref{Kind: store.KindSecret, Name: "absent"}); err == nil || err.Error() != `secret "absent" does not exist` {
		t.Errorf("an administrator is told %v", err)
	}
}

// A right that was granted counts at once. A right that was taken away may count for as long as rules are used without
// a question.
func TestGrantsCountAtOnceAndEndSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, zoe := person("ada", identity.AdminsGroup), person("zoe")
	may := func() bool {
		t.Helper()
		decision, err := w.Decide(t.Context(), zoe, access.Edit, access.Target{Kind: access.Service, Name: "web", Project: "shop", Cluster: "edge-1"})
		if err != nil {
			t.Fatal(err)
		}
		return decision.Allowed
	}
	if may() {
		t.Fatal("zoe has a right without a grant")
	}
	if err := w.try(t, ada, grant("zoe", resource.GrantSpec{Users: []string{"zoe"}, Role: "deployer", Clusters: resource.GrantClusters{Names: []string{"edge-1"}}})); err != nil {
		t.Fatal(err)
	}
	if !may() {
		t.Error("a right that was granted does not count yet")
	}
	if err := w.try(t, ada, catalog.Removal(store.KindGrant, "zoe", "")); err != nil {
		t.Fatal(err)
	}
	w.clock = w.clock.Add(time.Second)
	if may() {
		t.Error("a right that was taken away a second ago counts")
	}
}

func TestRulesKnowRolesGroupsAndClasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, want := range map[string]bool{"sourcer": true, "viewer": false, "absent": false} {
		if has, err := w.HasRole(t.Context(), name); err != nil || has != want {
			t.Errorf("role %s of the catalog: %t, %v", name, has, err)
		}
	}
	groups, err := w.Named(t.Context())
	if err != nil || !groups["staff"] || groups["others"] {
		t.Errorf("grants name the groups %v: %v", groups, err)
	}
	for _, c := range []struct {
		who     string
		class   string
		cluster string
		want    bool
	}{
		{"emil", "secrets", "edge-1", true},
		{"cleo", "exec", "edge-2", true},
		{"cleo", "secrets", "edge-2", false},
		{"cleo", "read", "edge-1", false},
		{"bob", "read", "edge-1", false}, // a grant of projects is not about clusters' APIs
	} {
		decision, err := w.AtCluster(t.Context(), person(c.who), c.class, c.cluster)
		if err != nil || decision.Allowed != c.want {
			t.Errorf("%s may %s at %s: %t, %v", c.who, c.class, c.cluster, decision.Allowed, err)
		}
	}
	if _, err := w.AtCluster(t.Context(), person("emil"), "everything", "edge-1"); err == nil || !strings.Contains(err.Error(), "read, write, exec and secrets") {
		t.Errorf("a class that is none: %v", err)
	}
	own, err := w.Grants(t.Context(), staff("bob"))
	var names []string
	for _, g := range own {
		names = append(names, g.GetMetadata().GetName())
	}
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"all", "bob"}) {
		t.Errorf("bob's grants are %q: %v", names, err)
	}
}
