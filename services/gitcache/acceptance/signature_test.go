package acceptance

import (
	"errors"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/gittest"
)

// changeSource changes what shop says of its repository.
func (c *console) changeSource(change func(*consolev1.GitSource)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.announce()
	change(c.sources[sourceName].GetSpec().GetGit())
}

func (c *console) setVerification(mode consolev1.VerificationMode, keys ...string) {
	c.changeSource(func(s *consolev1.GitSource) { s.Verification = &consolev1.Verification{Mode: mode, Keys: keys} })
}

const (
	verifyCommit = consolev1.VerificationMode_VERIFICATION_MODE_COMMIT
	verifyTag    = consolev1.VerificationMode_VERIFICATION_MODE_TAG
	verifyBoth   = consolev1.VerificationMode_VERIFICATION_MODE_TAG_AND_COMMIT
)

// signAs makes git sign with a key from now on.
func (f *fixture) signAs(s *gittest.Signer) {
	f.t.Helper()
	for _, c := range s.Config() {
		f.repo.Work("config", c[0], c[1])
	}
	f.repo.Work("config", "commit.gpgSign", "true")
}

func (f *fixture) unsigned() {
	f.t.Helper()
	f.repo.Work("config", "commit.gpgSign", "false")
}

// signed waits until a head is said to be signed by a key.
func (f *fixture) signed(ref, commit, fingerprint string) {
	f.t.Helper()
	f.published(ref, commit)
	await.NoError(f.t, ref+" is signed", func() error {
		if got := headOf(f.console.status(), ref).GetSignedBy(); got != fingerprint {
			return errors.New("by " + got)
		}
		return nil
	})
}

func TestOnlySignedCommitsArePublished(t *testing.T) {
	t.Parallel()
	for name, signers := range map[string][2]*gittest.Signer{
		"openpgp": {gittest.NewOpenPGP(t, "ed25519"), gittest.NewOpenPGP(t, "rsa2048")},
		"ssh":     {gittest.NewSSH(t, "ed25519"), gittest.NewSSH(t, "ecdsa")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ada, eve := signers[0], signers[1]
			f := newFixture(t)
			f.console.setVerification(verifyCommit, ada.Public)
			f.console.setService("web", "main")
			first := f.repo.Commit("unsigned", gittest.Files{"deploy/a": "1"})
			dir := t.TempDir()
			n := f.start(dir, nil)
			f.problem(`ref "refs/heads/main" of service "web"`, "commit "+first[:8]+" is not signed",
				"Nothing of it is published", "Sign it")
			if len(f.console.status().GetHeads()) != 0 {
				t.Fatalf("published %v", f.console.status().GetHeads())
			}

			f.signAs(ada)
			good := f.repo.Commit("signed", gittest.Files{"deploy/a": "2"})
			n.refresh()
			f.signed("refs/heads/main", good, ada.Fingerprint)
			f.problem()

			f.signAs(eve)
			strange := f.repo.Commit("by somebody else", gittest.Files{"deploy/a": "3"})
			n.refresh()
			f.problem("commit "+strange[:8], eve.Fingerprint, "not among the source's verification keys",
				"The last good commit "+good[:8]+" is kept")
			f.signed("refs/heads/main", good, ada.Fingerprint)
			if got := n.download(n.resolve("refs/heads/main", "deploy").GetArtifact().GetDigest())["a"]; got != "2" {
				t.Errorf("served %q", got)
			}

			// Neither a restart nor another owner forgets what may be published.
			n.stop()
			n = f.start(dir, nil)
			n.poll()
			f.signed("refs/heads/main", good, ada.Fingerprint)
			n.stop()
			n = f.start(t.TempDir(), nil)
			n.poll()
			f.signed("refs/heads/main", good, ada.Fingerprint)
			f.problem(eve.Fingerprint)

			f.console.setVerification(verifyCommit, ada.Public, eve.Public)
			f.signed("refs/heads/main", strange, eve.Fingerprint)
			f.problem()
		})
	}
}

// A commit that came along below a signed one is not signed by that.
func TestACommitThatAServiceNamesByItsIDIsVerified(t *testing.T) {
	t.Parallel()
	ada := gittest.NewSSH(t, "ed25519")
	f := newFixture(t)
	f.console.setVerification(verifyCommit, ada.Public)
	f.console.setService("web", "main")
	unsigned := f.repo.Commit("unsigned", gittest.Files{"deploy/a": "1"})
	f.signAs(ada)
	signed := f.repo.Commit("signed", gittest.Files{"deploy/a": "2"})
	f.one()
	f.signed("refs/heads/main", signed, ada.Fingerprint)
	f.console.setService("fixed", unsigned)
	f.problem(`of service "fixed"`, "commit "+unsigned[:8]+" is not signed", "Nothing of it is published")
	f.console.setService("fixed", signed)
	f.signed(signed, signed, ada.Fingerprint)
	f.problem()
	if h := headOf(f.console.status(), unsigned); h != nil {
		t.Errorf("published %v", h)
	}
}

func TestHeadsAreVerifiedAgainWhenTheKeysChange(t *testing.T) {
	t.Parallel()
	longform.Only(t, "signed content in many forms")
	ada, bob := gittest.NewSSH(t, "ed25519"), gittest.NewOpenPGP(t, "ed25519")
	f := newFixture(t)
	f.console.setService("web", "main")
	f.signAs(ada)
	commit := f.repo.Commit("signed", gittest.Files{"deploy/a": "1"})
	n := f.one()
	f.signed("refs/heads/main", commit, "") // nobody asked
	f.console.setVerification(verifyCommit, ada.Public)
	f.signed("refs/heads/main", commit, ada.Fingerprint)
	fetches, checks := f.git.Count("fetch"), n.metric("fairlead_gitcache_verifications_total")
	for range 3 {
		n.poll()
	}
	if got := n.metric("fairlead_gitcache_verifications_total"); got != checks || checks == 0 {
		t.Errorf("verified %v times, then %v", checks, got)
	}

	f.console.setVerification(verifyCommit, bob.Public)
	f.problem("commit "+commit[:8], ada.Fingerprint, "It was published before and is kept")
	if got := head(f.console.status(), "refs/heads/main").GetCommit(); got != commit {
		t.Errorf("the head is at %q", got)
	}
	f.console.setVerification(verifyCommit, bob.Public, "ssh-ed25519 nonsense")
	f.problem("verification key 2", "Until it is corrected nothing new is published")
	f.console.setVerification(verifyCommit, bob.Revoke(t), ada.Public)
	f.signed("refs/heads/main", commit, ada.Fingerprint)
	f.problem()

	f.signAs(bob)
	revoked := f.repo.Commit("by a revoked key", gittest.Files{"deploy/a": "2"})
	n.refresh()
	f.problem("commit "+revoked[:8], bob.Fingerprint, "was revoked", commit[:8]+" is kept", "Sign with another key")
	f.console.changeSource(func(s *consolev1.GitSource) { s.Verification = nil })
	f.signed("refs/heads/main", revoked, "")
	f.problem()
	if got := f.git.Count("fetch"); got > fetches+1 {
		t.Errorf("%d fetches for one new commit", got-fetches)
	}
}

func TestOnlySignedTagsArePublished(t *testing.T) {
	t.Parallel()
	longform.Only(t, "signed content in many forms")
	ada := gittest.NewOpenPGP(t, "ed25519")
	f := newFixture(t)
	f.console.setVerification(verifyTag, ada.Public)
	f.console.setService("web", "semver:*")
	f.console.setService("fixed", "refs/tags/v1.0.0")
	f.signAs(ada)
	f.unsigned() // commits
	first := f.repo.Commit("one", gittest.Files{"deploy/a": "1"})
	f.repo.Work("tag", "-s", "-m", "release", "v1.0.0")
	f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "v1.0.0")
	n := f.one()
	f.signed("semver:*", first, ada.Fingerprint)
	f.signed("refs/tags/v1.0.0", first, ada.Fingerprint)
	f.problem() // the default branch is not signed, and nobody wants it

	// A person who can push can show the very tag that was just verified as a higher one.
	f.repo.Bare("update-ref", "refs/tags/v1.0.1", f.repo.Bare("rev-parse", "refs/tags/v1.0.0"))
	n.refresh()
	f.problem(`tag "v1.0.1" is signed as tag "v1.0.0" and not under this name`)
	if got := headOf(f.console.status(), "semver:*").GetResolvedRef(); got != "refs/tags/v1.0.0" {
		t.Errorf("the range is at %q", got)
	}
	f.repo.Bare("update-ref", "-d", "refs/tags/v1.0.1")
	n.refresh()
	f.problem()

	f.tag("v1.1.0", true)
	n.refresh()
	f.problem(`ref "semver:*" of service "web"`, `tag "v1.1.0" is not signed`, first[:8]+" is kept")
	f.tag("v1.2.0", false)
	n.refresh()
	f.problem("is not an annotated tag")
	// A person who can push can show an old release under a new name.
	f.repo.Bare("update-ref", "refs/tags/v1.3.0", f.repo.Bare("rev-parse", "refs/tags/v1.0.0"))
	n.refresh()
	f.problem(`tag "v1.3.0" is signed as tag "v1.0.0" and not under this name`)
	f.signed("semver:*", first, ada.Fingerprint)

	f.repo.Work("tag", "-s", "-m", "release", "v1.4.0")
	f.repo.Work("push", "--quiet", f.repo.URLOnDisk(), "v1.4.0")
	last := f.repo.Work("rev-parse", "HEAD")
	n.refresh()
	f.signed("semver:*", last, ada.Fingerprint)
	f.problem()

	f.console.setVerification(verifyBoth, ada.Public)
	f.problem("commit "+last[:8]+" is not signed", "commit "+first[:8]+" is not signed",
		"It was published before and is kept")
	f.signAs(ada)
	both := f.repo.Commit("signed", gittest.Files{"deploy/a": "2"})
	for _, tag := range []string{"v1.0.0", "v1.5.0"} {
		f.repo.Work("tag", "--force", "-s", "-m", "release", tag)
		f.repo.Work("push", "--quiet", "--force", f.repo.URLOnDisk(), tag)
	}
	n.refresh()
	f.signed("semver:*", both, ada.Fingerprint)
	f.signed("refs/tags/v1.0.0", both, ada.Fingerprint)
	f.problem()
	f.console.setService("web", "main")
	f.problem(`ref "refs/heads/main" of service "web"`, "is not an annotated tag, and the source wants signed tags")
}
