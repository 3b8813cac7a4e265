// Package bundle writes the archive of `fairlead debug bundle`: texts without their secrets, and profiles. Nothing gets
// into it but through AddText and AddProfile, and AddText masks.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"
)

// MaxFile bounds one file of the archive, in bytes; of a longer text its end is kept.
const MaxFile = 16 << 20

// Bundle is an archive that is being written. One goroutine uses it.
type Bundle struct {
	file   *os.File
	gzip   *gzip.Writer
	tar    *tar.Writer
	masker *Masker
	folder string
	now    time.Time
	// Problems are what could not be gathered, and why.
	Problems []string
}

// Create makes the archive's file, which only its owner may read.
func Create(name string, masker *Masker, now time.Time) (*Bundle, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the bundle: %w", err)
	}
	b := &Bundle{file: file, gzip: gzip.NewWriter(file), masker: masker, folder: strings.TrimSuffix(path.Base(name), ".tar.gz"), now: now}
	b.tar = tar.NewWriter(b.gzip)
	return b, nil
}

// AddText adds a text without its secrets.
func (b *Bundle) AddText(name string, text []byte) error {
	if cut := len(text) - MaxFile; cut > 0 {
		_, text, _ = bytes.Cut(text[cut:], []byte("\n"))
		text = append(fmt.Appendf(nil, "(%d bytes before are left out)\n", cut), text...)
	}
	return b.addFile(name, b.masker.Mask(text))
}

// AddProfile adds a profile of the Go runtime: names of functions and numbers, no data.
func (b *Bundle) AddProfile(name string, profile []byte) error { return b.addFile(name, profile) }

// NoteMissing notes what could not be gathered.
func (b *Bundle) NoteMissing(what string, err error) {
	b.Problems = append(b.Problems, what+": "+err.Error())
}

func (b *Bundle) addFile(name string, content []byte) error {
	header := &tar.Header{Name: path.Join(b.folder, name), Mode: 0o600, Size: int64(len(content)), ModTime: b.now}
	if err := b.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if _, err := b.tar.Write(content); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}

// Close writes what is missing as the last file, and ends the archive.
func (b *Bundle) Close() error {
	text := "Everything that was looked for is here.\n"
	if len(b.Problems) > 0 {
		text = strings.Join(b.Problems, "\n") + "\n"
	}
	err := errors.Join(b.AddText("missing.txt", []byte(text)), b.tar.Close(), b.gzip.Close(), b.file.Close())
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}

// Abandon removes an archive that is not to be ended.
func (b *Bundle) Abandon() {
	_ = b.file.Close() // the file is removed
	_ = os.Remove(b.file.Name())
}

// Read returns the files of an archive by their names without its folder.
func Read(r io.Reader) (map[string][]byte, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(io.LimitReader(archive, 2*MaxFile))
		if err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = content
	}
}
