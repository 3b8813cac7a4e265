package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// release is everything that people get of one version, in a folder.
type release struct {
	source
	stdout io.Writer
	dir    string // of the release's files
	work   string // for what is between: binaries and the layout of the bundle
	// images and commands say of what; tests have fewer.
	images   []image
	services []platform // of the services and their images
	commands []platform // of the command
	key      string     // file of the key that signs; empty: nothing is signed
	builder  string     // of the provenance
	fresh    bool       // compile for this machine's platform with an empty cache
	began    time.Time
}

// Names of files of a release.
const (
	sumsFile       = "SHA256SUMS"
	notesFile      = "notes.md"
	provenanceFile = "provenance.json"
	signatureEnd   = ".sig"
)

func runRelease(ctx context.Context, args []string, stdout io.Writer) error {
	r := release{stdout: stdout, images: released(), began: time.Now().UTC()}
	for _, arch := range []string{"amd64", "arm64"} {
		r.services = append(r.services, platform{"linux", arch})
		r.commands = append(r.commands, platform{"linux", arch}, platform{"darwin", arch}, platform{"windows", arch})
	}
	var root, out, only string
	var try, charts, fresh bool
	fs := flag.NewFlagSet("images release", flag.ContinueOnError)
	fs.StringVar(&root, "root", ".", "`folder` of the repository")
	fs.StringVar(&out, "out", "bin/release", "`folder` for releases: each version has one of its own in it")
	fs.StringVar(&r.key, "key", "", "private SSH key `file` that signs the checksums and the provenance; a key that an agent or a token holds: its public file")
	fs.StringVar(&r.builder, "builder", "https://fairlead.dev/release/by-hand", "`URI` of what builds, for the provenance")
	fs.BoolVar(&try, "try", false, "without a tag, and with changes that are not committed: the version is v0.0.0-try-COMMIT")
	fs.StringVar(&only, "platforms", "", "with -try: comma-separated `platforms`, such as linux/amd64; default: all of a release")
	fs.BoolVar(&charts, "charts", false, "with -try: only the charts, without programs and images")
	fs.BoolVar(&fresh, "fresh", false, "compile for this machine's platform without what was compiled before")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if !try && (only != "" || charts) {
		return errors.New("-platforms and -charts are for -try: a release has all platforms, programs and images")
	}
	if charts {
		r.images, r.services, r.commands = nil, nil, nil
	} else if err := r.limit(only); err != nil {
		return err
	}
	var err error
	if r.source, err = releaseSource(ctx, root, try); err != nil {
		return err
	}
	if r.dir, err = filepath.Abs(filepath.Join(out, r.version)); err != nil {
		return err
	}
	r.fresh = fresh
	return r.make(ctx)
}

// limit leaves out other platforms than these, for a release that is only tried.
func (r *release) limit(only string) error {
	if only == "" {
		return nil
	}
	wanted := strings.Split(only, ",")
	other := func(p platform) bool { return !slices.Contains(wanted, p.String()) }
	r.services, r.commands = slices.DeleteFunc(r.services, other), slices.DeleteFunc(r.commands, other)
	if len(r.services) == 0 {
		return fmt.Errorf("-platforms %q: services are for linux/amd64 and linux/arm64, and one of these is needed", only)
	}
	return nil
}

// versionTag is a tag that names a version: v, and what Semantic Versioning allows.
var versionTag = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`) //nolint:gochecknoglobals // a constant

// releaseSource refuses what is no version: a tree that differs from its commit, and a commit without a tag.
func releaseSource(ctx context.Context, root string, try bool) (source, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return source{}, err
	}
	s := readSource(ctx, root)
	if s.revision == "" {
		return s, fmt.Errorf("%s is no checkout of the repository: a release is made of a commit", root)
	}
	changes, err := gitLines(ctx, root, "status", "--porcelain")
	if err != nil {
		return s, err
	}
	if try {
		s.version = "v0.0.0-try-" + s.revision[:12]
		if len(changes) > 0 {
			s.version += ".changed"
		}
		return s, nil
	}
	const instead = "`make release ARGS=-try` makes one of this tree, to try it"
	if len(changes) > 0 {
		return s, fmt.Errorf("the tree has changes that are not committed, and a release is made of a commit:\n%s\n%s",
			strings.Join(changes[:min(len(changes), 10)], "\n"), instead)
	}
	tags, err := gitLines(ctx, root, "tag", "--points-at", "HEAD")
	if err != nil {
		return s, err
	}
	tags = slices.DeleteFunc(tags, func(tag string) bool { return !versionTag.MatchString(tag) })
	switch len(tags) {
	case 0:
		return s, fmt.Errorf("commit %s has no tag such as v1.2.3, and the version is the tag: `git tag -s v1.2.3` first; %s", s.revision[:12], instead)
	case 1:
		s.version = tags[0]
		return s, nil
	}
	return s, fmt.Errorf("commit %s has the tags %s: a release has one version, so delete the others", s.revision[:12], strings.Join(tags, ", "))
}

func gitLines(ctx context.Context, root string, args ...string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.FieldsFunc(string(out), func(c rune) bool { return c == '\n' }), nil
}

// make leaves a whole release in the folder, or none.
func (r release) make(ctx context.Context) error {
	notes, err := r.notes()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.root, "web", "dist", "index.html")); err != nil && len(r.images) > 0 {
		return errors.New("the pages are not built: run tools/web.sh, which needs Node")
	}
	if err := os.MkdirAll(filepath.Dir(r.dir), 0o755); err != nil { //nolint:gosec // public
		return err
	}
	if r.work, err = os.MkdirTemp(filepath.Dir(r.dir), "building-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }() // files that stay harm nobody
	if r.fresh {
		r.cache = filepath.Join(r.work, "cache")
	}
	to := r.dir
	r.dir = filepath.Join(r.work, "release")
	if err := os.Mkdir(r.dir, 0o755); err != nil { //nolint:gosec // public
		return err
	}
	if err := r.fill(ctx, notes); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.Rename(r.dir, to); err != nil {
		return err
	}
	fmt.Fprintf(r.stdout, "%s\n", to)
	return nil
}

func (r release) fill(ctx context.Context, notes string) error {
	charts, err := r.charts()
	if err != nil {
		return err
	}
	if err := r.programs(ctx); err != nil {
		return err
	}
	made, err := r.bundle(ctx, charts)
	if err != nil {
		return err
	}
	if err := r.archives(ctx); err != nil {
		return err
	}
	if err := r.write(notesFile, []byte(notes+made.table())); err != nil {
		return err
	}
	if err := r.sums(); err != nil {
		return err
	}
	if err := r.provenance(ctx); err != nil {
		return err
	}
	return r.sign(ctx)
}

// step tells what begins.
func (r release) step(format string, args ...any) {
	fmt.Fprintf(r.stdout, "%5.0f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

func (r release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.dir, name), content, 0o644) //nolint:gosec // public
}

// theCommand is the program that people use.
func theCommand() program { return program{"/fairlead", "./cli/cmd/fairlead"} }

// programs compiles what images and archives have, for one platform after the other.
func (r release) programs(ctx context.Context) error {
	wanted := map[platform][]program{}
	for _, p := range r.services {
		for _, i := range r.images {
			wanted[p] = append(wanted[p], i.programs...)
		}
	}
	for _, p := range r.commands {
		if !slices.Contains(wanted[p], theCommand()) {
			wanted[p] = append(wanted[p], theCommand())
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(wanted), func(a, b platform) int { return strings.Compare(a.String(), b.String()) }) {
		r.step("%d programs for %s", len(wanted[p]), p)
		if _, err := r.compiled(ctx, p, wanted[p], r.work); err != nil {
			return err
		}
	}
	return nil
}

// archives packs the programs: the services with their units for systemd, and the command.
func (r release) archives(ctx context.Context) error {
	units, err := filepath.Glob(filepath.Join(r.root, "deploy", "systemd", "*"))
	if err != nil {
		return err
	}
	for _, p := range r.services {
		var programs []program
		for _, i := range r.images {
			if i.service {
				programs = append(programs, i.programs...)
			}
		}
		if err := r.archive(ctx, "fairlead-services-"+r.version+"-"+p.os+"-"+p.arch, p, programs, units); err != nil {
			return err
		}
	}
	for _, p := range r.commands {
		if err := r.archive(ctx, "fairlead-"+r.version+"-"+p.os+"-"+p.arch, p, []program{theCommand()}, nil); err != nil {
			return err
		}
	}
	return nil
}

// archive writes NAME.tar.gz, which has a folder NAME, and its list of modules.
func (r release) archive(ctx context.Context, name string, p platform, programs []program, units []string) error {
	r.step("%s.tar.gz", name)
	files := []file{{path: "/" + name + "/LICENSE", mode: 0o644, from: filepath.Join(r.root, "LICENSE")}}
	binaries, err := r.compiled(ctx, p, programs, r.work)
	if err != nil {
		return err
	}
	for i, program := range programs {
		files = append(files, file{path: "/" + name + program.path + p.ending(), mode: 0o755, from: binaries[i]})
	}
	for _, unit := range units {
		files = append(files, file{path: "/" + name + "/systemd/" + filepath.Base(unit), mode: 0o644, from: unit})
	}
	bill, err := r.bill(name, binaries)
	if err != nil {
		return err
	}
	if err := r.write(name+".spdx.json", bill); err != nil {
		return err
	}
	return r.packed(name+".tar.gz", files)
}

// packed writes files as a compressed tar.
func (r release) packed(name string, files []file) (err error) {
	out, err := os.Create(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zip := gzip.NewWriter(out) // without a time or a name
	if err := packTo(zip, files, r.time); err != nil {
		return err
	}
	return zip.Close()
}

// files of the release, as far as it is made, by name.
func (r release) files() ([]string, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// sums writes the checksums of all files, as `sha256sum --check` reads them.
func (r release) sums() error {
	names, err := r.files()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names {
		sum, err := checksum(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return r.write(sumsFile, []byte(text.String()))
}

func checksum(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
