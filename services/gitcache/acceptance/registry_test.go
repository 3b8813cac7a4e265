package acceptance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/charttest"
	"fairlead.dev/platform/registrytest"
)

const (
	fluxContent = "application/vnd.cncf.flux.content.v1.tar+gzip"
	fluxConfig  = "application/vnd.cncf.flux.config.v1+json"
	// chartTag is where the tests push a chart.
	chartTag = "team/charts/web:"
)

// registryFixture is a fixture whose source "shop" is in a registry.
type registryFixture struct {
	*fixture
	registry *registrytest.Registry
}

// newRegistry starts one with these arguments of registrylocal; a source takes its secret "login".
func newRegistry(t *testing.T, args ...string) *registryFixture {
	t.Helper()
	f := &registryFixture{fixture: newFixture(t), registry: registrytest.Start(t, args...)}
	f.console.setSecret("login", map[string]string{
		"username": f.registry.Username, "password": f.registry.Password,
		"ca.crt": f.registry.CA,
	})
	return f
}

func (f *registryFixture) setSpec(spec *consolev1.SourceSpec) {
	f.console.mu.Lock()
	defer f.console.mu.Unlock()
	defer f.console.announce()
	f.console.sources[sourceName].Spec = spec
}

func (f *registryFixture) charts(helm *consolev1.HelmSource) {
	helm.Url, helm.Interval = "oci://"+f.registry.Host+"/team/charts", durationpb.New(seldom)
	f.setSpec(&consolev1.SourceSpec{Helm: helm})
}

func (f *registryFixture) artifacts(oci *consolev1.OCISource) {
	oci.Url, oci.Interval = "oci://"+f.registry.Host+"/team/shop", durationpb.New(seldom)
	f.setSpec(&consolev1.SourceSpec{Oci: oci})
}

// resolved waits until a ref is published as what begins so.
func (f *registryFixture) resolved(ref, want string) *consolev1.Head {
	f.t.Helper()
	var is *consolev1.Head
	await.NoError(f.t, want+" is published for "+ref, func() error {
		status := f.console.status()
		if is = headOf(status, ref); !strings.HasPrefix(is.GetResolvedRef(), want) || is == nil {
			return errors.New("it is " + is.GetResolvedRef() + "; problem: " + status.GetProblem().GetMessage())
		}
		return nil
	})
	return is
}

// files are those of the artifact of a ref.
func (n *node) filesOf(ref, path string) map[string]string {
	n.f.t.Helper()
	return n.download(n.resolve(ref, path).GetArtifact().GetDigest())
}

// polledCosts is what a poll asks the registry.
func (f *registryFixture) polledCosts(n *node) []string {
	f.t.Helper()
	before := f.registry.Log(f.t)
	n.polled()
	return f.registry.Log(f.t)[len(before):]
}

// TestChartsOfARegistryFollowTheirVersions with tokens, and as helm pushes them.
func TestChartsOfARegistryFollowTheirVersions(t *testing.T) {
	t.Parallel()
	f := newRegistry(t, "-auth", "token")
	push := func(version, text string) {
		f.registry.HelmPush(t, chartTag+version, charttest.Package("web", version, template(text)))
	}
	push("1.2.0+build.7", "one")
	push("2.0.0", "two")
	push("3.0.0-rc.1", "a pre-release")
	f.console.setService("web", catalog.ChartRef("web", "^1"))
	f.charts(&consolev1.HelmSource{Secret: "login"})
	n := f.one()
	f.problem("wants a token of "+f.registry.Tokens, "tokenHosts")
	f.charts(&consolev1.HelmSource{Secret: "login", TokenHosts: []string{f.registry.Tokens}})
	first := f.resolved(catalog.ChartRef("web", "^1"), catalog.ChartRef("web", "1.2.0+build.7"))
	f.problem()
	if got := first.GetRevision().GetSubject(); got != "web 1.2.0+build.7 (app 9.9)" {
		t.Errorf("the subject is %q", got)
	}
	if files := n.filesOf(catalog.ChartRef("web", "^1"), ""); files["templates/web.yaml"] != "one" {
		t.Errorf("the artifact has %v", files)
	}

	// A poll of a range is the list of tags and a HEAD; one of an exact version a HEAD alone.
	if got := f.polledCosts(n); len(got) != 2 || !strings.HasPrefix(got[0], "GET /v2/team/charts/web/tags/list?n=1000 200 Bearer") || !strings.HasPrefix(got[1], "HEAD ") {
		t.Errorf("a poll without news asked for\n%s", strings.Join(got, "\n"))
	}
	f.console.setService("web", catalog.ChartRef("web", "2.0.0"))
	f.resolved(catalog.ChartRef("web", "2.0.0"), catalog.ChartRef("web", "2.0.0"))
	if got := f.polledCosts(n); len(got) != 1 || got[0] != "HEAD /v2/team/charts/web/manifests/2.0.0 200 Bearer" {
		t.Errorf("a poll without news asked for\n%s", strings.Join(got, "\n"))
	}

	f.console.setService("web", catalog.ChartRef("web", "^1"))
	push("1.2.1", "patched")
	n.refresh()
	f.resolved(catalog.ChartRef("web", "^1"), catalog.ChartRef("web", "1.2.1"))
	// Helm's manifest has the time of the push: another manifest of the same package is no download.
	downloads := f.registry.Count(t, "GET /v2/team/charts/web/blobs/")
	chart := charttest.Package("web", "1.2.2", template("again"))
	f.registry.HelmPush(t, chartTag+"1.2.2", chart)
	n.refresh()
	again := f.resolved(catalog.ChartRef("web", "^1"), catalog.ChartRef("web", "1.2.2"))
	f.registry.OrasPush(t, chartTag+"1.2.2", "application/vnd.cncf.helm.config.v1+json",
		registrytest.File{
			Name: "web.tgz", MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
			Content: chart,
		})
	n.polled()
	f.problem()
	if got := f.registry.Count(t, "GET /v2/team/charts/web/blobs/"); got != downloads+1 {
		t.Errorf("%d downloads of one package", got-downloads)
	}
	// Other content under the same number is told.
	push("1.2.2", "replaced")
	n.refresh()
	f.problem("web 1.2.2", "replaced upstream", "allowReplaced")
	if got := headOf(f.console.status(), catalog.ChartRef("web", "^1")); got.GetRevision().GetCommit() != again.GetRevision().GetCommit() {
		t.Errorf("the replaced version is published: %v", got)
	}
	// A chart that a registry lacks is in no other service's way.
	f.console.setService("other", catalog.ChartRef("absent", ""))
	f.problem(`chart "absent" of service "other" is not in the registry`)
}

// TestArtifactsOfARegistry by tag, digest and range, as flux and oras push them.
func TestArtifactsOfARegistry(t *testing.T) {
	t.Parallel()
	f := newRegistry(t, "-auth", "basic")
	flux := func(tag, text string) string {
		return f.registry.OrasPush(t, "team/shop:"+tag, fluxConfig, registrytest.File{
			Name:      "shop.tgz",
			MediaType: fluxContent, Content: tgz(map[string]string{"./deploy/web.yaml": text, "README": "x"}),
		})
	}
	digest := flux("1.0.0", "one")
	flux("latest", "one")
	f.console.setService("web", "tag:1.0.0")
	f.artifacts(&consolev1.OCISource{Secret: "login"})
	n := f.one()
	first := f.resolved("tag:1.0.0", "tag:1.0.0@"+digest)
	f.problem()
	if got := first.GetRevision(); got.GetSubject() != "shop 1.0.0" || got.GetAuthor() != "" {
		t.Errorf("the revision is %v", got)
	}
	if files := n.filesOf("tag:1.0.0", "deploy"); len(files) != 1 || files["web.yaml"] != "one" {
		t.Errorf("the artifact has %v", files)
	}
	file, err := n.sources.ReadFile(t.Context(), &gitcachev1.ReadFileRequest{
		Source: "shop", Revision: "tag:1.0.0",
		Path: "README",
	})
	if err != nil || string(file.GetContent()) != "x" {
		t.Errorf("the file reads %q, %v", file.GetContent(), err)
	}
	if got := f.polledCosts(n); len(got) != 1 || got[0] != "HEAD /v2/team/shop/manifests/1.0.0 200 Basic" {
		t.Errorf("a poll without news asked for\n%s", strings.Join(got, "\n"))
	}

	// A tag moves.
	second := flux("1.0.0", "moved")
	n.refresh()
	if moved := f.resolved("tag:1.0.0", "tag:1.0.0@"+second); moved.GetRevision().GetCommit() == first.GetRevision().GetCommit() {
		t.Error("other content is the same commit")
	}
	// The version that ran before stays there to go back to, and its digest is asked for only once.
	if files := n.filesOf(first.GetRevision().GetCommit(), "deploy"); files["web.yaml"] != "one" {
		t.Errorf("the older artifact has %v", files)
	}
	f.console.setService("web", digest)
	f.resolved(digest, digest)
	if got := f.polledCosts(n); len(got) != 0 {
		t.Errorf("a poll of a digest asked for\n%s", strings.Join(got, "\n"))
	}
	f.console.setService("web", "")
	f.resolved("HEAD", "tag:latest@")

	flux("v1.4.0", "higher")
	flux("2.0.0", "out of the range")
	f.console.setService("web", "semver:^1")
	f.resolved("semver:^1", "tag:v1.4.0@")
	f.console.setService("web", "semver:^3")
	f.problem(`no tag is in the range "semver:^3"`, `"2.0.0"`)
	f.console.setService("web", "tag:absent")
	f.problem("the registry has no tag absent", `service "web"`)
	f.console.setService("web", "main")
	f.problem("the source is a registry", "tag:NAME")
	f.console.setService("web", "tag:1.0.0")
	n.refresh()
	f.problem()

	// The pieces of oras: files with names, and a folder.
	f.registry.OrasPush(t, "team/shop:files", "application/x.test",
		registrytest.File{Name: "a.yaml", MediaType: "text/yaml", Content: []byte("a")},
		registrytest.File{Name: "b.yaml", MediaType: "application/yaml", Content: []byte("b")})
	f.console.setService("web", "tag:files")
	f.resolved("tag:files", "tag:files@")
	if files := n.filesOf("tag:files", ""); len(files) != 2 || files["a.yaml"] != "a" || files["b.yaml"] != "b" {
		t.Errorf("the artifact has %v", files)
	}
	f.artifacts(&consolev1.OCISource{
		Secret:        "login",
		LayerSelector: &consolev1.LayerSelector{MediaType: "application/yaml"},
	})
	await.NoError(t, "the chosen layer is published", func() error {
		if files := n.filesOf("tag:files", ""); len(files) != 1 || files["b.yaml"] != "b" {
			return fmt.Errorf("the artifact has %v", files)
		}
		return nil
	})
	f.artifacts(&consolev1.OCISource{
		Secret:        "login",
		LayerSelector: &consolev1.LayerSelector{MediaType: "application/none"},
	})
	f.problem("no layer of type application/none", `"text/yaml"`)
	f.artifacts(&consolev1.OCISource{Secret: "login"})
	folder := filepath.Join(t.TempDir(), "deploy")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "web.yaml"), []byte("of a folder"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f.registry.OrasPushFolder(t, "team/shop:folder", "application/x.test", folder)
	f.console.setService("web", "tag:folder")
	f.resolved("tag:folder", "tag:folder@")
	if files := n.filesOf("tag:folder", "deploy"); files["web.yaml"] != "of a folder" {
		t.Errorf("the artifact has %v", files)
	}
}

// TestRegistryIsAskedOnlyAsItsSourceSays: TLS and its authority, plain HTTP, logins.
func TestRegistryIsAskedOnlyAsItsSourceSays(t *testing.T) {
	t.Parallel()
	f := newRegistry(t, "-auth", "basic")
	f.registry.OrasPush(t, "team/shop:1", "application/x.test",
		registrytest.File{Name: "a", MediaType: "text/plain", Content: []byte("a")})
	f.console.setService("web", "tag:1")
	f.artifacts(&consolev1.OCISource{})
	f.one()
	f.problem("authority that the hub does not know")
	f.artifacts(&consolev1.OCISource{Insecure: true})
	f.problem("400")
	f.artifacts(&consolev1.OCISource{InsecureSkipTlsVerify: true})
	f.problem("401", "Name a secret")
	f.console.setSecret("login", map[string]string{
		"username": f.registry.Username, "password": "wrong",
		"ca.crt": f.registry.CA,
	})
	f.artifacts(&consolev1.OCISource{Secret: "login"})
	f.problem("401", `in secret "login"`)
	docker := func(host string) {
		auth := base64.StdEncoding.EncodeToString([]byte(f.registry.Username + ":" + f.registry.Password))
		f.console.setSecret("login", map[string]string{
			"ca.crt":            f.registry.CA,
			".dockerconfigjson": fmt.Sprintf(`{"auths": {"https://%s/": {"auth": %q}}}`, host, auth),
		})
	}
	docker("registry.example.com")
	f.problem("no entry for " + f.registry.Host)
	docker(f.registry.Host)
	f.resolved("tag:1", "tag:1@")
	f.problem()
}

// TestPlainRegistryIsAskedWhereTheSourceSaysSo and nowhere else.
func TestPlainRegistryIsAskedWhereTheSourceSaysSo(t *testing.T) {
	t.Parallel()
	f := newRegistry(t, "-plain")
	f.registry.OrasPush(t, "team/shop:latest", "application/x.test",
		registrytest.File{Name: "a", MediaType: "text/plain", Content: []byte("a")})
	f.console.setService("web", "")
	f.artifacts(&consolev1.OCISource{})
	n := f.one()
	f.problem("speaks HTTP without TLS", "insecure: true")
	f.artifacts(&consolev1.OCISource{Insecure: true})
	f.resolved("HEAD", "tag:latest@")
	f.problem()

	// With the registry down everything goes on.
	f.registry.Stop()
	n.refresh()
	f.problem(f.registry.Host)
	n.stop()
	n = f.start(n.dir, nil)
	if files := n.filesOf("HEAD", ""); files["a"] != "a" {
		t.Errorf("the artifact has %v", files)
	}
	f.problem(f.registry.Host)
}

// TestNotificationOfARegistryIsAPoll at once.
func TestNotificationOfARegistryIsAPoll(t *testing.T) {
	t.Parallel()
	f := &registryFixture{fixture: newFixture(t)}
	f.console.setService("web", "tag:latest")
	n := f.one()
	f.registry = registrytest.Start(t, "-plain", "-notify", n.url+"/v1/webhooks/shop", "-token", "hook-hook-hook")
	f.console.setSecret("hook", map[string]string{"token": "hook-hook-hook"})
	f.artifacts(&consolev1.OCISource{Insecure: true, WebhookSecret: "hook"})
	f.problem("the registry has no tag latest")
	f.registry.OrasPush(t, "team/shop:latest", "application/x.test",
		registrytest.File{Name: "a", MediaType: "text/plain", Content: []byte("a")})
	f.resolved("tag:latest", "tag:latest@")

	// What the poll pulls is told, too, and is no reason for another poll.
	await.NoError(t, "a pull is told", func() error {
		if n.labelled("fairlead_gitcache_webhooks_total", "ignored") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if polls, pushes := n.labelled("fairlead_gitcache_webhooks_total", "accepted"), f.registry.Count(t, "PUT "); polls > float64(pushes) {
		t.Errorf("%v polls of %d pushes", polls, pushes)
	}
}

// tgz packs files.
func tgz(files map[string]string) []byte {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}) // to memory
		_, _ = w.Write([]byte(files[name]))
	}
	_ = w.Close()
	_ = gz.Close()
	return b.Bytes()
}
