// Package oci reads what a registry answers: manifests, lists of tags, challenges, and the layers of artifacts, which
// become commits of Git, so that mirrors and everything after them treat an artifact as they treat a commit.
//
// Invariants: what a registry sends is bounded before it is decoded; a manifest is what its media type says, or an
// error; exactly one layer, or set of layers, can be meant.
//
// Nothing here trusts its input, and nothing here talks to anybody. Errors are in words for the owner of the source.
package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/gitcache/internal/archive"
)

const (
	// MaxManifestBytes of a manifest: what registries themselves take.
	MaxManifestBytes = 4 << 20
	// MaxLayerBytes of a layer as it is received.
	MaxLayerBytes = 100 << 20
	// maxLayers of an artifact.
	maxLayers = 1000
	// maxValues of a manifest: a descriptor has about ten, with its annotations.
	maxValues = 50_000
	// maxNamedTypes in a message.
	maxNamedTypes = 5
)

// The media types that are read.
const (
	typeManifest       = "application/vnd.oci.image.manifest.v1+json"
	TypeIndex          = "application/vnd.oci.image.index.v1+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"

	typeChart       = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	typeLegacyChart = "application/tar+gzip"
	typeFlux        = "application/vnd.cncf.flux.content.v1.tar+gzip"
)

const (
	annotationTitle   = "org.opencontainers.image.title"
	annotationCreated = "org.opencontainers.image.created"
)

// Accept is what a request for a manifest accepts.
func Accept() string {
	return strings.Join([]string{typeManifest, TypeIndex, typeDockerManifest, typeDockerIndex}, ", ")
}

// Digest names content: sha256:<hex>.
type Digest string

var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ParseDigest reads a digest.
func ParseDigest(text string) (Digest, error) {
	if !sha256Digest.MatchString(text) {
		return "", fmt.Errorf("%q is not a digest of SHA-256", archive.Shorten(text))
	}
	return Digest(text), nil
}

// Short is a digest for messages.
func (d Digest) Short() string {
	const shown = len("sha256:") + 12
	return string(d[:min(len(d), shown)])
}

// Layer is a blob that a manifest names.
type Layer struct {
	MediaType string
	Digest    Digest
	Size      int64
	// Title is the name of the file, or folder, that it was pushed from; empty: it is not said.
	Title string
}

// Manifest is an artifact.
type Manifest struct {
	Layers  []Layer
	Created time.Time // zero: it is not said
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	URLs        []string          `json:"urls"`
	Annotations map[string]string `json:"annotations"`
}

type document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Layers        []descriptor      `json:"layers"`
	Manifests     []descriptor      `json:"manifests"`
	Blobs         json.RawMessage   `json:"blobs"`
	FSLayers      json.RawMessage   `json:"fsLayers"`
	Annotations   map[string]string `json:"annotations"`
}

// TypeError says that a manifest does not fit to the media type with which a registry sent it. Another registry may
// send the same manifest with the right type; all other errors of Decode are of the manifest itself.
type TypeError string

func (e TypeError) Error() string { return string(e) }

// Decode reads what a registry sent as a manifest. The result is the manifest, or the digest of the one manifest that
// an index holds.
func Decode(body []byte, contentType string) (*Manifest, Digest, error) {
	contentType, _, _ = strings.Cut(contentType, ";")
	contentType = strings.TrimSpace(contentType)
	if err := checkValues(body, maxValues); err != nil {
		return nil, "", fmt.Errorf("the manifest %w", err)
	}
	var doc document
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, "", errors.New("the manifest is not JSON that can be read")
	}
	// A document that one reader takes for a manifest and another for an index has two contents under one digest.
	if doc.MediaType != "" && doc.MediaType != contentType {
		return nil, "", TypeError(fmt.Sprintf("the manifest says that it is %s, and the registry that it is %s", quoted(doc.MediaType), quoted(contentType)))
	}
	switch contentType {
	case typeManifest, typeDockerManifest:
		if doc.Manifests != nil || doc.FSLayers != nil {
			return nil, "", TypeError("the manifest is an index, too, which can't be")
		}
		m, err := doc.manifest()
		return m, "", err
	case TypeIndex, typeDockerIndex:
		if doc.Layers != nil || doc.FSLayers != nil {
			return nil, "", TypeError("the index is a manifest, too, which can't be")
		}
		child, err := doc.child()
		return nil, child, err
	}
	return nil, "", TypeError(fmt.Sprintf("the registry sends %s, which is no manifest that Fairlead reads", quoted(contentType)))
}

// checkValues counts the values of JSON before they are decoded: in memory the shortest take fifty times their bytes.
func checkValues(body []byte, most int) error {
	values, isText := 1, false
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			isText = !isText
		case '\\':
			if isText {
				i++ // what comes next ends no text
			}
		case ',':
			if !isText {
				values++
			}
		}
	}
	if values > most {
		return fmt.Errorf("has more than the limit of %d values", most)
	}
	return nil
}

func (d *document) manifest() (*Manifest, error) {
	if len(d.Layers) > maxLayers {
		return nil, fmt.Errorf("the manifest has more than the limit of %d layers", maxLayers)
	}
	m := &Manifest{}
	if created, err := time.Parse(time.RFC3339, d.Annotations[annotationCreated]); err == nil && created.Year() >= 1970 && created.Year() <= 9999 {
		m.Created = created.UTC() // the time is for people only
	}
	for _, l := range d.Layers {
		digest, err := ParseDigest(l.Digest)
		switch {
		case err != nil:
			return nil, fmt.Errorf("a layer of the manifest: %w", err)
		case len(l.URLs) > 0:
			return nil, fmt.Errorf("layer %s is to be fetched from another place, which Fairlead does not do. Push the artifact with all its layers", digest.Short())
		case l.Size < 0:
			return nil, fmt.Errorf("layer %s has a length of %d", digest.Short(), l.Size)
		}
		m.Layers = append(m.Layers, Layer{l.MediaType, digest, l.Size, l.Annotations[annotationTitle]})
	}
	return m, nil
}

// child is the only manifest of an index.
func (d *document) child() (Digest, error) {
	if len(d.Manifests) != 1 {
		return "", fmt.Errorf("the tag stands for an index of %d manifests, and one is needed. Name the digest of one in the service (sha256:...), or push the artifact alone", len(d.Manifests))
	}
	digest, err := ParseDigest(d.Manifests[0].Digest)
	if err != nil {
		return "", fmt.Errorf("the manifest of the index: %w", err)
	}
	return digest, nil
}

// Chart is the layer of a Helm chart.
func (m *Manifest) Chart() (Layer, error) {
	for _, kind := range []string{typeChart, typeLegacyChart} {
		if found := m.of(kind); len(found) > 0 {
			return one(found, kind)
		}
	}
	return Layer{}, fmt.Errorf("it is no Helm chart: it has no layer of type %s, but %s", typeChart, m.types())
}

// Content is the layers that hold the files of an artifact. mediaType chooses one; empty: that of Flux, or the only
// layer, or all if each has a name.
func (m *Manifest) Content(mediaType string) ([]Layer, error) {
	if mediaType != "" {
		return m.selected(mediaType)
	}
	if found := m.of(typeFlux); len(found) > 0 {
		l, err := one(found, typeFlux)
		return []Layer{l}, err
	}
	switch {
	case len(m.Layers) == 0:
		return nil, errors.New("it has no layers")
	case len(m.Layers) > 1 && slices.ContainsFunc(m.Layers, func(l Layer) bool { return l.Title == "" }):
		return nil, fmt.Errorf("it has %d layers (%s), and nothing says which one has the files. Name its type as oci.layerSelector.mediaType in the source", len(m.Layers), m.types())
	}
	return m.Layers, nil
}

func (m *Manifest) selected(mediaType string) ([]Layer, error) {
	found := m.of(mediaType)
	if len(found) == 0 {
		return nil, fmt.Errorf("it has no layer of type %s, which the source's layerSelector names, but %s", mediaType, m.types())
	}
	l, err := one(found, mediaType)
	return []Layer{l}, err
}

func (m *Manifest) of(mediaType string) (found []Layer) {
	for _, l := range m.Layers {
		if l.MediaType == mediaType {
			found = append(found, l)
		}
	}
	return found
}

func one(found []Layer, mediaType string) (Layer, error) {
	if len(found) > 1 {
		return Layer{}, fmt.Errorf("it has %d layers of type %s, and one is needed", len(found), mediaType)
	}
	return found[0], nil
}

// types are those of the layers, for messages.
func (m *Manifest) types() string {
	var types []string
	for _, l := range m.Layers {
		if t := quoted(l.MediaType); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	switch {
	case len(types) == 0:
		return "none at all"
	case len(types) > maxNamedTypes:
		return fmt.Sprintf("%s and %d others", strings.Join(types[:maxNamedTypes], ", "), len(types)-maxNamedTypes)
	}
	return strings.Join(types, ", ")
}

func quoted(mediaType string) string {
	if mediaType == "" {
		return "something without a type"
	}
	return fmt.Sprintf("%q", archive.Shorten(mediaType))
}
