package signed

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fairlead.dev/services/gitcache/internal/signature"
)

// MaxProvenanceBytes of a .prov: it repeats Chart.yaml, which may have 1 MiB.
const MaxProvenanceBytes = 2 << 20

// Provenance reads the .prov of a package: the fingerprint of the key that signed it, and the SHA-256 in hex that it
// gives for the package's file; or why it does not count.
func (t *Trust) Provenance(text []byte, file string, now time.Time) (fingerprint, sum string, no *signature.Refusal) {
	plain, fingerprint, no := t.ring.Cleartext(text, now)
	if no != nil {
		return "", "", no
	}
	// Chart.yaml, a line of three dots, and the sums.
	_, sums, ok := bytes.Cut(plain, []byte("\n...\n"))
	var of struct {
		Files map[string]string `yaml:"files"`
	}
	if !ok || yaml.Unmarshal(sums, &of) != nil {
		return "", "", signature.Refuse(signature.Invalid, "has a provenance file by key %s that is not of a chart", fingerprint)
	}
	said, ok := of.Files[file]
	if !ok {
		return "", "", signature.Refuse(signature.Invalid,
			"has a provenance file by key %s that is of another chart or version: it does not name %s", fingerprint, file)
	}
	sum, ok = strings.CutPrefix(said, "sha256:")
	if b, err := hex.DecodeString(sum); !ok || err != nil || len(b) != 32 {
		return "", "", signature.Refuse(signature.Invalid, "has a provenance file by key %s without the SHA-256 of the package", fingerprint)
	}
	return fingerprint, strings.ToLower(sum), nil
}

// PackageFile is the name of the file of a chart's package, as `helm package` names it.
func PackageFile(chart, version string) string { return fmt.Sprintf("%s-%s.tgz", chart, version) }
