package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/archive"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/helm"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signed"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// ChartPolls are what the last poll of a registry saw of its charts' repositories, by chart.
type ChartPolls map[string]*looking

// ChooseVersions chooses a version for each ref among the tags of the chart's repository. A version that is written
// whole is asked for by its tag; for a range all tags are listed. last is what the last poll returned, or nil.
func (g *Registries) ChooseVersions(ctx context.Context, r upstream.Remote, wants map[string]helm.Want, last ChartPolls) (
	choices map[string]helm.Choice, now ChartPolls, bytes int64, err error,
) {
	if r, err = checkRegistry(r); err != nil {
		return nil, nil, 0, err
	}
	choices, now = map[string]helm.Choice{}, ChartPolls{}
	for ref, want := range wants {
		look := now[want.Chart]
		if look == nil {
			look = &looking{g: g, r: r, repository: path.Join(artifactRepository(r), want.Chart), next: manifests{}, heads: map[string]oci.Digest{}}
			if last[want.Chart] != nil {
				look.last = last[want.Chart].next
			}
			now[want.Chart] = look
		}
		choice, err := look.chooseChart(ctx, want)
		known, ok := errors.AsType[*upstream.Error](err)
		switch {
		case err == nil:
		case ok && (isSingle(err) || known.Kind == upstream.KindCredentials):
			choice.Err = err
		default:
			return nil, nil, 0, err
		}
		choices[ref] = choice
	}
	for _, look := range now {
		bytes += look.bytes
		look.last, look.tags, look.heads = nil, nil, nil // of this poll only
	}
	return choices, now, bytes, nil
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
		n, err := l.g.listTags(ctx, l.r, l.repository, func(tag string) { l.tags = append(l.tags, tag) })
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
		return choice, &upstream.Error{Kind: upstream.KindContent, Message: fmt.Sprintf("%s %s (%s) can't be used: %s", want.Chart, version, digest.Short(), upstream.CleanLine(err.Error()))}
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

// FetchPackage brings the package of a version of a chart, as a commit.
func (g *Registries) FetchPackage(
	ctx context.Context, r upstream.Remote, v helm.Version, into upstream.Target,
) (commit git.Hash, n int64, err error) {
	if r, err = checkRegistry(r); err != nil {
		return commit, 0, err
	}
	var chart *archive.Objects
	layer := oci.Layer{Digest: oci.Digest(catalog.DigestPrefix + v.Digest), Size: v.Size}
	n, err = g.getBlob(ctx, r, path.Join(artifactRepository(r), v.Chart), layer, func(body io.Reader) (err error) {
		chart, err = helm.Unpack(ctx, body, g.dir, v)
		return err
	})
	if chart != nil {
		defer chart.Close()
	}
	if err != nil {
		return commit, n, err
	}
	return chart.Commit, n, g.client.StoreObjects(ctx, r, chart, into)
}

// FetchProvenance brings the provenance file of a version of a chart, which is a layer; nil: there is none.
func (g *Registries) FetchProvenance(ctx context.Context, r upstream.Remote, v helm.Version) ([]byte, error) {
	r, err := checkRegistry(r)
	if err != nil || v.Provenance == "" {
		return nil, err
	}
	layer := oci.Layer{Digest: oci.Digest(v.Provenance), Size: v.ProvenanceSize}
	if layer.Size > signed.MaxProvenanceBytes {
		return nil, &upstream.Error{
			Kind: upstream.KindContent, Limit: true,
			Message: fmt.Sprintf("the provenance file has %d bytes, and the limit is %d MiB", layer.Size, signed.MaxProvenanceBytes>>20),
		}
	}
	var text bytes.Buffer
	_, err = g.getBlob(ctx, r, path.Join(artifactRepository(r), v.Chart), layer, func(body io.Reader) error {
		_, err := io.Copy(&text, body)
		return err
	})
	return text.Bytes(), err
}
