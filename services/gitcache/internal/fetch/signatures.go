package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signed"
)

// SignatureFetcher brings what says that something is signed. All errors but the context's are an *Error. Bytes is what came.
type SignatureFetcher interface {
	// Signatures has a function see the signatures of a manifest, one after the other, until it is content with one. An error means that
	// it is not known whether there are others.
	Signatures(ctx context.Context, r Remote, of Signed, judge func(oci.Signature) (isGood bool)) (bytes int64, err error)
	// Provenance brings the provenance file of a version; nil: there is none.
	Provenance(ctx context.Context, r Remote, v helm.Version) (text []byte, err error)
}

// Signed is a manifest whose signatures are looked for, of one form: of a chart in a registry, or if Chart is empty of an artifact.
type Signed struct {
	Chart  string
	Digest oci.Digest
	Form   oci.SignatureForm
}

// Signatures has a function see the signatures of a manifest.
func (f *Fetchers) Signatures(ctx context.Context, r Remote, of Signed, judge func(oci.Signature) bool) (int64, error) {
	r, err := r.checkRegistry()
	if err != nil {
		return 0, err
	}
	s := &signatures{
		h: f.http, r: r, repository: path.Join(artifactRepository(r), of.Chart), of: of.Digest, form: of.Form, judge: judge,
	}
	isGood, err := s.lookForGood(ctx)
	if err == nil && !isGood && s.skipped != nil {
		err = s.wrongError(s.skipped)
	}
	return s.bytes, err
}

// Provenance brings the provenance file of a version.
func (f *Fetchers) Provenance(ctx context.Context, r Remote, v helm.Version) ([]byte, error) {
	return f.http.getProvenance(ctx, r, v)
}

// signatures are looked for in two places: where cosign has put them until its version 3, and among what refers to the artifact, where those of
// notation are, too.
type signatures struct {
	h          *HTTP
	r          Remote
	repository string
	of         oci.Digest
	form       oci.SignatureForm
	judge      func(oci.Signature) bool
	bytes      int64
	seen       int // in this place
	// skipped is why a signature was not looked at: it is too large, damaged or one too many. It matters only if no other is good.
	skipped error
}

func (s *signatures) lookForGood(ctx context.Context) (isGood bool, err error) {
	if s.form == oci.FormCosign {
		if isGood, err := s.checkManifest(ctx, oci.SignatureTag(s.of), ""); err != nil || isGood {
			return isGood, err
		}
	}
	s.seen = 0
	referrers, err := s.listReferrers(ctx)
	if err = s.skipError(err); err != nil {
		return false, err
	}
	for _, m := range referrers {
		if isGood, err := s.checkManifest(ctx, string(m), m); err != nil || isGood {
			return isGood, err
		}
	}
	return false, nil
}

// wrongError is an error of what a registry has about one artifact.
func (s *signatures) wrongError(err error) *Error {
	return &Error{Kind: KindContent, cause: err, Message: fmt.Sprintf("the signatures of %s can't all be read, and none that can is good: %s. Remove old signatures, and sign it again", s.of.Short(), cleanLine(err.Error()))}
}

// skipError remembers an error of one signature; those of the registry stay errors.
func (s *signatures) skipError(err error) error {
	if err == nil || !isSingle(err) {
		return err
	}
	s.skipped = err
	return nil
}

// checkManifest looks at the signatures of one manifest; a manifest that is not there has none.
func (s *signatures) checkManifest(ctx context.Context, reference string, want oci.Digest) (isGood bool, err error) {
	body, _, err := s.h.getManifest(ctx, s.r, s.repository, reference, want)
	if err = s.skipError(unlessMissing(err)); err != nil || body.text == nil {
		return false, err
	}
	s.bytes += int64(len(body.text))
	layers, skipped, err := oci.DecodeSignatures(body.text, s.form)
	if err = cmp.Or(skipped, err); err != nil {
		s.skipped = err
	}
	for _, l := range layers {
		if s.seen++; s.seen > oci.MaxSignatures {
			s.skipped = fmt.Errorf("it has more than the limit of %d signatures", oci.MaxSignatures)
			return false, nil
		}
		var payload []byte
		n, err := s.h.getBlob(ctx, s.r, s.repository, l.Layer, func(body io.Reader) (err error) {
			payload, err = io.ReadAll(body)
			return err
		})
		s.bytes += n
		if err != nil {
			if err = s.skipError(err); err != nil {
				return false, err
			}
			continue
		}
		if s.judge(oci.Signature{Payload: payload, IsBundle: l.IsBundle, Signature: l.Signature}) {
			return true, nil
		}
	}
	return false, nil
}

// listReferrers asks what refers to the artifact. Registries without the API for it keep a list under a tag, which clients write.
func (s *signatures) listReferrers(ctx context.Context) (manifests []oci.Digest, err error) {
	var text []byte
	hasAPI := true
	err = s.h.askRegistry(ctx, s.r, s.repository, http.MethodGet, registryURL(s.r, s.repository, "referrers", string(s.of)), lists, oci.TypeIndex, func(resp *http.Response, body io.Reader) error {
		switch resp.StatusCode {
		case http.StatusOK:
		case http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			hasAPI = false
			return nil
		default: // a limit of the registry, say: nobody knows what is there
			return registryError(s.r, s.repository, resp)
		}
		if link := resp.Header.Values("Link"); len(link) > 0 {
			if next, err := oci.NextPage(resp.Request.URL, link); err != nil || next != nil {
				s.skipped = errors.New("the list of what refers to it has more than one page")
			}
		}
		var err error
		text, err = io.ReadAll(&capped{r: body, left: oci.MaxReferrersBytes + 1, most: oci.MaxReferrersBytes, what: "list of referrers"})
		return err
	})
	if err == nil && !hasAPI {
		var body manifestBody
		body, _, err = s.h.getManifest(ctx, s.r, s.repository, oci.ReferrersTag(s.of), "")
		err, text = unlessMissing(err), body.text
	}
	if err != nil || text == nil {
		return nil, err
	}
	s.bytes += int64(len(text))
	manifests, skipped, err := oci.DecodeReferrers(text, s.form)
	if err = cmp.Or(skipped, err); err != nil {
		s.skipped = err
	}
	return manifests, nil
}

func (h *HTTP) getProvenance(ctx context.Context, r Remote, v helm.Version) (text []byte, err error) {
	if r.Registry.Is {
		return h.registryProvenance(ctx, r, v)
	}
	if err := r.checkCharts(); err != nil {
		return nil, err
	}
	u, err := packageURL(r.URL, v.URL)
	if err != nil {
		return nil, err
	}
	if u.Path += ".prov"; u.RawPath != "" {
		u.RawPath += ".prov"
	}
	err = h.getURL(ctx, r, u, lists, func(*http.Request) {}, func(resp *http.Response, body io.Reader) (err error) {
		switch resp.StatusCode {
		case http.StatusOK:
		case http.StatusNotFound:
			return nil
		case http.StatusForbidden, http.StatusGone: // S3 answers 403 for what is not there
			if !isThrottled(resp) {
				return &Error{Kind: KindNotFound, status: resp.StatusCode, Message: fmt.Sprintf("%d from %s", resp.StatusCode, resp.Request.URL.Host)}
			}
			fallthrough
		default:
			return statusError(r, resp.Request.URL, resp)
		}
		text, err = io.ReadAll(&capped{r: body, left: signed.MaxProvenanceBytes + 1, most: signed.MaxProvenanceBytes, what: "provenance file"})
		return err
	})
	return text, err
}

// IsElsewhere tells whether the package of a version is at another host than its repository.
func IsElsewhere(r Remote, v helm.Version) bool {
	if r.Registry.Is || v.URL == "" {
		return false
	}
	u, err := packageURL(r.URL, v.URL)
	return err == nil && !SameOrigin(u, r.URL)
}

// PackageHost is the host of the package of a version, with its port.
func PackageHost(r Remote, v helm.Version) string {
	if !r.Registry.Is && v.URL != "" {
		if u, err := packageURL(r.URL, v.URL); err == nil && !SameOrigin(u, r.URL) {
			return u.Host
		}
	}
	return r.URL.Host
}

// registryProvenance brings the layer with the provenance file.
func (h *HTTP) registryProvenance(ctx context.Context, r Remote, v helm.Version) ([]byte, error) {
	r, err := r.checkRegistry()
	if err != nil || v.Provenance == "" {
		return nil, err
	}
	layer := oci.Layer{Digest: oci.Digest(v.Provenance), Size: v.ProvenanceSize}
	if layer.Size > signed.MaxProvenanceBytes {
		return nil, &Error{
			Kind: KindContent, limit: true,
			Message: fmt.Sprintf("the provenance file has %d bytes, and the limit is %d MiB", layer.Size, signed.MaxProvenanceBytes>>20),
		}
	}
	var text bytes.Buffer
	_, err = h.getBlob(ctx, r, path.Join(artifactRepository(r), v.Chart), layer, func(body io.Reader) error {
		_, err := io.Copy(&text, body)
		return err
	})
	return text.Bytes(), err
}

// RepositoryName is what signatures call the repository of a source: host/path. Of a repository of charts it is that of one chart.
func RepositoryName(r Remote, chart string) string {
	return path.Join(r.URL.Host, artifactRepository(r), chart)
}
