package owner

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

// mustSeal tells whether a combination is of signed commits of a source that wants these. One that was published before
// the source wanted that, or by a key that it does not trust any more, may still be what is published.
func (c *combining) mustSeal(parts []source.Part) bool {
	if !c.s.Verification.IsWanted() {
		return false
	}
	for _, p := range parts {
		if p.UID == c.s.UID && !c.t.trustsKey(c.s, p.Head.SignedBy) {
			return false
		}
	}
	return true
}

func (t *tenure) trustsKey(s source.Source, fingerprint string) bool {
	in := t.trustIn(s)
	return in != nil && in.err == nil && fingerprint != "" && in.keys.Has(fingerprint)
}

// describeSigners are the lines of a combination that say who signed the commits of its first source.
func (c *combining) describeSigners(parts []source.Part) string {
	var lines strings.Builder
	for _, p := range parts {
		if p.UID == c.s.UID {
			fmt.Fprintf(&lines, "\n%s%s", signerLine, p.Head.SignedBy)
		}
	}
	return lines.String()
}

// sealCommit proves later that the hub made a commit.
func (t *tenure) sealCommit(commit []byte) ([]byte, error) {
	mac, err := t.loop.o.deps.Secret.Sign(hubsecret.Combinations, t.sealedText(commit))
	if err != nil {
		return nil, fmt.Errorf("the hub secret can't be read, which seals what is put together: %w", err)
	}
	return mirror.Seal(commit, hex.EncodeToString(mac)), nil
}

// sealedText is what a seal is about: a commit, and the source that has it.
func (t *tenure) sealedText(commit []byte) []byte {
	return append([]byte(t.loop.uid+"\x00"), commit...)
}

// checkSeal says why a combination counts for nothing where commits have to be signed; nil: it counts.
func (t *tenure) checkSeal(s source.Source, id git.Hash) error {
	if !s.Verification.IsWanted() {
		return nil
	}
	const no = "can't be proven to be made of signed commits: "
	o := t.mirror.Objects()
	defer o.Close()
	commit, seal, err := o.Unseal(id)
	if err != nil {
		return fmt.Errorf(no+"%w", err)
	}
	mac, err := hex.DecodeString(seal)
	if err == nil && seal != "" {
		good, err := t.loop.o.deps.Secret.Verify(hubsecret.Combinations, t.sealedText(commit), mac)
		if err != nil {
			return fmt.Errorf(no+"the hub secret can't be read: %w", err)
		}
		if good {
			return t.trustsSigners(s, commit)
		}
	}
	return errors.New(no + "it has no seal of the hub, so it was made before the source had verification, with a hub secret that is gone, or elsewhere")
}

// trustsSigners tells whether all who signed what a combination was made of are trusted today.
func (t *tenure) trustsSigners(s source.Source, commit []byte) error {
	for line := range strings.Lines(string(commit)) {
		by, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), signerLine)
		if ok && !t.trustsKey(s, by) {
			return fmt.Errorf("was made of a commit by key %s, which is not among the source's verification keys", by)
		}
	}
	return nil
}
