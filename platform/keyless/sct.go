package keyless

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"math/big"
	"slices"
	"time"
)

//nolint:gochecknoglobals // never changed: the extension in which a certificate has the promises of logs of certificates
var sctExtension = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}

// issued wants a log of certificates of the root to have taken in a certificate (RFC 6962, 3.2), in one of the chains
// that lead to the root's authorities. A root without such logs wants nothing.
func (r *Root) issued(cert *x509.Certificate, chains [][]*x509.Certificate) error {
	if len(r.certificateLogs) == 0 {
		return nil
	}
	list, without, err := splitPromises(cert)
	if err != nil {
		return err
	}
	for _, sct := range list {
		for _, l := range r.certificateLogs {
			if !bytes.Equal(l.id, sct.log) || !l.holds(sct.at) {
				continue
			}
			for _, chain := range chains {
				if len(chain) > 1 && verify(l.key, sct.signed(chain[1], without), sct.signature) {
					return nil
				}
			}
		}
	}
	return errors.New("a certificate that no log of certificates (ctlogs) of the trusted root has taken in")
}

// promise is what a log of certificates has signed of one (SCT).
type promise struct {
	log        []byte
	at         time.Time
	millis     uint64
	extensions []byte
	signature  []byte
}

// splitPromises reads the promises in a certificate, and what the logs have seen of it: all but the promises.
func splitPromises(cert *x509.Certificate) (list []promise, without []byte, err error) {
	wrong := errors.New("a certificate whose promises of logs (SCT) can't be read")
	var tbs struct {
		Raw                asn1.RawContent
		Version            int `asn1:"optional,explicit,default:0,tag:0"`
		SerialNumber       *big.Int
		SignatureAlgorithm asn1.RawValue
		Issuer             asn1.RawValue
		Validity           asn1.RawValue
		Subject            asn1.RawValue
		PublicKey          asn1.RawValue
		UniqueID           asn1.BitString   `asn1:"optional,tag:1"`
		SubjectUniqueID    asn1.BitString   `asn1:"optional,tag:2"`
		Extensions         []pkix.Extension `asn1:"omitempty,optional,explicit,tag:3"`
	}
	if rest, err := asn1.Unmarshal(cert.RawTBSCertificate, &tbs); err != nil || len(rest) > 0 {
		return nil, nil, wrong
	}
	at := slices.IndexFunc(tbs.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(sctExtension) })
	if at < 0 {
		return nil, nil, errors.New("a certificate without a promise of a log of certificates (SCT), which the trusted root (ctlogs) wants")
	}
	var text []byte
	if rest, err := asn1.Unmarshal(tbs.Extensions[at].Value, &text); err != nil || len(rest) > 0 {
		return nil, nil, wrong
	}
	tbs.Raw, tbs.Extensions = nil, slices.Delete(tbs.Extensions, at, at+1)
	without, err = asn1.Marshal(tbs)
	all, rest, ok := cutPrefixed(text)
	if err != nil || !ok || len(rest) > 0 {
		return nil, nil, wrong
	}
	for len(all) > 0 {
		var one []byte
		if one, all, ok = cutPrefixed(all); !ok {
			return nil, nil, wrong
		}
		if sct, ok := readPromise(one); ok {
			list = append(list, sct)
		}
	}
	return list, without, nil
}

// cutPrefixed cuts off bytes that stand behind their number, which has two bytes.
func cutPrefixed(text []byte) (one, rest []byte, ok bool) {
	if len(text) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(text))
	if text = text[2:]; len(text) < n {
		return nil, nil, false
	}
	return text[:n], text[n:], true
}

// readPromise reads one of version 1, with a signature over SHA-256.
func readPromise(text []byte) (p promise, ok bool) {
	const head = 1 + sha256.Size + 8
	if len(text) < head || text[0] != 0 {
		return p, false
	}
	p.log, p.millis = text[1:1+sha256.Size], binary.BigEndian.Uint64(text[1+sha256.Size:])
	p.at = time.UnixMilli(int64(p.millis))
	rest := text[head:]
	if p.extensions, rest, ok = cutPrefixed(rest); !ok || len(rest) < 2 || rest[0] != 4 {
		return p, false
	}
	p.signature, rest, ok = cutPrefixed(rest[2:])
	return p, ok && len(rest) == 0
}

// signed is what the log has signed.
func (p promise) signed(issuer *x509.Certificate, certificate []byte) []byte {
	key := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	out := []byte{0, 0} // version 1, a promise of a certificate
	out = binary.BigEndian.AppendUint64(out, p.millis)
	out = append(out, 0, 1) // a certificate before it was issued
	out = append(out, key[:]...)
	n := len(certificate)
	out = append(out, byte(n>>16), byte(n>>8), byte(n))
	out = append(out, certificate...)
	out = binary.BigEndian.AppendUint16(out, uint16(len(p.extensions)))
	return append(out, p.extensions...)
}
