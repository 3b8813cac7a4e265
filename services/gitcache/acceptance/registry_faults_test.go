package acceptance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/catalog"
)

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// liar is a registry of one repository, team/shop, that does what a test says.
type liar struct {
	*httptest.Server

	mu    sync.Mutex // guards what follows
	blobs map[string][]byte
	tags  map[string]tagged
	fault func(http.ResponseWriter, *http.Request) bool
	asked []*http.Request
}

type tagged struct {
	manifest []byte
	kind     string
}

func newLiar(t *testing.T) *liar {
	t.Helper()
	l := &liar{blobs: map[string][]byte{}, tags: map[string]tagged{}}
	l.Server = httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(func() {
		l.CloseClientConnections()
		l.Close()
	})
	return l
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// layerOf describes a layer as a manifest does.
func layerOf(b []byte) map[string]any {
	return map[string]any{"mediaType": fluxContent, "digest": digestOf(b), "size": len(b)}
}

// push tags an artifact of one layer; change may make its manifest another.
func (l *liar) push(tag string, layer []byte, change func(manifest map[string]any)) {
	m := map[string]any{"schemaVersion": 2, "mediaType": manifestType, "layers": []any{layerOf(layer)}}
	if change != nil {
		change(m)
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	kind, _ := m["mediaType"].(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blobs[digestOf(layer)] = layer
	l.tags[tag] = tagged{text, kind}
	l.tags[digestOf(text)] = tagged{text, kind}
}

func (l *liar) setFault(fault func(http.ResponseWriter, *http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

// requests are those whose path has a word.
func (l *liar) requests(word string) (found []*http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.asked {
		if strings.Contains(r.URL.Path, word) {
			found = append(found, r)
		}
	}
	return found
}

func (l *liar) serve(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	fault := l.fault
	l.asked = append(l.asked, r)
	is, isTag := l.tags[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
	blob, isBlob := l.blobs[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
	l.mu.Unlock()
	switch {
	case fault != nil && fault(w, r):
	case strings.Contains(r.URL.Path, "/manifests/") && isTag:
		w.Header().Set("Content-Type", is.kind)
		w.Header().Set("Docker-Content-Digest", digestOf(is.manifest))
		_, _ = w.Write(is.manifest)
	case strings.Contains(r.URL.Path, "/blobs/") && isBlob:
		w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		_, _ = w.Write(blob)
	default:
		http.NotFound(w, r)
	}
}

// newLiarFixture has the source "shop" in a registry that lies, and a good artifact with the tag good.
func newLiarFixture(t *testing.T) (*registryFixture, *liar) {
	t.Helper()
	f, l := &registryFixture{fixture: newFixture(t)}, newLiar(t)
	l.push("good", tgz(map[string]string{"a": "good"}), nil)
	f.console.setService("good", "tag:good")
	f.setSpec(&consolev1.SourceSpec{Oci: &consolev1.OCISource{
		Url: "oci://" + strings.TrimPrefix(l.URL, "http://") + "/team/shop", Interval: durationpb.New(seldom),
		Insecure: true,
	}})
	return f, l
}

// TestRegistriesThatLieAreToldAndOtherArtifactsGoOn: each has its words at the source, and nothing of it is published.
func TestRegistriesThatLieAreToldAndOtherArtifactsGoOn(t *testing.T) {
	t.Parallel()
	good := tgz(map[string]string{"a": "1"})
	bomb := func() []byte {
		var b bytes.Buffer
		gz := gzip.NewWriter(&b)
		w := tar.NewWriter(gz)
		zeros := make([]byte, 30<<20)
		for i := range 10 {
			_ = w.WriteHeader(&tar.Header{Name: fmt.Sprint(i), Size: int64(len(zeros)), Typeflag: tar.TypeReg})
			_, _ = w.Write(zeros)
		}
		_ = w.Close()
		_ = gz.Close()
		return b.Bytes()
	}
	change := func(key string, value any) func(map[string]any) {
		return func(m map[string]any) { m["layers"].([]any)[0].(map[string]any)[key] = value }
	}
	onBlob := func(answer http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, digestOf(good)) {
				return false
			}
			answer(w, r)
			return true
		}
	}
	for name, tc := range map[string]struct {
		lie  func(l *liar)
		says []string
	}{
		"another layer": {func(l *liar) {
			l.push("bad", good, nil)
			other := tgz(map[string]string{"a": "2"})
			l.setFault(onBlob(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(other) }))
		}, []string{"came with the digest sha256:"}},
		"a shorter length": {func(l *liar) { l.push("bad", good, change("size", 10)) }, []string{"the manifest says 10"}},
		"a longer length":  {func(l *liar) { l.push("bad", good, change("size", 10_000)) }, []string{"the manifest says 10000"}},
		"a huge layer":     {func(l *liar) { l.push("bad", good, change("size", 500<<20)) }, []string{"500 MiB", "limit is 100 MiB"}},
		"an endless layer": {func(l *liar) {
			l.push("bad", good, nil)
			l.setFault(onBlob(func(w http.ResponseWriter, _ *http.Request) {
				for range 1000 {
					if _, err := w.Write(good); err != nil {
						return
					}
				}
			}))
		}, []string{"the manifest says"}},
		"a layer that is not there": {func(l *liar) { l.push("bad", good, change("digest", digestOf([]byte("none")))) }, []string{"404", "which the manifest names, is not there"}},
		"a cut layer": {func(l *liar) {
			l.push("bad", good, nil)
			l.setFault(onBlob(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(good)))
				_, _ = w.Write(good[:10])
			}))
		}, []string{"ends early"}},
		"another manifest": {func(l *liar) {
			l.push("bad", good, nil)
			l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/bad") {
					return false
				}
				w.Header().Set("Docker-Content-Digest", digestOf([]byte("other")))
				return true
			})
			l.mu.Lock()
			l.tags[digestOf([]byte("other"))] = l.tags["bad"]
			l.mu.Unlock()
		}, []string{"sent a manifest with the digest"}},
		"a wrong type":            {func(l *liar) { l.push("bad", good, func(m map[string]any) { m["mediaType"] = "text/html" }) }, []string{`"text/html"`, "no manifest"}},
		"a manifest and an index": {func(l *liar) { l.push("bad", good, func(m map[string]any) { m["manifests"] = []any{} }) }, []string{"an index, too"}},
		"a large manifest":        {func(l *liar) { l.push("bad", good, func(m map[string]any) { m["x"] = strings.Repeat("x", 5<<20) }) }, []string{"limit of 4 MiB"}},
		"a layer elsewhere":       {func(l *liar) { l.push("bad", good, change("urls", []string{"http://192.0.2.1/"})) }, []string{"another place"}},
		"no digest":               {func(l *liar) { l.push("bad", good, change("digest", "sha256:../../x")) }, []string{"not a digest"}},
		"two layers": {func(l *liar) {
			l.push("bad", good, func(m map[string]any) { m["layers"] = []any{layerOf(good), layerOf(good)} })
		}, []string{"2 layers of type " + fluxContent}},
		"a way out":                     {func(l *liar) { l.push("bad", tgz(map[string]string{"../../etc/passwd": "x"}), nil) }, []string{"leads out of"}},
		"a link":                        {func(l *liar) { l.push("bad", linked(), nil) }, []string{"is a link or a device"}},
		"a bomb":                        {func(l *liar) { l.push("bad", bomb(), nil) }, []string{"limit of 256 MiB"}},
		"a web page":                    {func(l *liar) { l.push("bad", []byte("<html>"), nil) }, []string{"no tar archive"}},
		"a layer that was packed short": {func(l *liar) { l.push("bad", good[:len(good)/2], nil) }, []string{"can't be used", "unexpected EOF"}},
		"a layer of headers":            {func(l *liar) { l.push("bad", headers(), nil) }, []string{"unpacks to more than"}},
		"a manifest of millions": {func(l *liar) {
			l.push("bad", good, func(m map[string]any) { m["layers"] = make([]struct{}, 1_000_000) })
		}, []string{"more than the limit of 50000 values"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l := newLiarFixture(t)
			tc.lie(l)
			f.console.setService("web", "tag:bad")
			n := f.one()
			f.problem(append(tc.says, "bad", `service "web"`, "Nothing of it is published")...)
			f.resolved("tag:good", "tag:good@")
			n.resolve("tag:good", "")
			if h := headOf(f.console.status(), "tag:bad"); h != nil {
				t.Errorf("published: %v", h)
			}
		})
	}
}

// headers are an archive of nothing but extended headers that follow each other.
func headers() []byte {
	var one bytes.Buffer
	w := tar.NewWriter(&one)
	_ = w.WriteHeader(&tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"FAIRLEAD.x": strings.Repeat("x", 900<<10)}}) // to memory
	pax := one.Bytes()[:one.Len()-512]
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	for range 600 {
		_, _ = gz.Write(pax)
	}
	_ = w.Close()
	_, _ = gz.Write(one.Bytes())
	_ = gz.Close()
	return b.Bytes()
}

// TestRegistryThatLostALayerStopsNothingElse: several services may follow it, by its tag and by a range.
func TestRegistryThatLostALayerStopsNothingElse(t *testing.T) {
	t.Parallel()
	f, l := newLiarFixture(t)
	l.push("1.0.0", tgz(map[string]string{"a": "1"}), func(m map[string]any) {
		m["layers"].([]any)[0].(map[string]any)["digest"] = digestOf([]byte("none"))
	})
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		_, _ = w.Write([]byte(`{"tags": ["1.0.0"]}`))
		return true
	})
	f.console.setService("exact", "tag:1.0.0")
	f.console.setService("range", "semver:^1")
	n := f.one()
	f.problem("which the manifest names, is not there", `service "exact"`)
	f.resolved("tag:good", "tag:good@")
	n.polled()
	n.resolve("tag:good", "")
}

// registryCharts has the source "shop" be of charts, in a registry that lies.
func (f *registryFixture) registryCharts(l *liar) {
	f.setSpec(&consolev1.SourceSpec{Helm: &consolev1.HelmSource{
		Url: "oci://" + strings.TrimPrefix(l.URL, "http://") + "/team", Interval: durationpb.New(seldom),
		Insecure: true,
	}})
}

// TestRegistryThatRefusesAChartIsNotOneWithoutIt: what nobody may read is another fault than what is not there.
func TestRegistryThatRefusesAChartIsNotOneWithoutIt(t *testing.T) {
	t.Parallel()
	f, l := newLiarFixture(t)
	l.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	f.console.setService("good", catalog.ChartRef("secret", "1.0.0"))
	f.registryCharts(l)
	n := f.one()
	f.problem("403")
	if got := f.console.status().GetProblem().GetRefProblems(); len(got) != 1 || got[0].GetMissing() {
		t.Errorf("it counts as missing: %v", got)
	}
	if _, _, err := packed(t.Context(), n.sources, "good", catalog.ChartRef("secret", "2.0.0")); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a look gives %v", err)
	}
}

// TestRegistryIsNotAskedOutsideOfItsSource: neither for a chart nor for a tag whose name leads out.
func TestRegistryIsNotAskedOutsideOfItsSource(t *testing.T) {
	t.Parallel()
	f, l := newLiarFixture(t)
	n := f.one()
	f.resolved("tag:good", "tag:good@")
	if _, _, err := packed(t.Context(), n.sources, "good", "tag:../../../other/manifests/1"); err == nil {
		t.Error("a tag that leads out is taken")
	}
	f.console.setService("good", catalog.ChartRef("good", "1.0.0"))
	f.registryCharts(l)
	f.problem(`chart "good"`)
	if _, _, err := packed(t.Context(), n.sources, "good", catalog.ChartRef("../../other/private", "1.0.0")); err == nil || !strings.Contains(err.Error(), "is not a name of a chart") {
		t.Errorf("a chart that leads out gives %v", err)
	}
	if got := l.requests("other"); len(got) != 0 {
		t.Errorf("%s is asked for", got[0].URL)
	}
}

// TestListOfTagsThatBreaksOffIsNotAMissingRepository: the head stays, and nothing says that its tag is gone.
func TestListOfTagsThatBreaksOffIsNotAMissingRepository(t *testing.T) {
	t.Parallel()
	f, l := newLiarFixture(t)
	l.push("1.0.0", tgz(map[string]string{"a": "1"}), nil)
	var broken atomic.Bool
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/tags/list"):
			return false
		case r.URL.Query().Has("last") && broken.Load():
			http.NotFound(w, r)
		case r.URL.Query().Has("last"):
			_, _ = w.Write([]byte(`{"tags": ["1.0.0"]}`))
		default:
			w.Header().Set("Link", `</v2/team/shop/tags/list?last=0.9.0>; rel="next"`)
			_, _ = w.Write([]byte(`{"tags": ["0.9.0"]}`))
		}
		return true
	})
	f.console.setService("range", "semver:^1")
	n := f.one()
	first := f.resolved("semver:^1", "tag:1.0.0@")
	broken.Store(true)
	n.refresh()
	f.problem("breaks off", "after 1 page ", `service "range"`)
	if text := f.console.status().GetProblem().GetMessage(); strings.Contains(text, "gone") {
		t.Errorf("the problem is %q", text)
	}
	if got := headOf(f.console.status(), "semver:^1"); got.GetRevision().GetCommit() != first.GetRevision().GetCommit() {
		t.Errorf("the head is %v", got)
	}
	broken.Store(false)
	n.refresh()
	f.problem()
}

// TestEndlessTagsAreAnError: a part of a list may lack the highest version, so it moves no head.
func TestEndlessTagsAreAnError(t *testing.T) {
	t.Parallel()
	f, l := newLiarFixture(t)
	f.console.setService("web", "semver:^1")
	for name, tc := range map[string]struct {
		link func() string
		says string
	}{
		"a circle":     {func() string { return `</v2/team/shop/tags/list?last=a>; rel="next"` }, "has no end"},
		"another host": {func() string { return `<http://192.0.2.1/v2/team/shop/tags/list>; rel="next"` }, "goes on at another host"},
	} {
		l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/tags/list") {
				w.Header().Set("Link", tc.link())
				_, _ = w.Write([]byte(`{"tags": ["1.0.0"]}`))
				return true
			}
			return false
		})
		n := f.one()
		f.problem(tc.says)
		if headOf(f.console.status(), "semver:^1") != nil {
			t.Errorf("%s: a head of a part of a list is published", name)
		}
		n.stop()
	}
}

// TestCredentialsStayWithTheRegistry: neither a redirect nor a token service elsewhere gets them.
func TestCredentialsStayWithTheRegistry(t *testing.T) {
	t.Parallel()
	f, l := newLiarFixture(t)
	elsewhere := newLiar(t)
	layer := tgz(map[string]string{"a": "far"})
	l.push("far", layer, nil)
	elsewhere.push("far", layer, nil)
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if _, _, ok := r.BasicAuth(); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if strings.HasSuffix(r.URL.Path, digestOf(layer)) {
			http.Redirect(w, r, elsewhere.URL+"/blobs/"+digestOf(layer)+"?signed=1", http.StatusTemporaryRedirect)
			return true
		}
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			http.Redirect(w, r, elsewhere.URL+"/tags/list", http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	elsewhere.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/tags/list" || r.URL.RawQuery != "" {
			return false
		}
		w.Header().Set("Link", `</tags/list?last=a>; rel="next"`)
		_, _ = w.Write([]byte(`{"tags": ["1.0.0"]}`))
		return true
	})
	f.console.setSecret("login", map[string]string{"username": "ada", "password": "hush-hush"})
	f.setSpec(&consolev1.SourceSpec{Oci: &consolev1.OCISource{
		Url: "oci://" + strings.TrimPrefix(l.URL, "http://") + "/team/shop", Interval: durationpb.New(seldom),
		Insecure: true, Secret: "login",
	}})
	f.console.setService("far", "tag:far")
	f.console.setService("range", "semver:^1")
	n := f.one()
	f.resolved("tag:far", "tag:far@")
	f.problem("goes on at another host")
	if files := n.filesOf("tag:far", ""); files["a"] != "far" {
		t.Errorf("the artifact has %v", files)
	}
	for _, r := range elsewhere.requests("") {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s came with %v", r.URL, r.Header)
		}
	}
	l.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="x"`, elsewhere.URL))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	before := len(elsewhere.requests(""))
	n.refresh()
	f.problem("wants a token of", "tokenHosts")
	if got := len(elsewhere.requests("")); got != before {
		t.Errorf("%d requests went elsewhere", got-before)
	}
	f.resolved("tag:far", "tag:far@")
}

// TestRegistryThatThrottlesIsLeftAlone, and the tag is no news then.
func TestRegistryThatThrottlesIsLeftAlone(t *testing.T) {
	t.Parallel()
	f, l := newLiarFixture(t)
	n := f.one()
	f.resolved("tag:good", "tag:good@")
	l.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	n.refresh()
	f.problem("too many requests")
	l.setFault(nil)
	asked := len(l.requests(""))
	n.refresh()
	f.problem("too many requests")
	if got := len(l.requests("")); got != asked {
		t.Errorf("%d requests although it asked to be left alone", got-asked)
	}
	n.resolve("tag:good", "")
}

// TestKillNineDuringALayerLeavesNothingHalf: the next process serves what there was, and downloads again.
func TestKillNineDuringALayerLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	f, l := newLiarFixture(t)
	dir := t.TempDir()
	n, kill := f.spawn(dir)
	first := f.resolved("tag:good", "tag:good@").GetResolvedRef()
	layer := tgz(map[string]string{"a": "two"})
	l.push("good", layer, nil)
	started, resume := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(release)
	l.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, digestOf(layer)) {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
		_, _ = w.Write(layer[:len(layer)-10])
		_ = http.NewResponseController(w).Flush()
		select {
		case started <- struct{}{}:
		default:
		}
		<-resume
		return true
	})
	n.refresh()
	<-started
	kill()
	again, _ := f.spawn(dir)
	if files := again.filesOf("tag:good", ""); files["a"] != "good" {
		t.Errorf("the artifact has %v", files)
	}
	l.setFault(nil)
	release()
	again.refresh()
	await.NoError(t, "the new layer is published", func() error {
		if got := headOf(f.console.status(), "tag:good").GetResolvedRef(); got == first {
			return errors.New("it is " + got)
		}
		return nil
	})
	if files := again.filesOf("tag:good", ""); files["a"] != "two" {
		t.Errorf("the artifact has %v", files)
	}
}

// TestHandOverOfArtifactsDownloadsNothingAnew: the other replica has a copy.
func TestHandOverOfArtifactsDownloadsNothingAnew(t *testing.T) {
	t.Parallel()
	f, l := newFleet(t, 1), newLiar(t)
	l.push("one", tgz(map[string]string{"a": "1"}), nil)
	f.console.mu.Lock()
	f.console.sources["s00"].Spec = &consolev1.SourceSpec{Oci: &consolev1.OCISource{
		Url: "oci://" + strings.TrimPrefix(l.URL, "http://") + "/team/shop", Interval: durationpb.New(seldom),
		Insecure: true,
	}}
	catalog.SetRef(f.console.services["web-s00"].Spec, "tag:one")
	f.console.services["web-s00"].Spec.Path = ""
	f.console.mu.Unlock()
	a := f.begin("a")
	await.NoError(t, "the artifact is published", func() error {
		if headOf(f.console.statusOf("s00"), "tag:one") == nil {
			return errors.New("it is not")
		}
		return nil
	})
	b := f.begin("b")
	b.settled(2)
	owner, other := "a", b
	if a.listShards("")[0].GetOwner() == "b" {
		owner, other = "b", a
	}
	f.end(owner)
	await.NoError(t, "the other replica owns the source", func() error {
		if got := other.listShards("")[0].GetOwner(); got == owner || got == "" {
			return errors.New("its owner is " + got)
		}
		return nil
	})
	asked := len(l.requests("/manifests/one"))
	await.NoError(t, "it polls", func() error {
		if len(l.requests("/manifests/one")) > asked {
			return nil
		}
		_, err := other.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: "s00"})
		return errors.Join(errors.New("not yet"), err)
	})
	l.push("one", tgz(map[string]string{"a": "2"}), nil)
	await.NoError(t, "what is pushed then is published", func() error {
		if len(l.requests("/blobs/")) > 1 {
			return nil
		}
		_, err := other.sources.RefreshSource(t.Context(), &gitcachev1.RefreshSourceRequest{Name: "s00"})
		return errors.Join(errors.New("not yet"), err)
	})
	if got := len(l.requests("/blobs/")); got != 2 {
		t.Errorf("%d downloads of two layers", got)
	}
}
