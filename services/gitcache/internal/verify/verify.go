// Package verify asks for the signatures of charts and artifacts, and says who signed these by the policy of a source.
//
// Nothing is remembered: how long a verdict stands is the caller's to say. Signatures of commits and tags are in the
// mirror, and need no package that asks.
package verify

import (
	"cmp"
	"context"
	"errors"
	"path"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signature"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Asker asks for signatures.
type Asker struct {
	Signatures fetch.SignatureFetcher
	Metrics    *metrics.Set
	Tracer     trace.Tracer
}

// Content is a package of a chart, or an artifact.
type Content struct {
	Listed   helm.Version       // of a chart: what the index lists
	Artifact *registry.Artifact // nil: it is a chart
	Name     string             // in traces
}

// Verdict is what was found.
type Verdict struct {
	SignedBy string
	Sum      string             // of a provenance file: the SHA-256 of the package
	No       *signature.Refusal // nil: it is signed
}

// SignedName is what is signed: the manifest in its repository, or what the index of a repository says of a package.
func (c Content) SignedName(r upstream.Remote) string {
	name := registry.RepositoryName(r, c.Listed.Chart) + "\x00"
	if c.Artifact != nil {
		return name + string(c.Artifact.Manifest)
	}
	return name + c.Listed.Version + "\x00" + cmp.Or(c.Listed.Manifest, chartrepo.ChartID(c.Listed).String())
}

// JudgeContent asks for the signatures of content, and says who signed it.
func (a Asker) JudgeContent(ctx context.Context, by *signed.Trust, r upstream.Remote, c Content, now time.Time) (v Verdict, err error) {
	ctx, span := telemetry.Child(ctx, a.Tracer, "gitcache.verify", trace.WithAttributes(attribute.String("object", c.Name)))
	defer span.End()
	if by.Policy.Provider == signed.Provenance {
		v, err = a.judgeProvenance(ctx, by, r, c, now)
	} else {
		v, err = a.judgeSignatures(ctx, by, r, c, now)
	}
	if err != nil {
		span.SetStatus(codes.Error, "verify")
		return v, err
	}
	result := "ok"
	if v.No != nil {
		result = string(v.No.Kind)
		span.SetStatus(codes.Error, result)
	}
	a.Metrics.CountVerification(result)
	return v, nil
}

// judgeSignatures is content with one good signature, and else says what is wrong with the last.
func (a Asker) judgeSignatures(ctx context.Context, by *signed.Trust, r upstream.Remote, c Content, now time.Time) (v Verdict, err error) {
	of := signed.Subject{Digest: oci.Digest(c.Listed.Manifest), Repository: registry.RepositoryName(r, c.Listed.Chart)}
	if c.Artifact != nil {
		of.Digest = c.Artifact.Manifest
	}
	if named := by.Policy.Repository; named != "" {
		of.Repository = path.Join(named, c.Listed.Chart)
	}
	v.No = signature.Refuse(signature.Unsigned, "is not signed")
	look := registry.Signed{Chart: c.Listed.Chart, Digest: of.Digest, Form: oci.FormCosign}
	if by.Policy.Provider == signed.Notation {
		look.Form = oci.FormNotation
	}
	n, err := a.Signatures.Signatures(ctx, r, look, func(s oci.Signature) bool {
		v.SignedBy, v.No = by.Signature(s, of, now)
		return v.No == nil
	})
	a.Metrics.CountListing(n)
	return v, err
}

// judgeProvenance verifies the provenance file of a package, which names the package's digest.
func (a Asker) judgeProvenance(ctx context.Context, by *signed.Trust, r upstream.Remote, c Content, now time.Time) (v Verdict, err error) {
	text, err := a.Signatures.Provenance(ctx, r, c.Listed)
	if known, ok := errors.AsType[*upstream.Error](err); ok && known.Kind == upstream.KindNotFound {
		v.No = signature.Refuse(signature.Unsigned, "has no provenance file (.prov) that can be read (%s)", known.Message)
		return v, nil
	}
	if err != nil {
		return v, err
	}
	a.Metrics.CountListing(int64(len(text)))
	if text == nil {
		v.No = signature.Refuse(signature.Unsigned, "has no provenance file (.prov)")
		return v, nil
	}
	v.SignedBy, v.Sum, v.No = by.Provenance(text, signed.PackageFile(c.Listed.Chart, c.Listed.Version), now)
	if v.No == nil && c.Listed.Digest != "" && c.Listed.Digest != v.Sum {
		v.No = signature.Refuse(signature.Invalid, "has a provenance file by key %s that is of another package: it names sha256:%s..., and %s sha256:%s...",
			v.SignedBy, v.Sum[:12], "what is listed is", c.Listed.Digest[:12])
	}
	return v, nil
}
