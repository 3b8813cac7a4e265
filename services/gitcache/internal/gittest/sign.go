package gittest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Signer is somebody with a key, who signs as Git does: with gpg or ssh-keygen.
type Signer struct {
	Public      string // as a source's verification names it
	Fingerprint string

	home    string // of gpg; empty: an SSH key
	wrapper string // runs gpg with this home, which Git can't be told
	file    string // the private SSH key
}

// NewSSH makes an SSH key; args go to ssh-keygen.
func NewSSH(t testing.TB, kind string, args ...string) *Signer {
	t.Helper()
	s := &Signer{file: filepath.Join(t.TempDir(), "key")}
	s.run(t, nil, "ssh-keygen", append([]string{"-q", "-t", kind, "-N", "", "-C", "ada", "-f", s.file}, args...)...)
	public, err := os.ReadFile(s.file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	s.Public = string(public)
	s.Fingerprint = strings.Fields(s.run(t, nil, "ssh-keygen", "-l", "-f", s.file+".pub"))[1]
	return s
}

// NewOpenPGP makes an OpenPGP key that signs, without a passphrase.
func NewOpenPGP(t testing.TB, algorithm string) *Signer {
	t.Helper()
	s := newKeyring(t)
	s.gpg(t, nil, "--passphrase", "", "--quick-generate-key", "Ada <ada@example.com>", algorithm, "sign", "never")
	for line := range strings.Lines(s.gpg(t, nil, "--with-colons", "--list-keys")) {
		if f := strings.Split(line, ":"); f[0] == "fpr" && s.Fingerprint == "" {
			s.Fingerprint = f[9]
		}
	}
	s.Public = s.export(t)
	return s
}

func newKeyring(t testing.TB) *Signer {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") //nolint:usetesting // t.TempDir is too long a path for the agent's socket
	if err != nil {
		t.Fatal(err)
	}
	s := &Signer{home: home, wrapper: filepath.Join(home, "git-gpg")}
	writeProgram(t, s.wrapper, fmt.Sprintf("#!/bin/sh\nexec gpg --homedir %q --batch \"$@\"\n", home))
	t.Cleanup(func() {
		_ = s.command(t, "gpgconf", "--homedir", home, "--kill", "all").Run() // the agent may not run
		_ = os.RemoveAll(home)
	})
	return s
}

// Config is what makes Git sign with this key.
func (s *Signer) Config() [][2]string {
	if s.home == "" {
		return [][2]string{{"gpg.format", "ssh"}, {"user.signingKey", s.file}}
	}
	return [][2]string{{"gpg.format", "openpgp"}, {"user.signingKey", s.Fingerprint}, {"gpg.program", s.wrapper}}
}

// Private is the private SSH key.
func (s *Signer) Private(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// SSHSign signs content for a purpose.
func (s *Signer) SSHSign(t testing.TB, namespace string, content []byte) string {
	t.Helper()
	return s.run(t, content, "ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", s.file)
}

// Clearsign signs a text in clear with OpenPGP.
func (s *Signer) Clearsign(t testing.TB, text string) string {
	t.Helper()
	return s.gpg(t, []byte(text), "--clearsign", "-u", s.Fingerprint)
}

// Header signs content and returns the signature as it is in a commit: the lines after the first begin
// with a space.
func (s *Signer) Header(t testing.TB, content []byte) []byte {
	t.Helper()
	var armored string
	if s.home == "" {
		armored = s.SSHSign(t, "git", content)
	} else {
		armored = s.gpg(t, content, "-bsa", "-u", s.Fingerprint)
	}
	return []byte(strings.ReplaceAll(strings.TrimSpace(armored), "\n", "\n "))
}

// Expire gives the key an end and returns the public key with it.
func (s *Signer) Expire(t testing.TB, at time.Time) string {
	t.Helper()
	s.gpg(t, nil, "--quick-set-expire", s.Fingerprint, at.UTC().Format("20060102T150405"))
	return s.export(t)
}

// Revoke returns the public key, revoked. Its owner goes on signing with it all the same.
func (s *Signer) Revoke(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.home, "openpgp-revocs.d", s.Fingerprint+".rev"))
	if err != nil {
		t.Fatal(err)
	}
	others := newKeyring(t)
	others.gpg(t, []byte(s.Public), "--import")
	// gpg writes it so that it can't be used by accident.
	others.gpg(t, bytes.Replace(b, []byte(":-----BEGIN"), []byte("-----BEGIN"), 1), "--import")
	return others.gpg(t, nil, "--armor", "--export", s.Fingerprint)
}

// AddSubkey adds a subkey that signs and returns the public key with it, and its fingerprint.
func (s *Signer) AddSubkey(t testing.TB) (public, fingerprint string) {
	t.Helper()
	s.gpg(t, nil, "--passphrase", "", "--quick-add-key", s.Fingerprint, "ed25519", "sign", "never")
	for line := range strings.Lines(s.gpg(t, nil, "--with-colons", "--list-keys")) {
		if f := strings.Split(line, ":"); f[0] == "fpr" {
			fingerprint = f[9]
		}
	}
	return s.export(t), fingerprint
}

func (s *Signer) export(t testing.TB) string {
	t.Helper()
	return s.gpg(t, nil, "--armor", "--export", s.Fingerprint)
}

func (s *Signer) gpg(t testing.TB, stdin []byte, args ...string) string {
	t.Helper()
	return s.run(t, stdin, "gpg", append([]string{"--homedir", s.home, "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"}, args...)...)
}

func (s *Signer) run(t testing.TB, stdin []byte, name string, args ...string) string {
	t.Helper()
	cmd := s.command(t, name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func (s *Signer) command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...) //nolint:noctx // used in clean-ups, too, when the test's context has ended
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.file), "LC_ALL=C"}
	return cmd
}

// Raw is an object as it was pushed, as Git hashes it.
func (r *Repo) Raw(kind, id string) []byte {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", "cat-file", kind, id)
	cmd.Dir = r.dir
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("read %s %s: %v", kind, id, err)
	}
	return out
}
