// Package hubsecret reads the hub secret and makes what services of the hub show each other with it: MACs, each by a
// key of its own purpose; and it seals what the console keeps for long. The package is the one place where keys are
// derived from the secret.
//
// The file holds one secret per line. The first signs, all are accepted, so that a secret is replaced without a stop:
// see docs/operate/rotate.md.
package hubsecret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// The purposes of MACs. One key never serves two.
const (
	// Members is of records that say where a service is.
	Members = "members"
	// Audiences is of tokens, for the service that a token is sent to.
	Audiences = "audiences"
	// Sessions is of times, and makes the keys of TLS tickets.
	Sessions = "tls sessions"
	// Combinations is of commits that a gitcache makes of several sources.
	Combinations = "combinations"
	// Recordings is of what people saw of shells. The key of recordings seals, and makes no MACs.
	Recordings = "recordings"
	// Tickets is of artifacts that an agent may have. Tickets is longer than the others because it was first.
	Tickets = "fairlead artifact ticket 1"
)

const (
	// Shortest is the length of the shortest secret that the console accepts, in characters.
	Shortest = 16
	// most bounds the secrets that are accepted at a time: each wrong MAC is compared with one of each.
	most = 8
	// readEvery is how old what was read may be. A changed file counts after that.
	readEvery = time.Second
)

// File is a file with hub secrets. A File is safe for concurrent use; the zero value is not.
type File struct {
	// Log is told when a changed file can't be used, and when it can again; nil: nothing is logged. Set Log before the
	// first use.
	Log *slog.Logger

	path string // "": there is none
	load func() ([]byte, error)

	mu      sync.Mutex // guards what follows
	read    time.Time
	text    string
	secrets []string
	keys    map[string][][]byte // by purpose, in the order of secrets
	problem error               // why the file's content is not used
}

// Open names a file. The file is read when a secret is needed.
func Open(path string) *File {
	return &File{path: path, load: func() ([]byte, error) { return os.ReadFile(path) }}
}

// Text is a file that has a text and never changes.
func Text(text string) *File {
	return &File{load: func() ([]byte, error) { return []byte(text), nil }}
}

// First is the secret that signs, and that is exchanged for a token.
func (f *File) First() (string, error) {
	all, err := f.All()
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// All returns the secrets that are accepted, at least one.
func (f *File) All() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(); err != nil {
		return nil, err
	}
	return slices.Clone(f.secrets), nil
}

// Stuck says why the file's content is not used, but what was there before; nil: it is used.
func (f *File) Stuck() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(); err != nil || f.problem == nil {
		return nil // before the first secret nothing is used
	}
	return fmt.Errorf("the hub secret can't be read again, and the last good one is used: %w", f.problem)
}

// Accepts tells whether a secret is one of the file's. Accepts takes as long for a wrong one as for a right one.
func (f *File) Accepts(secret string) (bool, error) {
	all, err := f.All()
	if err != nil {
		return false, err
	}
	got, found := sha256.Sum256([]byte(secret)), 0
	for _, one := range all {
		want := sha256.Sum256([]byte(one))
		found |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return found == 1, nil
}

// Sign returns the MAC of a message by the first secret.
func (f *File) Sign(purpose string, message []byte) ([]byte, error) {
	keys, err := f.keysOf(purpose)
	if err != nil {
		return nil, err
	}
	return sum(keys[0], message), nil
}

// Verify tells whether the MAC of a message was made with one of the secrets.
func (f *File) Verify(purpose string, message, mac []byte) (bool, error) {
	keys, err := f.keysOf(purpose)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(keys, func(key []byte) bool { return hmac.Equal(mac, sum(key, message)) }), nil
}

// ErrSealed is of what none of the secrets opens.
var ErrSealed = errors.New("none of the hub secrets opens it: it was sealed with one that is gone, or is damaged")

// Seal makes a text unreadable, by a key of the first secret. The context is what it belongs to, and has to be the same
// to open it.
func (f *File) Seal(purpose string, text, context []byte) ([]byte, error) {
	keys, err := f.keysOf(purpose)
	if err != nil {
		return nil, err
	}
	box, err := boxOf(keys[0])
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize(), box.NonceSize()+len(text)+box.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return box.Seal(nonce, nonce, text, context), nil
}

// Open reads what Seal made with any of the secrets. ErrSealed: none of them did.
func (f *File) Open(purpose string, sealed, context []byte) ([]byte, error) {
	keys, err := f.keysOf(purpose)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		box, err := boxOf(key)
		if err != nil {
			return nil, err
		}
		if len(sealed) < box.NonceSize() {
			break
		}
		if text, err := box.Open(nil, sealed[:box.NonceSize()], sealed[box.NonceSize():], context); err == nil {
			return text, nil
		}
	}
	return nil, ErrSealed
}

// boxOf is AES-256 in GCM.
func boxOf(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

func sum(key, message []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(message)
	return mac.Sum(nil)
}

// keysOf derives keys once for each content of the file: a MAC costs a microsecond, and the file is not read for it.
func (f *File) keysOf(purpose string) ([][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(); err != nil {
		return nil, err
	}
	if keys := f.keys[purpose]; keys != nil {
		return keys, nil
	}
	keys := make([][]byte, 0, len(f.secrets))
	for _, secret := range f.secrets {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, purpose, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
		keys = append(keys, key)
	}
	f.keys[purpose] = keys
	return keys, nil
}

// refresh reads the file if what was read is old. A file that can't be read now leaves what was read before in force: a
// volume is not there for a moment while its content is replaced. Callers hold mu.
func (f *File) refresh() error {
	if f.secrets != nil && time.Since(f.read) < readEvery {
		return nil
	}
	text, err := f.load()
	var secrets []string
	if err == nil {
		if secrets, err = parse(string(text)); err != nil && f.path != "" {
			err = fmt.Errorf("%s: %w", f.path, err)
		}
	}
	f.read = time.Now()
	f.logProblem(err)
	switch {
	case err != nil && f.secrets != nil:
		return nil
	case err != nil:
		return fmt.Errorf("read hub secret: %w", err)
	case string(text) != f.text:
		f.text, f.secrets, f.keys = string(text), secrets, map[string][][]byte{}
	}
	return nil
}

// logProblem logs once that the file can't be used any more, and once that it can again. Callers hold mu.
func (f *File) logProblem(err error) {
	if f.secrets == nil { // the caller has the error
		return
	}
	was := f.problem
	f.problem = err
	switch {
	case f.Log == nil:
	case err != nil && (was == nil || was.Error() != err.Error()):
		f.Log.Warn("hub secret can't be read again; the last good one is used until the file can be read, or this process "+
			"ends. Write the secret that the console has into the file", "file", f.path, "err", err)
	case err == nil && was != nil:
		f.Log.Info("hub secret can be read again", "file", f.path)
	}
}

// Read reads a file of secrets and refuses one that the console does not accept.
func Read(path string) ([]string, error) {
	all, err := Open(path).All()
	if err != nil {
		return nil, err
	}
	for _, secret := range all {
		if len(secret) < Shortest {
			return nil, fmt.Errorf("hub secret in %s: must be at least %d characters; make one with `openssl rand -base64 32`", path, Shortest)
		}
	}
	return all, nil
}

// parse reads lines. A file of several lines was one secret before there were lists of them, such as one of `openssl
// rand -base64 64`: the whole text is accepted, too, and what was made with it. With a line that is too short for a
// secret it still is one.
func parse(text string) ([]string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("it is empty")
	}
	var secrets []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(secrets, line) {
			secrets = append(secrets, line)
		}
	}
	if len(secrets) > most {
		return nil, fmt.Errorf("%d secrets, one a line: at most %d are possible", len(secrets), most)
	}
	switch {
	case slices.ContainsFunc(secrets, func(s string) bool { return len(s) < Shortest }):
		return []string{text}, nil
	case len(secrets) > 1:
		secrets = append(secrets, text)
	}
	return secrets, nil
}
