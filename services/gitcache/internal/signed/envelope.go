package signed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// envelope is a signature of notation in one of its two forms, of which nothing that was signed has been read.
type envelope struct {
	chain              [][]byte // certificates (DER): the first is the signer's
	message, signature []byte   // what was signed, and as the algorithm has it
	payload            []byte
	header             func() (header, error) // reads what the signature says of itself
}

// header is what a signature says of itself.
type header struct {
	has      map[string]bool
	texts    map[string]string
	times    map[string]time.Time
	critical []string // what has to be known
}

func newHeader() header {
	return header{map[string]bool{}, map[string]string{}, map[string]time.Time{}, nil}
}

var errHeader = errors.New("can't be read")

// parseEnvelope reads an envelope. What it begins with says of which form it is: a JWS is JSON.
func parseEnvelope(text []byte) (envelope, error) {
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseJWS(text)
	}
	return parseCOSE(text)
}

// parseJWS reads one in its flattened form (RFC 7515).
func parseJWS(text []byte) (e envelope, err error) {
	var is struct {
		Payload   string `json:"payload"`
		Protected string `json:"protected"`
		Signature string `json:"signature"`
		Header    struct {
			Chain [][]byte `json:"x5c"`
		} `json:"header"`
	}
	if err := json.Unmarshal(text, &is); err != nil {
		return e, errors.New("is no JWS envelope")
	}
	e.chain, e.message = is.Header.Chain, []byte(is.Protected+"."+is.Payload)
	e.signature, _ = base64.RawURLEncoding.Strict().DecodeString(is.Signature) // else it does not fit
	e.payload, _ = base64.RawURLEncoding.DecodeString(is.Payload)              // else it is not JSON
	e.header = func() (header, error) { return readJOSE(is.Protected) }
	return e, nil
}

func readJOSE(protected string) (header, error) {
	h := newHeader()
	text, err := base64.RawURLEncoding.DecodeString(protected)
	var all map[string]json.RawMessage // names are told by their case
	if err != nil || json.Unmarshal(text, &all) != nil {
		return h, errHeader
	}
	for name, raw := range all {
		h.has[name] = true
		var text string
		if json.Unmarshal(raw, &text) != nil {
			continue
		}
		h.texts[name] = text
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			h.times[name] = at
		}
	}
	_ = json.Unmarshal(all["crit"], &h.critical) // else nothing is critical, which is refused
	return h, nil
}

// Labels of COSE (RFC 9052, RFC 9360), and the names that JOSE has for them.
const (
	tagSign1     = 18
	tagTime      = 1
	labelAlg     = int64(1)
	labelCrit    = int64(2)
	labelContent = int64(3)
	labelChain   = int64(33)
)

// parseCOSE reads a COSE_Sign1 with its tag.
func parseCOSE(text []byte) (e envelope, err error) {
	wrong := errors.New("is no JWS and no COSE envelope")
	is, err := parseCBOR(text)
	if err != nil {
		return e, wrong
	}
	sign1, ok := is.(tagged)
	parts, isList := sign1.value.([]any)
	if !ok || !isList || sign1.number != tagSign1 || len(parts) != 4 {
		return e, wrong
	}
	protected, ok := parts[0].([]byte)
	unprotected, isMap := parts[1].(map[any]any)
	payload, isText := parts[2].([]byte)
	signature, isSignature := parts[3].([]byte)
	if !ok || !isMap || !isText || !isSignature {
		return e, wrong
	}
	switch chain := unprotected[labelChain].(type) {
	case []byte:
		e.chain = [][]byte{chain}
	case []any:
		for _, one := range chain {
			der, ok := one.([]byte)
			if !ok {
				return e, wrong
			}
			e.chain = append(e.chain, der)
		}
	}
	// What is signed is an array: its name, the header, what the reader knows (nothing), and the payload.
	const name = "Signature1"
	message := appendCBOR(nil, cborArray, 4)
	message = append(appendCBOR(message, cborText, len(name)), name...)
	message = append(appendCBOR(message, cborBytes, len(protected)), protected...)
	message = appendCBOR(message, cborBytes, 0)
	message = append(appendCBOR(message, cborBytes, len(payload)), payload...)
	e.message, e.signature, e.payload = message, signature, payload
	e.header = func() (header, error) { return readCOSE(protected) }
	return e, nil
}

func readCOSE(protected []byte) (header, error) {
	h := newHeader()
	is, err := parseCBOR(protected)
	all, ok := is.(map[any]any)
	if err != nil || !ok {
		return h, errHeader
	}
	for label, value := range all {
		name := nameOfLabel(label)
		h.has[name] = true
		switch value := value.(type) {
		case string:
			h.texts[name] = value
		case int64:
			if label == labelAlg {
				h.texts[name] = nameOfAlgorithm(value)
			}
		case tagged:
			if seconds, ok := value.value.(int64); ok && value.number == tagTime {
				h.times[name] = time.Unix(seconds, 0)
			}
		case []any:
			if label == labelCrit {
				for _, one := range value {
					h.critical = append(h.critical, nameOfLabel(one))
				}
			}
		}
	}
	return h, nil
}

// nameOfLabel is a label as JOSE has it, or as text.
func nameOfLabel(label any) string {
	switch label {
	case labelAlg:
		return "alg"
	case labelCrit:
		return "crit"
	case labelContent:
		return "cty"
	}
	if text, ok := label.(string); ok && text != "alg" && text != "crit" && text != "cty" {
		return text
	}
	return fmt.Sprintf("%#v", label)
}

// nameOfAlgorithm is one as JOSE has it.
func nameOfAlgorithm(id int64) string {
	if name := map[int64]string{-7: "ES256", -35: "ES384", -36: "ES512", -37: "PS256", -38: "PS384", -39: "PS512"}[id]; name != "" {
		return name
	}
	return fmt.Sprint(id)
}
