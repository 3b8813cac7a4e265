// Package pages serves the pages of web/ to browsers.
//
// A person's address is a page of the application, whatever stands behind the host: the same document answers all of
// them, and its script shows what the address means. Files below assets/ have their content's hash in their names, and
// so never change.
package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"fairlead.dev/platform/mux/kubehttp"
)

const (
	document = "index.html"
	assets   = "assets/"
	// clusters is where the tunnel serves clusters' APIs. A person who opens such an address means the page of the
	// cluster.
	clusters = "/clusters/"
	// policy lets a page load what came with it and talk to its own host, and nothing else.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
		"worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	unbuilt = "The pages of this console were not built: run `make build` on a machine with Node 20.19 or later, and start it again. " +
		"The command `fairlead` works without them."
)

// encodings are those that the build makes beforehand, the smallest first, with the ends of the files' names.
func encodings() [][2]string { return [][2]string{{"br", ".br"}, {"gzip", ".gz"}} }

// Handler serves files, and the application's document at every address that people open.
type Handler struct {
	// files are in memory once for all requests: a reader that stalls must hold no copy.
	files map[string][]byte
	built bool
	tag   string // Of the document.
}

// New reads the built files, and returns their handler.
func New(files fs.FS) (*Handler, error) {
	h := &Handler{files: map[string][]byte{}}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		h.files[name], err = fs.ReadFile(files, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	if data, ok := h.files[document]; ok {
		h.built, h.tag = true, tagOf(data)
	}
	return h, nil
}

func tagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	switch {
	case kubehttp.IsAPI(r.URL.Path) && !isNavigation(r):
		kubehttp.NoCluster(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.NotFound(w, r)
	case h.isFile(name):
		h.file(w, r, name)
	case !isNavigation(r) || strings.HasPrefix(name+"/", assets):
		http.NotFound(w, r)
	case strings.HasPrefix(r.URL.Path, clusters):
		cluster, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, clusters), "/")
		http.Redirect(w, r, "/cluster/"+cluster, http.StatusSeeOther) //nolint:gosec // What stands first is ours, and a name has no slash.
	case !h.built:
		secure(w.Header())
		http.Error(w, unbuilt, http.StatusNotFound)
	default:
		h.page(w, r)
	}
}

// isNavigation tells a person who opens an address from a program that asks for something which is not there. The API's
// own paths are no addresses for people.
func isNavigation(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/v1/") && !strings.HasPrefix(r.URL.Path, "/fairlead.")
}

func (h *Handler) isFile(name string) bool {
	_, ok := h.files[name]
	return ok && name != document
}

func (h *Handler) file(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("Cache-Control", "no-cache")
	if strings.HasPrefix(name, assets) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.send(w, r, name)
}

func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Etag", h.tag)
	if strings.Contains(r.Header.Get("If-None-Match"), h.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.send(w, r, document)
}

// secure says what browsers must hold a document to.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
}

// send sends a file in the smallest encoding that the browser takes.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, name string) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Add("Vary", "Accept-Encoding")
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		header.Set("Content-Type", kind)
	}
	for _, encoding := range encodings() {
		if !accepts(r, encoding[0]) {
			continue
		}
		if data, ok := h.files[name+encoding[1]]; ok {
			header.Set("Content-Encoding", encoding[0])
			write(w, r, data)
			return
		}
	}
	write(w, r, h.files[name])
}

func write(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(data) // The browser may be gone.
	}
}

// accepts reads Accept-Encoding as far as browsers write it.
func accepts(r *http.Request, encoding string) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == encoding {
			return strings.ReplaceAll(weight, " ", "") != "q=0"
		}
	}
	return false
}
