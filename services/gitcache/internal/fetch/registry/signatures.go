package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Signed is a manifest whose signatures are looked for, of one form: of a chart in a registry, or if Chart is empty of
// an artifact.
type Signed struct {
	Chart  string
	Digest oci.Digest
	Form   oci.SignatureForm
}

// Signatures has a function see the signatures of a manifest.
func (g *Registries) Signatures(
	ctx context.Context, r upstream.Remote, of Signed, judge func(oci.Signature) bool,
) (int64, error) {
	r, err := checkRegistry(r)
	if err != nil {
		return 0, err
	}
	s := &signatures{
		g: g, r: r, repository: path.Join(artifactRepository(r), of.Chart), of: of.Digest, form: of.Form, judge: judge,
	}
	isGood, err := s.lookForGood(ctx)
	if err == nil && !isGood && s.skipped != nil {
		err = s.wrongError(s.skipped)
	}
	return s.bytes, err
}

// signatures are looked for in two places: where cosign has put them until its version 3, and among what refers to the
// artifact, where those of notation are, too.
type signatures struct {
	g          *Registries
	r          upstream.Remote
	repository string
	of         oci.Digest
	form       oci.SignatureForm
	judge      func(oci.Signature) bool
	bytes      int64
	seen       int // in this place
	// skipped is why a signature was not looked at: it is too large, damaged or one too many. It matters only if no
	// other is good.
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
func (s *signatures) wrongError(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.KindContent, Cause: err, Message: fmt.Sprintf("the signatures of %s can't all be read, and none that can is good: %s. Remove old signatures, and sign it again", s.of.Short(), upstream.CleanLine(err.Error()))}
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
	body, _, err := s.g.getManifest(ctx, s.r, s.repository, reference, want)
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
		n, err := s.g.getBlob(ctx, s.r, s.repository, l.Layer, func(body io.Reader) (err error) {
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

// listReferrers asks what refers to the artifact. Registries without the API for it keep a list under a tag, which
// clients write.
func (s *signatures) listReferrers(ctx context.Context) (manifests []oci.Digest, err error) {
	var text []byte
	hasAPI := true
	err = s.g.askRegistry(ctx, s.r, s.repository, http.MethodGet, registryURL(s.r, s.repository, "referrers", string(s.of)), upstream.Lists, oci.TypeIndex, func(resp *http.Response, body io.Reader) error {
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
		text, err = io.ReadAll(upstream.CapReader(body, oci.MaxReferrersBytes, "list of referrers"))
		return err
	})
	if err == nil && !hasAPI {
		var body manifestBody
		body, _, err = s.g.getManifest(ctx, s.r, s.repository, oci.ReferrersTag(s.of), "")
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

// RepositoryName is what signatures call the repository of a source: host/path. Of a repository of charts it is that of
// one chart.
func RepositoryName(r upstream.Remote, chart string) string {
	return path.Join(r.URL.Host, artifactRepository(r), chart)
}
