package keyless

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxHashes of a proof: a log of 2^63 entries needs so many.
	maxHashes = 63
	// maxCheckpointBytes of the signed state of a log, and of the signatures of witnesses below it.
	maxCheckpointBytes = 16 << 10
)

// Entry is what a log says of a signature.
type Entry struct {
	Index json.Number `json:"logIndex"`
	Log   struct {
		KeyID []byte `json:"keyId"`
	} `json:"logId"`
	Kind struct {
		Kind    string `json:"kind"`
		Version string `json:"version"`
	} `json:"kindVersion"`
	Time    json.Number `json:"integratedTime"`
	Promise *struct {
		Signature []byte `json:"signedEntryTimestamp"`
	} `json:"inclusionPromise"`
	Proof *struct {
		Index      json.Number `json:"logIndex"`
		RootHash   []byte      `json:"rootHash"`
		Size       json.Number `json:"treeSize"`
		Hashes     [][]byte    `json:"hashes"`
		Checkpoint struct {
			Envelope string `json:"envelope"`
		} `json:"checkpoint"`
	} `json:"inclusionProof"`
	Body []byte `json:"canonicalizedBody"`
}

// number is a number of a bundle, in which zero may be left out.
func number(n json.Number) (int64, bool) {
	if n == "" {
		return 0, true
	}
	i, err := strconv.ParseInt(n.String(), 10, 64)
	return i, err == nil && i >= 0
}

// what a signature is of: the log's entry has to be of it.
type content struct {
	cert                        *x509.Certificate
	payload, message, signature []byte
}

// timeOf verifies what a log has signed of an entry, and that the entry is of a content. The time is zero if the log
// has not signed one.
func (l log) timeOf(e Entry, of content, version bundleVersion) (at time.Time, err error) {
	seconds, ok := number(e.Time)
	index, indexOK := number(e.Index)
	hasPromise := e.Promise != nil && len(e.Promise.Signature) > 0
	switch {
	case !ok || !indexOK:
		return at, errors.New("a log entry whose time or index can't be read")
	case version == version1 && !hasPromise:
		return at, errors.New("a log entry without the log's signature over its time (signedEntryTimestamp)")
	case version != version1 && e.Proof == nil:
		return at, errors.New("a log entry without a proof that the log holds it (inclusionProof)")
	}
	if seconds > 0 && (of.cert.NotBefore.After(time.Unix(seconds, 0)) || of.cert.NotAfter.Before(time.Unix(seconds, 0))) {
		return at, errors.New("a log entry of a time when its certificate was not good")
	}
	if hasPromise {
		if at, err = l.promised(e, index, seconds); err != nil {
			return at, err
		}
	}
	if e.Proof != nil {
		if err := l.proven(e); err != nil {
			return at, err
		}
		if !hasPromise && e.Proof.Index != e.Index {
			return at, errors.New("a log entry with two indexes")
		}
	}
	return at, e.isOf(of)
}

// promised verifies the log's signature over an entry and its time (Rekor 1).
func (l log) promised(e Entry, index, seconds int64) (at time.Time, err error) {
	at = time.Unix(seconds, 0)
	// The canonical form of JSON (RFC 8785) of what the log signs.
	signed := fmt.Appendf(nil, `{"body":"%s","integratedTime":%d,"logID":"%s","logIndex":%d}`,
		base64.StdEncoding.EncodeToString(e.Body), seconds, hex.EncodeToString(e.Log.KeyID), index)
	if seconds == 0 || !l.holds(at) || !verify(l.key, signed, e.Promise.Signature) {
		return time.Time{}, errors.New("a log entry whose time the log has not signed so")
	}
	return at, nil
}

// proven verifies that an entry is in the log (RFC 9162, 2.1.3.2) of which the log has signed the state.
func (l log) proven(e Entry) error {
	p := e.Proof
	index, ok := number(p.Index)
	size, sizeOK := number(p.Size)
	if !ok || !sizeOK || index >= size || len(p.RootHash) != sha256.Size || len(p.Hashes) > maxHashes {
		return errors.New("a log entry with a proof that can't be read")
	}
	if root, ok := rootOf(hashOf(0, e.Body), uint64(index), uint64(size), p.Hashes); !ok || !bytes.Equal(root, p.RootHash) {
		return errors.New("a log entry that the proof does not find in the log")
	}
	return l.checkpoint(p.Checkpoint.Envelope, size, p.RootHash)
}

// hashOf is the hash of a leaf (0) or of a node (1) of a log's tree.
func hashOf(kind byte, parts ...[]byte) []byte {
	h := sha256.New()
	h.Write([]byte{kind})
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// rootOf is the hash of a tree with so many leaves, from one leaf and the hashes beside its way up.
func rootOf(leaf []byte, index, size uint64, beside [][]byte) ([]byte, bool) {
	// Up to the level where the way joins the tree's right edge each hash is left or right by the index; above it, all
	// are left.
	inner := bits.Len64(index ^ (size - 1))
	if len(beside) != inner+bits.OnesCount64(index>>inner) {
		return nil, false
	}
	at := leaf
	for i, h := range beside {
		switch {
		case len(h) != sha256.Size:
			return nil, false
		case i >= inner || index>>i&1 == 1:
			at = hashOf(1, h, at)
		default:
			at = hashOf(1, at, h)
		}
	}
	return at, true
}

// checkpoint verifies the state that a log has signed: a note of which the lines are the log's name, its size and the
// hash of its root.
func (l log) checkpoint(text string, size int64, root []byte) error {
	wrong := errors.New("a log entry with a checkpoint that the log has not signed so")
	body, signatures, ok := strings.Cut(text, "\n\n")
	lines := strings.Split(body, "\n")
	if len(text) > maxCheckpointBytes || !ok || len(lines) < 3 || !strings.HasSuffix(signatures, "\n") {
		return wrong
	}
	if lines[1] != strconv.FormatInt(size, 10) || lines[2] != base64.StdEncoding.EncodeToString(root) {
		return errors.New("a log entry with a checkpoint of another state of the log")
	}
	// Rekor 1 adds the number of its tree to its name.
	name, _, _ := strings.Cut(lines[0], " - ")
	signed := false
	for line := range strings.SplitSeq(strings.TrimSuffix(signatures, "\n"), "\n") {
		line, isSignature := strings.CutPrefix(line, "\u2014 ")
		by, encoded, both := strings.Cut(line, " ")
		sig, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if !isSignature || !both || err != nil || len(sig) <= hintBytes {
			return wrong
		}
		if by != name || !bytes.Equal(sig[:hintBytes], l.hint) {
			continue // of a witness, or by another key of the log
		}
		if !verify(l.key, []byte(body+"\n"), sig[hintBytes:]) {
			return wrong
		}
		signed = true
	}
	if !signed {
		return wrong
	}
	return nil
}

// sum is a hash with its name.
type sum struct {
	Algorithm string `json:"algorithm"`
	Hex       string `json:"value"`  // of Rekor 1
	Raw       []byte `json:"digest"` // of Rekor 2
}

func (s sum) isOf(text []byte) bool {
	raw := s.Raw
	if s.Hex != "" {
		raw, _ = hex.DecodeString(s.Hex)
	}
	switch strings.ToLower(s.Algorithm) {
	case "sha256", "sha2_256":
		sum := sha256.Sum256(text)
		return bytes.Equal(raw, sum[:])
	case "sha384", "sha2_384":
		sum := sha512.Sum384(text)
		return bytes.Equal(raw, sum[:])
	case "sha512", "sha2_512":
		sum := sha512.Sum512(text)
		return bytes.Equal(raw, sum[:])
	}
	return false
}

// logged is a signature as Rekor 2 keeps it.
type logged struct {
	Content  []byte `json:"content"`
	Verifier struct {
		Certificate encoded `json:"x509Certificate"`
	} `json:"verifier"`
}

// isOf holds the entry against what it must be of.
func (e Entry) isOf(of content) error {
	var body struct {
		Kind    string          `json:"kind"`
		Version string          `json:"apiVersion"`
		Spec    json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil || body.Kind != e.Kind.Kind || body.Version != e.Kind.Version {
		return errors.New("a log entry that is not of the kind that it says")
	}
	read := map[string]func(json.RawMessage, content) (isFor bool, of []signedBy, err error){
		"dsse 0.0.1": dsse1, "dsse 0.0.2": dsse2, "intoto 0.0.2": intoto2, "hashedrekord 0.0.1": hashedrekord1, "hashedrekord 0.0.2": hashedrekord2,
	}[body.Kind+" "+body.Version]
	if read == nil {
		return errors.New("a log entry of a kind that is not read: only dsse, intoto and hashedrekord are")
	}
	isFor, signatures, err := read(body.Spec, of)
	if err != nil {
		return errors.New("a log entry that can't be read")
	}
	if !isFor {
		return errors.New("a log entry that is for something else")
	}
	if !slices.ContainsFunc(signatures, func(s signedBy) bool {
		return bytes.Equal(s.signature, of.signature) && bytes.Equal(s.der, of.cert.Raw)
	}) {
		return errors.New("a log entry that is for another signature")
	}
	return nil
}

// signedBy is a signature in a log's entry, and the certificate to it.
type signedBy struct{ signature, der []byte }

func fromPEM(signature, text []byte) signedBy {
	block, _ := pem.Decode(text)
	if block == nil {
		return signedBy{}
	}
	return signedBy{signature, block.Bytes}
}

func dsse1(spec json.RawMessage, of content) (isFor bool, signatures []signedBy, err error) {
	var is struct {
		PayloadHash sum `json:"payloadHash"`
		Signatures  []struct {
			Signature []byte `json:"signature"`
			Verifier  []byte `json:"verifier"`
		} `json:"signatures"`
	}
	err = json.Unmarshal(spec, &is)
	for _, s := range is.Signatures {
		signatures = append(signatures, fromPEM(s.Signature, s.Verifier))
	}
	return is.PayloadHash.isOf(of.payload), signatures, err
}

func dsse2(spec json.RawMessage, of content) (isFor bool, signatures []signedBy, err error) {
	var is struct {
		DSSE struct {
			PayloadHash sum      `json:"payloadHash"`
			Signatures  []logged `json:"signatures"`
		} `json:"dsseV002"`
	}
	err = json.Unmarshal(spec, &is)
	for _, s := range is.DSSE.Signatures {
		signatures = append(signatures, signedBy{s.Content, s.Verifier.Certificate.Raw})
	}
	return is.DSSE.PayloadHash.isOf(of.payload), signatures, err
}

func intoto2(spec json.RawMessage, of content) (isFor bool, signatures []signedBy, err error) {
	var is struct {
		Content struct {
			PayloadHash sum `json:"payloadHash"`
			Envelope    struct {
				Signatures []struct {
					Signature []byte `json:"sig"` // in base64 once more
					Verifier  []byte `json:"publicKey"`
				} `json:"signatures"`
			} `json:"envelope"`
		} `json:"content"`
	}
	err = json.Unmarshal(spec, &is)
	for _, s := range is.Content.Envelope.Signatures {
		raw, _ := base64.StdEncoding.DecodeString(string(s.Signature)) // else it is nothing, and no signature
		signatures = append(signatures, fromPEM(raw, s.Verifier))
	}
	return is.Content.PayloadHash.isOf(of.payload), signatures, err
}

func hashedrekord1(spec json.RawMessage, of content) (isFor bool, signatures []signedBy, err error) {
	var is struct {
		Data struct {
			Hash sum `json:"hash"`
		} `json:"data"`
		Signature struct {
			Content  []byte `json:"content"`
			Verifier struct {
				PEM []byte `json:"content"`
			} `json:"publicKey"`
		} `json:"signature"`
	}
	err = json.Unmarshal(spec, &is)
	return is.Data.Hash.isOf(of.message), []signedBy{fromPEM(is.Signature.Content, is.Signature.Verifier.PEM)}, err
}

func hashedrekord2(spec json.RawMessage, of content) (isFor bool, signatures []signedBy, err error) {
	var is struct {
		Record struct {
			Data      sum    `json:"data"`
			Signature logged `json:"signature"`
		} `json:"hashedRekordV002"`
	}
	err = json.Unmarshal(spec, &is)
	s := is.Record.Signature
	return is.Record.Data.isOf(of.message), []signedBy{{s.Content, s.Verifier.Certificate.Raw}}, err
}
