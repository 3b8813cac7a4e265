package build

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/remotebase"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// names of the files of an artifact.
func (w *world) names(b Built) []string {
	w.t.Helper()
	return slices.Sorted(maps.Keys(w.files(b.Artifact.Digest)))
}

const overlay = "deploy/overlays/dev"

// overlayFiles are an overlay that refers to what is beside it in every way that kustomize knows.
func overlayFiles() gittest.Files {
	return gittest.Files{
		overlay + "/kustomization.yaml": `resources: [../../bases/backend, ../shared.yaml, own.yaml, https://example.com/remote.yaml, ../../missing, ../../../../../beyond]
components: [../../components/tls]
bases: [../../bases/old]
crds: [../../crds/boat.json]
configurations: [../../names.yaml]
generators: [../../generators, ../../plugin.yaml]
transformers: [../../transformers]
validators: [../../validators]
patches: [{path: ../../patches/a.yaml}]
patchesStrategicMerge: [../../patches/b.yaml]
patchesJson6902: [{path: ../../patches/c.json}]
replacements: [{path: ../../replacements.yaml}]
openapi: {path: ../../openapi.json}
configMapGenerator: [{name: a, files: [../../config/app.properties, key=../../config/other], envs: [../../config/env]}]
secretGenerator: [{name: b, env: ../../config/secret}]
`,
		overlay + "/own.yaml":                     "own",
		"deploy/overlays/shared.yaml":             "shared",
		"deploy/overlays/unused.yaml":             "x",
		"deploy/bases/backend/kustomization.yml":  "resources: [deep, a.yaml]\n",
		"deploy/bases/backend/a.yaml":             "a",
		"deploy/bases/backend/unused.yaml":        "x",
		"deploy/bases/backend/deep/Kustomization": "resources: [../../../../far/b.yaml]\n",
		"far/b.yaml":                               "b",
		"far/unused.yaml":                          "x",
		"deploy/bases/old/kustomization.yaml":      "{}\n",
		"deploy/components/tls/kustomization.yaml": "kind: Component\n",
		"deploy/crds/boat.json":                    "{}",
		"deploy/names.yaml":                        "x",
		"deploy/generators/kustomization.yaml":     "resources: [g.yaml]\n",
		"deploy/generators/g.yaml":                 "g",
		"deploy/plugin.yaml":                       "kind: ConfigMapGenerator\nfiles: [../../config/by-plugin]\n",
		"deploy/config/by-plugin":                  "x",
		"deploy/transformers/kustomization.yaml":   "resources: [t.yaml]\n",
		"deploy/transformers/t.yaml":               "kind: PatchTransformer\npath: ../../config/by-transformer\n",
		"deploy/config/by-transformer":             "x", // seen from the overlay
		"deploy/validators/kustomization.yaml":     "{}\n",
		"deploy/patches/a.yaml":                    "x",
		"deploy/patches/b.yaml":                    "x",
		"deploy/patches/c.json":                    "[]",
		"deploy/replacements.yaml":                 "x",
		"deploy/openapi.json":                      "{}",
		"deploy/config/app.properties":             "x",
		"deploy/config/other":                      "x",
		"deploy/config/env":                        "A=b",
		"deploy/config/secret":                     "A=b",
		"deploy/config/unused":                     "x",
		"README.md":                                "x",
	}
}

func TestAnOverlayCarriesWhatItRefersTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	files := overlayFiles()
	b := w.resolve(place(w.commit(files), overlay))
	var want []string
	for name := range files {
		if !strings.Contains(name, "unused") && name != "README.md" {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := w.names(b); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestABaseThatIsAnotherOneStopsNoFolder: the head of a base that no folder needed was dropped, and its revision stands
// for another commit by now.
func TestABaseThatIsAnotherOneStopsNoFolder(t *testing.T) {
	t.Parallel()
	const at = "https://git.example.com/team/base?ref=v1"
	w := newWorld(t, 0)
	base, _, err := remotebase.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	use := func(content string) {
		t.Helper()
		commit := w.commit(gittest.Files{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": content})
		heads := map[string]mirror.Head{base.Ref(): {Ref: base.Ref(), Object: commit, Commit: commit}}
		if err := w.mirror.SetHeads(heads); err != nil {
			t.Fatal(err)
		}
	}
	use("old")
	p := place(w.commit(gittest.Files{"deploy/kustomization.yaml": "resources: ['" + at + "']\n"}), "deploy")
	p.Dependencies = true
	first := w.resolve(p)
	use("new")
	w.builder.memo.forgetRecord(first.SourceID)
	second := w.resolve(p)
	if !slices.Contains(slices.Collect(maps.Values(w.files(second.Artifact.Digest))), "new") {
		t.Errorf("got %q, without the base that is there now", w.names(second))
	}
}

// Rules of a service are for its own folder: those that fit to files elsewhere, too, leave out none of them.
func TestRulesLeaveOutNothingBeyondTheFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := w.commit(overlayFiles())
	names := w.names(w.resolve(place(commit, overlay)))
	for what, b := range map[string]Built{
		"ignore":  w.resolve(filtered(t, place(commit, overlay), nil, []string{"own.yaml", "*.json", "a.yaml", "far/", "config/"})),
		"include": w.resolve(filtered(t, place(commit, overlay), []string{"kustomization.yaml"}, nil)),
	} {
		want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == overlay+"/own.yaml" })
		if got := w.names(b); !slices.Equal(got, want) {
			t.Errorf("%s: got %q\nwant %q", what, got, want)
		}
	}
}

func TestACommitBeyondWhatIsReferredToCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	files := overlayFiles()
	first := w.resolve(place(w.commit(files), overlay))
	builds := w.builds.Load()
	for _, name := range []string{
		"README.md", "far/unused.yaml", "deploy/overlays/unused.yaml",
		"deploy/bases/backend/unused.yaml", "deploy/new",
	} {
		files[name] = "changed"
		if b := w.resolve(place(w.commit(files), overlay)); b.SourceID != first.SourceID ||
			b.Artifact != first.Artifact || b.Commit == first.Commit {
			t.Errorf("%s: %+v, before %+v", name, b, first)
		}
	}
	if n := w.builds.Load(); n != builds {
		t.Errorf("%d builds of what has not changed", n-builds)
	}
	seen := map[string]bool{first.SourceID: true}
	for _, name := range []string{
		overlay + "/own.yaml", "far/b.yaml", "deploy/config/by-plugin",
		"deploy/crds/boat.json",
	} {
		files[name] = "changed"
		b := w.resolve(place(w.commit(files), overlay))
		if seen[b.SourceID] || w.files(b.Artifact.Digest)[name] != "changed" {
			t.Errorf("%s has changed, and %+v is the same", name, b)
		}
		seen[b.SourceID] = true
	}
}

// An upgrade of the hub must deliver nothing again.
func TestAFolderThatRefersToNothingBeyondItKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := w.commit(gittest.Files{
		"plain/a.yaml": "a", "k/kustomization.yaml": "resources: [base, a.yaml, ../nothing, https://example.com/x]\n",
		"k/base/kustomization.yaml": "resources: [../a.yaml]\n", "k/a.yaml": "a",
		"broken/kustomization.yaml": "resources: {", "loop/kustomization.yaml": "resources: [a]\n",
		"loop/a/kustomization.yaml": "resources: [../b]\n", "loop/b/kustomization.yaml": "resources: [../a]\n",
		"left-out/kustomization.yaml": "resources: [../plain/a.yaml]\n", "left-out/a": "a",
		"below/x/kustomization.yaml": "resources: [../../plain/a.yaml]\n",
		"chart/Chart.yaml":           "name: a\ndependencies: [{name: b, repository: 'file://b'}, {name: plain, repository: 'file://../plain'}]\n", "chart/b/Chart.yaml": "name: b\n", "chart/charts/plain/Chart.yaml": "name: plain\n",
	})
	for _, p := range []Place{
		place(commit, ""), place(commit, "plain"), place(commit, "k"), place(commit, "broken"),
		place(commit, "loop"), place(commit, "below"), place(commit, "chart"),
		filtered(t, place(commit, "left-out"), nil, []string{"kustomization.*"}),
	} {
		f, err := w.builder.findPlace(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		got, want := w.resolve(p), (content{source: p.Source, tree: f.tree, filter: p.Filter}).sourceID().String()
		if got.SourceID != want {
			t.Errorf("%q is %s, and was %s", p.Path, got.SourceID, want)
		}
		for name := range w.files(got.Artifact.Digest) {
			if p.Path != "" && strings.HasPrefix(name, p.Path+"/") {
				t.Errorf("%q: the artifact holds %q", p.Path, name)
			}
		}
	}
}

// That something is missing beyond the folder is no reason to forget that it is referred to, and the same folder may be
// in another place.
func TestWhatIsReferredToMayComeLater(t *testing.T) {
	t.Parallel()
	for name, reference := range map[string]string{
		"beside": "../late/a.yaml", "itself": "../b",
		"above": "../../../late/b",
	} {
		w := newWorld(t, 0)
		// The first folder leads to itself, or out of the repository, where the same one in another place does not.
		files := gittest.Files{
			name + "/b/kustomization.yaml":   "resources: [" + reference + "]\n",
			name + "/z/c/kustomization.yaml": "resources: [" + reference + "]\n",
		}
		first := w.commit(files)
		before := map[string]Built{}
		for _, folder := range []string{name + "/b", name + "/z/c"} {
			before[folder] = w.resolve(place(first, folder))
		}
		files[name+"/late/a.yaml"], files[name+"/z/late/a.yaml"], files["late/b"], files[name+"/z/b"] = "a", "a", "b", "b"
		second := w.commit(files)
		later := 0
		for folder, was := range before {
			if is := w.resolve(place(second, folder)); is.SourceID != was.SourceID && len(w.names(is)) == 2 {
				later++
			}
		}
		if want := map[string]int{"beside": 2, "itself": 1, "above": 1}[name]; later != want {
			t.Errorf("%s: %d folders have what came later, want %d", name, later, want)
		}
	}
}

// A content that an earlier release has built is looked at once, and one that has turned out to refer to nothing never
// again.
func TestContentsOfAnEarlierReleaseAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := w.commit(gittest.Files{"plain/a.yaml": "a", "open/kustomization.yaml": "resources: [../plain/a.yaml]\n"})
	dir := t.TempDir()
	w.open(dir)
	for _, folder := range []string{"plain", "open"} {
		f, err := w.builder.findPlace(t.Context(), place(commit, folder))
		if err != nil {
			t.Fatal(err)
		}
		was := content{source: "u1", tree: f.tree}
		r := was.recordOf(was.sourceID(), artifact.Summary{Digest: artifact.SumDigest(make([]byte, 32)), Size: 1024, Files: 1})
		r.Alone = false
		if err := w.builder.memo.putRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		w.open(dir)
		if b := w.resolve(place(commit, "plain")); b.Artifact.Size != 1024 || w.builds.Load() != 0 {
			t.Errorf("built again: %+v", b)
		}
	}
	f, _ := w.builder.findPlace(t.Context(), place(commit, "plain"))
	if id := (content{source: "u1", tree: f.tree}).sourceID(); !w.builder.memo.isAlone(id) {
		t.Error("it is not remembered that the folder refers to nothing")
	}
	if got := w.names(w.resolve(place(commit, "open"))); !slices.Equal(got, []string{"open/kustomization.yaml", "plain/a.yaml"}) {
		t.Errorf("the overlay holds %q", got)
	}
}

// The bytes of an overlay can be had again when the store has lost them, after a restart, by another replica, and when
// the commit that they were built from is not the newest.
func TestAnOverlayIsBuiltAgainForDownloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	files := overlayFiles()
	first := w.resolve(place(w.commit(files), overlay))
	files["README.md"] = "changed"
	second := w.commit(files)
	w.resolve(place(second, overlay))
	again := func(name string) {
		t.Helper()
		content, err := w.builder.Open(t.Context(), first.Artifact.Digest)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer content.Close()
		bytes := 0
		if err := artifact.Walk(content, artifact.Limits{}, func(e artifact.Entry, _ io.Reader) error { bytes++; return nil }); err != nil || bytes != first.Artifact.Files {
			t.Errorf("%s: %d files, %v", name, bytes, err)
		}
	}
	again("here")
	known := w.builder.Known("u1")
	if known[0].Root != w.repo.Bare("rev-parse", second.String()+"^{tree}") {
		t.Errorf("it is remembered by tree %s, which is not the newest", known[0].Root)
	}
	w.open(t.TempDir())
	for i := range known {
		known[i].Alone = false // is not told
	}
	w.builder.Learn(t.Context(), "u1", known)
	again("another replica")
	if n := w.builds.Load(); n != 1 {
		t.Errorf("%d builds", n)
	}
	if b := w.resolve(place(second, overlay)); b.SourceID != first.SourceID || b.Artifact != first.Artifact ||
		w.builds.Load() != 1 {
		t.Errorf("another replica has built %+v, first %+v", b, first)
	}
}

// A record is another replica's word: one that does not fit is forgotten, and the content built when it is asked for.
func TestARecordOfAnOverlayIsOnlyLearnedIfItIsOfTheSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := w.commit(overlayFiles())
	if _, err := w.mirrors.Mirror("u2"); err != nil {
		t.Fatal(err)
	}
	want := w.resolve(place(commit, overlay))
	good := w.builder.Known("u1")[0]
	if good.Root == "" {
		t.Fatalf("the overlay's record has no root: %+v", good)
	}
	folder, tree, root, id := good, good, good, good
	folder.Folder = "deploy"
	tree.Tree = w.repo.Bare("rev-parse", commit.String()+":deploy")
	root.Root = strings.Repeat("1", 40)
	id.SourceID = "sha256:" + strings.Repeat("1", 64)
	for name, c := range map[string]struct {
		uid     string
		record  Record
		learned bool
	}{
		"as it is": {"u1", good, true}, "of another source": {"u2", good, false},
		"another folder": {"u1", folder, false},
		"another tree":   {"u1", tree, false}, "a commit that is not here": {"u1", root, false},
		"another source_id": {"u1", id, false},
	} {
		w.open(t.TempDir())
		w.builder.Learn(t.Context(), c.uid, []Record{c.record})
		if learned := len(w.builder.Known(c.uid)) == 1; learned != c.learned {
			t.Errorf("%s: learned is %t", name, learned)
		}
		before := w.builds.Load()
		if b := w.resolve(place(commit, overlay)); b.Artifact != want.Artifact ||
			w.builds.Load() != before && c.learned {
			t.Errorf("%s: got %+v after %d builds, want %+v", name, b, w.builds.Load()-before, want)
		}
	}
}

// The memo's file may be of an earlier release.
func TestARecordOfAnOverlayThatDoesNotFitIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	commit := w.commit(overlayFiles())
	first := w.resolve(place(commit, overlay))
	known := w.builder.Known("u1")
	known[0].Folder = "deploy"
	w.open(t.TempDir())
	if err := w.builder.memo.putRecord(record{Source: "u1", Record: known[0]}); err != nil {
		t.Fatal(err)
	}
	content, err := w.builder.Open(t.Context(), first.Artifact.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, content); !errors.Is(err, artifact.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
	_ = content.Close()
	if b := w.resolve(place(commit, overlay)); b != first || w.builds.Load() != 2 {
		t.Errorf("got %+v after %d builds, first %+v", b, w.builds.Load(), first)
	}
}

func TestKustomizationsThatReferToEachOtherAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	many := gittest.Files{}
	for i := range 80 {
		many[fmt.Sprintf("chain/%d/kustomization.yaml", i)] = fmt.Sprintf("resources: [../%d]\n", i+1)
	}
	maps.Copy(many, gittest.Files{
		"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../c]\n",
		"c/kustomization.yaml":   "components: [../b]\n",
		"x/y/kustomization.yaml": "resources: [../../z]\n", "z/kustomization.yaml": "resources: [../x]\n",
		"large/kustomization.yaml": "resources: [../far/large.yaml, ../far]\n",
		"far/kustomization.yaml":   strings.Repeat("#", 2<<20), "far/large.yaml": strings.Repeat("#", 2<<20),
		"wide/kustomization.yaml":  "resources: [../far/large.yaml]\ncomponents: [../wide2]\n",
		"wide2/kustomization.yaml": "configMapGenerator:\n" + strings.Repeat("- files: [a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z]\n", 1000),
	})
	commit := w.commit(many)
	for folder, words := range map[string]string{
		"a": "without an end: b -> c -> b", "x/y": "without an end: x/y -> z -> x",
		"chain/0": `more than 64 folders, at "chain/64"`,
		"large":   `"far/kustomization.yaml" is larger than the limit of 1 MiB`,
		"wide":    `one to more than 10000, at "wide2"`,
	} {
		for range 2 { // the second time it is known
			_, err := w.builder.Resolve(t.Context(), place(commit, folder))
			if !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v", folder, err)
			}
		}
	}
}

func TestLinksBeyondTheFolderAreCarried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	blob := func(s string) string { return w.repo.Object("blob", []byte(s)) }
	file := func(name, content string) gittest.TreeEntry {
		return gittest.TreeEntry{Mode: "100644", Name: name, ID: blob(content)}
	}
	link := func(name, target string) gittest.TreeEntry {
		return gittest.TreeEntry{Mode: "120000", Name: name, ID: blob(target)}
	}
	folder := func(name string, entries ...gittest.TreeEntry) gittest.TreeEntry {
		return gittest.TreeEntry{Mode: "40000", Name: name, ID: w.repo.Tree(entries...)}
	}
	commit := git.HashOf(w.repo.SetMain(w.repo.Tree(
		folder("chart", file("Chart.yaml", "name: x"),
			folder("charts", link("library", "../../shared/library"), link("itself", ".."), link("all", "../..")),
			link("crds", "../via/crds"), link("gone", "../nothing"), link("out", "../../out"), link("abs", "/etc")),
		folder("now", link("deploy", "../overlay")),
		folder("overlay", file("kustomization.yaml", "resources: [base, ../via/shared/a.yaml]"),
			link("base", "../shared/base"), link("huge", "../shared")),
		folder("plain", link("a.yaml", "../shared/a.yaml"), link("more", "../shared"), file("b.yaml", "b")),
		folder("shared", file("a.yaml", "a"), folder("base", file("kustomization.yaml", "resources: [a.yaml]"),
			link("a.yaml", "../a.yaml")), folder("crds", file("c.yaml", "c")), folder("library",
			file("Chart.yaml", "name: l"), link("more", "../more")), folder("more", file("m", "m"))),
		folder("through", file("Chart.yaml", "name: x"), link("a", "../library/../shared/a.yaml"),
			link("b", "../library/deep/../../shared/base/../a.yaml"), link("c", "../via/shared/../library/../more"),
			link("d", "../nothing/../shared/a.yaml")),
		folder("library", file("unused", "u"), folder("deep", file("unused", "u"))), folder("more", file("m", "m")),
		folder("via", link("crds", "../shared/crds"), link("shared", "../shared")),
	)))
	w.fetch()
	for path, want := range map[string][]string{
		"chart":   {"chart/Chart.yaml", "chart/abs", "chart/charts/all", "chart/charts/itself", "chart/charts/library", "chart/crds", "chart/gone", "chart/out", "shared/crds/c.yaml", "shared/library/Chart.yaml", "shared/library/more", "shared/more/m", "via/crds"},
		"overlay": {"overlay/base", "overlay/huge", "overlay/kustomization.yaml", "shared/a.yaml", "shared/base/a.yaml", "shared/base/kustomization.yaml", "via/shared"},
		"through": {
			"library/deep/.fairlead-folder", "more/m", "shared/a.yaml", "shared/base/.fairlead-folder",
			"through/Chart.yaml", "through/a", "through/b", "through/c", "through/d", "via/shared",
		},
		"plain": {"plain/a.yaml", "plain/b.yaml", "plain/more", "shared/a.yaml"},
	} {
		if got := w.names(w.resolve(place(commit, path))); !slices.Equal(got, want) {
			t.Errorf("%s: got %q\nwant %q", path, got, want)
		}
	}
	if a, b := w.resolve(place(commit, "overlay")), w.resolve(place(commit, "now/deploy")); a != b {
		t.Errorf("by a link there is %+v, without %+v", b, a)
	}
}

// A chart takes dependencies from folders beside it, as `helm dependency build` does.
func TestAChartCarriesTheChartsBesideIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	const base = "apps/web"
	files := gittest.Files{
		base + "/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: db, version: 1.x, repository: 'file://../../parts/db'}\n" +
			"- {name: old, repository: 'file://../../parts/old'}\n- {name: packed, repository: 'file://../../parts/packed'}\n- {name: tgz, repository: 'file://../../parts/tgz'}\n" +
			"- {name: gone, repository: 'file://../../gone'}\n- {name: out, repository: 'file://../../../out'}\n- {name: all, repository: 'file://../..'}\n- {name: web, repository: 'file://../web'}\n",
		base + "/templates/a.yaml":         "a",
		base + "/charts/packed/Chart.yaml": "name: packed\ndependencies: [{name: unused, repository: 'file://../../../../parts/unused'}]\n",
		base + "/charts/tgz-1.0.0.tgz":     "x",
		"parts/db/Chart.yaml":              "name: db\ndependencies: [{name: base, repository: 'file://../../library/base'}, {name: db, repository: 'file://../db'}]\n",
		"parts/db/templates/b.yaml":        "b",
		"parts/db/values.yaml":             "b: 1\n",
		"library/base/Chart.yaml":          "name: base\n",
		"library/base/templates/_b.tpl":    "b",
		"parts/old/Chart.yaml":             "apiVersion: v1\nname: old\n",
		"parts/old/requirements.yaml":      "dependencies: [{name: v1, repository: 'file://../v1'}]\n",
		"parts/v1/Chart.yaml":              "name: v1\n",
		"parts/packed/Chart.yaml":          "name: packed\n",
		"parts/tgz/Chart.yaml":             "name: tgz\n",
		"parts/unused/Chart.yaml":          "name: unused\n",
		"apps/other/Chart.yaml":            "name: other\n",
		"README.md":                        "x",
	}
	b := w.resolve(place(w.commit(files), base))
	want := []string{
		base + "/Chart.yaml", base + "/charts/packed/Chart.yaml", base + "/charts/tgz-1.0.0.tgz",
		base + "/templates/a.yaml", "library/base/Chart.yaml", "library/base/templates/_b.tpl",
		"parts/db/Chart.yaml", "parts/db/templates/b.yaml", "parts/db/values.yaml", "parts/old/Chart.yaml",
		"parts/old/requirements.yaml", "parts/v1/Chart.yaml",
	}
	if got := w.names(b); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	files["parts/tgz/Chart.yaml"] = "name: changed\n"
	if other := w.resolve(place(w.commit(files), base)); other.SourceID != b.SourceID {
		t.Error("a folder that the chart does not need makes it another content")
	}
	files["library/base/templates/_b.tpl"] = "c"
	if other := w.resolve(place(w.commit(files), base)); other.SourceID == b.SourceID {
		t.Error("a chart that it needs has changed, and the content is the same")
	}
}
