package sink

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// The states of a status of a commit, as the database keeps them.
const (
	statusFetched = "fetched"
	statusApplied = "applied" // at some clusters, or not yet healthy
	statusHealthy = "healthy"
	statusFailed  = "failed"
)

const (
	// maxLink is what GitLab takes as the URL of a status, and maxKey what Bitbucket Cloud takes as the key of one, in
	// bytes.
	maxLink, maxKey = 255, 40
	// maxLimited is the longest pause that a host's limit of requests makes: GitHub counts by the hour.
	maxLimited = time.Hour
	// errTransition is what GitLab answers to a state that cannot come behind the one that the status has, such as that
	// same one.
	errTransition = "Cannot transition status via "
)

// gitHost is one sort of Git hosts, by the public documentation of its API.
type gitHost struct {
	name string // For people.
	site string // The public one; empty: there is none.
	// api is where its API is below an address, and publicAPI that of site.
	api, publicAPI string
	// description is how many characters a description may have.
	description int
	// needs is what a token must be allowed to do.
	needs string
	// states are the words of the host.
	states map[string]string
	// request returns path and body of a status behind the API's address.
	request func(s commitStatus) (path string, body map[string]string)
	// authorize puts the token into a header.
	authorize func(header http.Header, token string)
}

// commitStatus is a status to set.
type commitStatus struct {
	store.CommitStatus
	name string // at the host
	// link is to the page of the services; empty: the console has no address. commitPage is where the host shows the
	// commit.
	link, commitPage string
	// public says that it is for the host's public site.
	public bool
	word   string // of the state
}

func bearer(header http.Header, token string) { header.Set("Authorization", "Bearer "+token) }

// hostOf returns the sort of a sink's Git host.
func hostOf(spec resource.SinkSpec) gitHost {
	switch {
	case spec.GitHub != nil:
		return gitHost{
			name: "GitHub", site: "https://github.com", api: "/api/v3", publicAPI: "https://api.github.com", description: 140,
			needs:  `the permission "Commit statuses: write" (a classic token: the scope repo:status)`,
			states: map[string]string{statusFetched: "pending", statusApplied: "pending", statusHealthy: "success", statusFailed: "failure"},
			request: func(s commitStatus) (string, map[string]string) {
				return "/repos/" + escapePath(s.Repository) + "/statuses/" + s.Commit, s.body("context", "description", "target_url")
			},
			authorize: func(header http.Header, token string) {
				bearer(header, token)
				header.Set("Accept", "application/vnd.github+json")
				header.Set("X-GitHub-Api-Version", "2022-11-28")
			},
		}
	case spec.GitLab != nil:
		return gitHost{
			name: "GitLab", site: "https://gitlab.com", api: "/api/v4", publicAPI: "https://gitlab.com/api/v4", description: 255,
			needs:  "the scope api and the role Developer (Maintainer where the branch is protected)",
			states: map[string]string{statusFetched: "pending", statusApplied: "running", statusHealthy: "success", statusFailed: "failed"},
			request: func(s commitStatus) (string, map[string]string) {
				return "/projects/" + url.PathEscape(s.Repository) + "/statuses/" + s.Commit, s.body("name", "description", "target_url")
			},
			authorize: func(header http.Header, token string) { header.Set("Private-Token", token) },
		}
	case spec.Gitea != nil:
		return gitHost{
			name: "Gitea", api: "/api/v1", description: 255,
			needs:  "the scope write:repository",
			states: map[string]string{statusFetched: "pending", statusApplied: "pending", statusHealthy: "success", statusFailed: "failure"},
			request: func(s commitStatus) (string, map[string]string) {
				return "/repos/" + escapePath(s.Repository) + "/statuses/" + s.Commit, s.body("context", "description", "target_url")
			},
			authorize: func(header http.Header, token string) { header.Set("Authorization", "token "+token) },
		}
	}
	return gitHost{
		name: "Bitbucket", site: "https://bitbucket.org", api: "/rest/api/latest", publicAPI: "https://api.bitbucket.org/2.0", description: 255,
		needs:  "the permission to write to the repository",
		states: map[string]string{statusFetched: "INPROGRESS", statusApplied: "INPROGRESS", statusHealthy: "SUCCESSFUL", statusFailed: "FAILED"},
		request: func(s commitStatus) (string, map[string]string) {
			body := s.body("name", "description", "url")
			body["key"] = keyOf(s.name)
			if body["url"] == "" { // Bitbucket takes no status without
				body["url"] = s.commitPage
			}
			if s.public {
				return "/repositories/" + escapePath(s.Repository) + "/commit/" + s.Commit + "/statuses/build", body
			}
			project, name, _ := strings.Cut(s.Repository, "/")
			return "/projects/" + url.PathEscape(project) + "/repos/" + url.PathEscape(name) + "/commits/" + s.Commit + "/builds", body
		},
		authorize: bearer,
	}
}

// body is a status by the names that the host has for its fields; each host calls the state "state".
func (s commitStatus) body(name, description, link string) map[string]string {
	out := map[string]string{"state": s.word, name: s.name, description: s.Description}
	if s.link != "" {
		out[link] = s.link
	}
	return out
}

// keyOf is a name that is short enough for a key, and one to one.
func keyOf(name string) string {
	if len(name) <= maxKey {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])[:maxKey]
}

func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// address is where people see the sink's Git host.
func (t target) address() string {
	return strings.TrimRight(cmp.Or(t.spec.CommitStatus().URL, hostOf(t.spec).site), "/")
}

// public says whether that is the public site, whose API is elsewhere.
func (t target) public() bool { return t.address() == hostOf(t.spec).site }

// apiAddress is where the API is.
func (t target) apiAddress() string {
	if t.public() {
		return hostOf(t.spec).publicAPI
	}
	return t.address() + hostOf(t.spec).api
}

// repository is the part of a source's URL that names a repository at the sink's Git host; empty: the sink sets no
// statuses there.
func (t target) repository(source string) string {
	at, err := giturl.Parse(source)
	if err != nil {
		return ""
	}
	base, err := url.Parse(t.address())
	if err != nil {
		return ""
	}
	host := strings.ToLower(at.Hostname())
	if t.public() { // Git over SSH at port 443 has another name
		host = strings.TrimPrefix(strings.TrimPrefix(host, "altssh."), "ssh.")
	}
	if !strings.EqualFold(host, base.Hostname()) {
		return ""
	}
	path := strings.Trim(at.Path, "/")
	if at.Scheme != "ssh" {
		below, ok := strings.CutPrefix("/"+path, strings.TrimRight(base.Path, "/")+"/")
		if !ok {
			return ""
		}
		path = below
		if t.spec.Bitbucket != nil && !t.public() {
			path = strings.TrimPrefix(path, "scm/")
		}
	}
	path = strings.TrimSuffix(path, ".git")
	if owner, name, ok := strings.Cut(path, "/"); !ok || owner == "" || name == "" || strings.Contains(name, "/") && t.spec.GitLab == nil {
		return ""
	}
	if !names(t.spec.CommitStatus().Repositories, path) {
		return ""
	}
	return path
}

// commitPage is where the host shows a commit.
func (t target) commitPage(repository, commit string) string {
	if t.spec.Bitbucket != nil && !t.public() {
		project, name, _ := strings.Cut(repository, "/")
		return t.address() + "/projects/" + url.PathEscape(project) + "/repos/" + url.PathEscape(name) + "/commits/" + commit
	}
	return t.address() + "/" + escapePath(repository) + "/commits/" + commit
}

// describe cuts a description to what the host takes.
func describe(text string, most int) string {
	text = oneLine(strings.ToValidUTF8(text, "?"))
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// statusRequest is the request that sets a status.
func (t target) statusRequest(is commitStatus) (to string, header http.Header, body []byte, err error) {
	host := hostOf(t.spec)
	is.word, is.public, is.commitPage = host.states[is.State], t.public(), t.commitPage(is.Repository, is.Commit)
	if len(is.link) > maxLink {
		is.link = ""
	}
	path, fields := host.request(is)
	if body, err = json.Marshal(fields); err != nil {
		return "", nil, nil, fmt.Errorf("encode status: %w", err)
	}
	header = asJSON()
	host.authorize(header, t.credentials[resource.SinkToken])
	return t.apiAddress() + path, header, body, nil
}

// set sets one status. refused says that the host does not take this one, and may take others.
func (s *sender) set(ctx context.Context, t target, is commitStatus) (answer string, refused bool, err error) {
	to, header, body, err := t.statusRequest(is)
	if err != nil {
		return "", false, err
	}
	answer, err = s.post(ctx, to, t.spec.CommitStatus().CA, header, body)
	f, ok := errors.AsType[*failure](err)
	if !ok {
		return answer, false, err
	}
	if t.spec.GitLab != nil && f.status == http.StatusBadRequest && hostOf(t.spec).stands(f.message, is.State) {
		return "the status has this state already", false, nil
	}
	refused = hostOf(t.spec).explain(is, f, s.now())
	return "", refused, f
}

// stands says whether GitLab refuses a state because the status has it already, "Cannot transition status via :run from
// :running", or because a status that runs does not become pending again. Its description stays.
func (h gitHost) stands(message, state string) bool {
	_, transition, _ := strings.Cut(message, errTransition)
	_, from, _ := strings.Cut(transition, " from :")
	if end := strings.IndexFunc(from, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }); end >= 0 {
		from = from[:end]
	}
	return from != "" && (from == h.states[state] || state == statusFetched && from == h.states[statusApplied])
}

// explain says in words why a status was not taken, and whether that is because of this status or its repository alone.
func (h gitHost) explain(is commitStatus, f *failure, now time.Time) (refused bool) {
	if f.status == 0 || f.status >= 500 || f.status == http.StatusRequestTimeout || f.status == http.StatusTooEarly {
		return false
	}
	if after, limited := limitedFor(f, now); limited {
		f.after = after
		f.message = fmt.Sprintf("%s limits the requests of this token; statuses wait until %s: %s", h.name,
			now.Add(after).UTC().Format("15:04:05 UTC"), f.message)
		return false
	}
	switch f.status {
	case http.StatusUnauthorized:
		f.message = fmt.Sprintf("%s does not accept the token: it is wrong, revoked or has expired: write a new one into the sink: %s", h.name, f.message)
		return false
	case http.StatusForbidden:
		f.message = fmt.Sprintf("the token may not set statuses in repository %s: it needs %s: %s", is.Repository, h.needs, f.message)
	case http.StatusNotFound:
		f.message = fmt.Sprintf("%s shows this token no repository %s with commit %s: the token needs access to it, and %s: %s", h.name, is.Repository, shortCommit(is.Commit), h.needs, f.message)
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		f.message = fmt.Sprintf("repository %s was renamed or moved: write its new address into the source (and the host's into the sink): %s", is.Repository, f.message)
	default:
		f.message = fmt.Sprintf("%s refuses the status of %s in repository %s: %s", h.name, shortCommit(is.Commit), is.Repository, f.message)
	}
	return true
}

func shortCommit(commit string) string { return commit[:min(len(commit), 8)] }

// limitedFor is how long a host asks to send nothing. GitHub says so by 403, too, in a header of its own; GitLab and
// Gitea in RateLimit-Reset or Retry-After.
func limitedFor(f *failure, now time.Time) (after time.Duration, limited bool) {
	spent := f.header.Get("X-Ratelimit-Remaining") == "0"
	limited = f.status == http.StatusTooManyRequests || f.status == http.StatusForbidden && (spent || f.header.Get("Retry-After") != "")
	if !limited {
		return 0, false
	}
	after = time.Minute // as GitHub asks for where it names no time
	if seconds, err := strconv.ParseInt(f.header.Get("Retry-After"), 10, 64); err == nil {
		after = time.Duration(min(max(seconds, 0), int64(maxLimited/time.Second))) * time.Second
	} else if reset, err := strconv.ParseInt(cmp.Or(f.header.Get("X-Ratelimit-Reset"), f.header.Get("Ratelimit-Reset")), 10, 64); err == nil {
		after = time.Unix(reset, 0).Sub(now)
	}
	return min(max(after, time.Second), maxLimited), true
}
