// Package mirror pushes what a release's bundle has, images with their lists of modules and charts, into a registry. A
// bundle is a tar of an OCI layout. Images and charts that the registry has already are left alone, so that a push that
// was cut off is simply repeated.
package mirror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"fairlead.dev/platform/loopback"
)

// Registry is where to push.
type Registry struct {
	base  string // host, and a path below it
	plain bool   // HTTP, which only addresses of this machine may have
	auth  *auth.Client
}

// Options of a registry.
type Options struct {
	// CA is an authority of its own besides those of this machine, in PEM; empty: none.
	CA []byte
	// Username and Password: without them, those that `docker login`, `helm registry login` and others have kept count.
	Username, Password string
}

// Open takes host/path, such as registry.example.com/fairlead. Open asks the registry nothing.
func Open(address string, o Options) (*Registry, error) {
	r := &Registry{base: strings.TrimSuffix(strings.TrimPrefix(address, "https://"), "/")}
	if rest, ok := strings.CutPrefix(r.base, "http://"); ok {
		r.base, r.plain = rest, true
	}
	parsed, err := registry.ParseReference(r.base + "/name")
	if err != nil {
		return nil, fmt.Errorf("registry %q: must be a host and a path in lower case, such as registry.example.com/fairlead", address)
	}
	if host := dockerHostname(parsed.Registry); r.plain && !loopback.Host(host) {
		return nil, fmt.Errorf("registry %q: http:// is for addresses of this machine only, because images and passwords would go to %s in clear text", address, host)
	}
	client, err := httpClient(o.CA)
	if err != nil {
		return nil, err
	}
	r.auth = &auth.Client{Client: client, Cache: auth.NewCache()}
	r.auth.SetUserAgent("fairlead")
	if o.Username != "" {
		r.auth.Credential = auth.StaticCredential(parsed.Registry,
			auth.Credential{Username: o.Username, Password: o.Password})
		return r, nil
	}
	kept, err := credentials.NewStoreFromDocker(credentials.StoreOptions{DetectDefaultNativeStore: true})
	if err != nil {
		return nil, fmt.Errorf("read kept credentials: %w", err)
	}
	r.auth.Credential = credentials.Credential(kept)
	return r, nil
}

func dockerHostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}

func httpClient(ca []byte) (*http.Client, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport is none of HTTP")
	}
	transport = transport.Clone()
	if len(ca) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(ca) {
			return nil, errors.New("the file with the registry's authority has no certificate in PEM")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: retry.NewTransport(transport)}, nil
}

// Bundle is an opened bundle. Its parts are read from the file as they are pushed.
type Bundle struct {
	store *oci.ReadOnlyStore
	// Names are what it has, such as console:v1.2.3, sorted.
	Names []string
}

// Read opens a bundle.
func Read(ctx context.Context, path string) (*Bundle, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	store, err := oci.NewFromTar(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("read %s: it is no bundle of a release: %w", path, err)
	}
	b := &Bundle{store: store}
	if err := store.Tags(ctx, "", func(tags []string) error {
		b.Names = append(b.Names, slices.DeleteFunc(slices.Clone(tags), isDigest)...)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", path, err)
	}
	if len(b.Names) == 0 {
		return nil, fmt.Errorf("bundle %s names nothing: it is no bundle of a release", path)
	}
	slices.Sort(b.Names)
	return b, nil
}

func isDigest(tag string) bool {
	_, err := digest.Parse(tag)
	return err == nil
}

// Result of one push.
type Result struct {
	Reference string // with the registry
	Digest    string
	There     bool // the registry had it before: nothing was pushed
	Pushed    int  // blobs and manifests that the registry lacked
	Bytes     int64
}

// OtherError is about a version that the registry has with other content.
type OtherError struct{ Reference, Found, Wanted string }

func (e *OtherError) Error() string {
	return fmt.Sprintf("%s is there as %s, and the bundle has %s: a version does not change. --replace puts the bundle's in its place", e.Reference, e.Found, e.Wanted)
}

// PushImage brings one name of the bundle into the registry, and returns when it is there whole: the tag comes last.
// With replace it takes the place of other content of the same tag.
func (r *Registry) PushImage(ctx context.Context, b *Bundle, name string, replace bool) (Result, error) {
	result := Result{Reference: r.base + "/" + name}
	root, err := b.store.Resolve(ctx, name)
	if err != nil {
		return result, fmt.Errorf("find %s in the bundle: %w", name, err)
	}
	result.Digest = root.Digest.String()
	to, err := remote.NewRepository(result.Reference)
	if err != nil {
		return result, fmt.Errorf("push %s: %w", name, err)
	}
	to.Client, to.PlainHTTP = r.auth, r.plain
	there, err := to.Resolve(ctx, to.Reference.Reference)
	switch {
	case err == nil && there.Digest == root.Digest:
		result.There = true
		return result, nil
	case err == nil && !replace:
		return result, &OtherError{result.Reference, there.Digest.String(), result.Digest}
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return result, fmt.Errorf("look for %s: %w", result.Reference, err)
	}
	var pushed, bytes atomic.Int64
	options := oras.DefaultCopyOptions
	options.PostCopy = func(_ context.Context, d ocispec.Descriptor) error {
		pushed.Add(1)
		bytes.Add(d.Size)
		return nil
	}
	if _, err := oras.Copy(ctx, b.store, name, to, to.Reference.Reference, options); err != nil {
		return result, fmt.Errorf("push %s: %w", result.Reference, err)
	}
	result.Pushed, result.Bytes = int(pushed.Load()), bytes.Load()
	return result, nil
}
