package signature_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/signature"
)

func keys(t *testing.T, texts ...string) *signature.Keys {
	t.Helper()
	k, err := signature.ParseKeys(texts)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// refused checks that err is a refusal of a kind that says the words.
func refused(t *testing.T, no *signature.Refusal, kind signature.Kind, words ...string) {
	t.Helper()
	if no == nil || no.Kind != kind {
		t.Fatalf("got %v, want a refusal that is %s", no, kind)
	}
	for _, w := range words {
		if !strings.Contains(no.Error(), w) {
			t.Errorf("%q does not say %q", no, w)
		}
	}
}

// repo is a work tree of git's own, and the keys of people who work in it.
type repo struct {
	*gittest.Signer
	*gittest.Repo
}

func newRepo(t *testing.T, s *gittest.Signer) repo {
	t.Helper()
	r := repo{s, gittest.NewServer(t).NewRepo(t, "shop.git")}
	for _, c := range s.Config() {
		r.Work("config", c[0], c[1])
	}
	return r
}

// raw is an object as Git hashes it.
func (r repo) raw(t *testing.T, kind, name string) []byte {
	t.Helper()
	return r.Raw(kind, r.Work("rev-parse", name))
}

func (r repo) commit(t *testing.T, message string) []byte {
	t.Helper()
	r.Work("commit", "--quiet", "--allow-empty", "-S", "-m", message)
	r.Push()
	return r.raw(t, "commit", "HEAD")
}

func (r repo) tag(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	r.Work(append([]string{"tag", "-s", "-m", "release\n\nof " + name, name}, args...)...)
	r.Work("push", "--quiet", r.URLOnDisk(), name)
	return r.raw(t, "tag", name)
}

func signers(t *testing.T) map[string]*gittest.Signer {
	t.Helper()
	return map[string]*gittest.Signer{
		"openpgp ed25519": gittest.NewOpenPGP(t, "ed25519"),
		"openpgp rsa":     gittest.NewOpenPGP(t, "rsa2048"),
		"ssh ed25519":     gittest.NewSSH(t, "ed25519"),
		"ssh ecdsa 256":   gittest.NewSSH(t, "ecdsa", "-b", "256"),
		"ssh ecdsa 384":   gittest.NewSSH(t, "ecdsa", "-b", "384"),
		"ssh ecdsa 521":   gittest.NewSSH(t, "ecdsa", "-b", "521"),
		"ssh rsa":         gittest.NewSSH(t, "rsa", "-b", "2048"),
	}
}

func TestWhatGitSignsIsAccepted(t *testing.T) {
	t.Parallel()
	others := []string{gittest.NewOpenPGP(t, "ed25519").Public, gittest.NewSSH(t, "ed25519").Public}
	for name, signer := range signers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, signer)
			trusted, strangers := keys(t, append(others, signer.Public)...), keys(t, others...)
			now := time.Now().Add(time.Hour) // however long signing takes
			objects := map[string]func(*signature.Keys, []byte) (string, *signature.Refusal){
				"commit": func(k *signature.Keys, b []byte) (string, *signature.Refusal) { return k.Commit(b, now) },
				"tag":    func(k *signature.Keys, b []byte) (string, *signature.Refusal) { return k.Tag(b, "v1.0.0", now) },
			}
			raws := map[string][]byte{
				"commit": r.commit(t, "subject\n\nbody\n gpgsig not a header"),
				"tag":    r.tag(t, "v1.0.0"),
			}
			for kind, check := range objects {
				raw := raws[kind]
				if got, err := check(trusted, raw); err != nil || got != signer.Fingerprint {
					t.Errorf("%s: signed by %q, %v; want %q", kind, got, err, signer.Fingerprint)
				}
				_, err := check(strangers, raw)
				refused(t, err, signature.Unknown, "not among the source's verification keys")
				_, err = check(trusted, bytes.Replace(raw, []byte("Ada <ada@"), []byte("Eve <eve@"), 1))
				refused(t, err, signature.Invalid, signer.Fingerprint, "was changed after it was signed")
			}
			// The holder of the repository can show a tag that was signed under another name.
			_, err := trusted.Tag(raws["tag"], "v2.0.0", now)
			refused(t, err, signature.Invalid, `signed as tag "v1.0.0"`)
		})
	}
}

func TestMergesOfSignedTagsAndManyLinesAreAccepted(t *testing.T) {
	t.Parallel()
	signer := gittest.NewSSH(t, "ed25519")
	r := newRepo(t, signer)
	r.commit(t, "base")
	r.Work("checkout", "--quiet", "-b", "side")
	r.commit(t, "aside")
	r.tag(t, "v1.0.0")
	r.Work("checkout", "--quiet", "main")
	r.commit(t, "more")
	// The merge holds the whole signed tag in a header of many lines, its signature among them.
	r.Work("merge", "--quiet", "--no-ff", "-S", "-m", "merge", "v1.0.0")
	r.Push()
	raw := r.raw(t, "commit", "HEAD")
	if !bytes.Contains(raw, []byte("\nmergetag ")) {
		t.Fatal("Git made no mergetag")
	}
	if _, err := keys(t, signer.Public).Commit(raw, time.Now()); err != nil {
		t.Error(err)
	}
}

func TestNoSignatureIsNoSignature(t *testing.T) {
	t.Parallel()
	signer := gittest.NewSSH(t, "ed25519")
	r := newRepo(t, signer)
	r.Commit("plain", gittest.Files{"a": "1"})
	k := keys(t, signer.Public)
	_, err := k.Commit(r.raw(t, "commit", "HEAD"), time.Now())
	refused(t, err, signature.Unsigned, "is not signed")
	r.Work("tag", "-a", "-m", "plain", "v1")
	r.Work("push", "--quiet", r.URLOnDisk(), "v1")
	_, err = k.Tag(r.raw(t, "tag", "v1"), "v1", time.Now())
	refused(t, err, signature.Unsigned)

	// A signature in the message is no signature of the commit.
	signed := r.commit(t, "signed")
	_, message, _ := bytes.Cut(signed, []byte("\n\n"))
	head, _, _ := bytes.Cut(signed, []byte("gpgsig "))
	moved := concat(head, []byte("\ngpgsig -----BEGIN SSH SIGNATURE-----\n"), message)
	_, err = k.Commit(moved, time.Now())
	refused(t, err, signature.Unsigned)
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestOneOfSeveralSignaturesIsEnoughAndTheyAreBounded(t *testing.T) {
	t.Parallel()
	signer, other := gittest.NewSSH(t, "ed25519"), gittest.NewOpenPGP(t, "ed25519")
	r := newRepo(t, signer)
	r.Commit("unsigned", gittest.Files{"a": "1"})
	plain := r.raw(t, "commit", "HEAD")
	header := func(b []byte) []byte {
		_, rest, _ := bytes.Cut(b, []byte("\ngpgsig "))
		sig, _, _ := bytes.Cut(rest, []byte("\n\n"))
		return append([]byte("gpgsig "), append(sig, '\n')...)
	}
	sign := func(s *gittest.Signer) []byte { return header(append([]byte("x\ngpgsig "), s.Header(t, plain)...)) }
	insert := func(headers ...[]byte) []byte {
		head, message, _ := bytes.Cut(plain, []byte("\n\n"))
		return concat(head, []byte("\n"), bytes.Join(headers, nil), []byte("\n"), message)
	}
	now := time.Now().Add(time.Hour) // however long signing takes
	both := insert(sign(other), sign(signer), []byte("gpgsig-sha256 -----BEGIN\n of another repository format\n"))
	if got, err := keys(t, signer.Public).Commit(both, now); err != nil || got != signer.Fingerprint {
		t.Errorf("the second is by %q: %v", got, err)
	}
	if got, err := keys(t, other.Public).Commit(both, now); err != nil || got != other.Fingerprint {
		t.Errorf("the first is by %q: %v", got, err)
	}
	one := sign(other)
	_, err := keys(t, other.Public).Commit(insert(one, one, one, one, one), now)
	refused(t, err, signature.Invalid, "limit of 4")
}

func TestExpiredAndRevokedKeysSignNothing(t *testing.T) {
	t.Parallel()
	signer := gittest.NewOpenPGP(t, "ed25519")
	r := newRepo(t, signer)
	raw := r.commit(t, "signed in time")
	if _, err := keys(t, signer.Public).Commit(raw, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	expired := signer.Expire(t, time.Now().Add(time.Hour))
	k := keys(t, expired)
	if _, err := k.Commit(raw, time.Now().Add(time.Minute)); err != nil {
		t.Errorf("before it expires: %v", err)
	}
	_, err := k.Commit(raw, time.Now().Add(2*time.Hour))
	refused(t, err, signature.Expired, signer.Fingerprint)
	_, err = keys(t, signer.Revoke(t)).Commit(raw, time.Now().Add(time.Second))
	refused(t, err, signature.Revoked, signer.Fingerprint)
}

// A key that is given twice, as it was and as it is, is one key: what was revoked once stays so, and what was
// extended still signs.
func TestTwoVersionsOfAKeyAreOneKey(t *testing.T) {
	t.Parallel()
	signer := gittest.NewOpenPGP(t, "ed25519")
	r := newRepo(t, signer)
	raw := r.commit(t, "signed")
	now := time.Now().Add(time.Minute)
	revoked := signer.Revoke(t)
	for _, both := range [][]string{{signer.Public, revoked}, {revoked, signer.Public}} {
		_, err := keys(t, both...).Commit(raw, now)
		refused(t, err, signature.Revoked, signer.Fingerprint)
	}
	before, after := signer.Expire(t, time.Now().Add(time.Hour)), signer.Expire(t, time.Now().Add(24*time.Hour))
	for _, both := range [][]string{{before, after}, {after, before}} {
		if got, err := keys(t, both...).Commit(raw, now.Add(2*time.Hour)); err != nil || got != signer.Fingerprint {
			t.Errorf("signed by %q, %v", got, err)
		}
	}
}

func TestASubkeySignsForItsKey(t *testing.T) {
	t.Parallel()
	signer := gittest.NewOpenPGP(t, "ed25519")
	before := signer.Public
	public, sub := signer.AddSubkey(t)
	r := newRepo(t, signer)
	r.Work("config", "user.signingKey", sub+"!")
	raw := r.commit(t, "by the subkey")
	now := time.Now().Add(time.Second)
	if got, err := keys(t, public).Commit(raw, now); err != nil || got != signer.Fingerprint {
		t.Errorf("signed by %q, %v; want the primary key %q", got, err, signer.Fingerprint)
	}
	_, err := keys(t, before).Commit(raw, now)
	refused(t, err, signature.Unknown, sub)
}

// A signature of the same key for something else than Git must not pass for a commit.
func TestSSHSignaturesForOtherPurposesAreRefused(t *testing.T) {
	t.Parallel()
	signer := gittest.NewSSH(t, "ed25519")
	r := newRepo(t, signer)
	r.Commit("unsigned", gittest.Files{"a": "1"})
	plain := r.raw(t, "commit", "HEAD")
	with := func(armored string) []byte {
		head, message, _ := bytes.Cut(plain, []byte("\n\n"))
		return concat(head, []byte("\ngpgsig "+strings.ReplaceAll(strings.TrimSpace(armored), "\n", "\n ")),
			[]byte("\n\n"), message)
	}
	k := keys(t, signer.Public)
	if _, err := k.Commit(with(signer.SSHSign(t, "git", plain)), time.Now()); err != nil {
		t.Fatal(err)
	}
	_, err := k.Commit(with(signer.SSHSign(t, "file", plain)), time.Now())
	refused(t, err, signature.Invalid, `made for "file"`)
	whole := signer.SSHSign(t, "git", plain)
	_, err = k.Commit(with(whole[:len(whole)/2]), time.Now())
	refused(t, err, signature.Invalid, "cut short")
	_, err = k.Commit(with(strings.Replace(whole, "U1NIU0lH", "U1NIU0lI", 1)), time.Now())
	refused(t, err, signature.Invalid, "no SSH signature")
	_, err = k.Commit(with("-----BEGIN SIGNED MESSAGE-----\nMIIB\n-----END SIGNED MESSAGE-----"), time.Now())
	refused(t, err, signature.Invalid, "X.509")
}

// handmade is an SSH signature as a program could make it that is not OpenSSH.
func handmade(key ssh.PublicKey, hash, format string, payload []byte,
	sign func(signed []byte) (blob, rest []byte),
) string {
	sum := sha256.Sum256(payload)
	head := ssh.Marshal(struct{ Namespace, Reserved, Hash, Digest string }{"git", "", hash, string(sum[:])})
	blob, rest := sign(append([]byte("SSHSIG"), head...))
	inner := ssh.Marshal(struct {
		Format string
		Blob   []byte
		Rest   []byte `ssh:"rest"`
	}{format, blob, rest})
	outer := ssh.Marshal(struct {
		Version                       uint32
		Key                           []byte
		Namespace, Reserved, Hash, Of string
	}{1, key.Marshal(), "git", "", hash, string(inner)})
	return "-----BEGIN SSH SIGNATURE-----\n" + base64.StdEncoding.EncodeToString(append([]byte("SSHSIG"), outer...)) +
		"\n-----END SSH SIGNATURE-----"
}

func commitWith(armored string) []byte {
	return []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\ngpgsig " + strings.ReplaceAll(armored, "\n", "\n ") +
		"\n\nm\n")
}

var payloadOf = []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nm\n")

func TestSecurityKeysSignOnlyWhenTheyWereTouched(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wire := ssh.Marshal(struct {
		Name string
		Key  []byte
		App  string
	}{ssh.KeyAlgoSKED25519, public, "ssh:"})
	key, err := ssh.ParsePublicKey(wire)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(flags byte) string {
		return handmade(key, "sha256", ssh.KeyAlgoSKED25519, payloadOf, func(signed []byte) ([]byte, []byte) {
			app, message := sha256.Sum256([]byte("ssh:")), sha256.Sum256(signed)
			state := []byte{flags, 0, 0, 0, 7}
			return ed25519.Sign(private, concat(app[:], state, message[:])), state
		})
	}
	k := keys(t, string(ssh.MarshalAuthorizedKey(key)))
	if got, err := k.Commit(commitWith(sign(1)), time.Now()); err != nil || got != ssh.FingerprintSHA256(key) {
		t.Errorf("signed by %q: %v", got, err)
	}
	_, no := k.Commit(commitWith(sign(0)), time.Now())
	refused(t, no, signature.Invalid)
}

func TestRSAWithSHA1IsRefused(t *testing.T) {
	t.Parallel()
	signer := gittest.NewSSH(t, "rsa", "-b", "2048")
	private, err := ssh.ParsePrivateKey(signer.Private(t))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(algorithm string) string {
		return handmade(private.PublicKey(), "sha256", algorithm, payloadOf, func(signed []byte) ([]byte, []byte) {
			s, err := private.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signed, algorithm)
			if err != nil {
				t.Fatal(err)
			}
			return s.Blob, nil
		})
	}
	k := keys(t, signer.Public)
	if _, err := k.Commit(commitWith(sign(ssh.KeyAlgoRSASHA256)), time.Now()); err != nil {
		t.Fatal(err)
	}
	_, no := k.Commit(commitWith(sign(ssh.KeyAlgoRSA)), time.Now())
	refused(t, no, signature.Invalid, "does not accept")
}

func TestKeysThatCanNotBeTrustedSayWhy(t *testing.T) {
	t.Parallel()
	good := gittest.NewSSH(t, "ed25519")
	weak := filepath.Join(t.TempDir(), "weak")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "rsa", "-b", "1024", "-N", "", "-f", weak).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	weakPublic, err := os.ReadFile(weak + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	armored := gittest.NewOpenPGP(t, "ed25519").Public
	for text, words := range map[string]string{
		"":                              "holds no key",
		"# only a comment":              "holds no key",
		"ssh-ed25519 AAAA":              "neither",
		"cert-authority " + good.Public: "has options",
		string(good.Private(t)):         "is a private key",
		string(weakPublic):              "1024 bits",
		armored[:len(armored)/2]:        "not a whole",
		strings.Replace(armored, "\n\nm", "\n\nx", 1): "OpenPGP",
	} {
		_, err := signature.ParseKeys([]string{good.Public, text})
		if err == nil || !strings.Contains(err.Error(), "verification key 2 ") ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("%.30q: got %v, want %q", text, err, words)
		}
	}
	many := fmt.Sprintf("# people\n%s\n\n%s", good.Public, gittest.NewSSH(t, "ed25519").Public)
	if _, err := signature.ParseKeys([]string{many, armored + "\n" + gittest.NewOpenPGP(t, "ed25519").Public}); err != nil {
		t.Error(err)
	}
}

func FuzzCommit(f *testing.F) {
	signer := gittest.NewSSH(f, "ed25519")
	pgp := gittest.NewOpenPGP(f, "ed25519")
	k, err := signature.ParseKeys([]string{signer.Public, pgp.Public})
	if err != nil {
		f.Fatal(err)
	}
	for _, armored := range []string{
		signer.SSHSign(f, "git", payloadOf), signer.SSHSign(f, "x", payloadOf),
		string(pgp.Header(f, payloadOf)),
	} {
		f.Add(commitWith(armored))
		f.Add(append(bytes.Clone(payloadOf), armored...))
	}
	now := time.Now().Add(time.Second)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, check := range []func([]byte, time.Time) (string, *signature.Refusal){k.Commit, func(b []byte, now time.Time) (string, *signature.Refusal) { return k.Tag(b, "v1", now) }} {
			by, err := check(raw, now)
			if err == nil && by != signer.Fingerprint && by != pgp.Fingerprint {
				t.Errorf("signed by %q", by)
			}
		}
		// An accepted commit is what was signed, but for the signature's own bytes.
		if _, err := k.Commit(raw, now); err == nil &&
			!bytes.HasPrefix(raw, []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n")) &&
			!bytes.HasPrefix(raw, []byte("gpgsig")) {
			t.Errorf("accepted %q", raw)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add(gittest.NewOpenPGP(f, "ed25519").Public)
	f.Add(gittest.NewSSH(f, "ed25519").Public)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = signature.ParseKeys([]string{text}) })
}
