// Package fetch asks Git hosts where refs point and brings the objects. The package is the only part of the hub that
// talks to Git hosts: one small request per poll, and a pack only for what is wanted and not there yet.
//
// Invariants: credentials go to the scheme, host and port they were given for and to nobody else; every
// network step has a deadline; no error carries a credential or a URL's user.
package fetch

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/oci"
)

// Fetcher talks to upstream. Implementations hold no state of repositories but what makes the next request
// cheaper, and may be used by many goroutines. All errors but the context's are an *Error.
type Fetcher interface {
	// List asks where refs point: one small request, no objects. No refs at all is not an error.
	List(ctx context.Context, r Remote, names Names) (*Listing, error)
	// Fetch brings wants, objects of the listing or commits below them, and all that they reach.
	Fetch(ctx context.Context, r Remote, l *Listing, wants []plumbing.Hash, into Target) (bytes int64, err error)
}

// SignatureFetcher brings what says that something is signed. All errors but the context's are an *Error. Bytes is what came.
type SignatureFetcher interface {
	// Signatures has a function see the signatures of a manifest, one after the other, until it is content with one. An error means that
	// it is not known whether there are others.
	Signatures(ctx context.Context, r Remote, of Signed, judge func(oci.Signature) (isGood bool)) (bytes int64, err error)
	// Provenance brings the provenance file of a version; nil: there is none.
	Provenance(ctx context.Context, r Remote, v helm.Version) (text []byte, err error)
}
