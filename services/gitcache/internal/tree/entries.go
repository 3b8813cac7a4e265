package tree

import (
	"errors"

	"fairlead.dev/services/gitcache/internal/git"
)

// Kind of an entry.
type Kind int

// The kinds of entries. Other is a mode that no Git of today writes.
const (
	Other Kind = iota
	Folder
	File
	Executable
	Link
	Submodule
)

// Entry is what a folder holds under a name.
type Entry struct {
	Kind Kind
	Name string
	ID   git.Hash
}

// Entries lists one folder in the order of the names. Submodules are entries, not followed.
func Entries(r Reader, folder git.Hash) ([]Entry, error) {
	found, err := readTree(r, folder)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(found))
	for _, e := range found {
		entries = append(entries, Entry{Kind: kindOf(e.mode), Name: e.path, ID: e.id})
	}
	return entries, nil
}

func kindOf(mode string) Kind {
	switch mode {
	case modeFolder:
		return Folder
	case modeFile, modeGroupFile:
		return File
	case modeExecutable:
		return Executable
	case modeLink:
		return Link
	case modeSubmodule:
		return Submodule
	}
	return Other
}

// IsDamaged tells errors about a tree that hashes right but that no Git would have written.
func IsDamaged(err error) bool { return errors.Is(err, errDamaged) }
