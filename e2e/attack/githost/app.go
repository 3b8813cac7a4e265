package githost

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Installation is the API of a Git host that hands out tokens of a GitHub App, each for the repositories
// that were asked for.
type Installation struct {
	mu    sync.Mutex // guards asked
	asked []string   // the repositories of each token, as they were asked for
}

// ServeHTTP implements http.Handler.
func (i *Installation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var want struct {
		Repositories []string
		Permissions  map[string]string
	}
	const longest = 64 << 10
	if err := json.NewDecoder(io.LimitReader(r.Body, longest)).Decode(&want); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	names := strings.Join(want.Repositories, ",")
	i.mu.Lock()
	i.asked = append(i.asked, fmt.Sprint(names, " ", want.Permissions))
	i.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"token":"token-for-%s","expires_at":"2099-01-01T00:00:00Z"}`, names) // the gitcache says what it makes of it
}

// Asked are the repositories and the rights of each token, in the order of the requests.
func (i *Installation) Asked() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.asked)
}
