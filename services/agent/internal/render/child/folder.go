package child

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"fairlead.dev/platform/artifact"
)

// mount is where kustomize sees the service's folder. It is not the root, so that a ".." too many leads out of the
// folder as it does on a disk.
const mount = "/fairlead-artifact"

// folder is the service's folder as kustomize's file system: read only, with every name that a disk takes, and
// with links as a disk follows them.
type folder struct {
	// FileSystem is an empty one, for what kustomize build does not call: it reads by the methods below alone.
	filesys.FileSystem

	nodes map[string]node // by the path in the folder; "." is the folder itself
	// reached is called with each file before kustomize gets its content.
	reached func(name string, content []byte) error
	// outside is the first link that led out of the folder.
	outside error
}

type node struct {
	artifact.Node
	data []byte // of a file
}

// newFolder reads the service's folder.
func (j *job) newFolder() (*folder, error) {
	f := &folder{FileSystem: filesys.MakeFsInMemory(), nodes: map[string]node{".": {Node: artifact.Node{Folder: true}}}}
	err := j.folder.Walk(func(entry artifact.Entry, content io.Reader) error {
		data, err := io.ReadAll(content)
		f.nodes[entry.Path] = node{Node: artifact.Node{Link: entry.Link}, data: data}
		for dir := path.Dir(entry.Path); !f.nodes[dir].Folder; dir = path.Dir(dir) {
			f.nodes[dir] = node{Node: artifact.Node{Folder: true}}
		}
		return err
	})
	return f, err
}

// find follows a path to what is there. Errors are a disk's.
func (f *folder) find(op, name string) (string, node, error) {
	inner, ok := strings.CutPrefix(path.Clean(name), mount)
	if !ok || inner != "" && inner[0] != '/' {
		return "", node{}, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
	}
	to, err := artifact.Follow(inner, func(p string) (artifact.Node, bool) {
		n, ok := f.nodes[p]
		return n.Node, ok
	})
	if err == nil {
		return to, f.nodes[to], nil
	}
	if errors.Is(err, artifact.ErrOutside) && f.outside == nil {
		f.outside = err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = syscall.ENOENT
	}
	return "", node{}, &fs.PathError{Op: op, Path: name, Err: err}
}

// Exists is os.Stat's word.
func (f *folder) Exists(name string) bool {
	_, _, err := f.find("stat", name)
	return err == nil
}

// IsDir is os.Stat's word.
func (f *folder) IsDir(name string) bool {
	_, n, err := f.find("stat", name)
	return err == nil && n.Folder
}

// ReadFile reads as os.ReadFile does.
func (f *folder) ReadFile(name string) ([]byte, error) {
	to, n, err := f.find("open", name)
	if err == nil && n.Folder {
		err = &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	if err == nil {
		err = f.reached(to, n.data)
	}
	return n.data, err
}

// CleanedAbs gives a path without links, as a folder and the name of a file in it.
func (f *folder) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	to, n, err := f.find("lstat", path.Join("/", name))
	if err != nil {
		return "", "", err
	}
	to = path.Join(mount, to)
	if n.Folder {
		return filesys.ConfirmedDir(to), "", nil
	}
	return filesys.ConfirmedDir(path.Dir(to)), path.Base(to), nil
}
