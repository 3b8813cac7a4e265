package signed

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/keyless"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signature"
)

// Subject is what must have been signed.
type Subject struct {
	Digest oci.Digest // of the manifest, or of the index
	// Repository is host/path, as signatures call it.
	Repository string
}

const (
	payloadType    = "cosign container image signature"
	statementType  = "application/vnd.in-toto+json"
	signPredicate  = "https://sigstore.dev/cosign/sign/v1"
	maxEnvelopes   = 4 // signatures in one bundle
	maxSubjects    = 16
	dockerHubShort = "docker.io"
)

// Signature tells by whom that is trusted a subject is signed, or why a signature does not count: the fingerprint of
// the key, or of notation's signatures the subject of the certificate and its authority.
func (t *Trust) Signature(s oci.Signature, of Subject, now time.Time) (fingerprint string, no *signature.Refusal) {
	if t.all != nil {
		return t.all.verify(s.Payload, of, now)
	}
	if s.IsBundle {
		return t.bundle(s.Payload, of)
	}
	if t.root != nil {
		return "", signature.Refuse(signature.Unknown, "has a signature of the form before bundles, which does not count without a key. Sign with cosign 3")
	}
	sig, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil || len(sig) == 0 {
		return "", signature.Refuse(signature.Invalid, "has a signature that is not base64")
	}
	if fingerprint, no = t.signer(s.Payload, sig); no != nil {
		return "", no
	}
	var payload struct {
		Critical struct {
			Type     string `json:"type"`
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	is := &payload.Critical
	switch err := json.Unmarshal(s.Payload, &payload); {
	case err != nil || is.Type != payloadType:
		return "", signature.Refuse(signature.Invalid, "has a signature by key %s that is not for an artifact", fingerprint)
	case is.Image.Digest != string(of.Digest):
		return "", signature.Refuse(signature.Invalid, "has a signature by key %s that is for another artifact, %s", fingerprint, shorten(is.Image.Digest))
	case repositoryOf(is.Identity.Reference) != repositoryOf(of.Repository):
		return "", signature.Refuse(signature.Invalid,
			"has a signature by key %s that is for the repository %q, and not for %q", fingerprint, shorten(is.Identity.Reference), of.Repository)
	}
	return fingerprint, nil
}

// signer is the trusted key by which a message is signed.
func (t *Trust) signer(message, sig []byte) (fingerprint string, no *signature.Refusal) {
	for _, k := range t.keys {
		if k.verify(message, sig) {
			return k.fingerprint, nil
		}
	}
	return "", signature.Refuse(signature.Unknown, "has a signature that is by none of the source's verification keys, or does not fit")
}

// bundle is the form of cosign 3: an envelope (DSSE) around a statement (in-toto). The statement names no repository.
func (t *Trust) bundle(text []byte, of Subject) (fingerprint string, no *signature.Refusal) {
	var bundle struct {
		keyless.Bundle
		Envelope struct {
			Payload     []byte `json:"payload"`
			PayloadType string `json:"payloadType"`
			Signatures  []struct {
				Sig []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(text, &bundle); err != nil {
		return "", signature.Refuse(signature.Invalid, "has a bundle that can't be read")
	}
	is := &bundle.Envelope
	if is.PayloadType != statementType || len(is.Signatures) == 0 || len(is.Signatures) > maxEnvelopes {
		return "", signature.Refuse(signature.Invalid, "has a bundle that holds no signed statement")
	}
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(is.PayloadType), is.PayloadType, len(is.Payload), is.Payload)
	for _, s := range is.Signatures {
		if t.root != nil {
			fingerprint, no = t.holder(bundle.Bundle, is.Payload, signed, s.Sig)
		} else {
			fingerprint, no = t.signer(signed, s.Sig)
		}
		if no == nil {
			break
		}
	}
	if no != nil {
		return "", no
	}
	var statement struct {
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	switch err := json.Unmarshal(is.Payload, &statement); {
	case err != nil:
		return "", signature.Refuse(signature.Invalid, "has a bundle by key %s whose statement can't be read", fingerprint)
	case statement.PredicateType != signPredicate:
		return "", signature.Refuse(signature.Invalid, "has a statement by key %s of another kind (%s)", fingerprint, shorten(statement.PredicateType))
	case len(statement.Subject) > maxSubjects:
		return "", signature.Refuse(signature.Invalid, "has a statement by key %s about more than %d artifacts", fingerprint, maxSubjects)
	}
	for _, s := range statement.Subject {
		if "sha256:"+s.Digest["sha256"] == string(of.Digest) {
			return fingerprint, nil
		}
	}
	return "", signature.Refuse(signature.Invalid, "has a signature by key %s that is for another artifact", fingerprint)
}

// repositoryOf is host/path of a reference, without its tag and digest. The registry of Docker has three names.
func repositoryOf(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if at := strings.LastIndexByte(reference, ':'); at > strings.LastIndexByte(reference, '/') {
		reference = reference[:at]
	}
	host, path, _ := strings.Cut(reference, "/")
	if slices.Contains([]string{"index.docker.io", oci.DockerHub}, host) {
		host = dockerHubShort
	}
	return host + "/" + path
}

// shorten keeps what others wrote from flooding a message.
func shorten(text string) string {
	const most = 120
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "")
}
