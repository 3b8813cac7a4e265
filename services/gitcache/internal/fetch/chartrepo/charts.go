// Package chartrepo fetches from repositories of Helm charts: the index, packages and provenance files. Repositories in
// a registry are asked by package registry.
package chartrepo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/giturl"
	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/upstream"
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
	polls        registry.ChartPolls // of a registry
}

// Fetcher talks to chart repositories. All errors but the context's are an *upstream.Error.
type Fetcher interface {
	// ListCharts asks for the index and chooses a version for each ref. last is what the last poll found, or nil: if
	// the index is as it was then, and so are the refs, the answer is last's and costs next to nothing.
	ListCharts(ctx context.Context, r upstream.Remote, refs []string, last *Charts) (*Charts, error)
	// FetchChart brings the package of a version, as the commit that it returns. After an error nothing of it is there.
	FetchChart(ctx context.Context, r upstream.Remote, v helm.Version, into upstream.Target) (commit git.Hash, bytes int64, err error)
}

// ParseURL reads the URL of a chart repository: what the catalog takes, see giturl.ParseFolder and
// giturl.ParseRegistry.
func ParseURL(raw string, in upstream.Registry) (*url.URL, error) {
	if giturl.IsRegistry(raw) {
		return registry.ParseURL(raw, in)
	}

	u, err := giturl.ParseFolder(raw)
	if err != nil {
		return nil, upstream.Refusal("the url %s", err)
	}
	return u, nil
}

// Repositories is a Fetcher. Of charts in a registry it leaves to Registries what there is to ask.
type Repositories struct {
	client     *upstream.Client
	registries *registry.Registries
	dir        string // for packages on their way
}

// New makes a fetcher that sends its requests by a client.
func New(c *upstream.Client, g *registry.Registries, dir string) *Repositories {
	return &Repositories{client: c, registries: g, dir: dir}
}

// checkCharts says what of a source does not fit, before anybody is asked.
func checkCharts(r upstream.Remote) error {
	if r.Credentials.GitHubApp != (upstream.GitHubApp{}) {
		return r.MisfitError("it has a GitHub App, which is for Git. Add a username and password, or a token")
	}
	return r.CheckHTTP()
}

// ListCharts asks for the index.
func (p *Repositories) ListCharts(
	ctx context.Context, r upstream.Remote, refs []string, last *Charts,
) (*Charts, error) {
	wants := map[string]helm.Want{}
	for _, ref := range refs {
		if chart, version, ok := catalog.ParseChartRef(ref); ok {
			if !catalog.IsChartName(chart) { // it becomes a part of a path at the registry
				return nil, upstream.Refusal("%q is not a name of a chart: letters, digits, '.', '_' and '-'", chart)
			}
			if err := helm.CheckVersion(version); err != nil {
				return nil, &upstream.Error{Kind: upstream.KindRefused, Message: fmt.Sprintf("chart %q: %s", chart, err)}
			}
			wants[ref] = helm.Want{Chart: chart, Version: version}
		}
	}
	if r.Registry.Is {
		return p.listRegistryCharts(ctx, r, wants, last)
	}
	if err := checkCharts(r); err != nil {
		return nil, err
	}
	now := &Charts{of: r.URL.String(), refs: refs, Choices: map[string]helm.Choice{}}
	err := p.client.GetURL(ctx, r, r.URL.JoinPath("index.yaml"), upstream.Lists, func(req *http.Request) {
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
			return upstream.StatusError(r, resp.Request.URL, resp)
		}
		index := upstream.CapReader(body, helm.MaxIndexBytes, "index")
		choices, err := helm.Choose(index, wantedCharts(wants))
		now.Bytes = index.BytesTaken()
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

func (p *Repositories) listRegistryCharts(
	ctx context.Context, r upstream.Remote, wants map[string]helm.Want, last *Charts,
) (*Charts, error) {
	var before registry.ChartPolls
	if last != nil {
		before = last.polls
	}
	choices, polls, bytes, err := p.registries.ChooseVersions(ctx, r, wants, before)
	if err != nil {
		return nil, err
	}
	return &Charts{of: r.URL.String(), Choices: choices, Bytes: bytes, polls: polls}, nil
}

// wantedCharts of a map, in any order.
func wantedCharts(wants map[string]helm.Want) []helm.Want {
	list := make([]helm.Want, 0, len(wants))
	for _, w := range wants {
		list = append(list, w)
	}
	return list
}

// FetchChart brings a package.
func (p *Repositories) FetchChart(
	ctx context.Context, r upstream.Remote, v helm.Version, into upstream.Target,
) (commit git.Hash, n int64, err error) {
	if r.Registry.Is {
		return p.registries.FetchPackage(ctx, r, v, into)
	}
	if err := checkCharts(r); err != nil {
		return commit, 0, err
	}
	u, err := packageURL(r.URL, v.URL)
	if err != nil {
		return commit, 0, err
	}
	var chart *archive.Objects
	err = p.client.GetURL(ctx, r, u, upstream.Packs, func(req *http.Request) {
		// A package is compressed already. Some servers call that an encoding, which would be taken off here.
		req.Header.Set("Accept-Encoding", "identity")
	}, func(resp *http.Response, body io.Reader) error {
		if resp.StatusCode != http.StatusOK {
			return packageStatus(r, u, resp)
		}
		sum := sha256.New()
		taken := upstream.CapReader(body, helm.MaxPackageBytes, "package")
		defer func() { n = taken.BytesTaken() }()
		var err error
		if chart, err = helm.Unpack(ctx, io.TeeReader(taken, sum), p.dir, v); err != nil {
			return upstream.PackageError(err, taken.Ended)
		}
		return checkDigest(sum, v)
	})
	if chart != nil {
		defer chart.Close()
	}
	if err != nil {
		return commit, n, err
	}
	return chart.Commit, n, p.client.StoreObjects(ctx, r, chart, into)
}

func checkDigest(sum hash.Hash, v helm.Version) error {
	got := hex.EncodeToString(sum.Sum(nil))
	if v.Digest == "" || got == v.Digest {
		return nil
	}
	return &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf(
		"the package has the digest sha256:%s..., and the index says sha256:%s.... Let the repository's owner write its index again, or push the version again", got[:12], v.Digest[:12])}
}

func packageStatus(r upstream.Remote, u *url.URL, resp *http.Response) error {
	e := upstream.StatusError(r, resp.Request.URL, resp)
	if e.Kind == upstream.KindNotFound {
		e.Message = fmt.Sprintf("%d from %s: the index names a package that is not there. Let the repository's owner write its index again", resp.StatusCode, u.Host)
	}
	return e
}

// packageURL is where a package is. An index may name any place that a source could name; credentials stay with the
// repository's own.
func packageURL(repository *url.URL, text string) (*url.URL, error) {
	bad := func(format string, args ...any) error {
		return &upstream.Error{Kind: upstream.KindContent, Message: "the url of the package " + fmt.Sprintf(format, args...) + ". Let the repository's owner correct its index"}
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
	case !upstream.IsLoopback(repository.Hostname()) && upstream.IsLoopback(u.Hostname()):
		return nil, bad("leads to the hub itself")
	}
	return u, nil
}

// ChartID stands for what an index says of a version: another digest is another id. Without a digest in the index it is
// the url and the time.
func ChartID(v helm.Version) git.Hash {
	of := v.Digest
	if of == "" {
		of = v.URL + "\x00" + v.Created.Format(time.RFC3339Nano)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{v.Chart, v.Version, of}, "\x00")))
	return git.Hash(sum[:20])
}
