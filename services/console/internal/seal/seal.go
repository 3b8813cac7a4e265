// Package seal keeps secrets unreadable in the database: AES-256-GCM under a master key that is
// in a file and never in the database. What is sealed names the key, so that keys can change:
// the first key of the file seals, all of them open.
package seal

import (
	"bytes"
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
	// version is the first byte of what is sealed.
	version = 1
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
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
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

// Seal returns plain unreadable. It opens only for the same purpose, so that nobody who can write
// to the database can put one secret in the place of another.
func (b *Box) Seal(purpose string, plain []byte) []byte {
	out := append([]byte{version}, b.first...)
	return b.keys[b.first].Seal(out, nil, plain, []byte(purpose)) //nolint:gosec // nil: it makes a random nonce by itself
}

// Open returns what was sealed for the purpose.
func (b *Box) Open(purpose string, sealed []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(sealed, []byte{version})
	if !ok || len(rest) < idBytes {
		return nil, fmt.Errorf("%w: it is damaged", ErrSealed)
	}
	id, text := string(rest[:idBytes]), rest[idBytes:]
	aead, ok := b.keys[id]
	if !ok {
		return nil, fmt.Errorf("%w: it was sealed with master key %s, and the file has %s", ErrSealed, hex.EncodeToString([]byte(id)), b.ids())
	}
	plain, err := aead.Open(nil, nil, text, []byte(purpose))
	if err != nil {
		return nil, fmt.Errorf("%w: it is damaged", ErrSealed)
	}
	return plain, nil
}

func (b *Box) ids() string {
	var ids []string
	for id := range b.keys {
		ids = append(ids, hex.EncodeToString([]byte(id)))
	}
	return strings.Join(ids, ", ")
}
