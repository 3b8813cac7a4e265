// Package links follows the links of a tree that is on no disk, as a disk would.
package links

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Errors of Follow besides fs.ErrNotExist.
var (
	// ErrOutside: the path leads out of the tree.
	ErrOutside = errors.New("leads out of the folder")
	// ErrLoop: the links on the way lead to each other, or are too many.
	ErrLoop = errors.New("leads through more links than are followed")
)

// maxLinks that one path may lead through; as path/filepath has it.
const maxLinks = 255

// Node is what a tree has at a path: a folder, a link, or else a file.
type Node struct {
	Folder bool
	Link   string // target
}

// Follow resolves a path as a file system does: links are followed on the way and at the end, and ".." leads
// to the parent of where the way has led so far. The result is clean and names no link; "." is the root. An error
// about a link names it.
func Follow(p string, at func(path string) (Node, bool)) (string, error) {
	rest, cur, links := stepsOf(p, fmt.Sprintf("%q", p)), ".", 0
	for len(rest) > 0 {
		is := rest[0]
		rest = rest[1:]
		switch {
		case is.name == "" || is.name == ".":
			continue
		case is.name == ".." && cur == ".":
			return "", fmt.Errorf("%s %w", is.of, ErrOutside)
		case is.name == "..":
			cur = path.Dir(cur)
			continue
		}
		next := path.Join(cur, is.name)
		node, ok := at(next)
		switch {
		case !ok:
			return "", fmt.Errorf("%q: %w", next, fs.ErrNotExist)
		case node.Link != "":
			link := fmt.Sprintf("link %q -> %q", next, node.Link)
			if links++; links > maxLinks {
				return "", fmt.Errorf("%s %w", link, ErrLoop)
			}
			if node.Link[0] == '/' {
				return "", fmt.Errorf("%s %w", link, ErrOutside)
			}
			rest = append(stepsOf(node.Link, link), rest...)
		case !node.Folder && len(rest) > 0:
			return "", fmt.Errorf("%q is a file: %w", next, fs.ErrNotExist)
		default:
			cur = next
		}
	}
	return cur, nil
}

// step is one name of a way, and the words for what it stands in.
type step struct{ name, of string }

func stepsOf(way, of string) []step {
	var all []step
	for name := range strings.SplitSeq(way, "/") {
		all = append(all, step{name, of})
	}
	return all
}
