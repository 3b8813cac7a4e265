package child

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"fairlead.dev/platform/artifact/links"
	"fairlead.dev/services/agent/internal/render"
)

// mount is where kustomize sees the service's folder. The mount is not the root, so that a ".." too many leads out of
// the folder as it does on a disk.
const mount = "/fairlead-artifact"

// folder is the service's folder as kustomize's file system: read only, with every name that a disk takes, and
// with links as a disk follows them.
type folder struct {
	// FileSystem is an empty one, for what kustomize build does not call: it reads by the methods below alone.
	filesys.FileSystem

	service  *render.Folder
	contents map[string][]byte // of the files, by path in the artifact
	// reached is called with each file, and the name that kustomize has for it, and gives what kustomize reads.
	reached func(name, as string, content []byte) ([]byte, error)
	// outside is the first link that led out of the folder.
	outside error
}

// findNode follows a path to what is there. Errors are a disk's.
func (f *folder) findNode(op, name string) (string, links.Node, error) {
	inner, ok := strings.CutPrefix(path.Clean(name), mount)
	if !ok || inner != "" && inner[0] != '/' {
		return "", links.Node{}, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
	}
	to, err := f.service.Follow(inner)
	if err == nil {
		is, _ := f.service.Node(to)
		return to, is, nil
	}
	if errors.Is(err, links.ErrOutside) && f.outside == nil {
		f.outside = err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = syscall.ENOENT
	}
	return "", links.Node{}, &fs.PathError{Op: op, Path: name, Err: err}
}

// Exists is os.Stat's word.
func (f *folder) Exists(name string) bool {
	_, _, err := f.findNode("stat", name)
	return err == nil
}

// IsDir is os.Stat's word.
func (f *folder) IsDir(name string) bool {
	_, n, err := f.findNode("stat", name)
	return err == nil && n.Folder
}

// ReadFile reads as os.ReadFile does.
func (f *folder) ReadFile(name string) ([]byte, error) {
	to, n, err := f.findNode("open", name)
	if err == nil && n.Folder {
		err = &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	if err != nil {
		return nil, err
	}
	return f.reached(to, strings.TrimPrefix(path.Clean(name), mount+"/"), f.contents[to])
}

// CleanedAbs gives a path without links, as a folder and the name of a file in it.
func (f *folder) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	to, n, err := f.findNode("lstat", path.Join("/", name))
	if err != nil {
		return "", "", err
	}
	to = path.Join(mount, to)
	if n.Folder {
		return filesys.ConfirmedDir(to), "", nil
	}
	return filesys.ConfirmedDir(path.Dir(to)), path.Base(to), nil
}
