package signedtest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Tag is a value of CBOR with a number that says what it stands for.
type Tag struct {
	Number uint64
	Value  any
}

// ProtectedCOSE is what a signature of a notary says of itself, in COSE.
func (n *Notary) ProtectedCOSE() map[any]any {
	id := map[string]int{"ES256": -7, "ES384": -35, "ES512": -36, "PS256": -37, "PS384": -38, "PS512": -39}[n.algorithm()]
	return map[any]any{
		1: id, 2: []any{"io.cncf.notary.signingScheme"}, 3: "application/vnd.cncf.notary.payload.v1+json",
		"io.cncf.notary.signingScheme": "notary.x509", "io.cncf.notary.signingTime": Tag{1, int(time.Now().Unix())},
	}
}

// COSE is the signature of a manifest in an envelope of COSE.
func (n *Notary) COSE(t testing.TB, digest string) []byte {
	t.Helper()
	return n.SignCOSE(t, CBOR(n.ProtectedCOSE()), Payload(digest))
}

// SignCOSE makes an envelope of COSE of anything.
func (n *Notary) SignCOSE(t testing.TB, protected, payload []byte) []byte {
	t.Helper()
	var chain []any
	for _, c := range n.Chain {
		chain = append(chain, c.Raw)
	}
	sig := n.raw(t, CBOR([]any{"Signature1", protected, []byte{}, payload}))
	return CBOR(Tag{18, []any{protected, map[any]any{33: chain, "io.cncf.notary.signingAgent": "test"}, payload, sig}})
}

// CBOR writes a value: int, string, []byte, []any, map[any]any and Tag.
func CBOR(v any) []byte {
	switch v := v.(type) {
	case int:
		if v < 0 {
			return head(1, uint64(-1-v))
		}
		return head(0, uint64(v))
	case []byte:
		return append(head(2, uint64(len(v))), v...)
	case string:
		return append(head(3, uint64(len(v))), v...)
	case []any:
		out := head(4, uint64(len(v)))
		for _, one := range v {
			out = append(out, CBOR(one)...)
		}
		return out
	case map[any]any:
		var pairs []string
		for key, one := range v {
			pairs = append(pairs, string(CBOR(key))+string(CBOR(one)))
		}
		slices.Sort(pairs)
		return append(head(5, uint64(len(v))), strings.Join(pairs, "")...)
	case Tag:
		return append(head(6, v.Number), CBOR(v.Value)...)
	}
	panic(fmt.Sprintf("%T is not written", v))
}

func head(kind byte, n uint64) []byte {
	kind <<= 5
	switch {
	case n < 24:
		return []byte{kind | byte(n)}
	case n < 1<<8:
		return []byte{kind | 24, byte(n)}
	case n < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{kind | 25}, uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32([]byte{kind | 26}, uint32(n))
	}
	return binary.BigEndian.AppendUint64([]byte{kind | 27}, n)
}
