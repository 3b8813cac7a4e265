// Package registry serves what services are delivered to clients of registries, such as ORAS and Flux, under the
// distribution API of OCI (distribution-spec 1.1), for reading.
//
// The repository services/NAME is a service, to callers who may view it; to others it does not exist. Its tags are
// latest and the id of the service's commit, both the same manifest: what is delivered now. By digest what was
// delivered just before is there, too, for a client that is about to download it.
//
// A manifest is a function of the artifact, and of nothing else: not of the commit, the time or the replica. Its only
// layer is the artifact as artifact.ServeLayer gives it. So every replica has the same digests, and a commit that
// changes nothing in the folder is no news.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/shares"
	"fairlead.dev/services/distributor/internal/plan"
)

// Path is where the API is.
const Path = "/v2/"

const (
	// callsPerCaller are under way at once: a client has one to five, and a controller pulls for several resources at a
	// time.
	callsPerCaller = 16
	// mostLayers are sent at once to all callers: each takes a core for a few hundred MiB a second, and agents come
	// first.
	mostLayers = 16
	// layersPerCaller of them are one caller's, so that no caller has all of them.
	layersPerCaller = 4
	// latest is the tag of what is delivered now.
	latest = "latest"
	// untilWhen says of digests how long they are there.
	untilWhen = "there is what the service is delivered now, and what it was delivered just before"
)

// Deps is what a registry works with.
type Deps struct {
	// Held is what a service is delivered, and whether there is such a service for the caller. Held records callers that
	// ask for services of others.
	Held func(r *http.Request, service string) (held plan.Held, exists bool, err error)
	// Open opens an artifact that a service holds. The caller closes it.
	Open func(ctx context.Context, d artifact.Digest) (*artifact.Blob, error)
	// Read is told of a layer before it is sent.
	Read func(r *http.Request, service string, d artifact.Digest)
	// Away counts requests that are turned away.
	Away func()
}

// Registry is made by New.
type Registry struct {
	deps   Deps
	calls  *shares.Shares // by caller
	sent   *shares.Shares // layers, by caller
	layers chan struct{}  // places of layers that are sent
	known  *manifests
}

// New returns a registry; it serves Path.
func New(deps Deps) *Registry {
	return &Registry{
		deps: deps, calls: shares.New(callsPerCaller), known: newManifests(),
		sent: shares.New(layersPerCaller), layers: make(chan struct{}, mostLayers),
	}
}

// ServeHTTP implements http.Handler.
func (g *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Docker-Distribution-Api-Version", "registry/2.0")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		fail(w, errReadOnly)
		return
	}
	if r.URL.Path == Path {
		writeJSON(w, r, "application/json", []byte("{}"))
		return
	}
	id, _ := identity.FromContext(r.Context())
	if !g.calls.Take(id.Subject(), 1) {
		g.deps.Away()
		fail(w, errTooMany)
		return
	}
	defer g.calls.Give(id.Subject(), 1)
	if err := g.serve(w, r); err != nil {
		fail(w, err)
	}
}

// serve answers a request about a service, or returns why not, with nothing written yet.
func (g *Registry) serve(w http.ResponseWriter, r *http.Request) error {
	at, ok := parsePath(r.URL.Path)
	if !ok {
		return errNoName
	}
	held, exists, err := g.deps.Held(r, at.service)
	switch {
	case err != nil:
		return &failure{http.StatusServiceUnavailable, codeUnavailable, err.Error() + ": ask again"}
	case !exists:
		return errNoName
	}
	switch at.kind {
	case "manifests":
		return g.manifest(w, r, held, at.reference)
	case "blobs":
		return g.blob(w, r, at.service, held, at.reference)
	case "tags":
		return serveTags(w, r, at.service, held)
	}
	// Nothing refers to a manifest: signatures are of sources, and of what is in them.
	writeJSON(w, r, mediaTypeIndex, []byte(noReferrers))
	return nil
}

func (g *Registry) manifest(w http.ResponseWriter, r *http.Request, held plan.Held, reference string) error {
	m, err := g.find(r.Context(), held, reference)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Docker-Content-Digest", string(m.digest))
	h.Set("Etag", `"`+string(m.digest)+`"`)
	h.Set("Vary", "Authorization")
	h.Set("Cache-Control", "private, no-cache") // grants may change, and where a tag points
	if has(r, m.digest) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	writeJSON(w, r, mediaTypeManifest, m.text)
	return nil
}

// find returns the manifest of a tag or digest.
func (g *Registry) find(ctx context.Context, held plan.Held, reference string) (*manifest, error) {
	d, err := artifact.ParseDigest(reference)
	if err != nil {
		if held.Artifact == "" {
			return nil, &failure{http.StatusNotFound, codeNoManifest, "nothing was delivered to the service yet"}
		}
		if reference == latest || reference == held.Commit {
			return g.manifestOf(ctx, held.Artifact)
		}
		return nil, &failure{
			http.StatusNotFound, codeNoManifest,
			fmt.Sprintf("no tag %.128q: the service has %q, which is delivered now, and %q", reference, held.Commit, latest),
		}
	}
	_, m, err := g.search(ctx, held, func(m *manifest) bool { return m.digest == d })
	if m == nil && err == nil {
		err = &failure{http.StatusNotFound, codeNoManifest, "no manifest of this digest: " + untilWhen}
	}
	return m, err
}

// search finds the artifact of a service whose manifest fits; nil: it has none. An artifact that can't be had now is in
// no other's way.
func (g *Registry) search(
	ctx context.Context, held plan.Held, fits func(*manifest) bool,
) (artifact.Digest, *manifest, error) {
	var away error
	for _, a := range held.All() {
		m, err := g.manifestOf(ctx, a)
		switch {
		case err != nil:
			away = err
		case fits(m):
			return a, m, nil
		}
	}
	return "", nil, away
}

func (g *Registry) blob(w http.ResponseWriter, r *http.Request, service string, held plan.Held, digest string) error {
	d, err := artifact.ParseDigest(digest)
	if err != nil {
		return &failure{http.StatusBadRequest, "DIGEST_INVALID", err.Error()}
	}
	if d == configDigest() {
		w.Header().Set("Docker-Content-Digest", string(d))
		writeJSON(w, r, "application/octet-stream", []byte(config))
		return nil
	}
	a, m, err := g.search(r.Context(), held, func(m *manifest) bool { return m.layer == d })
	switch {
	case err != nil:
		return err
	case m == nil:
		return &failure{http.StatusNotFound, "BLOB_UNKNOWN", "no blob of this digest: " + untilWhen}
	}
	return g.layer(w, r, service, a, d)
}

// layer sends an artifact as a layer.
func (g *Registry) layer(w http.ResponseWriter, r *http.Request, service string, a, d artifact.Digest) error {
	id, _ := identity.FromContext(r.Context())
	if !g.sent.Take(id.Subject(), 1) {
		g.deps.Away()
		return errTooMany
	}
	defer g.sent.Give(id.Subject(), 1)
	select {
	case g.layers <- struct{}{}:
		defer func() { <-g.layers }()
	default:
		g.deps.Away()
		return errTooMany
	}
	b, err := g.open(r.Context(), a)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }() // opened for reading: nothing to lose
	if r.Method == http.MethodGet && !has(r, d) {
		g.deps.Read(r, service, d)
	}
	w.Header().Set("Docker-Content-Digest", string(d))
	artifact.ServeLayer(w, r, b, d)
	return nil
}

// open opens an artifact that a service holds: if it can't be had, it can later.
func (g *Registry) open(ctx context.Context, d artifact.Digest) (*artifact.Blob, error) {
	b, err := g.deps.Open(ctx, d)
	if err != nil {
		return nil, errAway
	}
	return b, nil
}

func serveTags(w http.ResponseWriter, r *http.Request, service string, held plan.Held) error {
	var tags []string
	if held.Artifact != "" {
		tags = []string{held.Commit, latest}
		slices.Sort(tags)
	}
	page, next, ok := pageOf(tags, r.URL.Query())
	if !ok {
		return &failure{http.StatusBadRequest, "PAGINATION_NUMBER_INVALID", "n must be a number that is not negative"}
	}
	if next != "" {
		w.Header().Set("Link", fmt.Sprintf("<%sservices/%s/tags/list?%s>; rel=\"next\"", Path, service, next))
	}
	writeJSON(w, r, "application/json", encode(struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{"services/" + service, page}))
	return nil
}

// has says whether the caller has the content of a digest already.
func has(r *http.Request, d artifact.Digest) bool {
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == "*" || tag == `"`+string(d)+`"` {
			return true
		}
	}
	return false
}

// Bearer takes a token that came as the password of a login, whatever the user name: it is how clients of registries
// send one.
func Bearer(r *http.Request) *http.Request {
	_, token, ok := r.BasicAuth()
	if !ok || len(r.Header["Authorization"]) != 1 {
		return r
	}
	with := r.WithContext(r.Context())
	with.Header = r.Header.Clone()
	with.Header.Set("Authorization", "Bearer "+token)
	return with
}

// Refuse says in the form of OCI why a request may not pass.
func Refuse(w http.ResponseWriter, _ *http.Request, err *connect.Error) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	switch err.Code() {
	case connect.CodePermissionDenied:
		fail(w, &failure{http.StatusForbidden, "DENIED", err.Message()})
	case connect.CodeResourceExhausted:
		fail(w, &failure{http.StatusTooManyRequests, codeTooMany, err.Message()})
	case connect.CodeUnavailable:
		const message = "the console can't be asked about this token now: try again"
		fail(w, &failure{http.StatusServiceUnavailable, codeUnavailable, message})
	default:
		w.Header().Set("WWW-Authenticate", `Basic realm="fairlead"`)
		fail(w, errNoToken)
	}
}

// failureOf is what an error is answered with.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return errAway
}
