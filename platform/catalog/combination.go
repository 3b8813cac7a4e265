package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
	"unique"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// CombinationPrefix begins refs that stand for several sources together: combination:<hash>, and
// combination:<hash>@<commit> for one of its revisions, which a service is pinned to. No branch can be meant: Git
// forbids colons in names. The hash covers everything that a service says of its sources, so a ref of one combination
// leads to nothing that another one has.
const CombinationPrefix = "combination:"

// Part is one of several sources of a service.
type Part struct {
	Name    string `json:"name"`   // of its folder among the others
	Source  string `json:"source"` // name
	Ref     string `json:"ref"`    // canonical
	Path    string `json:"path,omitempty"`
	Include Rules  `json:"include,omitempty"`
	Ignore  Rules  `json:"ignore,omitempty"`
	// Files are values files that belong to it besides its folder, by their paths in the repository, a line each.
	Files Rules `json:"files,omitempty"`
}

// IsFiles tells a part that is nothing but values files.
func (p Part) IsFiles() bool {
	return p.Files != "" && p.Path == "" && p.Include == "" && p.Ignore == ""
}

// Folders are what is delivered of a part.
func (p Part) Folders() (folders []Folder) {
	if !p.IsFiles() {
		folders = append(folders, Folder{Source: p.Source, Ref: p.Ref, Path: p.Path, Include: p.Include, Ignore: p.Ignore})
	}
	if p.Files != "" {
		rules := p.Files.Lines()
		for i, file := range rules {
			rules[i] = "/" + escapeRule(file)
		}
		folders = append(folders, Folder{Source: p.Source, Ref: p.Ref, Include: NewRules(rules)})
	}
	return folders
}

// escapeRule is a path as a rule that matches nothing else.
func escapeRule(file string) string {
	var b strings.Builder
	for _, c := range file {
		if strings.ContainsRune(`*?[]!#\ `, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// PartsOf are the sources of a service with several, in their order; nil: it has one.
func PartsOf(spec *consolev1.ServiceSpec) []Part {
	var parts []Part
	for _, s := range spec.GetSources() {
		parts = append(parts, Part{
			Name: s.GetName(), Source: s.GetSource(), Ref: CanonicalRef(refOf(s)), Path: cleanPath(s.GetPath()),
			Include: NewRules(s.GetInclude()), Ignore: NewRules(s.GetIgnore()), Files: NewRules(valuesOf(s.GetName(), spec.GetRender())),
		})
	}
	return parts
}

// cleanPath is a folder in the one form that is stored.
func cleanPath(text string) string {
	if text = strings.TrimSuffix(strings.TrimPrefix(text, "./"), "/"); text == "." {
		return ""
	}
	return text
}

// valuesOf are the values files that a service names of one of its sources, sorted.
func valuesOf(name string, render *deliveryv1.RenderSpec) (files []string) {
	for _, file := range render.GetHelm().GetValuesFiles() {
		if at, file, ok := ParseValuesFile(file); ok && at == name {
			files = append(files, path.Clean(file))
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// ParseValuesFile takes $NAME/FILE apart, a values file of another source; false: it is in the folder that is built.
func ParseValuesFile(text string) (source, file string, ok bool) {
	text, ok = strings.CutPrefix(text, "$")
	if !ok {
		return "", "", false
	}
	source, file, _ = strings.Cut(text, "/")
	return source, file, true
}

// SourceOf is the source where a service's ref is: the first one, if there are several.
func SourceOf(spec *consolev1.ServiceSpec) string {
	if several := spec.GetSources(); len(several) > 0 {
		return several[0].GetSource()
	}
	return spec.GetSource()
}

// combinationOf is the ref of several sources.
func combinationOf(parts []Part) string {
	sum := sha256.Sum256([]byte("fairlead-combination-1 " + writeParts(parts)))
	return CombinationPrefix + hex.EncodeToString(sum[:])
}

// RefOfPart is the ref of one of several sources, as people write it: that of its chart if it names one.
func RefOfPart(s *consolev1.ServiceSource) string { return refOf(s) }

// SetRefOfPart is the opposite of RefOfPart.
func SetRefOfPart(s *consolev1.ServiceSource, ref string) {
	if chart, version, ok := ParseChartRef(ref); ok {
		s.Chart, s.Version = chart, version
		return
	}
	s.Ref = ref
}

// IsCombination knows refs of several sources.
func IsCombination(ref string) bool { return strings.HasPrefix(ref, CombinationPrefix) }

// ParseCombinationRef takes the ref of several sources apart. Without a commit it is where the combination points now.
// false: it is another ref.
func ParseCombinationRef(ref string) (combination, commit string, ok bool) {
	if !IsCombination(ref) {
		return "", "", false
	}
	combination, commit, _ = strings.Cut(ref, "@")
	return combination, commit, true
}

// PinnedRef is what a service with a pin is made of in place of its ref.
func PinnedRef(ref, pin string) string {
	if pin != "" && IsCombination(ref) {
		return ref + "@" + pin
	}
	return cmp.Or(pin, ref)
}

func writeParts(parts []Part) string {
	if len(parts) == 0 {
		return ""
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "" // never: they are strings
	}
	return string(text)
}

func readParts(text string) (parts []Part) {
	if text != "" {
		_ = json.Unmarshal([]byte(text), &parts) // written by writeParts
	}
	return parts
}

// sources are parts as a spec has them.
func sources(parts []Part) (out []*consolev1.ServiceSource) {
	for _, p := range parts {
		s := &consolev1.ServiceSource{Name: p.Name, Source: p.Source, Path: p.Path, Include: p.Include.Lines(), Ignore: p.Ignore.Lines()}
		SetRefOfPart(s, p.Ref)
		out = append(out, s)
	}
	return out
}

// Parts are the sources of a service with several; nil: it has one.
func (s *Service) Parts() []Part { return readParts(s.parts.Value()) }

// RevisionRef is the canonical ref of a revision that people name for the service. Of several sources this is one that
// they had together, by its id; HEAD is where they are now. A service with one source has none of those.
func (s *Service) RevisionRef(revision string) (string, error) {
	ref := CanonicalRef(revision)
	combination, _, several := ParseCombinationRef(s.Folder().Ref)
	switch {
	case !several && IsCombination(ref): // it has files of sources that the service does not name
		return "", errors.New("it has one source, and this is a revision of several: name a branch, a tag, or a commit of its source")
	case !several:
		return ref, nil
	case ref == headRef, ref == combination:
		return combination, nil
	case isCommit(ref):
		return PinnedRef(combination, ref), nil
	}
	return "", errors.New("it has several sources: name HEAD, or the full id of a revision that they had together (`fairlead history service NAME`)")
}

// folders are all that are delivered of the service, the one that is made of the others first.
func (s *Service) folders() []FolderID {
	all := []FolderID{s.folder}
	for _, p := range s.Parts() {
		for _, folder := range p.Folders() {
			all = append(all, unique.Make(folder))
		}
	}
	return all
}

// placed are options of a service with several sources as agents get them: the sources are side by side in its folder.
func placed(parts []Part, options string) string {
	d := readOptions(options)
	if d.Render == nil {
		d.Render = &deliveryv1.RenderSpec{}
	}
	switch d.Render.Path {
	case "":
		d.Render.Path = path.Join(parts[0].Name, parts[0].Path)
	case ".":
		d.Render.Path = ""
	}
	files := d.Render.GetHelm().GetValuesFiles()
	for i, file := range files {
		if at, within, ok := ParseValuesFile(file); ok {
			files[i] = path.Join(at, within)
		} else {
			files[i] = path.Join(d.Render.Path, file)
		}
	}
	return writeOptions(d)
}
