// Package charttest is a repository of Helm charts over HTTP for tests: packages, and an index.yaml as `helm repo
// index` writes it.
package charttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Repository is a running server. URL is that of the repository.
type Repository struct {
	*httptest.Server

	mu       sync.Mutex // guards what follows
	charts   map[string][]entry
	packages map[string][]byte
	fault    func(http.ResponseWriter, *http.Request) bool
	asked    map[string]int // requests by path
	from     []*http.Request
}

type entry struct{ version, url, digest string }

// New starts a repository without charts.
func New(t testing.TB) *Repository {
	t.Helper()
	r := &Repository{charts: map[string][]entry{}, packages: map[string][]byte{}, asked: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// Package makes the package of a chart: its Chart.yaml and these files.
func Package(chart, version string, files map[string]string) []byte {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	add := func(name, text string) {
		h := &tar.Header{Name: path.Join(chart, name), Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg, ModTime: time.Now()}
		if err := w.WriteHeader(h); err != nil {
			panic(err) // the archive goes to memory
		}
		_, _ = w.Write([]byte(text))
	}
	add("Chart.yaml", fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\nappVersion: \"9.9\"\n", chart, version))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		add(name, files[name])
	}
	_ = w.Close()
	_ = gz.Close()
	return b.Bytes()
}

// Push adds a version, or puts other content in its place.
func (r *Repository) Push(chart, version string, files map[string]string) {
	r.PushPackage(chart, version, Package(chart, version, files))
}

// PushPackage adds a version whose package was made elsewhere.
func (r *Repository) PushPackage(chart, version string, tgz []byte) {
	sum, name := sha256.Sum256(tgz), chart+"-"+version+".tgz"
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packages["/"+name] = tgz
	r.list(chart, entry{version, name, hex.EncodeToString(sum[:])})
}

// PushFile has a file of its own beside the packages, such as a provenance file; nil: it is removed.
func (r *Repository) PushFile(name string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packages["/"+name] = content
}

// List writes a version into the index whose package is elsewhere or nowhere.
func (r *Repository) List(chart, version, url, digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list(chart, entry{version, url, digest})
}

func (r *Repository) list(chart string, e entry) {
	r.charts[chart] = append([]entry{e}, slices.DeleteFunc(r.charts[chart], func(old entry) bool { return old.version == e.version })...)
}

// Remove takes a version out of the index.
func (r *Repository) Remove(chart, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.charts[chart] = slices.DeleteFunc(r.charts[chart], func(old entry) bool { return old.version == version })
}

// SetFault has a function answer first; it tells whether it did. nil: all is well.
func (r *Repository) SetFault(fault func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = fault
}

// Count is how many requests there were for a path, such as /index.yaml.
func (r *Repository) Count(at string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[at]
}

// Downloads is how many requests there were for packages.
func (r *Repository) Downloads() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, times := range r.asked {
		if strings.HasSuffix(at, ".tgz") {
			n += times
		}
	}
	return n
}

// Requests are all that were made, in order.
func (r *Repository) Requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.from)
}

// Index is the text of index.yaml.
func (r *Repository) Index() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	b.WriteString("apiVersion: v1\nentries:\n")
	for _, chart := range slices.Sorted(maps.Keys(r.charts)) {
		fmt.Fprintf(&b, "  %s:\n", chart)
		for _, e := range r.charts[chart] {
			fmt.Fprintf(&b, "  - apiVersion: v2\n    appVersion: \"9.9\"\n    created: \"2026-01-02T03:04:05.678901234Z\"\n    description: A chart of a test\n    digest: %s\n    name: %s\n    type: application\n    urls:\n    - %s\n    version: %s\n",
				e.digest, chart, e.url, e.version)
		}
	}
	b.WriteString("generated: \"2026-01-02T03:04:05.678901234Z\"\n")
	return b.String()
}

func (r *Repository) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	fault, tgz := r.fault, r.packages[req.URL.Path]
	r.asked[req.URL.Path]++
	r.from = append(r.from, req)
	r.mu.Unlock()
	if fault != nil && fault(w, req) {
		return
	}
	switch {
	case req.URL.Path == "/index.yaml":
		text := r.Index()
		sum := sha256.Sum256([]byte(text))
		w.Header().Set("ETag", fmt.Sprintf("%q", hex.EncodeToString(sum[:8])))
		http.ServeContent(w, req, "index.yaml", time.Time{}, strings.NewReader(text))
	case tgz != nil:
		w.Header().Set("Content-Type", "application/gzip")
		http.ServeContent(w, req, path.Base(req.URL.Path), time.Time{}, bytes.NewReader(tgz))
	default:
		http.NotFound(w, req)
	}
}
