package tunnelclient

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/kubename"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
)

const (
	// reviewFor is how long an answer of the API server about a right to impersonate counts, so that a kubectl that
	// asks five things asks about each name once. A right that is taken away ends within it.
	reviewFor = 5 * time.Second
	// maxReviews bounds the answers that are remembered: with maxReason each, about 1 MiB.
	maxReviews = 1000
	// maxReason bounds the words of one answer, in bytes.
	maxReason = 1 << 10
	// reviewTimeout bounds one question.
	reviewTimeout = 10 * time.Second
	// maxReviewBytes bounds its answer.
	maxReviewBytes = 64 << 10
)

const (
	accountPrefix = "system:serviceaccount:"
	reviewsPath   = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	// allAuthenticated is the group that the API server adds to everybody who is impersonated.
	allAuthenticated = "system:authenticated"
)

// accountOf takes the name that a service account has as a user apart, as the API server does.
func accountOf(user string) (namespace, name string, ok bool) {
	rest, isAccount := strings.CutPrefix(user, accountPrefix)
	namespace, name, _ = strings.Cut(rest, ":")
	return namespace, name, isAccount && kubename.IsLabel(namespace) && kubename.IsObject(name)
}

// attributes is one name that somebody wants to pass off as, as the API server asks its authorizers about it.
type attributes struct {
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Version     string `json:"version,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
}

// asked returns what the caller has to be allowed, one by one, as the API server would ask it.
func asked(as *muxhttp.Impersonated) []attributes {
	const verb, authentication = "impersonate", "authentication.k8s.io"
	var all []attributes
	if namespace, name, ok := accountOf(as.User); ok {
		all = append(all, attributes{Verb: verb, Version: "v1", Resource: "serviceaccounts", Namespace: namespace, Name: name})
	} else {
		all = append(all, attributes{Verb: verb, Version: "v1", Resource: "users", Name: as.User})
	}
	for _, group := range as.Groups {
		all = append(all, attributes{Verb: verb, Version: "v1", Resource: "groups", Name: group})
	}
	for _, key := range slices.Sorted(maps.Keys(as.Extra)) {
		for _, value := range as.Extra[key] {
			all = append(all, attributes{Verb: verb, Group: authentication, Version: "v1", Resource: "userextras", Subresource: key, Name: value})
		}
	}
	if as.UID != "" {
		all = append(all, attributes{Verb: verb, Group: authentication, Version: "v1", Resource: "uids", Name: as.UID})
	}
	return all
}

// checkImpersonated refuses whom the cluster's own people let nobody pass off as, whatever the API server says of the
// caller.
func (p Policy) checkImpersonated(as *muxhttp.Impersonated) error {
	if p.NoImpersonation {
		return fmt.Errorf("nobody may impersonate others here (kubectl --as), by %s", p.says("--tunnel-no-impersonation"))
	}
	if users := p.impersonatedUsers(); len(users) > 0 && !slices.Contains(users, as.User) {
		return fmt.Errorf("user %q is none that people may impersonate here, by %s", as.User, p.says("--tunnel-impersonate-user and --tunnel-user"))
	}
	if err := p.checkImpersonatedName(as.User); err != nil {
		return err
	}
	groups := p.impersonatedGroups()
	for _, g := range as.Groups {
		if len(groups) > 0 && !slices.Contains(groups, g) {
			return fmt.Errorf("group %q is none that people may impersonate here, by %s", g, p.says("--tunnel-impersonate-group and --tunnel-group"))
		}
		if err := p.checkImpersonatedName(g); err != nil {
			return err
		}
	}
	if !plain(as.UID) {
		return errors.New("it has a uid that no header can carry")
	}
	return checkExtra(as.Extra)
}

func (p Policy) impersonatedUsers() []string {
	if len(p.ImpersonatedUsers) > 0 {
		return p.ImpersonatedUsers
	}
	return p.Users
}

func (p Policy) impersonatedGroups() []string {
	if len(p.ImpersonatedGroups) > 0 {
		return p.ImpersonatedGroups
	}
	return p.Groups
}

// checkImpersonatedName lets through, of Kubernetes' own names, service accounts and the groups that follow from them
// or from having logged in: people look at a cluster as a workload sees it. The others (system:masters, nodes, the
// control plane) are for AllowSystem.
func (p Policy) checkImpersonatedName(name string) error {
	switch name {
	case allAuthenticated, "system:unauthenticated", "system:anonymous", "system:serviceaccounts":
		return nil
	}
	switch {
	case strings.HasPrefix(name, accountPrefix):
		if _, _, ok := accountOf(name); !ok {
			return fmt.Errorf("user %q is no service account: must be %sNAMESPACE:NAME", name, accountPrefix)
		}
		return nil
	case strings.HasPrefix(name, "system:serviceaccounts:") && plain(name):
		return nil
	}
	return p.checkName(name)
}

// reviews asks the API server who may impersonate whom. The zero value is ready.
type reviews struct {
	mu    sync.Mutex // guards known
	known map[question]review
}

// question is the SHA-256 of a review's body. The body has all groups of the caller and would take 128 KiB at worst.
type question [sha256.Size]byte

type review struct {
	allowed bool
	reason  string
	until   time.Time
}

func (r *reviews) find(q question) (review, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[q]
	return known, ok && time.Now().Before(known.until)
}

func (r *reviews) keep(q question, answer review) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxReviews {
		r.known = make(map[question]review)
	}
	answer.until = time.Now().Add(reviewFor)
	r.known[q] = answer
}

// accessReview is a SubjectAccessReview.
type accessReview struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   struct{}     `json:"metadata"`
	Spec       reviewSpec   `json:"spec"`
	Status     reviewStatus `json:"status"`
}

type reviewSpec struct {
	ResourceAttributes attributes          `json:"resourceAttributes"`
	User               string              `json:"user"`
	Groups             []string            `json:"groups,omitempty"`
	Extra              map[string][]string `json:"extra,omitempty"`
}

type reviewStatus struct {
	Allowed bool   `json:"allowed"`
	Denied  bool   `json:"denied,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// mayImpersonate says why a caller may not pass off as somebody, or returns nil. mayImpersonate asks the API server
// about the caller as the API server itself would if the caller came to it directly.
func (p *proxy) mayImpersonate(ctx context.Context, caller muxhttp.Caller) *kubehttp.Error {
	for _, policy := range p.policies() {
		if err := policy.checkImpersonated(caller.As); err != nil {
			return refusal(err.Error())
		}
	}
	spec := reviewSpec{User: caller.User, Groups: append(p.policy.groupsOf(caller), allAuthenticated), Extra: caller.Extra}
	for _, spec.ResourceAttributes = range asked(caller.As) {
		answer, err := p.review(ctx, spec)
		if err != nil {
			return &kubehttp.Error{Code: http.StatusForbidden, Message: fmt.Sprintf(
				"the agent refuses this request: it can't ask the API server whether user %q may impersonate others: %v", caller.User, err)}
		}
		if !answer.allowed {
			return &kubehttp.Error{Code: http.StatusForbidden, Message: spec.refusal(answer.reason)}
		}
	}
	return nil
}

// refusal is what the API server would say.
func (s reviewSpec) refusal(reason string) string {
	a := s.ResourceAttributes
	resource, scope := a.Resource, "at the cluster scope"
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if a.Namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	text := fmt.Sprintf("%s %q is forbidden: User %q cannot impersonate resource %q in API group %q %s", a.Resource, a.Name, s.User, resource, a.Group, scope)
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// review asks one question, unless it was asked a moment ago.
func (p *proxy) review(ctx context.Context, spec reviewSpec) (review, error) {
	body, err := json.Marshal(accessReview{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview", Spec: spec})
	if err != nil {
		return review{}, err
	}
	asked := question(sha256.Sum256(body))
	if known, ok := p.reviews.find(asked); ok {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	req := (&http.Request{
		Method: http.MethodPost, URL: p.target(&url.URL{Path: reviewsPath}), Host: p.base.Host,
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Accept-Encoding": {"identity"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx)
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return review{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReviewBytes))
	if err != nil {
		return review{}, err
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		why := resp.Status
		var status struct{ Message string }
		if json.Unmarshal(text, &status) == nil && status.Message != "" {
			why = status.Message
		}
		return review{}, fmt.Errorf("%s. Let the agent's service account create subjectaccessreviews (tunnel.impersonation.enabled of its chart)", why)
	}
	var said accessReview
	if err := json.Unmarshal(text, &said); err != nil {
		return review{}, fmt.Errorf("its answer is no SubjectAccessReview: %w", err)
	}
	answer := review{allowed: said.Status.Allowed && !said.Status.Denied, reason: clip(said.Status.Reason, maxReason)}
	p.reviews.keep(asked, answer)
	return answer, nil
}

// clip returns a copy of the beginning of a text, of most bytes, so that no longer text stays in memory.
func clip(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("...")], "") + "..."
	}
	return strings.Clone(text)
}

// groupsOf are a caller's groups as the cluster gets to know them.
func (p Policy) groupsOf(caller muxhttp.Caller) []string {
	var groups []string
	for _, g := range caller.Groups {
		if p.passes(g) {
			groups = append(groups, p.group(g))
		}
	}
	return groups
}

// known is who the API server is to take a request for.
func (p Policy) known(caller muxhttp.Caller) muxhttp.Impersonated {
	if caller.As != nil {
		return *caller.As
	}
	return muxhttp.Impersonated{User: caller.User, Groups: p.groupsOf(caller), Extra: caller.Extra}
}

// impersonate writes who the API server is to take a request for.
func (p Policy) impersonate(header http.Header, caller muxhttp.Caller) {
	as := p.known(caller)
	header.Set("Impersonate-User", as.User)
	if as.UID != "" {
		header.Set("Impersonate-Uid", as.UID)
	}
	for _, g := range as.Groups {
		header.Add("Impersonate-Group", g)
	}
	for k, values := range as.Extra {
		for _, v := range values {
			header.Add(kubehttp.ExtraField(k), v)
		}
	}
}
