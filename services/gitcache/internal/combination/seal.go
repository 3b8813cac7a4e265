package combination

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
)

// A combination of several sources is a commit that nobody signs, and whoever pushes to the first source can make one
// that looks like it. So where commits of the first source have to be signed, the hub seals what it makes of signed
// ones, and takes back nothing else.

// signerLine begins the line of a combination with the key that has signed the commit of a source.
const signerLine = "Signed: "

// Seal is that of one source.
type Seal struct {
	Secret *hubsecret.File
	UID    string // of the source
}

// IsNeeded tells whether a combination is of signed commits of a source that wants these. One that was published before
// the source wanted that, or by a key that it does not trust any more, may still be what is published.
func IsNeeded(s source.Source, parts []source.Part, trusts func(fingerprint string) bool) bool {
	if !s.Verification.IsWanted() {
		return false
	}
	for _, p := range parts {
		if p.UID == s.UID && !trusts(p.Head.SignedBy) {
			return false
		}
	}
	return true
}

// describeSigners gives the lines of a combination that say who signed the commits of its first source.
func (s Seal) describeSigners(parts []source.Part) string {
	var lines strings.Builder
	for _, p := range parts {
		if p.UID == s.UID {
			fmt.Fprintf(&lines, "\n%s%s", signerLine, p.Head.SignedBy)
		}
	}
	return lines.String()
}

// signCommit proves later that the hub made a commit.
func (s Seal) signCommit(commit []byte) ([]byte, error) {
	mac, err := s.Secret.Sign(hubsecret.Combinations, s.sealedText(commit))
	if err != nil {
		return nil, fmt.Errorf("the hub secret can't be read, which seals what is put together: %w", err)
	}
	return mirror.Seal(commit, hex.EncodeToString(mac)), nil
}

// sealedText is what a seal is about: a commit, and the source that has it.
func (s Seal) sealedText(commit []byte) []byte { return append([]byte(s.UID+"\x00"), commit...) }

// CheckCommit says why a combination counts for nothing where commits have to be signed; nil: it counts.
func (s Seal) CheckCommit(m *mirror.Mirror, id git.Hash, trusts func(fingerprint string) bool) error {
	const no = "can't be proven to be made of signed commits: "
	o := m.Objects()
	defer o.Close()
	commit, seal, err := o.Unseal(id)
	if err != nil {
		return fmt.Errorf(no+"%w", err)
	}
	mac, err := hex.DecodeString(seal)
	if err == nil && seal != "" {
		good, err := s.Secret.Verify(hubsecret.Combinations, s.sealedText(commit), mac)
		if err != nil {
			return fmt.Errorf(no+"the hub secret can't be read: %w", err)
		}
		if good {
			return checkSigners(commit, trusts)
		}
	}
	return errors.New(no + "it has no seal of the hub, so it was made before the source had verification, with a hub secret that is gone, or elsewhere")
}

// checkSigners says which of those who signed what a combination was made of is not trusted today; nil: all are.
func checkSigners(commit []byte, trusts func(fingerprint string) bool) error {
	for line := range strings.Lines(string(commit)) {
		by, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), signerLine)
		if ok && !trusts(by) {
			return fmt.Errorf("was made of a commit by key %s, which is not among the source's verification keys", by)
		}
	}
	return nil
}
