// Package seal keeps secrets unreadable in the database: AES-256-GCM under a key of their own each, which is sealed
// under a master key that is in a file and never in the database. A sealed value names the master key, so that keys can
// change: the first key of the file seals, all of them open.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fairlead.dev/platform/durable"
)

const (
	keyBytes = 32
	// idBytes of the key's hash name it. The hash tells nothing of a random key.
	idBytes = 4
	// direct is the first byte of what earlier releases sealed, under the master key itself, and envelope of what has a
	// key of its own.
	direct, envelope = 1, 2
	// wrappedBytes is the length of a sealed key: nonce, key, tag.
	wrappedBytes = 12 + keyBytes + 16
	// keyPurpose binds sealed keys to their use.
	keyPurpose = "data key"
	// maxKeyFile bounds the key file: room for dozens of old keys.
	maxKeyFile = 64 << 10
)

// ErrSealed is returned for what can't be opened.
var ErrSealed = errors.New("can not be opened with this master key")

// Box seals and opens.
type Box struct {
	first string
	keys  map[string]cipher.AEAD // by id
}

// Load reads a key file: one key of 32 bytes per line, as base64.
func Load(path string) (*Box, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read master key: %w", err)
	}
	box, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("master key file %s: %w", path, err)
	}
	return box, nil
}

// Ensure is Load, but makes the file if there is none.
func Ensure(path string) (*Box, error) {
	box, err := Load(path)
	if !errors.Is(err, os.ErrNotExist) {
		return box, err
	}
	if err := EnsureSecret(path); err != nil {
		return nil, err
	}
	return Load(path)
}

// EnsureSecret writes 32 random bytes as base64 into a new file, with mode 0600. A file that is
// already there stays as it is, also if it appears meanwhile.
func EnsureSecret(path string) error {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp")
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // a second name of the same file by then
	_, err = file.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	// Unlike a rename, a link never replaces the file of somebody who was first.
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return durable.SyncDir(filepath.Dir(path))
}

func parse(data []byte) (*Box, error) {
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxKeyFile)
	}
	box := &Box{keys: map[string]cipher.AEAD{}}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// The line itself must not be in the error.
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != keyBytes {
			return nil, fmt.Errorf("line %d: must be %d bytes as base64, such as `openssl rand -base64 %d` prints", number, keyBytes, keyBytes)
		}
		aead, err := newAEAD(key)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		sum := sha256.Sum256(key)
		id := string(sum[:idBytes])
		if box.first == "" {
			box.first = id
		}
		box.keys[id] = aead
	}
	if box.first == "" {
		return nil, errors.New("holds no key; make one with `openssl rand -base64 32`")
	}
	return box, nil
}

// Seal returns plain unreadable. The result opens only for the same purpose, so that nobody who can write to the
// database can put one secret in the place of another.
func (b *Box) Seal(purpose string, plain []byte) []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	aead, err := newAEAD(key)
	if err != nil {
		panic(err) // of a key of another length
	}
	return aead.Seal(b.wrap(key), nil, plain, []byte(purpose)) //nolint:gosec // nil: it makes a random nonce by itself
}

// wrap is the head of what is sealed with a key.
func (b *Box) wrap(key []byte) []byte {
	out := append([]byte{envelope}, b.first...)
	return b.keys[b.first].Seal(out, nil, key, []byte(keyPurpose)) //nolint:gosec // nil: it makes a random nonce by itself
}

// Open returns what was sealed for the purpose.
func (b *Box) Open(purpose string, sealed []byte) ([]byte, error) {
	form, id, rest, err := b.head(sealed)
	if err != nil {
		return nil, err
	}
	aead := b.keys[id]
	if form == envelope {
		key, text, err := b.unwrap(aead, rest)
		if err != nil {
			return nil, err
		}
		if aead, err = newAEAD(key); err != nil {
			return nil, fmt.Errorf("%w: it is damaged", ErrSealed)
		}
		rest = text
	}
	plain, err := aead.Open(nil, nil, rest, []byte(purpose))
	if err != nil {
		return nil, fmt.Errorf("%w: it is damaged", ErrSealed)
	}
	return plain, nil
}

// head takes what is sealed apart.
func (b *Box) head(sealed []byte) (form byte, id string, rest []byte, err error) {
	if len(sealed) <= 1+idBytes || sealed[0] != direct && sealed[0] != envelope {
		return 0, "", nil, fmt.Errorf("%w: it is damaged", ErrSealed)
	}
	form, id, rest = sealed[0], string(sealed[1:1+idBytes]), sealed[1+idBytes:]
	if _, ok := b.keys[id]; !ok {
		return 0, "", nil, fmt.Errorf("%w: it was sealed with master key %s, and the file has %s", ErrSealed, hex.EncodeToString([]byte(id)), b.ids())
	}
	return form, id, rest, nil
}

func (b *Box) unwrap(master cipher.AEAD, rest []byte) (key, text []byte, err error) {
	if len(rest) < wrappedBytes {
		return nil, nil, fmt.Errorf("%w: it is damaged", ErrSealed)
	}
	if key, err = master.Open(nil, nil, rest[:wrappedBytes], []byte(keyPurpose)); err != nil {
		return nil, nil, fmt.Errorf("%w: it is damaged", ErrSealed)
	}
	return key, rest[wrappedBytes:], nil
}

// Renew returns what was sealed for the purpose as the first key seals it; nil: it does already.
func (b *Box) Renew(purpose string, sealed []byte) ([]byte, error) {
	form, id, rest, err := b.head(sealed)
	switch {
	case err != nil:
		return nil, err
	case form == envelope && id == b.first:
		return nil, nil
	case form == envelope:
		key, text, err := b.unwrap(b.keys[id], rest)
		if err != nil {
			return nil, err
		}
		return append(b.wrap(key), text...), nil
	}
	plain, err := b.Open(purpose, sealed)
	if err != nil {
		return nil, err
	}
	return b.Seal(purpose, plain), nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Lacks returns which of some master keys, by their ids, it does not have.
func (b *Box) Lacks(ids []string) (missing []string) {
	for _, id := range ids {
		raw, err := hex.DecodeString(id)
		if _, ok := b.keys[string(raw)]; err != nil || !ok {
			missing = append(missing, id)
		}
	}
	return missing
}

func (b *Box) ids() string {
	var ids []string
	for id := range b.keys {
		ids = append(ids, hex.EncodeToString([]byte(id)))
	}
	return strings.Join(ids, ", ")
}
