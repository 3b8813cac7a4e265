// Package worktree packs the folder of a service out of a working tree on this machine, as the hub packs it out of a
// commit: a folder that was not changed since it was committed becomes the same artifact. Git's own files are left out,
// and nothing is read through a link.
package worktree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/pathrules"
)

// Limits of what is packed: what an agent takes.
var limits = artifact.Limits{Bytes: artifact.PreviewBytes, FileBytes: artifact.PreviewBytes, Files: 20_000} //nolint:gochecknoglobals // never changed

// Folder is the folder of a service in a working tree.
type Folder struct {
	// Dir is the root of the working tree, and Path the service's folder in it, with slashes; "" is all of it.
	Dir, Path string
	// Include and Ignore are the rules of the service.
	Include, Ignore []string
	// Beyond: the service names files beside its folder.
	Beyond bool
}

// PackFolder writes the folder as an artifact. A folder that refers to files beside it comes with all of the working
// tree.
func (f Folder) PackFolder(w io.Writer) (artifact.Summary, error) {
	own, err := f.listOwn()
	if err != nil {
		return artifact.Summary{}, err
	}
	if len(own.files) == 0 {
		return artifact.Summary{}, fmt.Errorf("nothing is left of %s by the rules of the service, or there is nothing", own.root)
	}
	beyond, err := f.refersBeyond(own)
	if err != nil {
		return artifact.Summary{}, err
	}
	if !beyond {
		return writeFiles(w, own.root, "", own.files)
	}
	all := lister{root: f.Dir, except: f.Path}
	none, err := pathrules.Parse(nil, nil)
	if err != nil {
		return artifact.Summary{}, err
	}
	if err := all.walkFolder("", none.Begin()); err != nil {
		return artifact.Summary{}, fmt.Errorf("read %s: %w", f.Dir, err)
	}
	for _, file := range own.files {
		file.path = path.Join(f.Path, file.path)
		all.files = append(all.files, file)
	}
	out, err := writeFiles(w, f.Dir, f.Path, all.files)
	if errors.Is(err, artifact.ErrRefused) {
		err = fmt.Errorf("%w (folder %s refers to files beside it, so all of %s is sent)", err, f.Path, f.Dir)
	}
	return out, err
}

func (f Folder) refersBeyond(own *lister) (bool, error) {
	if f.Path == "" || f.Beyond {
		return f.Path != "", nil
	}
	return own.refersBeyond()
}

// listOwn lists the files of the folder itself.
func (f Folder) listOwn() (*lister, error) {
	if info, err := os.Stat(f.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder: name the root of the repository's working tree", f.Dir)
	}
	rules, err := pathrules.Parse(f.Include, f.Ignore)
	if err != nil {
		return nil, err
	}
	own := &lister{root: filepath.Join(f.Dir, filepath.FromSlash(f.Path))}
	if info, err := os.Lstat(own.root); f.Path != "" && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("%s has no folder %q, which is the path of the service: name the root of the repository's working tree", f.Dir, f.Path)
	}
	if err := own.walkFolder("", rules.Begin()); err != nil {
		return nil, fmt.Errorf("read %s: %w", own.root, err)
	}
	return own, nil
}

// file is a file or a link below a root.
type file struct {
	path       string
	link       string
	executable bool
}

// lister finds the files below a folder.
type lister struct {
	root string
	// except is a folder that is left out; "": none is.
	except string
	files  []file
}

// walkFolder lists a folder, as far as its rules let it through. Links are listed, and not followed.
func (l *lister) walkFolder(at string, rules *pathrules.Folder) error {
	entries, err := os.ReadDir(filepath.Join(l.root, filepath.FromSlash(at)))
	if err != nil {
		return err
	}
	if l.except == "" {
		if err := l.readRules(at, entries, rules); err != nil {
			return err
		}
	}
	for _, entry := range entries {
		name := path.Join(at, entry.Name())
		if entry.Name() == ".git" || l.except != "" && name == l.except ||
			entry.Name() == pathrules.FileName && l.except == "" {
			continue
		}
		verdict, err := rules.Judge(entry.Name(), entry.IsDir())
		switch {
		case err != nil:
			return err
		case verdict == pathrules.Out:
			continue
		case entry.IsDir():
			err = l.walkFolder(name, rules.Enter(entry.Name(), verdict))
		default:
			err = l.addEntry(name, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readRules takes what the folder itself says of its files.
func (l *lister) readRules(at string, entries []fs.DirEntry, rules *pathrules.Folder) error {
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == pathrules.FileName && !e.IsDir() })
	if i < 0 {
		return nil
	}
	if !entries[i].Type().IsRegular() {
		return fmt.Errorf("%s is a link. Write the rules into a file of that name", path.Join(at, pathrules.FileName))
	}
	content, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(at), pathrules.FileName))
	if err != nil {
		return err
	}
	return rules.Read(content)
}

func (l *lister) addEntry(name string, entry fs.DirEntry) error {
	one := file{path: name}
	switch entry.Type() {
	case 0:
		info, err := entry.Info()
		if err != nil {
			return err
		}
		one.executable = info.Mode()&0o100 != 0
	case fs.ModeSymlink:
		target, err := os.Readlink(filepath.Join(l.root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		one.link = filepath.ToSlash(target)
	default:
		return fmt.Errorf("%s is neither a file, a link nor a folder, as in no repository. Remove it, or leave it out by an ignore rule", name)
	}
	if l.files = append(l.files, one); len(l.files) > limits.Files {
		return fmt.Errorf("there are more than %d files. Leave some out with spec.ignore, or a %s", limits.Files,
			pathrules.FileName)
	}
	return nil
}

// maxReferring bounds a file that is searched for references.
const maxReferring = 1 << 20

// refersBeyond tells whether something may be meant that is beside the folder: a link that leads up, or a kustomization
// or chart with ".." in it. The answer errs on the side of yes: files that are sent needlessly are not used.
func (l *lister) refersBeyond() (bool, error) {
	for _, file := range l.files {
		if strings.Contains(file.link, "..") {
			return true, nil
		}
		switch path.Base(file.path) {
		case "kustomization.yaml", "kustomization.yml", "Kustomization", "Chart.yaml", "requirements.yaml":
		default:
			continue
		}
		if file.link != "" {
			continue
		}
		in, err := os.Open(filepath.Join(l.root, filepath.FromSlash(file.path)))
		if err != nil {
			return false, err
		}
		text, err := io.ReadAll(io.LimitReader(in, maxReferring))
		if err = errors.Join(err, in.Close()); err != nil {
			return false, err
		}
		if strings.Contains(string(text), "..") {
			return true, nil
		}
	}
	return false, nil
}

// writeFiles packs files in the order of an artifact.
func writeFiles(w io.Writer, root, base string, files []file) (artifact.Summary, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	out := artifact.NewWriter(w, limits)
	if base != "" {
		if err := out.Base(base); err != nil {
			return artifact.Summary{}, err
		}
	}
	for _, one := range files {
		if err := writeFile(out, root, one); err != nil {
			return artifact.Summary{}, err
		}
	}
	return out.Close()
}

func writeFile(out *artifact.Writer, root string, one file) error {
	if one.link != "" {
		return out.Symlink(one.path, one.link)
	}
	in, err := os.Open(filepath.Join(root, filepath.FromSlash(one.path)))
	if err != nil {
		return err
	}
	info, err := in.Stat()
	if err == nil {
		err = out.File(one.path, one.executable, info.Size(), in)
	}
	return errors.Join(err, in.Close())
}
