package signatures_test

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
	"github.com/notaryproject/notation-core-go/testhelper"

	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signed"
)

const artifact = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// signer is a key of notation-core-go with its chain.
type signer struct {
	key   any
	chain []*x509.Certificate
}

func newSigner(t *testing.T, kind string) signer {
	t.Helper()
	if curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[kind]; curve != nil {
		is := testhelper.GetECCertTuple(curve)
		return signer{is.PrivateKey, []*x509.Certificate{is.Cert, testhelper.GetECRootCertificate().Cert}}
	}
	bits, err := strconv.Atoi(strings.TrimPrefix(kind, "RSA-"))
	if err != nil {
		t.Fatal(err)
	}
	is := testhelper.GetRSACertTuple(bits)
	return signer{is.PrivateKey, []*x509.Certificate{is.Cert, testhelper.GetRSARootCertificate().Cert}}
}

// sign makes an envelope by notation-core-go.
func (s signer) sign(t *testing.T, mediaType string, change func(*signature.SignRequest)) []byte {
	t.Helper()
	local, err := signature.NewLocalSigner(s.chain, s.key)
	if err != nil {
		t.Fatal(err)
	}
	request := &signature.SignRequest{
		Payload: signature.Payload{
			ContentType: "application/vnd.cncf.notary.payload.v1+json",
			Content:     []byte(`{"targetArtifact":{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + artifact + `","size":7}}`),
		},
		Signer: local, SigningTime: time.Now().Truncate(time.Second), SigningScheme: signature.SigningSchemeX509,
		SigningAgent: "test",
	}
	if change != nil {
		change(request)
	}
	envelope, err := signature.NewEnvelope(mediaType)
	if err != nil {
		t.Fatal(err)
	}
	text, err := envelope.Sign(request)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func ourNotation(t *testing.T, s signer) func(envelope []byte) error {
	t.Helper()
	root := s.chain[len(s.chain)-1]
	trust, err := signed.New(signed.Policy{
		Provider: signed.Notation, Identities: []string{"*"},
		Certificates: []string{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(envelope []byte) error {
		_, no := trust.Signature(oci.Signature{Payload: envelope}, signed.Subject{Digest: artifact, Repository: "r/x"},
			time.Now())
		if no != nil {
			return no
		}
		return nil
	}
}

func theirNotation(mediaType string, s signer) func(envelope []byte) error {
	return func(text []byte) error {
		envelope, err := signature.ParseEnvelope(mediaType, text)
		if err != nil {
			return err
		}
		content, err := envelope.Verify()
		if err != nil {
			return err
		}
		_, err = signature.VerifyAuthenticity(&content.SignerInfo, s.chain[len(s.chain)-1:])
		return err
	}
}

func TestEnvelopesOfNotationAreGood(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"P-256", "P-384", "P-521", "RSA-2048", "RSA-3072", "RSA-4096"} {
		s := newSigner(t, name)
		for _, form := range []string{jws.MediaTypeEnvelope, cose.MediaTypeEnvelope} {
			for what, change := range map[string]func(*signature.SignRequest){
				"plain": nil, "that expires": func(r *signature.SignRequest) { r.Expiry = time.Now().Add(time.Hour).Truncate(time.Second) },
			} {
				envelope := s.sign(t, form, change)
				if err := theirNotation(form, s)(envelope); err != nil {
					t.Errorf("%s, %s, %s: notation-core-go refuses it: %v", name, form, what, err)
				}
				if err := ourNotation(t, s)(envelope); err != nil {
					t.Errorf("%s, %s, %s: it is refused: %v", name, form, what, err)
				}
			}
		}
	}
}

func TestEnvelopesOfNotationThatDoNotCount(t *testing.T) {
	t.Parallel()
	s, other := newSigner(t, "P-256"), newSigner(t, "RSA-2048")
	for _, form := range []string{jws.MediaTypeEnvelope, cose.MediaTypeEnvelope} {
		for words, envelope := range map[string][]byte{
			"signingAuthority":     s.sign(t, form, func(r *signature.SignRequest) { r.SigningScheme = signature.SigningSchemeX509SigningAuthority }),
			"is of no artifact":    s.sign(t, form, func(r *signature.SignRequest) { r.Payload.ContentType = "text/plain" }),
			"for another artifact": s.sign(t, form, func(r *signature.SignRequest) { r.Payload.Content = []byte(`{"targetArtifact":{"digest":"sha256:b"}}`) }),
			"none of the source's": other.sign(t, form, nil),
			`critical header "x"`: s.sign(t, form, func(r *signature.SignRequest) {
				r.ExtendedSignedAttributes = []signature.Attribute{{Key: "x", Critical: true, Value: "y"}}
			}),
			"plugin \"my-plugin\"": s.sign(t, form, func(r *signature.SignRequest) {
				r.ExtendedSignedAttributes = []signature.Attribute{{Key: "io.cncf.notary.verificationPlugin",
					Critical: true, Value: "my-plugin"}}
			}),
		} {
			if err := ourNotation(t, s)(envelope); err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v, want %q", form, err, words)
			}
		}
	}
}

// TestNoBitOfAnEnvelopeCanBeAnother: each bit of an envelope is changed, one at a time. It has no name of the
// program that signed, which is not signed. A JWS has more forms, as it is JSON.
func TestNoBitOfAnEnvelopeCanBeAnother(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "P-256")
	ours, theirs := ourNotation(t, s), theirNotation(cose.MediaTypeEnvelope, s)
	envelope := s.sign(t, cose.MediaTypeEnvelope, func(r *signature.SignRequest) { r.SigningAgent = "" })
	refused := 0
	for i := range envelope {
		for bit := range 8 {
			envelope[i] ^= 1 << bit
			err := ours(envelope)
			if err == nil {
				t.Errorf("byte %d, bit %d may be another", i, bit)
			} else {
				refused++
			}
			if (i+bit)%8 == 0 && theirs(envelope) == nil { // it is slower
				t.Logf("byte %d, bit %d is refused here alone: %v", i, bit, err)
			}
			envelope[i] ^= 1 << bit
		}
	}
	if err := ours(envelope); err != nil || refused < 8*1000 {
		t.Errorf("%d were refused, and the envelope as it was: %v", refused, err)
	}
}
