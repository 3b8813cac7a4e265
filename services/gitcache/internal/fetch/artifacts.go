package fetch

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

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/oci"
	tags "fairlead.dev/services/gitcache/internal/semver"
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

// ID stands for the content of an artifact: other layers are another id, another manifest with the same layers under a tag is not.
func (a Artifact) ID() plumbing.Hash {
	var b strings.Builder
	b.WriteString(cmp.Or(a.Tag, string(a.Manifest))) // the subject names it
	for _, l := range a.Layers {
		fmt.Fprintf(&b, "\x00%s\x00%s", l.Digest, l.Title)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return plumbing.Hash(sum[:20])
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

// ArtifactFetcher talks to registries. All errors but the context's are an *Error.
type ArtifactFetcher interface {
	// ListArtifacts asks what tags stand for: one request for each, and one for the list of tags if a ref is a range. layerType
	// chooses the layer; last is what the last poll found, or nil.
	ListArtifacts(ctx context.Context, r Remote, refs []string, layerType string, last *Artifacts) (*Artifacts, error)
	// FetchArtifact brings the layers of an artifact, as the commit that it returns. After an error nothing of it is there.
	FetchArtifact(ctx context.Context, r Remote, a Artifact, into Target) (commit plumbing.Hash, bytes int64, err error)
}

// ListArtifacts asks what tags stand for.
func (f *Fetchers) ListArtifacts(ctx context.Context, r Remote, refs []string, layerType string, last *Artifacts) (*Artifacts, error) {
	return f.http.listArtifacts(ctx, r, refs, layerType, last)
}

// FetchArtifact brings the layers of an artifact.
func (f *Fetchers) FetchArtifact(ctx context.Context, r Remote, a Artifact, into Target) (plumbing.Hash, int64, error) {
	return f.http.fetchArtifact(ctx, r, a, into, f.dir)
}

// artifactRepository is the name of the repository of a source.
func artifactRepository(r Remote) string { return strings.TrimPrefix(r.URL.Path, "/") }

// isSingle tells errors of one artifact from those of the registry.
func isSingle(err error) bool {
	known, ok := errors.AsType[*Error](err)
	return ok && (known.Kind == KindContent || known.Kind == KindNotFound || known.Kind == KindRefused)
}

func (h *HTTP) listArtifacts(ctx context.Context, r Remote, refs []string, layerType string, last *Artifacts) (*Artifacts, error) {
	r, err := r.checkRegistry()
	if err != nil {
		return nil, err
	}
	now := &Artifacts{Answers: map[string]Answer{}, manifests: manifests{}}
	look := &looking{h: h, r: r, repository: artifactRepository(r), next: now.manifests, heads: map[string]oci.Digest{}}
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
				err = &Error{Kind: KindContent, Message: fmt.Sprintf("the artifact %s can't be used: %s", digest.Short(), cleanLine(err.Error()))}
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
	h          *HTTP
	r          Remote
	repository string
	last, next manifests
	heads      map[string]oci.Digest // by tag: each is asked for once
	tags       []string              // refs/tags/<name>; nil: they were not asked for yet
	bytes      int64
}

// resolveReference is the tag or the digest that a ref means; neither: it is none of a registry, or a range that finds nothing.
func (l *looking) resolveReference(ctx context.Context, ref string) (tag string, digest oci.Digest, choice tags.Choice, err error) {
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
		return "", "", choice, refusalError("ref %q: %s", ref, err)
	}
	if l.tags == nil {
		l.tags = []string{}
		n, err := l.h.listTags(ctx, l.r, l.repository, func(tag string) {
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
			if known, err = l.h.headManifest(ctx, l.r, l.repository, tag); err != nil {
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
		is, n, err := l.h.imageManifest(ctx, l.r, l.repository, digest)
		l.bytes += n
		if err != nil {
			return digest, nil, unlessMissing(err)
		}
		m = is
	}
	l.next[key] = m
	return digest, m, nil
}

func (h *HTTP) fetchArtifact(ctx context.Context, r Remote, a Artifact, into Target, dir string) (commit plumbing.Hash, n int64, err error) {
	if r, err = r.checkRegistry(); err != nil {
		return commit, 0, err
	}
	u, err := oci.Unpack(dir)
	if err != nil {
		return commit, 0, storageError(err)
	}
	for _, l := range a.Layers {
		got, err := h.getBlob(ctx, r, artifactRepository(r), l, func(body io.Reader) error { return u.Add(ctx, body, l) })
		n += got
		if err != nil {
			u.Close()
			return commit, n, err
		}
	}
	objects, err := u.Commit(a.describeSubject(artifactRepository(r)))
	if err != nil {
		u.Close()
		return commit, n, storageError(err)
	}
	defer objects.Close()
	return objects.Commit, n, h.storeObjects(ctx, r, objects, into)
}

// describeSubject is what people read of an artifact: its repository's name and its tag, and nothing that changes with the time of a push.
func (a Artifact) describeSubject(repository string) string {
	what := a.Tag
	if what == "" {
		what = a.Manifest.Short()
	}
	return path.Base(repository) + " " + what
}

// storeObjects puts objects into the mirror.
func (h *HTTP) storeObjects(ctx context.Context, r Remote, objects *archive.Objects, into Target) error {
	checked, err := h.budget.checkTurn(ctx, r.doorOf(r.URL)) // few packs are checked at once: it takes memory
	if err != nil {
		return err
	}
	defer checked()
	pack, err := objects.Pack()
	if err == nil {
		_, err = into.AddPack(ctx, pack)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return storageError(err)
}

func storageError(err error) *Error {
	return &Error{Kind: KindStorage, cause: err, Message: "what came can't be kept: " + cleanLine(err.Error())}
}

// listRegistryCharts chooses a version for each ref among the tags of the chart's repository. A version that is written whole is asked
// for by its tag; for a range all tags are listed.
func (h *HTTP) listRegistryCharts(ctx context.Context, r Remote, wants map[string]helm.Want, last *Charts) (*Charts, error) {
	r, err := r.checkRegistry()
	if err != nil {
		return nil, err
	}
	now := &Charts{of: r.URL.String(), Choices: map[string]helm.Choice{}, looks: map[string]*looking{}}
	for ref, want := range wants {
		look := now.looks[want.Chart]
		if look == nil {
			look = &looking{h: h, r: r, repository: path.Join(artifactRepository(r), want.Chart), next: manifests{}, heads: map[string]oci.Digest{}}
			if last != nil && last.looks[want.Chart] != nil {
				look.last = last.looks[want.Chart].next
			}
			now.looks[want.Chart] = look
		}
		choice, err := look.chooseChart(ctx, want)
		known, ok := errors.AsType[*Error](err)
		switch {
		case err == nil:
		case ok && (isSingle(err) || known.Kind == KindCredentials):
			choice.Err = err
		default:
			return nil, err
		}
		now.Choices[ref] = choice
	}
	for _, look := range now.looks {
		now.Bytes += look.bytes
		look.last, look.tags, look.heads = nil, nil, nil // of this poll only
	}
	return now, nil
}

// chooseChart chooses a version.
func (l *looking) chooseChart(ctx context.Context, want helm.Want) (helm.Choice, error) {
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(want.Version, "v")); err == nil {
		choice, err := l.findVersion(ctx, want, want.Version)
		if err != nil || choice.Found() {
			return choice, err
		}
	}
	if l.tags == nil {
		l.tags = []string{}
		n, err := l.h.listTags(ctx, l.r, l.repository, func(tag string) { l.tags = append(l.tags, tag) })
		l.bytes += n
		if err != nil {
			l.tags = nil
			return helm.Choice{}, unlessMissing(err)
		}
	}
	choice, err := helm.ChooseTag(l.tags, want)
	if err != nil || !choice.Found() {
		return choice, err
	}
	found, err := l.findVersion(ctx, want, choice.Version.Version)
	found.Highest, found.Newest = choice.Highest, choice.Newest
	return found, err
}

// findVersion finds the package of a version.
func (l *looking) findVersion(ctx context.Context, want helm.Want, version string) (choice helm.Choice, err error) {
	digest, m, err := l.findManifest(ctx, helm.TagOf(version), "")
	if err != nil || m == nil {
		return choice, err
	}
	layer, err := m.Chart()
	if err != nil {
		return choice, &Error{Kind: KindContent, Message: fmt.Sprintf("%s %s (%s) can't be used: %s", want.Chart, version, digest.Short(), cleanLine(err.Error()))}
	}
	choice.Highest = version
	choice.Version = helm.Version{
		Chart: want.Chart, Version: version, Digest: strings.TrimPrefix(string(layer.Digest), "sha256:"), Size: layer.Size, Created: m.Created,
		Manifest: string(digest),
	}
	if prov, ok := m.Provenance(); ok {
		choice.Version.Provenance, choice.Version.ProvenanceSize = string(prov.Digest), prov.Size
	}
	return choice, nil
}

// fetchRegistryChart brings the package of a version.
func (h *HTTP) fetchRegistryChart(ctx context.Context, r Remote, v helm.Version, into Target, dir string) (commit plumbing.Hash, n int64, err error) {
	if r, err = r.checkRegistry(); err != nil {
		return commit, 0, err
	}
	var chart *archive.Objects
	layer := oci.Layer{Digest: oci.Digest(catalog.DigestPrefix + v.Digest), Size: v.Size}
	n, err = h.getBlob(ctx, r, path.Join(artifactRepository(r), v.Chart), layer, func(body io.Reader) (err error) {
		chart, err = helm.Unpack(ctx, body, dir, v)
		return err
	})
	if chart != nil {
		defer chart.Close()
	}
	if err != nil {
		return commit, n, err
	}
	return chart.Commit, n, h.storeObjects(ctx, r, chart, into)
}
