package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/upstream"
)

const (
	// mirrorRest is how long a mirror that can't be used is left alone.
	mirrorRest = 5 * time.Minute
	// mirrorPatience is how long the end of a request is not the fault of the mirror that was asked: a caller may have
	// left.
	mirrorPatience = 15 * time.Second
	// maxResting bounds what is remembered so: one for each mirror, repository and secret.
	maxResting = 10_000
)

// mirrorsOf are the mirrors of a registry, for one of its repositories. The source's own login and its leave to go
// without TLS are not for them: a mirror gets what a docker config has for its host, if it has an entry for it.
func mirrorsOf(r upstream.Remote, repository string) (mirrors []upstream.Remote) {
	for mirror := range strings.FieldsSeq(r.Registry.Mirrors) {
		host, prefix, _ := strings.Cut(mirror, "/")
		u := &url.URL{Scheme: "https", Host: host, Path: "/" + path.Join(prefix, repository)}
		c := r.Credentials
		is := upstream.Remote{
			URL: u, Secret: r.Secret, Proxy: r.Proxy, Registry: upstream.Registry{Is: true, IsMirror: true},
			Credentials: upstream.Credentials{CA: c.CA, ProxyUsername: c.ProxyUsername, ProxyPassword: c.ProxyPassword},
		}
		if c.DockerConfig != "" {
			if username, password, err := oci.DockerLogin(c.DockerConfig, host, u.Path); err == nil {
				is.Credentials.Username, is.Credentials.Password = username, password
			}
		}
		mirrors = append(mirrors, is)
	}
	return mirrors
}

// resting remembers mirrors that could not be used a moment ago.
type resting struct {
	mu    sync.Mutex // guards until
	until map[restingKey]time.Time
}

// restingKey is a mirror as a source asks it. A secret, a proxy or a repository of one team may be wrong while the
// mirror works for others.
type restingKey struct {
	host, path    string // of the repository at the mirror
	secret, proxy string
}

func restingKeyOf(mirror upstream.Remote) restingKey {
	key := restingKey{host: mirror.URL.Host, path: mirror.URL.Path, secret: mirror.Secret}
	if mirror.Proxy != nil {
		key.proxy = mirror.Proxy.String()
	}
	return key
}

func (l *resting) isResting(key restingKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until[key])
}

// noteRest records why a mirror was of no use. A mirror that lacks something may have the next thing, and the
// gitcache's own disk is not the mirror's fault.
func (l *resting) noteRest(key restingKey, err error) {
	known, ok := err.(*upstream.Error) //nolint:errorlint // as ask returns it
	if !ok || known.Kind == upstream.KindNotFound || known.Kind == upstream.KindStorage {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.until) >= maxResting {
		maps.DeleteFunc(l.until, func(_ restingKey, until time.Time) bool { return !now.Before(until) })
	}
	if len(l.until) >= maxResting {
		clear(l.until)
	}
	l.until[key] = now.Add(max(mirrorRest, known.RetryAfter))
}

// fromMirrors asks the mirrors of a registry one after the other, and then the registry itself. What is asked for must
// have a digest, and ask must check it: a mirror is not trusted.
func (g *Registries) fromMirrors(
	ctx context.Context, r upstream.Remote, repository string, ask func(r upstream.Remote, repository string) error,
) error {
	var why []string
	for _, mirror := range mirrorsOf(r, repository) {
		key := restingKeyOf(mirror)
		if g.resting.isResting(key) {
			continue
		}
		began := time.Now()
		err := ask(mirror, artifactRepository(mirror))
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			if time.Since(began) > mirrorPatience { // else the next request ends at the same mirror
				g.resting.noteRest(key, &upstream.Error{Kind: upstream.KindTimeout})
			}
			return err
		}
		g.resting.noteRest(key, err)
		why = append(why, fmt.Sprintf("The mirror %s: %s", mirror.URL.Host, err))
	}
	err := ask(r, repository)
	if known, ok := err.(*upstream.Error); ok && known != errNoManifest && len(why) > 0 { //nolint:errorlint // as ask returns it
		both := *known
		both.Message = strings.Join(append([]string{known.Message}, why...), ". ")
		return &both
	}
	return err
}

// getBlob downloads a layer and has it read. From a mirror it is read when all of it came and has its digest; from the
// registry itself the content is checked only at its end.
func (g *Registries) getBlob(
	ctx context.Context, r upstream.Remote, repository string, l oci.Layer, read func(io.Reader) error,
) (n int64, err error) {
	if l.Size > oci.MaxLayerBytes {
		return 0, &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("layer %s has %d MiB, and the limit is %d MiB",
			l.Digest.Short(), l.Size>>20, oci.MaxLayerBytes>>20)}
	}
	var kept *os.File
	err = g.fromMirrors(ctx, r, repository, func(r upstream.Remote, repository string) error {
		if !r.Registry.IsMirror {
			got, err := g.readBlob(ctx, r, repository, l, read)
			n += got
			return err
		}
		file, got, err := g.keepBlob(ctx, r, repository, l)
		n += got
		kept = file
		return err
	})
	if kept == nil {
		return n, err
	}
	defer kept.Close()
	if err := read(kept); err != nil {
		return n, g.client.AnswerError(ctx, ctx, r, r.URL, upstream.PackageError(err, true))
	}
	return n, nil
}

// keepBlob downloads a layer into a file that has no name any more, and is at its beginning; nil: it did not come.
func (g *Registries) keepBlob(
	ctx context.Context, r upstream.Remote, repository string, l oci.Layer,
) (*os.File, int64, error) {
	file, err := os.CreateTemp(g.dir, "layer-*")
	if err != nil {
		return nil, 0, upstream.StorageError(err)
	}
	err = os.Remove(file.Name())
	var n int64
	if err == nil {
		n, err = g.readBlob(ctx, r, repository, l, func(body io.Reader) error {
			_, err := io.Copy(file, body)
			return err
		})
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, n, err
	}
	return file, n, nil
}

// readBlob downloads a layer from where r is, and has it read. What was read counts only if there is no error.
func (g *Registries) readBlob(
	ctx context.Context, r upstream.Remote, repository string, l oci.Layer, read func(io.Reader) error,
) (n int64, err error) {
	u := registryURL(r, repository, "blobs", string(l.Digest))
	err = g.askRegistry(ctx, r, repository, http.MethodGet, u, upstream.Packs, "", func(resp *http.Response, body io.Reader) error {
		if resp.StatusCode != http.StatusOK {
			e := registryError(r, repository, resp)
			if e.Kind == upstream.KindNotFound {
				e.Message = fmt.Sprintf("%d from %s: layer %s, which the manifest names, is not there. Push the artifact again", resp.StatusCode, resp.Request.URL.Host, l.Digest.Short())
			}
			return e
		}
		if resp.ContentLength >= 0 && resp.ContentLength != l.Size {
			return wrongLength(l, resp.ContentLength)
		}
		sum := sha256.New()
		taken := upstream.CapReader(io.LimitReader(body, l.Size+1), oci.MaxLayerBytes+1, "layer")
		defer func() { n = taken.BytesTaken() }()
		if err := read(io.TeeReader(taken, sum)); err != nil {
			return upstream.PackageError(err, taken.Ended)
		}
		if taken.BytesTaken() != l.Size {
			return wrongLength(l, taken.BytesTaken())
		}
		if got := oci.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil))); got != l.Digest {
			return &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("layer %s came with the digest %s. Tell the registry's owner, and push the artifact again", l.Digest.Short(), got.Short())}
		}
		return nil
	})
	return n, err
}

func wrongLength(l oci.Layer, got int64) *upstream.Error {
	return &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("layer %s has %d bytes, and the manifest says %d. Tell the registry's owner, and push the artifact again", l.Digest.Short(), got, l.Size)}
}
