// Package backend reads configuration that is kept outside of the catalog: Secrets and ConfigMaps of a Kubernetes
// cluster, a KV engine of Vault, files. The catalog's own Secrets keep the same contract; package backendtest holds all
// of them to it.
package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxBytes bounds what is at one place, as it is kept there. A service gets no more in any case.
	MaxBytes = 1 << 20
	// maxKeys bounds how many values are at one place: a service gets no more.
	maxKeys = 2048
	// maxPath bounds a path, in bytes.
	maxPath = 1024
)

// Values are what is at a place, by key.
type Values map[string]string

// Backend keeps values at places that have paths.
//
//   - Atomicity: Read returns all values of a place as they were at one moment, or an error and none.
//   - Not found: a place where nothing is, or not any more, is ErrNotFound. ErrNotFound is an answer: the values that were there are
//     gone. So only the server of the backend gives it, and no proxy before it. A path that can't be one is ErrPath. Any other error
//     says that nothing is known, and that what was read before may still hold.
//   - Freshness: each Read asks anew. Values that were written before it began are seen. Credentials may be kept, values are not.
//   - Bounds: a place of more than MaxBytes, or of more keys than a service can have, is ErrTooLarge, and is not read to its end.
//   - Text: values are UTF-8. A value that is not text is left out. A nested value is reached by dots: {a: {b: 1}} has the key a.b. A
//     list is its JSON.
//   - Cancellation: when ctx ends Read returns its error soon, and leaves nothing running.
//   - Secrecy: no error repeats a value or a credential.
//   - Several goroutines may call it at once.
type Backend interface {
	Read(ctx context.Context, path string) (Values, error)
	// Check says whether it can be read at all, without a path.
	Check(ctx context.Context) error
}

var (
	// ErrNotFound says that nothing is at a path.
	ErrNotFound = errors.New("nothing is there")
	// ErrPath wraps what is wrong with a path.
	ErrPath = errors.New("is not a path here")
	// ErrTooLarge says that more is at a path than a service can get.
	ErrTooLarge = fmt.Errorf("holds more than %d KiB or %d values", MaxBytes>>10, maxKeys)
)

// badPath says what paths of a backend are like.
func badPath(want string) error { return fmt.Errorf("%w: write %s", ErrPath, want) }

// relative refuses what leads out of a folder, or not further into it.
func relative(path string) bool {
	if path == "" || len(path) > maxPath || !utf8.ValidString(path) || strings.Contains(path, "\\") || strings.ContainsFunc(path, unicode.IsControl) {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// Allowed says whether a path is one of these or below one; none of them: all are.
func Allowed(paths []string, path string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(at string) bool {
		return path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")
	})
}

// Fit refuses more than a place may have.
func (v Values) Fit() error {
	bytes := 0
	for key, value := range v {
		bytes += len(key) + len(value)
	}
	if bytes > MaxBytes || len(v) > maxKeys {
		return ErrTooLarge
	}
	return nil
}

// flat is a tree on its way to values.
type flat struct {
	values Values
	bytes  int
}

// flatten makes values of a tree of maps, lists, texts, json.Numbers and flags.
func flatten(tree map[string]any) (Values, error) {
	f := flat{values: Values{}}
	if err := f.take("", tree); err != nil {
		return nil, err
	}
	return f.values, nil
}

func (f *flat) take(prefix string, tree map[string]any) error {
	for key, node := range tree {
		name := prefix + key
		switch n := node.(type) {
		case nil:
		case map[string]any:
			if err := f.take(name+".", n); err != nil {
				return err
			}
		case []any:
			text, err := json.Marshal(n)
			if err != nil {
				return errors.New("holds a list that is not JSON") // the encoder may quote it
			}
			if err := f.put(name, string(text)); err != nil {
				return err
			}
		default:
			if err := f.put(name, fmt.Sprint(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *flat) put(name, value string) error {
	if !utf8.ValidString(name) || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return nil
	}
	if _, ok := f.values[name]; ok {
		return fmt.Errorf("has the key %q twice: once with dots, once nested", name)
	}
	f.values[name] = value
	if f.bytes += len(name) + len(value); f.bytes > MaxBytes || len(f.values) > maxKeys {
		return ErrTooLarge
	}
	return nil
}
