package artifact

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/singleflight"

	"fairlead.dev/platform/artifact/internal/patient"
)

// Path is where artifacts are served, below a service's URL: Path + digest.
const Path = "/v1/artifacts/"

// AuthorizeFunc says whether the caller of a request may have an artifact. Any error is answered as
// if the artifact did not exist, so that nobody learns of other people's.
type AuthorizeFunc func(*http.Request, Digest) error

// Handler serves the store's artifacts at Path: GET and HEAD; zstd, gzip or identity; one range of the
// identity bytes, which are the same on every replica.
func (s *Store) Handler(authorize AuthorizeFunc) http.Handler {
	return &handler{store: s, authorize: authorize}
}

// FillHandler is Handler that fills what is missing with fetch. Where there is no space for it, bytes
// are passed through.
func (s *Store) FillHandler(authorize AuthorizeFunc, fetch FetchFunc) http.Handler {
	return &handler{store: s, authorize: authorize, fetch: fetch, fills: &s.fills}
}

// FillApartHandler is FillHandler for a fetch that may say something else than the others do: its callers
// wait for no fill of theirs.
func (s *Store) FillApartHandler(authorize AuthorizeFunc, fetch FetchFunc) http.Handler {
	return &handler{store: s, authorize: authorize, fetch: fetch, fills: new(singleflight.Group)}
}

type handler struct {
	store     *Store
	authorize AuthorizeFunc
	fetch     FetchFunc // nil: a miss is not found
	fills     *singleflight.Group
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "artifacts can be read only", http.StatusMethodNotAllowed)
		return
	}
	d, err := ParseDigest(strings.TrimPrefix(r.URL.Path, Path))
	if err == nil {
		err = h.authorize(r, d)
	}
	if err != nil {
		answerError(w, ErrNotFound)
		return
	}
	b, err := h.openArtifact(r.Context(), d)
	switch {
	case err == nil:
		defer func() { _ = b.Close() }() // opened for reading: nothing to lose
		serveBlob(w, r, b)
	case errors.Is(err, ErrNoSpace):
		h.passThrough(w, r, d)
	default:
		answerError(w, err)
	}
}

func (h *handler) openArtifact(ctx context.Context, d Digest) (*Blob, error) {
	if h.fetch == nil {
		return h.store.Open(d)
	}
	return h.store.fillIn(ctx, h.fills, d, h.fetch)
}

func answerError(w http.ResponseWriter, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if errors.Is(err, ErrNotFound) {
		http.Error(w, "artifact not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Retry-After", "5")
	http.Error(w, "artifact can't be had right now, ask again", http.StatusServiceUnavailable)
}

// setHeaders sets what all representations have in common. A digest's content never changes.
func setHeaders(w http.ResponseWriter, d Digest, enc encoding) {
	h := w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding, Authorization")
	h.Set("Accept-Ranges", "bytes")
	h.Set("X-Content-Type-Options", "nosniff")
	if enc == encodingIdentity {
		h.Set("Etag", digestETag(d))
		return
	}
	// Compressed bytes differ between replicas: the validator is weak.
	h.Set("Etag", "W/"+digestETag(d))
	h.Set("Content-Encoding", string(enc))
}

func digestETag(d Digest) string { return `"` + string(d) + `"` }

// isFresh says whether the caller has this content already.
func isFresh(r *http.Request, d Digest) bool {
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == digestETag(d) {
			return true
		}
	}
	return false
}

func serveBlob(w http.ResponseWriter, r *http.Request, b *Blob) {
	enc := pickEncoding(r.Header.Get("Accept-Encoding"))
	span, ranged := wantedRange(r, b.Digest())
	if ranged {
		enc = encodingIdentity
		select {
		case b.store.ranges <- struct{}{}:
			defer func() { <-b.store.ranges }()
		default:
			tooManyRanges(w)
			return
		}
	}
	setHeaders(w, b.Digest(), enc)
	if isFresh(r, b.Digest()) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	switch {
	case ranged:
		serveRange(w, r, b, b, b.Size(), span)
	case enc == encodingZstd:
		w.Header().Set("Content-Length", strconv.FormatInt(b.good.stored, 10))
		sendStored(w, r, b)
	case enc == encodingIdentity:
		w.Header().Set("Content-Length", strconv.FormatInt(b.Size(), 10))
		sendBody(w, r, b)
	default:
		sendEncoded(w, r, enc, b)
	}
}

func tooManyRanges(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many parts of artifacts are asked for: ask again, or for the whole", http.StatusTooManyRequests)
}

// passThrough serves an artifact that can be stored nowhere. Few do at once: each has it made for itself.
func (h *handler) passThrough(w http.ResponseWriter, r *http.Request, d Digest) {
	ctx, cancel := context.WithTimeout(r.Context(), passingTime)
	defer cancel()
	select {
	case h.store.passing <- struct{}{}:
		defer func() { <-h.store.passing }()
	case <-ctx.Done():
		answerError(w, ctx.Err())
		return
	}
	body, err := h.fetch(r.Context(), d)
	if err != nil {
		answerError(w, err)
		return
	}
	defer func() { _ = body.Close() }()
	enc := pickEncoding(r.Header.Get("Accept-Encoding"))
	setHeaders(w, d, enc)
	w.Header().Del("Accept-Ranges")
	if isFresh(r, d) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	sendEncoded(w, r, enc, body)
}

// sendEncoded compresses on the way.
func sendEncoded(w http.ResponseWriter, r *http.Request, enc encoding, body io.Reader) {
	if r.Method == http.MethodHead {
		return
	}
	to := patient.New(w, r)
	var out io.WriteCloser
	var err error
	switch enc {
	case encodingGzip:
		out = gzip.NewWriter(to)
	case encodingZstd:
		out, err = newEncoder(to)
	default:
		out = plainWriter{to}
	}
	if err == nil {
		err = copyHeldBack(out, body)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	to.Finish()
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }
