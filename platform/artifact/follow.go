package artifact

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
	rest, cur, links := strings.Split(p, "/"), ".", 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if cur == "." {
				return "", fmt.Errorf("%q %w", p, ErrOutside)
			}
			cur = path.Dir(cur)
			continue
		}
		next := path.Join(cur, part)
		node, ok := at(next)
		switch {
		case !ok:
			return "", fmt.Errorf("%q: %w", next, fs.ErrNotExist)
		case node.Link != "":
			if links++; links > maxLinks {
				return "", fmt.Errorf("link %q %w", next, ErrLoop)
			}
			if leaves(cur, node.Link) {
				return "", fmt.Errorf("link %q %w: %q", next, ErrOutside, node.Link)
			}
			rest = append(strings.Split(node.Link, "/"), rest...)
		case !node.Folder && strings.Trim(strings.Join(rest, ""), ".") != "":
			return "", fmt.Errorf("%q is a file: %w", next, fs.ErrNotExist)
		default:
			cur = next
		}
	}
	return cur, nil
}

// leaves tells the targets that lead out of the tree by their first steps. Later steps are judged where they lead.
func leaves(folder, target string) bool {
	if strings.HasPrefix(target, "/") {
		return true
	}
	depth := 0
	if folder != "." {
		depth = 1 + strings.Count(folder, "/")
	}
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			return false
		}
	}
	return false
}
