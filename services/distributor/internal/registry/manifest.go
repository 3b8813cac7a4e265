package registry

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"

	"fairlead.dev/platform/artifact"
)

const (
	mediaTypeManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	// mediaTypeArtifact says that the layer is an artifact of Fairlead's content network.
	mediaTypeArtifact = "application/vnd.fairlead.artifact.v1"
	// mediaTypeLayer is what Flux, Argo CD and ORAS take for a folder of files.
	mediaTypeLayer  = "application/vnd.oci.image.layer.v1.tar+gzip"
	mediaTypeConfig = "application/vnd.oci.empty.v1+json"
	config          = "{}"
	noReferrers     = `{"schemaVersion":2,"mediaType":"` + mediaTypeIndex + `","manifests":[]}`

	// titleAnnotation has the name that `oras pull` gives the file.
	titleAnnotation = "org.opencontainers.image.title"
	title           = "artifact.tar.gz"
	// folderAnnotation names the folder of the layer that the service is, where there is more in it: what the folder
	// refers to.
	folderAnnotation = "dev.fairlead.artifact.folder"

	// mostKnown manifests are kept in memory, about 1 KB each.
	mostKnown = 10_000
	// describing artifacts are read at once to make their manifests: each takes a core for a moment.
	describing = 2
)

func configDigest() artifact.Digest { return digestOf([]byte(config)) }

func digestOf(text []byte) artifact.Digest {
	sum := sha256.Sum256(text)
	return artifact.SumDigest(sum[:])
}

// manifest is that of an artifact.
type manifest struct {
	digest, layer artifact.Digest
	text          []byte
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      artifact.Digest   `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// newManifest is a function of the artifact, for ever: another text changes the digests of all, and clients deploy
// again.
func newManifest(layer artifact.Layer) *manifest {
	var annotations map[string]string
	if layer.Base != "" {
		annotations = map[string]string{folderAnnotation: artifact.Printable(layer.Base)}
	}
	text := encode(struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		ArtifactType  string            `json:"artifactType"`
		Config        descriptor        `json:"config"`
		Layers        []descriptor      `json:"layers"`
		Annotations   map[string]string `json:"annotations,omitempty"`
	}{
		2, mediaTypeManifest, mediaTypeArtifact,
		descriptor{MediaType: mediaTypeConfig, Digest: configDigest(), Size: int64(len(config))},
		[]descriptor{{
			MediaType: mediaTypeLayer, Digest: layer.Digest, Size: layer.Size,
			Annotations: map[string]string{titleAnnotation: title},
		}},
		annotations,
	})
	return &manifest{digest: digestOf(text), layer: layer.Digest, text: text}
}

// manifests remembers those that were made: to make one, the whole artifact is read.
type manifests struct {
	turns   chan struct{}
	flights singleflight.Group // by digest of the artifact

	mu  sync.Mutex // guards all
	all map[artifact.Digest]*manifest
}

func newManifests() *manifests {
	return &manifests{turns: make(chan struct{}, describing), all: map[artifact.Digest]*manifest{}}
}

func (m *manifests) find(d artifact.Digest) *manifest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[d]
}

func (m *manifests) keep(d artifact.Digest, made *manifest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) >= mostKnown {
		clear(m.all) // they are made again
	}
	m.all[d] = made
}

// manifestOf returns the manifest of an artifact. However many callers ask at once, the artifact is read once.
func (g *Registry) manifestOf(ctx context.Context, d artifact.Digest) (*manifest, error) {
	if m := g.known.find(d); m != nil {
		return m, nil
	}
	b, err := g.open(ctx, d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }() // opened for reading: nothing to lose
	made, err, _ := g.known.flights.Do(string(d), func() (any, error) {
		if m := g.known.find(d); m != nil {
			return m, nil
		}
		g.known.turns <- struct{}{} // comes in a moment: reading waits for the disk only
		defer func() { <-g.known.turns }()
		layer, err := b.Layer()
		if err != nil {
			return nil, err
		}
		m := newManifest(layer)
		g.known.keep(d, m)
		return m, nil
	})
	if err != nil {
		return nil, fmt.Errorf("describe artifact: %w", err)
	}
	return made.(*manifest), nil //nolint:forcetypeassert // as above
}
