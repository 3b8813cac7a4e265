package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
)

// maxValuesFile bounds the path of a values file of another source.
const maxValuesFile = 250

// checkSources checks several sources, and brings their paths into the stored form.
func checkSources(s *state.ServiceSpec) error {
	if s.Path != "" || len(s.Include)+len(s.Ignore) > 0 || !platform.IsCombination(s.Ref) {
		return refusal.New(refusal.Invalid, "spec.sources: ref, path, include and ignore belong to each of the sources: leave them out beside sources")
	}
	if s.Catalog {
		return refusal.New(refusal.Invalid, "spec.sources: a service with spec.catalog has one source: write spec.source")
	}
	names := map[string]int{}
	for i := range s.Sources {
		is, field := &s.Sources[i], fmt.Sprintf("sources[%d]", i)
		if err := checkServiceSource(is, field); err != nil {
			return err
		}
		if before, twice := names[is.Name]; twice {
			return refusal.New(refusal.Invalid, "spec.%s.name %q: is that of sources[%d], too: each source has a name of its own, which is its folder", field, is.Name, before)
		}
		names[is.Name] = i
	}
	return checkBuilt(s, names)
}

func checkServiceSource(s *state.ServiceSource, field string) (err error) {
	if !IsName(s.Name) {
		return refusal.New(refusal.Invalid, "spec.%s.name %q: must be 1 to 63 lower-case letters, digits or '-', beginning and ending with a letter or digit", field, s.Name)
	}
	if !IsName(s.Source) {
		return refusal.New(refusal.Invalid, "spec.%s.source %q: is not a name of a source", field, s.Source)
	}
	if s.Path, err = cleanFolder(field+".path", s.Path); err != nil {
		return err
	}
	if err := validateRules(field+".include", s.Include); err != nil {
		return err
	}
	if err := validateRules(field+".ignore", s.Ignore); err != nil {
		return err
	}
	err = validateRef(s.Ref)
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return refusal.New(refused.Reason, "spec.%s.%s", field, strings.TrimPrefix(refused.Message, "spec."))
	}
	return err
}

// built is what a service says of what is built of its sources.
type built struct {
	Path string `json:"path"`
	Helm struct {
		ValuesFiles []string `json:"valuesFiles"`
	} `json:"helm"`
}

// checkBuilt checks what names sources: the folder that is built, and values files.
func checkBuilt(s *state.ServiceSpec, names map[string]int) error {
	var is built
	if s.Render != nil {
		if err := json.Unmarshal(s.Render, &is); err != nil {
			return refusal.New(refusal.Invalid, "spec.render: %s", err)
		}
	}
	if first, _, _ := strings.Cut(path.Clean(is.Path), "/"); is.Path != "" && first != "." {
		if _, known := names[first]; !known {
			return refusal.New(refusal.Invalid, "spec.render.path %q: must begin with the name of one of spec.sources, or be \".\" for all of them", is.Path)
		}
	}
	files := map[string]bool{}
	for i, file := range is.Helm.ValuesFiles {
		at, within, ok := platform.ParseValuesFile(file)
		if !ok {
			continue
		}
		field := fmt.Sprintf("spec.render.helm.valuesFiles[%d] %q", i, file)
		if _, known := names[at]; !known {
			return refusal.New(refusal.Invalid, "%s: none of spec.sources has the name %q: write $NAME/FILE", field, at)
		}
		if clean := path.Clean(within); within == "" || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || path.IsAbs(clean) ||
			strings.ContainsFunc(within, unicode.IsControl) || len(within) > maxValuesFile {
			return refusal.New(refusal.Invalid, "%s: must be a file below the root of the repository, as $NAME/FILE, of at most %d letters", field, maxValuesFile)
		}
		files[at] = true
	}
	first := s.Sources[0]
	if is.Path == "" && files[first.Name] && first.Path == "" && len(first.Include)+len(first.Ignore) == 0 {
		return refusal.New(refusal.Invalid, "spec.sources[0] %q: has values files only, and the first source is built: put the chart first, or name the folder in render.path", first.Name)
	}
	return nil
}
