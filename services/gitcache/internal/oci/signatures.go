package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxSignatureBytes of one signature, or of a bundle: cosign's have some KiB.
	MaxSignatureBytes = 256 << 10
	// MaxSignatures of one artifact are looked at.
	MaxSignatures = 32
	// MaxReferrersBytes of the list of what refers to an artifact.
	MaxReferrersBytes = 4 << 20

	typeJWS       = "application/jose+json"
	typeCOSE      = "application/cose"
	typeNotation  = "application/vnd.cncf.notary.signature"
	typePayload   = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeBundle    = "application/vnd.dev.sigstore.bundle" // and a version
	typeProv      = "application/vnd.cncf.helm.chart.provenance.v1.prov"
	typeEmpty     = "application/vnd.oci.empty.v1+json"
	typeConfig    = "application/vnd.oci.image.config.v1+json"
	signPredicate = "https://sigstore.dev/cosign/sign/v1"

	annotationSignature = "dev.cosignproject.cosign/signature"
	annotationPredicate = "dev.sigstore.bundle.predicateType"
)

// SignatureForm is by which program signatures are made.
type SignatureForm string

// The forms.
const (
	FormCosign   SignatureForm = "cosign"
	FormNotation SignatureForm = "notation"
)

// Signature is one of an artifact, as a registry has it.
type Signature struct {
	// Payload is what was signed; of a bundle and of notation's envelope all of it.
	Payload  []byte
	IsBundle bool
	// Signature is cosign's of Payload, in base64; a bundle has its own.
	Signature string
}

// SignatureLayer is a blob that holds a signature, or its payload.
type SignatureLayer struct {
	Layer

	IsBundle  bool
	Signature string
}

// SignatureTag is the tag under which cosign keeps the signatures of an artifact.
func SignatureTag(of Digest) string { return strings.Replace(string(of), ":", "-", 1) + ".sig" }

// ReferrersTag is the tag of the list of what refers to an artifact, at registries without the API for it.
func ReferrersTag(of Digest) string { return strings.Replace(string(of), ":", "-", 1) }

// last keeps the last of some signatures, as cosign appends new ones; an error says that there are more.
func last[T any](of []T, skipped error) ([]T, error) {
	if len(of) <= MaxSignatures {
		return of, skipped
	}
	return of[len(of)-MaxSignatures:], fmt.Errorf("it has more than the limit of %d signatures, and only the last are looked at", MaxSignatures)
}

// DecodeSignatures reads the manifest that has signatures of a form: cosign's own, one with a bundle, or notation's.
// Other layers are left out. skipped says why others are left out that may be signatures, too.
func DecodeSignatures(body []byte, form SignatureForm) (layers []SignatureLayer, skipped, err error) {
	if err := checkValues(body, maxValues); err != nil {
		return nil, nil, fmt.Errorf("the manifest of the signatures %w", err)
	}
	var doc document
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, nil, errors.New("the manifest of the signatures is not JSON that can be read")
	}
	for _, l := range doc.Layers {
		isBundle := form == FormCosign && strings.HasPrefix(l.MediaType, typeBundle)
		switch {
		case form == FormNotation && l.MediaType != typeJWS && l.MediaType != typeCOSE, form == FormCosign && !isBundle && l.MediaType != typePayload:
			continue
		}
		digest, err := ParseDigest(l.Digest)
		switch {
		case err != nil:
			skipped = fmt.Errorf("a signature: %w", err)
			continue
		case l.Size < 0 || l.Size > MaxSignatureBytes:
			skipped = fmt.Errorf("signature %s has %d bytes, and the limit is %d KiB", digest.Short(), l.Size, MaxSignatureBytes>>10)
			continue
		}
		layers = append(layers, SignatureLayer{
			Layer: Layer{MediaType: l.MediaType, Digest: digest, Size: l.Size}, IsBundle: isBundle, Signature: l.Annotations[annotationSignature],
		})
	}
	layers, skipped = last(layers, skipped)
	return layers, skipped, nil
}

// DecodeReferrers reads the list of what refers to an artifact: manifests that may have its signature, in a bundle or
// by notation. Some registries do not say of what type an entry is. skipped says why others are left out.
func DecodeReferrers(body []byte, form SignatureForm) (manifests []Digest, skipped, err error) {
	if err := checkValues(body, maxValues); err != nil {
		return nil, nil, fmt.Errorf("the list of referrers %w", err)
	}
	var index struct {
		Manifests []struct {
			Digest       string            `json:"digest"`
			ArtifactType string            `json:"artifactType"`
			Annotations  map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(body, &index); err != nil {
		return nil, nil, errors.New("the list of referrers is not JSON that can be read")
	}
	for _, m := range index.Manifests {
		unsaid := slices.Contains([]string{"", typeEmpty, typeConfig}, m.ArtifactType)
		other := m.Annotations[annotationPredicate] != "" && m.Annotations[annotationPredicate] != signPredicate
		if other || !unsaid && !form.isType(m.ArtifactType) {
			continue
		}
		digest, err := ParseDigest(m.Digest)
		if err != nil {
			skipped = fmt.Errorf("a referrer: %w", err)
			continue
		}
		manifests = append(manifests, digest)
	}
	manifests, skipped = last(slices.Compact(manifests), skipped)
	return manifests, skipped, nil
}

// isType tells whether manifests of a type have signatures of the form.
func (f SignatureForm) isType(artifactType string) bool {
	if f == FormNotation {
		return artifactType == typeNotation
	}
	return strings.HasPrefix(artifactType, typeBundle)
}

// Provenance is the layer with the provenance file of a chart; false: it has none.
func (m *Manifest) Provenance() (Layer, bool) {
	found := m.of(typeProv)
	if len(found) != 1 {
		return Layer{}, false
	}
	return found[0], true
}
