// Package registry fetches from OCI registries and their mirrors: artifacts, charts, and signatures of both. Logins and
// the tokens of registries are remembered here.
package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/plural"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Registries is a Fetcher. Charts of registries are artifacts, too.
type Registries struct {
	client     *upstream.Client
	admissions *admissions
	resting    *resting
	dir        string // for layers on their way; empty: the system's
}

// New makes a fetcher that sends its requests by a client.
func New(c *upstream.Client, dir string) *Registries {
	return &Registries{client: c, admissions: newAdmissions(), resting: &resting{until: map[restingKey]time.Time{}}, dir: dir}
}

// ParseURL reads oci://host/path of a source. The result is where its requests go: the path is that of the repository,
// or the beginning of those of charts.
func ParseURL(raw string, in upstream.Registry) (*url.URL, error) {
	u, err := giturl.ParseRegistry(raw)
	if err != nil {
		return nil, upstream.Refusal("the url %s", err)
	}
	u.Scheme = "https"
	if in.Insecure {
		u.Scheme = "http"
	}
	if name, ok := strings.CutPrefix(u.Path, "/"); ok && u.Host == "docker.io" && !strings.Contains(name, "/") {
		u.Path = "/library/" + name
	}
	if u.Host == "docker.io" || u.Host == "index.docker.io" {
		u.Host = oci.DockerHub
	}
	return u, nil
}

// checkRegistry says what of a source does not fit, before anybody is asked, and finds the login in a docker config.
func checkRegistry(r upstream.Remote) (upstream.Remote, error) {
	c := &r.Credentials
	if c.GitHubApp != (upstream.GitHubApp{}) {
		return r, r.MisfitError("it has a GitHub App, which is for Git. Add a username and password, or a token")
	}
	if c.DockerConfig != "" && c.Password == "" {
		var err error
		c.Username, c.Password, err = oci.DockerLogin(c.DockerConfig, r.URL.Host, r.URL.Path)
		isForMirrors := errors.Is(err, oci.ErrNoEntry) && r.Registry.Mirrors != "" // then the registry is asked without a login
		if err != nil && !isForMirrors {
			return r, r.MisfitError("%s", err)
		}
	}
	if r.Registry.Insecure && r.Proxy != nil {
		return r, upstream.Refusal("the source has a proxy and insecure, which do not go together. Remove one of them")
	}
	return r, r.CheckHTTP()
}

// askRegistry makes a request of a repository in a registry, with what the registry wants for it: nothing, a password,
// or a token. Another host gets none of these.
func (g *Registries) askRegistry(ctx context.Context, r upstream.Remote, repository, method string, u *url.URL, l upstream.Lane, accept string,
	read func(*http.Response, io.Reader) error,
) error {
	for renewed := false; ; renewed = true {
		authorization, err := g.admissions.authorizationFor(ctx, g, r, repository)
		if err != nil {
			return err
		}
		var challenged *http.Response
		err = g.client.GetURL(ctx, r, u, l, func(req *http.Request) {
			req.Method = method
			req.Header.Del("Authorization")
			if authorization != "" && upstream.SameOrigin(u, r.URL) {
				req.Header.Set("Authorization", authorization)
			}
			if accept != "" {
				req.Header.Set("Accept", accept)
			}
			// Blobs are compressed already, and manifests are hashed as they are.
			req.Header.Set("Accept-Encoding", "identity")
		}, func(resp *http.Response, body io.Reader) error {
			wantsOther := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden && strings.HasPrefix(authorization, "Bearer ")
			if !renewed && wantsOther && upstream.SameOrigin(resp.Request.URL, r.URL) && !upstream.IsThrottled(resp) {
				challenged = resp
				return nil
			}
			return read(resp, body)
		})
		if err != nil || challenged == nil {
			return err
		}
		if err := g.admissions.learnChallenge(r, repository, authorization, challenged); err != nil {
			return err
		}
	}
}

// registryURL is a place in the API of a registry.
func registryURL(r upstream.Remote, repository string, parts ...string) *url.URL {
	return (&url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: "/v2/" + repository}).JoinPath(parts...)
}

// registryError is for an answer that is not as it should be.
func registryError(r upstream.Remote, repository string, resp *http.Response) *upstream.Error {
	e := upstream.StatusError(r, resp.Request.URL, resp)
	switch {
	case e.Kind == upstream.KindNotFound:
		e.Message = fmt.Sprintf("%d from %s: repository %q has none of it, or is not there", resp.StatusCode, r.URL.Host, repository)
	case e.Kind == upstream.KindCredentials && upstream.SameOrigin(resp.Request.URL, r.URL):
		e.Message += fmt.Sprintf(". It may also be that %s has no repository %q", r.URL.Host, repository)
	}
	return e
}

// headManifest asks for the digest of what a tag stands for; "": there is no such tag.
func (g *Registries) headManifest(
	ctx context.Context, r upstream.Remote, repository, tag string,
) (digest oci.Digest, err error) {
	u := registryURL(r, repository, "manifests", tag)
	err = g.askRegistry(ctx, r, repository, http.MethodHead, u, upstream.Lists, oci.Accept(), func(resp *http.Response, _ io.Reader) error {
		switch resp.StatusCode {
		case http.StatusOK:
			// Without one the manifest itself says it.
			digest, _ = oci.ParseDigest(resp.Header.Get("Docker-Content-Digest"))
			return nil
		case http.StatusNotFound:
			return errNoManifest
		}
		return registryError(r, repository, resp)
	})
	if err != nil || digest != "" {
		return digest, err
	}
	_, digest, err = g.getManifest(ctx, r, repository, tag, "")
	return digest, err
}

// errNoManifest: the registry has no such manifest, or no such repository.
var errNoManifest = &upstream.Error{Kind: upstream.KindNotFound, Message: "the registry has no such manifest"}

// imageManifest gets a manifest by its digest; that of an index is the one that it holds.
func (g *Registries) imageManifest(
	ctx context.Context, r upstream.Remote, repository string, digest oci.Digest,
) (m *oci.Manifest, bytes int64, err error) {
	const most = 2 // an index, and what it holds
	for range most {
		var is *oci.Manifest
		var child oci.Digest
		var faulty error // the manifest itself: it is the same everywhere
		err := g.fromMirrors(ctx, r, repository, func(r upstream.Remote, repository string) error {
			body, _, err := g.readManifest(ctx, r, repository, string(digest), digest)
			if err != nil {
				return err
			}
			bytes += int64(len(body.text))
			is, child, err = oci.Decode(body.text, body.contentType)
			if _, ok := errors.AsType[oci.TypeError](err); ok { // a mirror's type is not checked by the digest
				return artifactError(digest, err)
			}
			faulty = err
			return nil
		})
		if err != nil {
			return nil, bytes, err
		}
		if faulty != nil {
			return nil, bytes, artifactError(digest, faulty)
		}
		if is != nil {
			return is, bytes, nil
		}
		digest = child
	}
	return nil, bytes, &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("the artifact %s is an index of indexes, which Fairlead does not read", digest.Short())}
}

func artifactError(digest oci.Digest, err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.KindContent, Cause: err, Message: fmt.Sprintf("the artifact %s: %s", digest.Short(), upstream.CleanLine(err.Error()))}
}

type manifestBody struct {
	text        []byte
	contentType string
}

// getManifest gets a manifest and its digest. want is checked, unless it is empty; if it is not, mirrors may have the
// manifest.
func (g *Registries) getManifest(
	ctx context.Context, r upstream.Remote, repository, reference string, want oci.Digest,
) (is manifestBody, digest oci.Digest, err error) {
	if want == "" {
		return g.readManifest(ctx, r, repository, reference, want)
	}
	err = g.fromMirrors(ctx, r, repository, func(r upstream.Remote, repository string) (err error) {
		is, digest, err = g.readManifest(ctx, r, repository, reference, want)
		return err
	})
	return is, digest, err
}

func (g *Registries) readManifest(
	ctx context.Context, r upstream.Remote, repository, reference string, want oci.Digest,
) (is manifestBody, digest oci.Digest, err error) {
	u := registryURL(r, repository, "manifests", reference)
	err = g.askRegistry(ctx, r, repository, http.MethodGet, u, upstream.Lists, oci.Accept(), func(resp *http.Response, body io.Reader) error {
		switch resp.StatusCode {
		case http.StatusOK:
		case http.StatusNotFound:
			return errNoManifest
		default:
			return registryError(r, repository, resp)
		}
		text, err := io.ReadAll(upstream.CapReader(body, oci.MaxManifestBytes, "manifest"))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		is, digest = manifestBody{text, resp.Header.Get("Content-Type")}, oci.Digest("sha256:"+hex.EncodeToString(sum[:]))
		if want != "" && digest != want {
			return &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("%s sent a manifest with the digest %s for %s. Tell the registry's owner, and push the artifact again", r.URL.Host, digest.Short(), want.Short())}
		}
		return nil
	})
	return is, digest, err
}

// listTags has a function see all tags of a repository. errNoManifest: there is no such repository, which only the
// first page says: a list that breaks off lacks tags, and a tag that is not seen in it may be there.
func (g *Registries) listTags(
	ctx context.Context, r upstream.Remote, repository string, see func(tag string),
) (bytes int64, err error) {
	first := registryURL(r, repository, "tags", "list")
	page := *first
	page.RawQuery = url.Values{"n": {strconv.Itoa(oci.PageTags)}}.Encode()
	tags, pages, seen := 0, 0, map[string]bool{}
	for next := &page; next != nil; {
		if seen[next.String()] || len(seen) >= oci.MaxPages {
			return bytes, &upstream.Error{
				Kind:    upstream.KindContent,
				Message: fmt.Sprintf("the list of tags of %q at %s has no end, or more than the limit of %d pages. Name a tag or a digest in the service", repository, r.URL.Host, oci.MaxPages),
			}
		}
		seen[next.String()] = true
		list, to, n, err := g.tagPage(ctx, r, repository, next)
		bytes += n
		if known, ok := err.(*upstream.Error); ok && known.Status == http.StatusBadRequest && next.RawQuery != "" && len(seen) == 1 { //nolint:errorlint // of tagPage
			next = first // some registries take no number, or none so large
			continue
		}
		if err == errNoManifest && pages > 0 { //nolint:errorlint // of tagPage
			return bytes, &upstream.Error{
				Kind:    upstream.KindContent,
				Message: fmt.Sprintf("the list of tags of %q at %s breaks off: after %s it answers 404. Fairlead asks again; if it stays so name a tag or a digest in the service", repository, r.URL.Host, plural.Of(pages, "page")),
			}
		}
		if err != nil {
			return bytes, err
		}
		pages++
		if tags += len(list); tags > oci.MaxTags {
			return bytes, &upstream.Error{
				Kind:    upstream.KindContent,
				Message: fmt.Sprintf("%q at %s has more than the limit of %d tags. Name a tag or a digest in the service", repository, r.URL.Host, oci.MaxTags),
			}
		}
		for _, tag := range list {
			see(tag)
		}
		next = to
	}
	return bytes, nil
}

// tagPage asks for a page of tags.
func (g *Registries) tagPage(
	ctx context.Context, r upstream.Remote, repository string, u *url.URL,
) (tags []string, next *url.URL, bytes int64, err error) {
	err = g.askRegistry(ctx, r, repository, http.MethodGet, u, upstream.Lists, "application/json", func(resp *http.Response, body io.Reader) error {
		switch resp.StatusCode {
		case http.StatusOK:
		case http.StatusNotFound:
			return errNoManifest
		default:
			return registryError(r, repository, resp)
		}
		text, err := io.ReadAll(upstream.CapReader(body, oci.MaxPageBytes, "page of tags"))
		bytes = int64(len(text))
		if err != nil {
			return err
		}
		if tags, err = oci.DecodeTags(text); err == nil {
			// A redirect may have led to another host, whose next page is not the registry's.
			if next, err = oci.NextPage(resp.Request.URL, resp.Header.Values("Link")); next != nil && !upstream.SameOrigin(next, r.URL) {
				err = oci.ErrOtherHost
			}
		}
		if err != nil {
			return &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("%s: %s", r.URL.Host, err)}
		}
		return nil
	})
	return tags, next, bytes, err
}
