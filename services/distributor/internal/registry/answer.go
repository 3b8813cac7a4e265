package registry

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Codes of errors. UNAVAILABLE is not in the specification; clients go by the status.
const (
	codeNoManifest  = "MANIFEST_UNKNOWN"
	codeTooMany     = "TOOMANYREQUESTS"
	codeUnavailable = "UNAVAILABLE"
)

// failure is an error as OCI has it.
type failure struct {
	status  int
	code    string
	message string
}

func (f *failure) Error() string { return f.message }

var (
	errNoName = &failure{
		http.StatusNotFound, "NAME_UNKNOWN",
		"no such repository: those of the hub are services/NAME, for each service that you may view (`fairlead get services`)",
	}
	errReadOnly = &failure{
		http.StatusMethodNotAllowed, "UNSUPPORTED", "the hub's repositories can be read only: a service is made of its source",
	}
	errTooMany = &failure{http.StatusTooManyRequests, codeTooMany, "too many downloads at once: ask again"}
	errAway    = &failure{http.StatusServiceUnavailable, codeUnavailable, "the content can't be had right now: ask again"}
	errNoToken = &failure{
		http.StatusUnauthorized, "UNAUTHORIZED",
		"no valid token: log in with any user name and an API token of the hub as the password (`fairlead token create`)",
	}
)

// retryAfter is when to ask again, in seconds.
const retryAfter = "5"

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	f := failureOf(err)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfter)
	}
	type one struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	text := encode(struct {
		Errors []one `json:"errors"`
	}{[]one{{f.code, f.message}}})
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(f.status)
	_, _ = w.Write(text) // fails if the caller is gone
}

func writeJSON(w http.ResponseWriter, r *http.Request, mediaType string, text []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // fails if the caller is gone
	}
}

// encode is for values that can always be encoded.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// place is what a path is about.
type place struct {
	service   string
	kind      string // manifests, blobs, tags or referrers
	reference string // a tag or a digest; of tags: list
}

// parsePath reads /v2/services/NAME/KIND/REFERENCE.
func parsePath(path string) (place, bool) {
	parts := strings.Split(strings.TrimPrefix(path, Path), "/")
	if len(parts) != 4 || parts[0] != "services" || slices.Contains(parts, "") {
		return place{}, false
	}
	at := place{parts[1], parts[2], parts[3]}
	switch at.kind {
	case "manifests", "blobs", "referrers":
		return at, true
	case "tags":
		return at, at.reference == "list"
	}
	return place{}, false
}

// pageOf cuts a sorted list: n entries after last. next is the query of the rest; empty: there is none.
func pageOf(all []string, query url.Values) (page []string, next string, ok bool) {
	page = all
	if last := query.Get("last"); last != "" {
		page = page[countUpTo(page, last):]
	}
	if page == nil {
		page = []string{} // a list, not null
	}
	if !query.Has("n") {
		return page, "", true
	}
	n, err := strconv.Atoi(query.Get("n"))
	if err != nil || n < 0 {
		return nil, "", false
	}
	if n == 0 || n >= len(page) {
		return page[:min(n, len(page))], "", true
	}
	return page[:n], url.Values{"n": {strconv.Itoa(n)}, "last": {page[n-1]}}.Encode(), true
}

// countUpTo is how many of a sorted list do not come after last.
func countUpTo(sorted []string, last string) int {
	i, found := slices.BinarySearch(sorted, last)
	if found {
		i++
	}
	return i
}
