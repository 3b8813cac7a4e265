package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/oci"
	tags "fairlead.dev/services/gitcache/internal/semver"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// latest is the tag of a service that names none.
const latest = "latest"

// Artifact is what a tag or a digest of a registry stands for.
type Artifact struct {
	Tag      string     // empty: it was named by its digest
	Manifest oci.Digest // of the manifest, or of the index
	Layers   []oci.Layer
	Created  time.Time // zero: it is not said
}

// ID stands for the content of an artifact: other layers are another id, another manifest with the same layers under a
// tag is not.
func (a Artifact) ID() git.Hash {
	var b strings.Builder
	b.WriteString(cmp.Or(a.Tag, string(a.Manifest))) // the subject names it
	for _, l := range a.Layers {
		fmt.Fprintf(&b, "\x00%s\x00%s", l.Digest, l.Title)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return git.Hash(sum[:20])
}

// Answer is what a registry has for a ref.
type Answer struct {
	Artifact *Artifact   // nil: there is none
	Choice   tags.Choice // of a range: what it found among the tags
	Err      error       // why there is none; nil: the registry has no such tag, or no such artifact
}

// Artifacts is what a registry has for some refs.
type Artifacts struct {
	Answers map[string]Answer
	// Bytes that came for it.
	Bytes int64

	manifests manifests
}

// manifests are those of the last poll by repository@digest: one that is named again is not asked for again.
type manifests map[string]*oci.Manifest

// Fetcher talks to registries. All errors but the context's are an *upstream.Error.
type Fetcher interface {
	// ListArtifacts asks what tags stand for: one request for each, and one for the list of tags if a ref is a range.
	// layerType chooses the layer; last is what the last poll found, or nil.
	ListArtifacts(ctx context.Context, r upstream.Remote, refs []string, layerType string, last *Artifacts) (*Artifacts, error)
	// FetchArtifact brings the layers of an artifact, as the commit that it returns. After an error nothing of it is
	// there.
	FetchArtifact(ctx context.Context, r upstream.Remote, a Artifact, into upstream.Target) (commit git.Hash, bytes int64, err error)
}

// artifactRepository is the name of the repository of a source.
func artifactRepository(r upstream.Remote) string { return strings.TrimPrefix(r.URL.Path, "/") }

// isSingle tells errors of one artifact from those of the registry.
func isSingle(err error) bool {
	known, ok := errors.AsType[*upstream.Error](err)
	return ok && (known.Kind == upstream.KindContent || known.Kind == upstream.KindNotFound || known.Kind == upstream.KindRefused)
}

// ListArtifacts asks what tags stand for.
func (g *Registries) ListArtifacts(
	ctx context.Context, r upstream.Remote, refs []string, layerType string, last *Artifacts,
) (*Artifacts, error) {
	r, err := checkRegistry(r)
	if err != nil {
		return nil, err
	}
	now := &Artifacts{Answers: map[string]Answer{}, manifests: manifests{}}
	look := &looking{g: g, r: r, repository: artifactRepository(r), next: now.manifests, heads: map[string]oci.Digest{}}
	if last != nil {
		look.last = last.manifests
	}
	defer func() { now.Bytes = look.bytes }()
	for _, ref := range refs {
		tag, digest, choice, err := look.resolveReference(ctx, ref)
		if err == nil && (tag != "" || digest != "") {
			var m *oci.Manifest
			var layers []oci.Layer
			if digest, m, err = look.findManifest(ctx, tag, digest); err == nil && m != nil {
				if layers, err = m.Content(layerType); err == nil {
					now.Answers[ref] = Answer{Artifact: &Artifact{Tag: tag, Manifest: digest, Layers: layers, Created: m.Created}, Choice: choice}
					continue
				}
				err = &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("the artifact %s can't be used: %s", digest.Short(), upstream.CleanLine(err.Error()))}
			}
		}
		if err != nil && !isSingle(err) {
			return nil, err
		}
		if tag != "" || digest != "" || strings.HasPrefix(ref, catalog.SemverPrefix) {
			now.Answers[ref] = Answer{Choice: choice, Err: err}
		}
	}
	return now, nil
}

// looking is one poll of a repository.
type looking struct {
	g          *Registries
	r          upstream.Remote
	repository string
	last, next manifests
	heads      map[string]oci.Digest // by tag: each is asked for once
	tags       []string              // refs/tags/<name>; nil: they were not asked for yet
	bytes      int64
}

// resolveReference is the tag or the digest that a ref means; neither: it is none of a registry, or a range that finds
// nothing.
func (l *looking) resolveReference(
	ctx context.Context, ref string,
) (tag string, digest oci.Digest, choice tags.Choice, err error) {
	switch {
	case ref == "HEAD":
		return latest, "", choice, nil
	case catalog.IsRegistryDigest(ref):
		return "", oci.Digest(ref), choice, nil
	case catalog.IsRegistryTag(strings.TrimPrefix(ref, catalog.TagPrefix)) && strings.HasPrefix(ref, catalog.TagPrefix):
		return strings.TrimPrefix(ref, catalog.TagPrefix), "", choice, nil // it becomes a part of a path at the registry
	case !strings.HasPrefix(ref, catalog.SemverPrefix):
		return "", "", choice, nil
	}
	versions, err := tags.Parse(strings.TrimPrefix(ref, catalog.SemverPrefix))
	if err != nil {
		return "", "", choice, upstream.Refusal("ref %q: %s", ref, err)
	}
	if l.tags == nil {
		l.tags = []string{}
		n, err := l.g.listTags(ctx, l.r, l.repository, func(tag string) {
			l.tags = append(l.tags, tagPrefix+tag)
		})
		l.bytes += n
		if err != nil {
			l.tags = nil
			return "", "", choice, unlessMissing(err)
		}
	}
	choice = versions.Choose(func(yield func(string) bool) {
		for _, tag := range l.tags {
			if !yield(tag) {
				return
			}
		}
	})
	return strings.TrimPrefix(choice.Tag, tagPrefix), "", choice, nil
}

const tagPrefix = "refs/tags/"

// unlessMissing: a registry that has nothing is an answer.
func unlessMissing(err error) error {
	if err == errNoManifest { //nolint:errorlint // it is returned as it is
		return nil
	}
	return err
}

// findManifest gets the manifest of a tag or a digest; nil: there is none.
func (l *looking) findManifest(ctx context.Context, tag string, digest oci.Digest) (oci.Digest, *oci.Manifest, error) {
	if tag != "" {
		known, ok := l.heads[tag]
		if !ok {
			var err error
			if known, err = l.g.headManifest(ctx, l.r, l.repository, tag); err != nil {
				return "", nil, unlessMissing(err)
			}
			l.heads[tag] = known
		}
		digest = known
	}
	key := l.repository + "@" + string(digest)
	m := l.last[key]
	if m == nil {
		m = l.next[key]
	}
	if m == nil {
		is, n, err := l.g.imageManifest(ctx, l.r, l.repository, digest)
		l.bytes += n
		if err != nil {
			return digest, nil, unlessMissing(err)
		}
		m = is
	}
	l.next[key] = m
	return digest, m, nil
}

// FetchArtifact brings the layers of an artifact.
func (g *Registries) FetchArtifact(
	ctx context.Context, r upstream.Remote, a Artifact, into upstream.Target,
) (commit git.Hash, n int64, err error) {
	if r, err = checkRegistry(r); err != nil {
		return commit, 0, err
	}
	u, err := oci.Unpack(g.dir)
	if err != nil {
		return commit, 0, upstream.StorageError(err)
	}
	for _, l := range a.Layers {
		got, err := g.getBlob(ctx, r, artifactRepository(r), l, func(body io.Reader) error { return u.Add(ctx, body, l) })
		n += got
		if err != nil {
			u.Close()
			return commit, n, err
		}
	}
	objects, err := u.Commit(a.describeSubject(artifactRepository(r)))
	if err != nil {
		u.Close()
		return commit, n, upstream.StorageError(err)
	}
	defer objects.Close()
	return objects.Commit, n, g.client.StoreObjects(ctx, r, objects, into)
}

// describeSubject is what people read of an artifact: its repository's name and its tag, and nothing that changes with
// the time of a push.
func (a Artifact) describeSubject(repository string) string {
	what := a.Tag
	if what == "" {
		what = a.Manifest.Short()
	}
	return path.Base(repository) + " " + what
}
