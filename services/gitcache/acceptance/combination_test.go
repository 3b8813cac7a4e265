package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/buckettest"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
)

// several is a fixture whose source "shop" is a repository of charts, and "config" one of Git with values.
type several struct {
	*charts
	values *gittest.Repo
	main   string // the newest commit of values
}

func newSeveral(t *testing.T) *several {
	t.Helper()
	f := &several{charts: newCharts(t)}
	f.values = f.git.NewRepo(t, "config.git")
	f.main = f.values.Commit("first", gittest.Files{
		"env/prod.yaml": "a: one\n", "env/dev.yaml": "a: dev\n",
		"secret.yaml": "s: 1\n",
	})
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	f.console.sources["config"] = &consolev1.Source{
		Metadata: &consolev1.Metadata{Name: "config", Uid: "uid-config"},
		Spec: &consolev1.SourceSpec{Git: &consolev1.GitSource{
			Url:      f.values.URL(),
			Interval: durationpb.New(seldom),
		}},
		Status: &consolev1.SourceStatus{},
	}
	f.console.announce()
	return f
}

// setSeveral has a service get a chart and values, and returns the ref of both.
func (f *several) setSeveral(change func(*consolev1.ServiceSpec)) (ref string) {
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	spec := &consolev1.ServiceSpec{
		Cluster: "a",
		Sources: []*consolev1.ServiceSource{
			{Name: "chart", Source: "shop", Chart: "web", Version: "^1"},
			{Name: "values", Source: "config"},
		},
		Render: &deliveryv1.RenderSpec{Helm: &deliveryv1.HelmSpec{ValuesFiles: []string{"$values/env/prod.yaml"}}},
	}
	if change != nil {
		change(spec)
	}
	f.console.services["web"] = &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: "web", Uid: "uid-web"},
		Spec:     spec,
	}
	return catalog.RefOf(spec)
}

// together waits until a ref has a subject with these words, and returns its head.
func (f *several) together(ref string, words ...string) (is *consolev1.Head) {
	f.t.Helper()
	await.NoError(f.t, strings.Join(words, " and ")+" are together", func() error {
		status := f.console.status()
		is = headOf(status, ref)
		for _, w := range words {
			if !strings.Contains(is.GetRevision().GetSubject(), w) {
				return fmt.Errorf("it is %q; problem: %s", is.GetRevision().GetSubject(),
					status.GetProblem().GetMessage())
			}
		}
		return nil
	})
	return is
}

// refreshConfig asks for a poll of the values.
func (n *node) refreshConfig() {
	n.f.t.Helper()
	if _, err := n.sources.RefreshSource(n.f.t.Context(), &gitcachev1.RefreshSourceRequest{Name: "config"}); err != nil {
		n.f.t.Fatal(err)
	}
}

// filesOf downloads what a published revision has.
func (n *node) filesAt(is *consolev1.Head) map[string]string {
	n.f.t.Helper()
	return n.download(n.resolve(is.GetRevision().GetCommit(), "").GetArtifact().GetDigest())
}

// TestSeveralSourcesAreDeliveredTogether: a chart of a repository with a values file of Git, and nothing else of Git.
// Values that change alone move it, with the chart repository away, too.
func TestSeveralSourcesAreDeliveredTogether(t *testing.T) {
	t.Parallel()
	f := newSeveral(t)
	f.repo.Push("web", "1.2.0", template("one"))
	ref := f.setSeveral(nil)
	n := f.one()
	first := f.together(ref, "chart 1.2.0", "values "+f.main[:8])
	if r := first.GetRevision(); r.GetCommitTime().AsTime().Year() < 2000 || r.GetAuthor() == "" {
		t.Errorf("the revision is %v", r)
	}
	files := n.filesAt(first)
	want := []string{"chart/Chart.yaml", "chart/templates/web.yaml", "chart/values.yaml", "values/env/prod.yaml"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) || files["values/env/prod.yaml"] != "a: one\n" {
		t.Errorf("the files are %v", files)
	}

	// Another file of Git is no news for the service: the revision names the commit, and the content is the same.
	other := f.values.Commit("another file", gittest.Files{"env/dev.yaml": "a: other\n"})
	n.refreshConfig()
	second := f.together(ref, "chart 1.2.0", "values "+other[:8])
	if a, b := n.resolve(first.GetRevision().GetCommit(), ""), n.resolve(second.GetRevision().GetCommit(), ""); a.GetSourceId() != b.GetSourceId() {
		t.Error("a commit that changes none of the files is another content")
	}

	f.repo.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return true
	})
	downloads := f.repo.Downloads()
	changed := f.values.Commit("second", gittest.Files{"env/prod.yaml": "a: two\n"})
	n.refreshConfig()
	third := f.together(ref, "chart 1.2.0", "values "+changed[:8])
	if files := n.filesAt(third); files["values/env/prod.yaml"] != "a: two\n" ||
		files["chart/templates/web.yaml"] != "one" {
		t.Errorf("with other values the files are %v", files)
	}
	if f.repo.Downloads() != downloads {
		t.Error("the chart was downloaded again")
	}

	f.repo.SetFault(nil)
	f.repo.Push("web", "1.3.0", template("two"))
	n.refresh()
	if files := n.filesAt(f.together(ref, "chart 1.3.0", "values "+changed[:8])); files["chart/templates/web.yaml"] != "two" {
		t.Errorf("with another chart the files are %v", files)
	}
	// What they were together before stays there to go back to.
	if files := n.filesAt(first); files["values/env/prod.yaml"] != "a: one\n" ||
		files["chart/templates/web.yaml"] != "one" {
		t.Errorf("the first files are %v", files)
	}
	f.setSeveral(func(s *consolev1.ServiceSpec) { s.Sync = &deliveryv1.SyncSpec{Pin: first.GetRevision().GetCommit()} })
	f.together(catalog.PinnedRef(ref, first.GetRevision().GetCommit()), "chart 1.2.0", "values "+f.main[:8])
}

// TestFoldersOfSeveralSourcesAreWhereTheirRepositoriesHaveThem: an overlay finds a base of another repository, and what
// it refers to in its own.
func TestFoldersOfSeveralSourcesAreWhereTheirRepositoriesHaveThem(t *testing.T) {
	t.Parallel()
	f := newSeveral(t)
	f.values.Commit("overlay", gittest.Files{
		"overlays/prod/kustomization.yaml": "resources: [../../../base/deploy, ../../parts/more]\n",
		"parts/more/kustomization.yaml":    "resources: [more.yaml]\n",
		"parts/more/more.yaml":             "more: 1\n",
	})
	base := f.git.NewRepo(t, "base.git")
	base.Commit("base", gittest.Files{
		"deploy/kustomization.yaml": "resources: [web.yaml]\n",
		"deploy/web.yaml":           "web: 1\n", "README": "no",
	})
	f.console.add("base", base.URL())
	ref := f.setSeveral(func(s *consolev1.ServiceSpec) {
		s.Render = nil
		s.Sources = []*consolev1.ServiceSource{
			{Name: "overlay", Source: "config", Path: "overlays/prod"}, {Name: "base", Source: "base", Path: "deploy"},
		}
	})
	n := f.one()
	var is *consolev1.Head
	await.NoError(t, "both are together", func() error {
		f.console.mu.Lock()
		defer f.console.mu.Unlock()
		if is = headOf(f.console.sources["config"].GetStatus(), ref); is == nil {
			return errors.New(f.console.sources["config"].GetStatus().GetProblem().GetMessage())
		}
		return nil
	})
	answer, err := n.artifacts.Resolve(t.Context(),
		&artifactv1.ResolveRequest{Queries: []*artifactv1.Query{{
			Source:   "config",
			Revision: is.GetRevision().GetCommit(),
		}}})
	if err != nil || answer.GetResults()[0].GetError() != nil {
		t.Fatal(err, answer)
	}
	files := n.download(answer.GetResults()[0].GetResolved().GetArtifact().GetDigest())
	want := []string{
		"base/deploy/kustomization.yaml", "base/deploy/web.yaml",
		"overlay/overlays/prod/kustomization.yaml", "overlay/parts/more/kustomization.yaml",
		"overlay/parts/more/more.yaml",
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("the files are %v", got)
	}
}

// TestASourceThatLacksSomethingIsNamed, and what was together before stays.
func TestASourceThatLacksSomethingIsNamed(t *testing.T) {
	t.Parallel()
	f := newSeveral(t)
	f.repo.Push("web", "1.2.0", template("one"))
	ref := f.setSeveral(nil)
	n := f.one()
	first := f.together(ref, "chart 1.2.0", "values "+f.main[:8])
	f.values.Work("rm", "--quiet", "env/prod.yaml")
	f.values.Work("commit", "--quiet", "-m", "removed")
	f.values.Push()
	n.refreshConfig()
	f.problem(`service "web"`, `source "values"`)
	if headOf(f.console.status(), ref).GetRevision().GetCommit() != first.GetRevision().GetCommit() {
		t.Error("what was together is gone")
	}
	again := f.values.Commit("put right", gittest.Files{"env/prod.yaml": "a: three\n"})
	n.refreshConfig()
	f.together(ref, "values "+again[:8])
	f.problem()

	missing := f.setSeveral(func(s *consolev1.ServiceSpec) { s.Sources[1].Ref = "nowhere" })
	f.problem(`service "web"`, `source "values"`, "nowhere")
	if headOf(f.console.status(), missing) != nil {
		t.Error("there is a head without values")
	}
	f.setSeveral(func(s *consolev1.ServiceSpec) { s.Sync = &deliveryv1.SyncSpec{Pin: again} })
	f.problem(`service "web"`, again[:8], "no revision of its sources")
}

// TestSeveralSourcesAreForServicesThatNameThem: who may use the first source gets nothing of the others by it.
func TestSeveralSourcesAreForServicesThatNameThem(t *testing.T) {
	t.Parallel()
	f := newSeveral(t)
	f.repo.Push("web", "1.2.0", template("one"))
	ref := f.setSeveral(nil)
	n := f.one()
	commit := f.together(ref, "chart 1.2.0").GetRevision().GetCommit()
	f.console.setService("thief", commit)
	f.problem(`service "thief"`, "several sources")
	if headOf(f.console.status(), commit) != nil {
		t.Error("it is published for a service with one source")
	}
	file, err := n.sources.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{
		Source: "shop", Revision: commit,
		Path: "values/env/prod.yaml",
	})
	if err == nil || !strings.Contains(err.Error(), "several sources") {
		t.Errorf("the file reads %q, %v", file.GetContent(), err)
	}
	tree, err := n.sources.ListTree(t.Context(), &gitcachev1.ListTreeRequest{Source: "shop", Revision: ref})
	if err == nil {
		t.Errorf("the tree is %v", tree)
	}
	f.console.setService("plain", catalog.ChartRef("web", ""))
	f.chart("web", "", "1.2.0")
	f.packs(t.Context(), n, "plain", commit, "several sources")
	f.packs(t.Context(), n, "plain", ref, "it has one source")
	f.packs(t.Context(), n, "plain", catalog.PinnedRef(ref, commit), "it has one source")
	f.packs(t.Context(), n, "web", "main", "full id of a revision")
	got, files, err := packed(t.Context(), n.sources, "web", commit)
	if err != nil || got != commit || files["values/env/prod.yaml"] != "a: one\n" {
		t.Errorf("the service has %v at %s, %v", files, got, err)
	}
}

// TestACombinationIsNoSubmodule: who may push to the first source gets nothing of the others by a commit that names
// what they are together.
func TestACombinationIsNoSubmodule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.console.changeSource(withSubmodules)
	first := f.repo.Commit("first", gittest.Files{"deploy/a": "1"})
	other := f.git.NewRepo(t, "other.git")
	other.Commit("other", gittest.Files{"secret": "1"})
	f.console.add("other", other.URL())
	f.console.setService("plain", "main")
	ref := f.setBoth()
	n := f.one()
	var commit string
	await.NoError(t, "both are together", func() error {
		if commit = headOf(f.console.status(), ref).GetRevision().GetCommit(); commit == "" {
			return errors.New(f.console.status().GetProblem().GetMessage())
		}
		return nil
	})
	stolen := commitLinks(f.repo, link{"stolen", f.repo.URL(), commit})
	n.refresh()
	f.problem(`submodule "stolen"`, "several sources", first[:8]+" is kept")
	n.refuses(stolen, "", artifactv1.ResolveError_REASON_REFUSED, `"stolen"`, "several sources")
}

// TestSeveralSourcesGoBackWhereCommitsAreSigned: to what the hub put together of signed commits, and to nothing that
// only looks so.
func TestSeveralSourcesGoBackWhereCommitsAreSigned(t *testing.T) {
	t.Parallel()
	longform.Only(t, "signed content in many forms")
	ada := gittest.NewOpenPGP(t, "ed25519")
	f := newFixture(t)
	first := f.repo.Commit("unsigned", gittest.Files{"deploy/a": "0"})
	other := f.git.NewRepo(t, "other.git")
	values := other.Commit("one", gittest.Files{"values.yaml": "a: 1\n"})
	f.console.add("other", other.URL())
	ref := f.setBoth()
	n := f.one()
	together := func(ref, shop, values string) (commit string) {
		t.Helper()
		await.NoError(t, "both are together", func() error {
			r := headOf(f.console.status(), ref).GetRevision()
			if r.GetSubject() != fmt.Sprintf("shop %.8s · other %.8s", shop, values) {
				return fmt.Errorf("it is %q; problem: %s", r.GetSubject(), f.console.status().GetProblem().GetMessage())
			}
			commit = r.GetCommit()
			return nil
		})
		return commit
	}
	pin := func(commit string) string {
		f.console.mu.Lock()
		defer f.console.mu.Unlock()
		defer f.console.announce()
		f.console.services["both"].Spec.Sync = &deliveryv1.SyncSpec{Pin: commit}
		return catalog.PinnedRef(ref, commit)
	}
	refresh := func() {
		t.Helper()
		if _, err := n.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: "other"}); err != nil {
			t.Fatal(err)
		}
	}
	before := together(ref, first, values)
	f.console.setVerification(verifyCommit, ada.Public)
	f.problem("commit "+first[:8]+" is not signed", "It was published before and is kept")
	values = other.Commit("values of what is not signed", gittest.Files{"values.yaml": "a: 0\n"})
	refresh()
	unsigned := together(ref, first, values)
	f.signAs(ada)
	signed := f.repo.Commit("signed", gittest.Files{"deploy/a": "1"})
	n.refresh()
	good := together(ref, signed, values)
	newer := other.Commit("two", gittest.Files{"values.yaml": "a: 2\n"})
	refresh()
	late := together(ref, signed, newer)
	f.problem()

	together(pin(good), signed, values)
	f.problem()
	for what, commit := range map[string]string{
		"made before": before, "of an unsigned commit": unsigned,
		"forged": f.forge(ref, ""), "with a seal": f.forge(ref, strings.Repeat("ab", 32)),
	} {
		if commit != before && commit != unsigned { // which the hub made, so that upstream does not have them
			f.console.setService("evil", "evil")
			f.repo.Bare("update-ref", "refs/heads/evil", commit)
			n.refresh()
		}
		at := pin(commit)
		f.problem("revision "+commit[:8]+", which service \"both\" is pinned to, can't be proven to be made of signed commits", "release the pin")
		if h := headOf(f.console.status(), at); h != nil {
			t.Errorf("%s: published %v", what, h)
		}
	}

	// A key that is trusted no more counts for no new pin, and what is pinned already stays.
	together(pin(good), signed, values)
	f.console.setVerification(verifyCommit, gittest.NewOpenPGP(t, "ed25519").Public)
	pin(late)
	f.problem("revision "+late[:8], "made of a commit by key "+ada.Fingerprint,
		"not among the source's verification keys")
}

// forge makes a commit upstream that looks as if it was made of several sources.
func (f *fixture) forge(ref, seal string) (commit string) {
	header := "tree " + f.repo.Work("rev-parse", "HEAD^{tree}") + "\nauthor a <> 0 +0000\ncommitter " +
		mirror.CombinedBy + " <> 0 +0000\n"
	if seal != "" {
		header += "fairlead-seal " + seal + "\n"
	}
	return f.repo.Object("commit", []byte(header+"\nshop · other\n\n"+mirror.CombinationLine+ref+"\n"))
}

// setBoth has a service get the sources "shop" and "other", and returns the ref of both.
func (f *fixture) setBoth() (ref string) {
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	spec := &consolev1.ServiceSpec{
		Cluster: "a", Sources: []*consolev1.ServiceSource{
			{Name: "shop", Source: sourceName, Ref: "main"},
			{Name: "other", Source: "other"},
		},
	}
	f.console.services["both"] = &consolev1.Service{
		Metadata: &consolev1.Metadata{Name: "both", Uid: "uid-both"},
		Spec:     spec,
	}
	return catalog.RefOf(spec)
}

// packs asks for a service at a revision, which must be refused with these words.
func (f *several) packs(ctx context.Context, n *node, service, revision, words string) {
	f.t.Helper()
	if _, files, err := packed(ctx, n.sources, service, revision); err == nil || !strings.Contains(err.Error(), words) {
		f.t.Errorf("service %s at %s: %v, %v", service, revision, files, err)
	}
}

// TestABucketIsOneOfSeveralSources: objects that change move the service, and a chart does with the bucket's server
// down.
func TestABucketIsOneOfSeveralSources(t *testing.T) {
	t.Parallel()
	f := newSeveral(t)
	server := buckettest.Start(t)
	server.Put(t, "manifests", map[string]string{"env/prod.yaml": "a: one\n", "env/dev.yaml": "a: dev\n"})
	f.console.setSecret("keys", map[string]string{
		"accesskey": server.AccessKey, "secretkey": server.SecretKey,
		"ca.crt": server.CA,
	})
	f.console.mu.Lock()
	f.console.sources["config"].Spec = &consolev1.SourceSpec{Bucket: &consolev1.BucketSource{
		Endpoint: server.Host, BucketName: "manifests", Region: server.Region, Secret: "keys",
		Interval: durationpb.New(seldom),
	}}
	f.console.announce()
	f.console.mu.Unlock()
	f.repo.Push("web", "1.2.0", template("one"))
	ref := f.setSeveral(nil)
	n := f.one()
	first := f.together(ref, "chart 1.2.0", "values ")
	files := n.filesAt(first)
	want := []string{"chart/Chart.yaml", "chart/templates/web.yaml", "chart/values.yaml", "values/env/prod.yaml"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) || files["values/env/prod.yaml"] != "a: one\n" {
		t.Errorf("the files are %v", files)
	}

	server.Put(t, "manifests", map[string]string{"env/prod.yaml": "a: two\n"})
	n.refreshConfig()
	await.NoError(t, "other objects are together with the chart", func() error {
		if is := headOf(f.console.status(), ref).GetRevision(); is.GetCommit() == first.GetRevision().GetCommit() {
			return errors.New("it is still " + is.GetSubject())
		}
		return nil
	})
	server.Stop()
	f.repo.Push("web", "1.3.0", template("other"))
	n.refresh()
	files = n.filesAt(f.together(ref, "chart 1.3.0", "values "))
	if files["values/env/prod.yaml"] != "a: two\n" || files["chart/templates/web.yaml"] != "other" {
		t.Errorf("with another chart the files are %v", files)
	}
	if files := n.filesAt(first); files["values/env/prod.yaml"] != "a: one\n" {
		t.Errorf("the first files are %v", files)
	}
}

// TestSeveralSourcesOfTwoReplicas: the owner of the first source gets the other ones from their owners, and its
// successor goes on.
func TestSeveralSourcesOfTwoReplicas(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a fleet of gitcaches")
	f := newSeveral(t)
	f.repo.Push("web", "1.2.0", template("one"))
	ref := f.setSeveral(nil)
	c := together(t)
	a, b := f.replica("a", c), f.replica("b", c)
	first := f.together(ref, "chart 1.2.0", "values "+f.main[:8])
	for source, to := range map[string]string{"shop": "a", "config": "b"} {
		await.NoError(t, source+" is owned by "+to, func() error {
			_, err := a.shards().MoveSource(t.Context(), &gitcachev1.MoveSourceRequest{Source: source, Replica: to})
			return err
		})
	}
	f.repo.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return true
	})
	changed := f.values.Commit("second", gittest.Files{"env/prod.yaml": "a: two\n"})
	a.refreshConfig()
	second := f.together(ref, "chart 1.2.0", "values "+changed[:8])
	for _, n := range []*node{a, b} {
		if files := n.filesAt(second); files["values/env/prod.yaml"] != "a: two\n" ||
			files["chart/templates/web.yaml"] != "one" {
			t.Errorf("the files are %v", files)
		}
	}
	a.stop()
	again := f.values.Commit("third", gittest.Files{"env/prod.yaml": "a: three\n"})
	b.refreshConfig()
	if files := b.filesAt(f.together(ref, "chart 1.2.0", "values "+again[:8])); files["values/env/prod.yaml"] != "a: three\n" {
		t.Errorf("after the hand-over the files are %v", files)
	}
	if files := b.filesAt(first); files["values/env/prod.yaml"] != "a: one\n" {
		t.Errorf("the first files are %v", files)
	}
}
