package chartrepo

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Provenance brings the provenance file of a version; nil: there is none.
func (p *Repositories) Provenance(ctx context.Context, r upstream.Remote, v helm.Version) (text []byte, err error) {
	if r.Registry.Is {
		return p.registries.FetchProvenance(ctx, r, v)
	}
	if err := checkCharts(r); err != nil {
		return nil, err
	}
	u, err := packageURL(r.URL, v.URL)
	if err != nil {
		return nil, err
	}
	if u.Path += ".prov"; u.RawPath != "" {
		u.RawPath += ".prov"
	}
	err = p.client.GetURL(ctx, r, u, upstream.Lists, func(*http.Request) {}, func(resp *http.Response, body io.Reader) (err error) {
		switch resp.StatusCode {
		case http.StatusOK:
		case http.StatusNotFound:
			return nil
		case http.StatusForbidden, http.StatusGone: // S3 answers 403 for what is not there
			if !upstream.IsThrottled(resp) {
				return &upstream.Error{Kind: upstream.KindNotFound, Status: resp.StatusCode, Message: fmt.Sprintf("%d from %s", resp.StatusCode, resp.Request.URL.Host)}
			}
			fallthrough
		default:
			return upstream.StatusError(r, resp.Request.URL, resp)
		}
		text, err = io.ReadAll(upstream.CapReader(body, signed.MaxProvenanceBytes, "provenance file"))
		return err
	})
	return text, err
}

// IsElsewhere tells whether the package of a version is at another host than its repository.
func IsElsewhere(r upstream.Remote, v helm.Version) bool {
	if r.Registry.Is || v.URL == "" {
		return false
	}
	u, err := packageURL(r.URL, v.URL)
	return err == nil && !upstream.SameOrigin(u, r.URL)
}

// PackageHost is the host of the package of a version, with its port.
func PackageHost(r upstream.Remote, v helm.Version) string {
	if !r.Registry.Is && v.URL != "" {
		if u, err := packageURL(r.URL, v.URL); err == nil && !upstream.SameOrigin(u, r.URL) {
			return u.Host
		}
	}
	return r.URL.Host
}
