package githttp

import (
	"bytes"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
)

// The lines that git prints about refs have names in them that upstream chose.
func FuzzParseLsRemote(f *testing.F) {
	id := strings.Repeat("1", 40)
	f.Add([]byte(id + "\tHEAD\n" + id + "\trefs/tags/v1\n" + id + "\trefs/tags/v1^{}\n"))
	f.Add([]byte(id + id[:24] + "\tHEAD\n"))
	f.Add([]byte(id + "11\tHEAD\n"))
	f.Add([]byte("\t\n^{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseLsRemote(bytes.NewReader(b))
		if err != nil {
			return
		}
		for name, id := range l.Refs {
			if !gitwire.ValidRef(name) || id.IsZero() {
				t.Errorf("%q %s was taken", name, id)
			}
		}
	})
}
