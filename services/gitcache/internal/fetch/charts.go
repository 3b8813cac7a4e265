package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/giturl"
	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/helm"
)

// Charts is what the index of a chart repository has for some refs.
type Charts struct {
	// Choices by ref; a ref that names no chart is not in it.
	Choices map[string]helm.Choice
	// Bytes that came for it: none if it is as it was.
	Bytes int64

	// The next poll tells the host these, so that it answers with the index only if that has changed.
	of           string // the URL
	refs         []string
	etag         string
	lastModified string
	looks        map[string]*looking // into repositories of a registry, by chart
}

// ChartFetcher talks to chart repositories. All errors but the context's are an *Error.
type ChartFetcher interface {
	// ListCharts asks for the index and chooses a version for each ref. last is what the last poll found, or nil: if the index
	// is as it was then, and so are the refs, the answer is last's and costs next to nothing.
	ListCharts(ctx context.Context, r Remote, refs []string, last *Charts) (*Charts, error)
	// FetchChart brings the package of a version, as the commit that it returns. After an error nothing of it is there.
	FetchChart(ctx context.Context, r Remote, v helm.Version, into Target) (commit plumbing.Hash, bytes int64, err error)
}

// ParseChartsURL reads the URL of a chart repository: what the catalog takes, see giturl.ParseFolder and giturl.ParseRegistry.
func ParseChartsURL(raw string, in Registry) (*url.URL, error) {
	if giturl.IsRegistry(raw) {
		return ParseRegistryURL(raw, in)
	}

	u, err := giturl.ParseFolder(raw)
	if err != nil {
		return nil, refusalError("the url %s", err)
	}
	return u, nil
}

// ListCharts asks for the index.
func (f *Fetchers) ListCharts(ctx context.Context, r Remote, refs []string, last *Charts) (*Charts, error) {
	return f.http.listCharts(ctx, r, refs, last)
}

// FetchChart brings a package.
func (f *Fetchers) FetchChart(ctx context.Context, r Remote, v helm.Version, into Target) (plumbing.Hash, int64, error) {
	return f.http.fetchChart(ctx, r, v, into, f.dir)
}

// checkCharts says what of a source does not fit, before anybody is asked.
func (r Remote) checkCharts() error {
	if r.Credentials.GitHubApp != (GitHubApp{}) {
		return r.misfitError("it has a GitHub App, which is for Git. Add a username and password, or a token")
	}
	return r.checkHTTP()
}

func (h *HTTP) listCharts(ctx context.Context, r Remote, refs []string, last *Charts) (*Charts, error) {
	wants := map[string]helm.Want{}
	for _, ref := range refs {
		if chart, version, ok := catalog.ParseChartRef(ref); ok {
			if !catalog.IsChartName(chart) { // it becomes a part of a path at the registry
				return nil, refusalError("%q is not a name of a chart: letters, digits, '.', '_' and '-'", chart)
			}
			if err := helm.CheckVersion(version); err != nil {
				return nil, &Error{Kind: KindRefused, Message: fmt.Sprintf("chart %q: %s", chart, err)}
			}
			wants[ref] = helm.Want{Chart: chart, Version: version}
		}
	}
	if r.Registry.Is {
		return h.listRegistryCharts(ctx, r, wants, last)
	}
	if err := r.checkCharts(); err != nil {
		return nil, err
	}
	now := &Charts{of: r.URL.String(), refs: refs, Choices: map[string]helm.Choice{}}
	err := h.getURL(ctx, r, r.URL.JoinPath("index.yaml"), lists, func(req *http.Request) {
		if last == nil || last.of != now.of || !slices.Equal(last.refs, refs) {
			return
		}
		set := func(name, value string) {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		set("If-None-Match", last.etag)
		set("If-Modified-Since", last.lastModified)
	}, func(resp *http.Response, body io.Reader) error {
		asked := cmp.Or(resp.Request.Header.Get("If-None-Match"), resp.Request.Header.Get("If-Modified-Since"))
		if resp.StatusCode == http.StatusNotModified && asked != "" {
			kept := *last
			kept.Bytes, now = 0, &kept
			return nil
		}
		if resp.StatusCode != http.StatusOK {
			return statusError(r, resp.Request.URL, resp)
		}
		index := &capped{r: body, left: helm.MaxIndexBytes + 1, most: helm.MaxIndexBytes, what: "index"}
		choices, err := helm.Choose(index, wantedCharts(wants))
		now.Bytes = index.bytesTaken()
		if err != nil {
			return fmt.Errorf("the index: %w", err)
		}
		for ref, want := range wants {
			now.Choices[ref] = choices[want]
		}
		now.etag, now.lastModified = resp.Header.Get("Etag"), resp.Header.Get("Last-Modified")
		return nil
	})
	if err != nil {
		return nil, err
	}
	return now, nil
}

// wantedCharts of a map, in any order.
func wantedCharts(wants map[string]helm.Want) []helm.Want {
	list := make([]helm.Want, 0, len(wants))
	for _, w := range wants {
		list = append(list, w)
	}
	return list
}

// getURL makes one request, goes along with redirects, and has the answer read: within the time for a fetch, and without a
// pause longer than an idle one.
func (h *HTTP) getURL(ctx context.Context, r Remote, u *url.URL, l lane, prepare func(*http.Request), read func(*http.Response, io.Reader) error) error {
	x := &exchange{h: h, r: r, door: r.doorOf(u)}
	leave, err := h.budget.enterHost(ctx, x.door, l)
	if err != nil {
		return err
	}
	defer leave()
	return x.sendRequest(ctx, x.followingClient(), u, prepare, read)
}

// sendRequest is get for what the budget has let in.
func (x *exchange) sendRequest(ctx context.Context, hc *http.Client, u *url.URL, prepare func(*http.Request), read func(*http.Response, io.Reader) error) error {
	limits := x.h.limits
	limited, stop := context.WithTimeoutCause(ctx, limits.FetchTime, errDeadline)
	defer stop()
	limited, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	dog := newWatchdog(limits.IdleTime, cancel)
	defer dog.stopTimer()

	req, err := newRequest(limited, x.r, http.MethodGet, u, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "fairlead")
	prepare(req)
	resp, err := hc.Do(req)
	if err == nil {
		defer resp.Body.Close()
		defer drainBody(resp.Body, func() { cancel(nil) })
		dog.r = resp.Body
		err = read(resp, dog)
	}
	if err == nil {
		return nil
	}
	return x.h.chartError(ctx, limited, x.r, u, err)
}

// chartError says why a chart repository could not be read.
func (h *HTTP) chartError(own, limited context.Context, r Remote, u *url.URL, err error) error {
	if own.Err() != nil {
		return own.Err()
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if limited.Err() != nil {
		e := &Error{Kind: KindTimeout, cause: err}
		e.Message = fmt.Sprintf("%s sent nothing for %s. Check that the host is up and not behind a firewall", u.Host, h.limits.IdleTime)
		if !errors.Is(context.Cause(limited), errIdle) {
			e.Message = fmt.Sprintf("%s had not sent everything after %s. Fairlead tries again", u.Host, h.limits.FetchTime)
		}
		return e
	}
	if cause := ofDisk(err); cause != nil {
		return &Error{Kind: KindStorage, cause: err, Message: fmt.Sprintf("what came can't be kept: %s. Check the gitcache's disk", cause)}
	}
	var op interface{ Timeout() bool }
	var network *url.Error
	switch {
	case errors.As(err, &network), errors.As(err, &op):
		return transportError(limited, u.Host, h.limits.IdleTime, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Kind: KindUnreachable, cause: err, Message: fmt.Sprintf("what %s sent ends early. Fairlead tries again", u.Host)}
	}
	return &Error{Kind: KindContent, cause: err, Message: fmt.Sprintf("%s does not answer as a chart repository does: %s. Check the source's url", u.Host, cleanLine(r.redactText(err.Error())))}
}

func (h *HTTP) fetchChart(ctx context.Context, r Remote, v helm.Version, into Target, dir string) (commit plumbing.Hash, n int64, err error) {
	if r.Registry.Is {
		return h.fetchRegistryChart(ctx, r, v, into, dir)
	}
	if err := r.checkCharts(); err != nil {
		return commit, 0, err
	}
	u, err := packageURL(r.URL, v.URL)
	if err != nil {
		return commit, 0, err
	}
	var chart *archive.Objects
	err = h.getURL(ctx, r, u, packs, func(req *http.Request) {
		// A package is compressed already. Some servers call that an encoding, which would be taken off here.
		req.Header.Set("Accept-Encoding", "identity")
	}, func(resp *http.Response, body io.Reader) error {
		if resp.StatusCode != http.StatusOK {
			return packageStatus(r, u, resp)
		}
		sum := sha256.New()
		taken := &capped{r: body, left: helm.MaxPackageBytes + 1, most: helm.MaxPackageBytes, what: "package"}
		defer func() { n = taken.bytesTaken() }()
		var err error
		if chart, err = helm.Unpack(ctx, io.TeeReader(taken, sum), dir, v); err != nil {
			return packageError(err, taken.ended)
		}
		return checkDigest(sum, v)
	})
	if chart != nil {
		defer chart.Close()
	}
	if err != nil {
		return commit, n, err
	}
	return chart.Commit, n, h.storeObjects(ctx, r, chart, into)
}

// packageError keeps what get can put into words, and says of anything else that it is the package's own fault. So is an early end of
// a package of which all has come: it would end so the next time, too.
func packageError(err error, allCame bool) error {
	var op interface{ Timeout() bool }
	known, _ := errors.AsType[*Error](err)
	if known != nil || ofDisk(err) != nil || errors.As(err, &op) || errors.Is(err, io.ErrUnexpectedEOF) && !allCame || errors.Is(err, context.Canceled) {
		return err
	}
	return &Error{Kind: KindContent, cause: err, Message: "the package can't be used: " + cleanLine(err.Error())}
}

func checkDigest(sum hash.Hash, v helm.Version) error {
	got := hex.EncodeToString(sum.Sum(nil))
	if v.Digest == "" || got == v.Digest {
		return nil
	}
	return &Error{Kind: KindContent, Message: fmt.Sprintf(
		"the package has the digest sha256:%s..., and the index says sha256:%s.... Let the repository's owner write its index again, or push the version again", got[:12], v.Digest[:12])}
}

func packageStatus(r Remote, u *url.URL, resp *http.Response) error {
	e := statusError(r, resp.Request.URL, resp)
	if e.Kind == KindNotFound {
		e.Message = fmt.Sprintf("%d from %s: the index names a package that is not there. Let the repository's owner write its index again", resp.StatusCode, u.Host)
	}
	return e
}

// packageURL is where a package is. An index may name any place that a source could name; credentials stay with the
// repository's own.
func packageURL(repository *url.URL, text string) (*url.URL, error) {
	bad := func(format string, args ...any) error {
		return &Error{Kind: KindContent, Message: "the url of the package " + fmt.Sprintf(format, args...) + ". Let the repository's owner correct its index"}
	}
	ref, err := url.Parse(text)
	if err != nil || len(text) > giturl.MaxBytes {
		return nil, bad("can't be parsed")
	}
	base := *repository
	base.Path, base.RawPath = base.Path+"/", ""
	u := base.ResolveReference(ref)
	u.Fragment = ""
	plain := *u
	plain.RawQuery, plain.ForceQuery = "", false
	switch _, err := giturl.ParseFolder(plain.String()); {
	case u.Scheme == "oci":
		return nil, bad("begins with oci://, which Fairlead does not read yet")
	case err != nil:
		return nil, bad("%s", err)
	case repository.Scheme == "https" && u.Scheme != "https":
		return nil, bad("begins with http://, and the repository's with https://")
	case !loopbackName(repository.Hostname()) && loopbackName(u.Hostname()):
		return nil, bad("leads to the hub itself")
	}
	return u, nil
}

// ChartID stands for what an index says of a version: another digest is another id. Without a digest in the index it is the
// url and the time.
func ChartID(v helm.Version) plumbing.Hash {
	of := v.Digest
	if of == "" {
		of = v.URL + "\x00" + v.Created.Format(time.RFC3339Nano)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{v.Chart, v.Version, of}, "\x00")))
	return plumbing.Hash(sum[:20])
}
