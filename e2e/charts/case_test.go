package charts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"
)

// folder holds the cases: a txtar archive each, whose comment says what is tried. Its file case.yaml is a Case; v1/,
// v2/ and so on are the versions of the chart or overlay. A version has the files of the one before it, but for those
// that it brings itself; an empty one removes the file. The service, its namespace and its release have the name of the
// case.
const folder = "testdata"

// Case says what is expected beside what is expected of all.
type Case struct {
	Name     string `json:"-"`
	versions []string
	files    map[string]map[string]string // by version and path

	// Spec is the service's spec, without what the harness sets: source, path, ref, cluster and namespace.
	Spec map[string]any `json:"spec"`
	// Path is the service's path within the folder of the version.
	Path string `json:"path"`
	// Files are those that an archive can't hold: without a newline at the end, with other line ends.
	Files map[string]string `json:"files"`
	// Links are symbolic links: path to target.
	Links map[string]string `json:"links"`
	// Packed are charts as `helm package` makes them: the path of the .tgz to the folder that it is made of, which the
	// archive has beside the versions.
	Packed map[string]string `json:"packed"`
	// Versions holds more about each version.
	Versions map[string]Version `json:"versions"`
	// Kept are the objects that are there after the service was removed, as Kind/name.
	Kept []string `json:"kept"`
	// Removal are the hooks that run when the service is removed, in their order.
	Removal []string `json:"removal"`
}

// Version says what is expected of one version.
type Version struct {
	// Spec replaces the fields of the case's spec from this version on.
	Spec map[string]any `json:"spec"`
	// Before and After are lines of arguments for kubectl, run in the namespace before the version is delivered, and
	// when it is healthy. "apply FILE [MANAGER]" applies kubectl/FILE of the archive, and "... < FILE" has it on stdin.
	// After them everything is expected as before.
	Before []string `json:"before"`
	After  []string `json:"after"`
	// During is run when the version was delivered, before anything is waited for: it can wait by itself, as in "wait
	// --for=create job/setup".
	During []string `json:"during"`
	// Fails are words of the error that the version ends with. Nothing else is expected of it but that all is as it
	// was.
	Fails string `json:"fails"`
	// Hooks are those that run, in their order, as Kind/name.
	Hooks []string `json:"hooks"`
	// Random are fields whose values differ with each render: "Kind/name /a/json/pointer". Their kind is compared.
	Random []string `json:"random"`
	// Left are fields that the reference sends and Fairlead leaves to others.
	Left []string `json:"left"`
	// Changed are the fields of Random that have another value than in the version before. The other ones have the
	// same.
	Changed []string `json:"changed"`
	// Recreated are the objects that are other ones than in the version before.
	Recreated []string `json:"recreated"`
	// Live are fields that the object in the cluster has, after Before and After: Kind/name to a part of the object.
	Live map[string]map[string]any `json:"live"`
	// Gone are objects that are no longer there.
	Gone []string `json:"gone"`
	// Requests are those of a second pass, as "verb resource/name"; one that begins with ? may be among them.
	Requests []string `json:"requests"`
	// Extra are objects that are applied though the reference lacks them, such as what lookup made it leave out. The
	// objects are of the API's core.
	Extra []string `json:"extra"`
	// Uncompared are objects that are not what the reference has, on purpose: see Live.
	Uncompared []string `json:"uncompared"`
	// Same are pairs of fields that have one value: "Kind/name /a/json/pointer".
	Same [][2]string `json:"same"`
	// Warns are words of the message that the healthy service has.
	Warns string `json:"warns"`
}

// readCases reads all cases, sorted by name.
func readCases() ([]*Case, error) {
	archives, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil {
		return nil, err
	}
	var cases []*Case
	for _, file := range archives {
		c, err := readCase(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func readCase(file string) (*Case, error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return nil, err
	}
	// A release's name begins with a letter.
	c := &Case{Name: "c" + strings.TrimSuffix(filepath.Base(file), ".txtar"), files: map[string]map[string]string{}}
	files := map[string]string{}
	for _, one := range archive.Files {
		files[one.Name] = string(one.Data)
	}
	if err := yaml.UnmarshalStrict([]byte(files["case.yaml"]), c); err != nil {
		return nil, fmt.Errorf("case.yaml: %w", err)
	}
	maps.Copy(files, c.Files)
	for name, from := range c.Packed {
		if files[name], err = pack(files, from); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	delete(files, "case.yaml")
	for name := range files {
		version, _, _ := strings.Cut(name, "/")
		c.files[version] = map[string]string{}
	}
	for version := range c.Versions {
		if _, ok := c.files[version]; !ok {
			c.files[version] = map[string]string{}
		}
	}
	for name, content := range files {
		version, rest, _ := strings.Cut(name, "/")
		if _, packed := c.Packed[name]; !packed {
			content = expand(content)
		}
		c.files[version][rest] = content
	}
	c.versions = slices.Sorted(maps.Keys(c.files))
	c.versions = slices.DeleteFunc(c.versions, func(version string) bool { return !versionName.MatchString(version) })
	for i, version := range c.versions {
		if version != "v"+strconv.Itoa(i+1) {
			return nil, fmt.Errorf("there is %s, but no v%d", version, i+1)
		}
		if i == 0 {
			c.defaults()
			continue
		}
		all := maps.Clone(c.files[c.versions[i-1]])
		for name, content := range c.files[version] {
			if all[name] = content; content == "" {
				delete(all, name)
			}
		}
		c.files[version] = all
	}
	if len(c.versions) == 0 {
		return nil, fmt.Errorf("there is no v1")
	}
	return c, nil
}

// pack makes a .tgz of the files of a folder.
func pack(files map[string]string, folder string) (string, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		inner, ok := strings.CutPrefix(name, folder+"/")
		if !ok {
			continue
		}
		if err := archive.WriteHeader(&tar.Header{
			Name: path.Join(path.Base(folder), inner), Typeflag: tar.TypeReg, Mode: 0o644,
			Size: int64(len(files[name])),
		}); err != nil {
			return "", err
		}
		if _, err := io.WriteString(archive, files[name]); err != nil {
			return "", err
		}
	}
	err := errors.Join(archive.Close(), zip.Close())
	return out.String(), err
}

var (
	versionName = regexp.MustCompile(`^v[0-9]+$`)
	repeated    = regexp.MustCompile(`<<([^<>]+)\*([0-9]+)>>`)
)

// expand writes <<x*1000>> as a thousand x. A # becomes the number of the repetition: the hub refuses what is too easy
// to compress.
func expand(text string) string {
	return repeated.ReplaceAllStringFunc(text, func(found string) string {
		parts := repeated.FindStringSubmatch(found)
		times, _ := strconv.Atoi(parts[2]) // the pattern has digits only
		var all strings.Builder
		for i := range times {
			all.WriteString(strings.ReplaceAll(parts[1], "#", strconv.Itoa(i)))
		}
		return all.String()
	})
}

// defaults gives a chart without a Chart.yaml one.
func (c *Case) defaults() {
	first := c.files["v1"]
	_, given := first["Chart.yaml"]
	if slices.ContainsFunc(slices.Collect(maps.Keys(first)),
		func(name string) bool { return strings.HasPrefix(name, "templates/") }) && !given {
		first["Chart.yaml"] = "apiVersion: v2\nname: " + c.Name + "\nversion: 0.1.0\nappVersion: \"1.0\"\n"
	}
}

// write puts a version into a folder.
func (c *Case) write(version, dir string) error {
	for name, content := range c.files[version] {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return err
		}
	}
	for name, target := range c.Links {
		of, rest, _ := strings.Cut(name, "/")
		if of > version {
			continue
		}
		link := filepath.Join(dir, filepath.FromSlash(rest))
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// specOf is the spec of a version, as YAML: later versions replace fields of those before.
func (c *Case) specOf(version string) (string, error) {
	spec := map[string]any{}
	merge(spec, c.Spec)
	for _, one := range c.versions {
		merge(spec, c.Versions[one].Spec)
		if one == version {
			break
		}
	}
	spec["path"], spec["ref"] = path.Join(c.Name, c.Path), version
	spec["source"], spec["cluster"], spec["namespace"] = "sample", "bench", c.Name
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "fairlead.dev/v1", "kind": "Service", "metadata": map[string]any{"name": c.Name}, "spec": spec,
	})
	return string(text), err
}

func merge(into, from map[string]any) {
	for key, value := range from {
		below, ok := value.(map[string]any)
		if old, isMap := into[key].(map[string]any); ok && isMap {
			copied := maps.Clone(old)
			merge(copied, below)
			into[key] = copied
			continue
		}
		into[key] = value
	}
}
