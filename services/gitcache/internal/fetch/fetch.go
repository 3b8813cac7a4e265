// Package fetch puts the fetchers together: a Git host is asked by http or ssh, or by the git executable where nothing
// else will do, and registries, chart repositories and buckets share the http client. The fetchers are the only part of
// the hub that talks to upstream: one small request per poll, and a pack only for what is wanted and not there yet.
//
// Invariants: see package upstream.
package fetch

import (
	"context"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// Fetcher talks to upstream. Implementations hold no state of repositories but what makes the next request
// cheaper, and may be used by many goroutines. All errors but the context's are an *upstream.Error.
type Fetcher interface {
	// List asks where refs point: one small request, no objects. No refs at all is not an error.
	List(ctx context.Context, r upstream.Remote, names gitwire.Names) (*gitwire.Listing, error)
	// Fetch brings wants, objects of the listing or commits below them, and all that they reach.
	Fetch(ctx context.Context, r upstream.Remote, l *gitwire.Listing, wants []git.Hash, into upstream.Target) (bytes int64, err error)
}

// SignatureFetcher brings what says that something is signed. All errors but the context's are an *upstream.Error.
// Bytes is what came.
type SignatureFetcher interface {
	// Signatures has a function see the signatures of a manifest, one after the other, until it is content with one. An
	// error means that it is not known whether there are others.
	Signatures(ctx context.Context, r upstream.Remote, of registry.Signed, judge func(oci.Signature) (isGood bool)) (bytes int64, err error)
	// Provenance brings the provenance file of a version; nil: there is none.
	Provenance(ctx context.Context, r upstream.Remote, v helm.Version) (text []byte, err error)
}
