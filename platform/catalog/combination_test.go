package catalog_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalog"
)

// several is a service with a chart of one source and values of another.
func several(pin string, files ...string) *consolev1.Service {
	out := &consolev1.Service{Metadata: meta("web", "1"), Spec: &consolev1.ServiceSpec{
		Cluster: "edge-1",
		Sources: []*consolev1.ServiceSource{
			{Name: "chart", Source: "charts", Chart: "web", Version: "^1"},
			{Name: "values", Source: "shop", Ref: "main"},
		},
		Render: &deliveryv1.RenderSpec{Helm: &deliveryv1.HelmSpec{ValuesFiles: files}},
	}}
	if pin != "" {
		out.Spec.Sync = &deliveryv1.SyncSpec{Pin: pin}
	}
	return out
}

func TestSeveralSourcesAreARefOfTheFirst(t *testing.T) {
	t.Parallel()
	ref := catalog.RefOf(several("", "$values/env/prod.yaml").GetSpec())
	pin := strings.Repeat("a", 40)
	for _, s := range []*catalog.Service{
		catalog.NewService(several("", "$values/env/prod.yaml")),
		catalog.Kept(catalog.NewService(several("", "$values/env/prod.yaml"))),
	} {
		if f := s.Folder(); f.Source != "charts" || f.Ref != ref || f.Path != "" || catalog.CanonicalRef(ref) != ref {
			t.Errorf("the folder is %v", f)
		}
		if !s.Follows("charts", ref) || !s.Follows("charts", "chart:web@^1") ||
			!s.Follows("shop", "refs/heads/main") || s.Follows("charts", "refs/heads/main") {
			t.Error("it does not follow its sources")
		}
		parts := s.Parts()
		if len(parts) != 2 || parts[0].Name != "chart" || !parts[1].IsFiles() || parts[1].Files != "env/prod.yaml" {
			t.Errorf("the parts are %v", parts)
		}
	}
	pinned := catalog.NewService(several(pin, "$values/env/prod.yaml"))
	for _, s := range []*catalog.Service{pinned, catalog.Kept(pinned), catalog.Kept(catalog.Kept(pinned))} {
		if f := s.Folder(); f.Ref != ref+"@"+pin || !s.Follows("charts", ref) {
			t.Errorf("pinned, the folder is %v", f)
		}
	}
	if combination, commit, ok := catalog.ParseCombinationRef(ref + "@" + pin); !ok || combination != ref ||
		commit != pin {
		t.Errorf("got %q, %q", combination, commit)
	}
}

// Whatever decides which files a service gets is in the ref, and nothing else is.
func TestTheRefOfSeveralSourcesCoversAllThatTheyAre(t *testing.T) {
	t.Parallel()
	ref := func(change func(*consolev1.ServiceSpec)) string {
		s := several("", "$values/prod.yaml")
		change(s.Spec)
		return catalog.RefOf(s.GetSpec())
	}
	same := ref(func(*consolev1.ServiceSpec) {})
	for name, change := range map[string]func(*consolev1.ServiceSpec){
		"cluster": func(s *consolev1.ServiceSpec) { s.Cluster = "edge-2" },
		"branch":  func(s *consolev1.ServiceSpec) { s.Sources[1].Ref = "refs/heads/main" },
		"slash":   func(s *consolev1.ServiceSpec) { s.Render.Helm.ValuesFiles = []string{"$values/./prod.yaml"} },
		"values":  func(s *consolev1.ServiceSpec) { s.Render.Helm.Values = "a: 1" },
	} {
		if ref(change) != same {
			t.Errorf("%s: another ref", name)
		}
	}
	seen := map[string]string{same: "itself"}
	for name, change := range map[string]func(*consolev1.ServiceSpec){
		"name":    func(s *consolev1.ServiceSpec) { s.Sources[1].Name = "config" },
		"source":  func(s *consolev1.ServiceSpec) { s.Sources[1].Source = "other" },
		"ref":     func(s *consolev1.ServiceSpec) { s.Sources[1].Ref = "dev" },
		"version": func(s *consolev1.ServiceSpec) { s.Sources[0].Version = "^2" },
		"path":    func(s *consolev1.ServiceSpec) { s.Sources[1].Path = "env" },
		"include": func(s *consolev1.ServiceSpec) { s.Sources[1].Include = []string{"env"} },
		"ignore":  func(s *consolev1.ServiceSpec) { s.Sources[1].Ignore = []string{"env"} },
		"file":    func(s *consolev1.ServiceSpec) { s.Render.Helm.ValuesFiles = []string{"$values/dev.yaml"} },
		"order":   func(s *consolev1.ServiceSpec) { slices.Reverse(s.Sources) },
	} {
		got := ref(change)
		if other, known := seen[got]; known {
			t.Errorf("%s: the ref of %s", name, other)
		}
		seen[got] = name
	}
}

func TestSourcesAreSideBySideForTheAgent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		path, first, want string
		files, placed     []string
	}{
		{
			"", "", "chart",
			[]string{"$values/env/prod.yaml", "ci.yaml"},
			[]string{"values/env/prod.yaml", "chart/ci.yaml"},
		},
		{"", "deploy/web", "chart/deploy/web", []string{"ci.yaml"}, []string{"chart/deploy/web/ci.yaml"}},
		{"values/web", "", "values/web", nil, nil},
		{".", "", "", nil, nil},
	} {
		of := several("", tc.files...)
		of.Spec.Render.Path, of.Spec.Sources[0].Path = tc.path, tc.first
		s := catalog.Kept(catalog.NewService(of))
		var got deliveryv1.ServiceDelivery
		if err := proto.Unmarshal([]byte(s.Options(nil)), &got); err != nil {
			t.Fatal(err)
		}
		if r := got.GetRender(); r.GetPath() != tc.want || !slices.Equal(r.GetHelm().GetValuesFiles(), tc.placed) {
			t.Errorf("%q of %q: built is %q, with %v", tc.path, tc.first, r.GetPath(), r.GetHelm().GetValuesFiles())
		}
	}
}

func TestFoldersOfAPartAreItsOwnAndItsFiles(t *testing.T) {
	t.Parallel()
	part := catalog.Part{Name: "values", Source: "shop", Ref: "HEAD", Files: "a [b]*.yaml\nenv/prod.yaml"}
	folders := part.Folders()
	if len(folders) != 1 || folders[0].Path != "" || folders[0].Include != "/a\\ \\[b\\]\\*.yaml\n/env/prod.yaml" {
		t.Errorf("files alone are %v", folders)
	}
	part.Path = "deploy"
	if folders = part.Folders(); len(folders) != 2 || folders[0].Path != "deploy" || folders[0].Include != "" ||
		folders[1].Include == "" {
		t.Errorf("a folder and files are %v", folders)
	}
}

func TestSeveralSourcesAreCountedAtEach(t *testing.T) {
	t.Parallel()
	c, client := newConsole(t)
	got := open(t, t.TempDir(), client)
	defer run(t, got)()
	changed := got.Subscribe()
	defer changed.Close()
	w := c.next(t)
	change := func(s *consolev1.Service) *consolev1.Change {
		return &consolev1.Change{Change: &consolev1.Change_Service{Service: s}}
	}
	w.say(t, begin(), changes("", source("shop"), source("charts"), change(several("", "$values/prod.yaml"))),
		end("t1"))
	ref := catalog.RefOf(several("", "$values/prod.yaml").GetSpec())
	await(t, changed, func() bool { return got.RefsOf("shop")["refs/heads/main"] == 1 })
	if refs := got.RefsOf("charts"); !maps.Equal(refs, map[string]int{ref: 1, "chart:web@^1": 1}) {
		t.Errorf("the refs of the first are %v", refs)
	}
	if all := got.CombinationsOf("charts"); len(all) != 1 || len(all[ref]) != 2 || got.CombinationsOf("shop") != nil {
		t.Errorf("the combinations are %v", all)
	}
	pin := strings.Repeat("a", 40)
	w.say(t, changes("t2", change(several(pin, "$values/prod.yaml"))))
	await(t, changed, func() bool { return got.RefsOf("charts")[ref+"@"+pin] == 1 })
	if refs := got.RefsOf("charts"); refs[ref] != 1 || len(got.CombinationsOf("charts")) != 1 {
		t.Errorf("pinned, the refs of the first are %v", refs)
	}
	w.say(t, changes("t3", deleted(consolev1.Kind_KIND_SERVICE, "web", "")))
	await(t, changed, func() bool { return len(got.RefsOf("charts")) == 0 })
	if refs := got.RefsOf("shop"); len(refs) != 0 || got.CombinationsOf("charts") != nil ||
		len(got.ServicesOf("shop")) != 0 {
		t.Errorf("deleted, the refs are %v", refs)
	}
}

func TestARevisionOfSeveralSourcesIsOneThatTheyHadTogether(t *testing.T) {
	t.Parallel()
	s := catalog.NewService(several("", "$values/prod.yaml"))
	ref, commit := s.Folder().Ref, strings.Repeat("a", 40)
	for revision, want := range map[string]string{
		"": ref, "HEAD": ref, ref: ref, commit: ref + "@" + commit, "main": "", "aaaaaaa": "",
	} {
		if got, err := s.RevisionRef(revision); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", revision, got, err)
		}
	}
	one := catalog.NewService(withOptions(nil, nil))
	if got, err := one.RevisionRef("dev"); err != nil || got != "refs/heads/dev" {
		t.Errorf("of one source: got %q, %v", got, err)
	}
	for _, revision := range []string{ref, ref + "@" + commit} { // of a service that may use the other sources
		if got, err := one.RevisionRef(revision); err == nil {
			t.Errorf("of one source: %s is %q", revision, got)
		}
	}
}
