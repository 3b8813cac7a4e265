package notation_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"

	"fairlead.dev/platform/notation"
)

func name(pairs ...string) pkix.Name {
	ids := map[string]asn1.ObjectIdentifier{
		"C": {2, 5, 4, 6}, "ST": {2, 5, 4, 8}, "O": {2, 5, 4, 10}, "OU": {2, 5, 4, 11}, "CN": {2, 5, 4, 3},
		"DC": {0, 9, 2342, 19200300, 100, 1, 25},
	}
	var n pkix.Name
	for i := 0; i < len(pairs); i += 2 {
		n.Names = append(n.Names, pkix.AttributeTypeAndValue{Type: ids[pairs[i]], Value: pairs[i+1]})
	}
	return n
}

func TestIdentitiesMatchSubjects(t *testing.T) {
	t.Parallel()
	ada := name("C", "US", "ST", "WA", "O", "Example, Inc.", "OU", "build", "CN", "ada", "DC", "x")
	for text, want := range map[string]bool{
		"*": true,
		`x509.subject: C=US, ST=WA, O=Example\, Inc.`:            true,
		`x509.subject:O=Example\2C Inc.,S=WA,c=US`:               true,
		`x509.subject: C=US, ST=WA, O=Example\, Inc., CN=ada`:    true,
		`x509.subject: C=US, ST=WA, O=Example\, Inc., CN=eve`:    false,
		`x509.subject: C=US, ST=WA, O=Example\, Inc., CN=Ada`:    false,
		`x509.subject: C=US, ST=WA, O=Example\, Inc., L=Seattle`: false,
		`x509.subject: C=US, ST=WA, O=Example`:                   false,
	} {
		id, err := notation.ParseIdentity(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := id.IsOf(notation.SubjectOf(ada)); got != want {
			t.Errorf("%s: is of ada: %v", text, got)
		}
	}
	anyone, err := notation.ParseIdentity("*")
	if err != nil || !anyone.IsOf(nil) {
		t.Errorf("anyone: %v", err)
	}
	some, err := notation.ParseIdentity("x509.subject: C=US, ST=WA, O=Example")
	twice := name("C", "US", "ST", "WA", "O", "Example", "O", "Other")
	control := name("C", "US", "ST", "WA", "O", "Example", "CN", "a\x1b[m")
	if err != nil || some.IsOf(notation.SubjectOf(twice)) || some.IsOf(notation.SubjectOf(control)) {
		t.Errorf("a subject that can't be compared is taken: %v", err)
	}
}

func TestIdentitiesThatCantBeRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 600)
	for text, want := range map[string]string{
		"":                                     "must be *",
		"C=US, ST=WA, O=x":                     "must be *",
		"x509.subject: C=US, O=x":              "no ST",
		"x509.subject: C=US, ST=WA, O=":        "no value",
		"x509.subject: C=US, ST=WA, O=x,":      "no attribute with a value",
		"x509.subject: C=US, C=DE, O=x":        "twice",
		"x509.subject: C=US, UID=7, O=x":       `"UID" is no attribute`,
		"x509.subject: C=US, ST=WA, O=a+b":     "needs a backslash",
		`x509.subject: C=US, ST=WA, O=a\q`:     "needs none",
		"x509.subject: C=US, ST=WA, O=\x00":    "can't be printed",
		"x509.subject: C=US, ST=WA, O=" + long: "the limit is 512",
	} {
		if _, err := notation.ParseIdentity(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A subject that is read is written so that it is read again.
func FuzzSubject(f *testing.F) {
	f.Add(`C=US, ST=WA, O=Example\, Inc.`)
	f.Add(`CN=\ a\ , O=\2b`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := notation.ParseSubject(text)
		if err != nil {
			return
		}
		again, err := notation.ParseSubject(s.String())
		if len(s.String()) <= 512 && (err != nil || !again.Equal(s)) {
			t.Errorf("%q became %q, and that %v, %v", text, s.String(), again, err)
		}
	})
}
