// Package notation reads what a source trusts of the signatures that notation makes: the certificates of authorities,
// and the identities of signers, as they stand in a trust policy of notation.
package notation

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// anyone is the identity of all signers whose certificate is of a trusted authority.
	anyone = "*"
	prefix = "x509.subject:"
	// maxSubject bounds a subject as text, in bytes.
	maxSubject = 512
)

// attribute is a part of a subject.
type attribute struct{ name, id string }

// attributes of subjects that have a name, in the order in which subjects are written.
func attributes() []attribute {
	return []attribute{
		{"C", "2.5.4.6"},
		{"ST", "2.5.4.8"},
		{"L", "2.5.4.7"},
		{"STREET", "2.5.4.9"},
		{"POSTALCODE", "2.5.4.17"},
		{"O", "2.5.4.10"},
		{"OU", "2.5.4.11"},
		{"SERIALNUMBER", "2.5.4.5"},
		{"CN", "2.5.4.3"},
	}
}

// idOf is the id of an attribute with this name.
func idOf(name string) (string, bool) {
	if name = strings.ToUpper(name); name == "S" {
		name = "ST"
	}
	all := attributes()
	i := slices.IndexFunc(all, func(a attribute) bool { return a.name == name })
	if i < 0 {
		return "", false
	}
	return all[i].id, true
}

// Subject is that of a certificate: values by the ids of attributes.
type Subject map[string]string

// Identity is a signer that is trusted.
type Identity struct {
	isAnyone bool
	subject  Subject // attributes that the certificate must have
}

// ParseIdentity reads a trusted identity: * or `x509.subject: C=US, ST=WA, O=example`, with more attributes if need be.
func ParseIdentity(text string) (Identity, error) {
	if text == anyone {
		return Identity{isAnyone: true}, nil
	}
	list, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return Identity{}, fmt.Errorf("must be %s, or begin with %q", anyone, prefix)
	}
	subject, err := ParseSubject(list)
	if err != nil {
		return Identity{}, err
	}
	for _, name := range []string{"C", "ST", "O"} {
		if id, _ := idOf(name); subject[id] == "" {
			return Identity{}, fmt.Errorf("must name C, ST and O, and has no %s", name)
		}
	}
	return Identity{subject: subject}, nil
}

// IsOf tells whether a subject has all that the identity names.
func (i Identity) IsOf(s Subject) bool {
	if i.isAnyone {
		return true
	}
	for id, value := range i.subject {
		if s[id] != value {
			return false
		}
	}
	return len(i.subject) > 0
}

// ParseSubject reads a subject: attributes with commas between them, each once. A comma, semicolon, plus or backslash
// of a value, and a space at its begin or end, stand behind a backslash.
func ParseSubject(text string) (Subject, error) {
	if len(text) > maxSubject {
		return nil, fmt.Errorf("has %d bytes, and the limit is %d", len(text), maxSubject)
	}
	s := Subject{}
	for rest, more := text, true; more; {
		var one string
		one, rest, more = cutEscaped(rest)
		name, value, ok := strings.Cut(one, "=")
		id, known := idOf(strings.TrimSpace(name))
		switch {
		case !ok:
			return nil, fmt.Errorf("%q is no attribute with a value, such as O=example", strings.TrimSpace(one))
		case !known:
			return nil, fmt.Errorf("%q is no attribute that can be compared", strings.TrimSpace(name))
		case s[id] != "":
			return nil, fmt.Errorf("has %s twice", strings.TrimSpace(name))
		}
		value, err := unescape(trimSpaces(value))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(name), err)
		}
		s[id] = value
	}
	return s, nil
}

// cutEscaped cuts at the first comma that no backslash stands before.
func cutEscaped(text string) (before, after string, found bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ',':
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

// trimSpaces takes spaces from the ends of a value, but not one that is escaped.
func trimSpaces(value string) string {
	value = strings.TrimLeft(value, " ")
	for strings.HasSuffix(value, " ") {
		before := value[:len(value)-1]
		if slashes := len(before) - len(strings.TrimRight(before, `\`)); slashes%2 == 1 {
			break
		}
		value = before
	}
	return value
}

const special = `,;+"\<>=# `

func unescape(value string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\' && i+1 < len(value) && strings.IndexByte(special, value[i+1]) >= 0:
			i++
			out.WriteByte(value[i])
		case c == '\\':
			b, err := hex.DecodeString(value[min(i+1, len(value)):min(i+3, len(value))])
			if err != nil || len(b) != 1 {
				return "", errors.New("has a backslash before what needs none")
			}
			i += 2
			out.Write(b)
		case strings.IndexByte(`;+`, c) >= 0:
			return "", fmt.Errorf("has %q, which needs a backslash before it", c)
		default:
			out.WriteByte(c)
		}
	}
	if out.Len() == 0 {
		return "", errors.New("has no value")
	}
	if !isPlain(out.String()) {
		return "", errors.New("has characters that can't be printed")
	}
	return out.String(), nil
}

func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// SubjectOf is the subject of a certificate. Attributes that have no name here are left out. nil: it has an attribute
// twice, or one that can't be shown, so that it can't be compared.
func SubjectOf(name pkix.Name) Subject {
	s := Subject{}
	known := attributes()
	for _, a := range name.Names {
		id := a.Type.String()
		if !slices.ContainsFunc(known, func(k attribute) bool { return k.id == id }) {
			continue
		}
		value, ok := a.Value.(string)
		if _, twice := s[id]; !ok || twice || value == "" || !isPlain(value) {
			return nil
		}
		s[id] = value
	}
	if len(s.String()) > maxSubject {
		return nil
	}
	return s
}

// String is the subject as ParseSubject reads it.
func (s Subject) String() string {
	var parts []string
	for _, a := range attributes() {
		if value := s[a.id]; value != "" {
			parts = append(parts, a.name+"="+escape(value))
		}
	}
	return strings.Join(parts, ", ")
}

func escape(value string) string {
	var out strings.Builder
	for i := range len(value) {
		edge := value[i] == ' ' && (i == 0 || i == len(value)-1)
		if edge || strings.IndexByte(`,;+\`, value[i]) >= 0 {
			out.WriteByte('\\')
		}
		out.WriteByte(value[i])
	}
	return out.String()
}

// Equal compares subjects.
func (s Subject) Equal(o Subject) bool { return maps.Equal(s, o) }

// ParseCertificate reads one certificate in PEM that is to be trusted: of an authority, or one that signs and is its
// own authority.
func ParseCertificate(text string) (*x509.Certificate, error) {
	if strings.Contains(text, "PRIVATE KEY") {
		return nil, errors.New("holds a private key; write the certificate alone")
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("is not one certificate in PEM (-----BEGIN CERTIFICATE-----)")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, errors.New("is a damaged certificate")
	}
	if !cert.IsCA && !bytes.Equal(cert.RawIssuer, cert.RawSubject) {
		return nil, errors.New("is neither of an authority nor its own; write that of the authority that issued it")
	}
	return cert, nil
}
