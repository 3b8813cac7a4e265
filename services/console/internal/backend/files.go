package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// Files says where files are.
type Files struct {
	// Dir is the console's own folder for them; empty: it has none.
	Dir string
	// Folder below it; empty: all of it.
	Folder string
	// Credentials are identity: the age keys that open the files, a line each.
	Credentials map[string]string
}

type files struct {
	dir        string
	identities []age.Identity
}

// NewFiles returns the YAML, JSON and env files of a folder, by their paths in it: plain, or encrypted by SOPS or age.
func NewFiles(at Files) (Backend, error) {
	if at.Dir == "" {
		return nil, errors.New("the console has no folder for files: start it with --config-dir")
	}
	if at.Folder != "" && !relative(at.Folder) {
		return nil, errors.New("files.folder: must be a folder below --config-dir")
	}
	f := &files{dir: filepath.Join(at.Dir, filepath.FromSlash(at.Folder))}
	if text := at.Credentials["identity"]; text != "" {
		var err error
		if f.identities, err = age.ParseIdentities(strings.NewReader(text)); err != nil {
			return nil, errors.New("identity of its Secret: must be lines of AGE-SECRET-KEY-1..., as age-keygen prints") // the parser may quote them
		}
	}
	return f, nil
}

// Check implements Backend.
func (f *files) Check(context.Context) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	return root.Close()
}

func (f *files) open() (*os.Root, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", withoutDir(err))
	}
	return root, nil
}

// withoutDir leaves out where the console's folders are.
func withoutDir(err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		return inner.Err
	}
	return err
}

// Read implements Backend. Files are opened within the folder, wherever links lead.
func (f *files) Read(ctx context.Context, name string) (Values, error) {
	format, err := formatOf(name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := f.load(name)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".age") {
		if data, err = openAge(data, f.identities); err != nil {
			return nil, err
		}
	}
	return parse(format, data, f.identities)
}

// formatOf is what is in a file, by its name.
func formatOf(name string) (string, error) {
	if relative(name) {
		switch format := path.Ext(strings.TrimSuffix(name, ".age")); format {
		case ".yaml", ".yml":
			return ".yaml", nil
		case ".json", ".env":
			return format, nil
		}
	}
	return "", badPath("a file in the folder that ends in .yaml, .json or .env, with or without .age behind it")
}

func (f *files) load(name string) ([]byte, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // the folder was only read
	// Not of a pipe, which would wait for who writes.
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("look at file: %w", withoutDir(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: it is not a file", ErrPath)
	}
	file, err := root.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("open file: %w", withoutDir(err))
	}
	defer func() { _ = file.Close() }() // the file was only read
	before, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at file: %w", withoutDir(err))
	}
	data, err := bounded(file)
	if err != nil {
		return nil, err
	}
	after, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at file: %w", withoutDir(err))
	}
	if !before.ModTime().Equal(after.ModTime()) || before.Size() != after.Size() || int64(len(data)) != after.Size() {
		return nil, errors.New("is being written: write another file and rename it over this one")
	}
	return data, nil
}

func bounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read file: %w", withoutDir(err))
	}
	if len(data) > MaxBytes {
		return nil, ErrTooLarge
	}
	return data, nil
}

// errNoIdentity is about what is encrypted.
var errNoIdentity = errors.New("is encrypted to none of the identities of the backend's Secret (its key identity)")

// openAge opens what age has encrypted, armoured or not.
func openAge(data []byte, identities []age.Identity) ([]byte, error) {
	if len(identities) == 0 {
		return nil, errNoIdentity
	}
	var in io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte(armor.Header)) {
		in = armor.NewReader(in)
	}
	plain, err := age.Decrypt(in, identities...)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, errNoIdentity
	}
	if err != nil {
		return nil, errors.New("is not what age encrypts, or damaged")
	}
	out, err := bounded(plain)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return nil, errors.New("is damaged: age can't open all of it")
	}
	return out, err
}
