package resource

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"fairlead.dev/platform/cron"
	"fairlead.dev/platform/kubename"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// cleanFolder returns a folder in the one form that is stored: no slash at either end, "" for the root. field is where
// it is written.
func cleanFolder(field, path string) (string, error) {
	bad := func(why string) error { return refusal.New(refusal.Invalid, "spec.%s %q: %s", field, path, why) }
	if strings.HasPrefix(path, "/") {
		return "", bad("must be a folder within the repository, without a leading slash")
	}
	if strings.Contains(path, "\\") || strings.ContainsFunc(path, unicode.IsControl) {
		return "", bad("must not hold backslashes or control characters")
	}
	clean := strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	if clean == "" || clean == "." {
		return "", nil
	}
	for part := range strings.SplitSeq(clean, "/") {
		switch {
		case part == "", part == ".", part == "..":
			return "", bad("must not hold empty parts, '.' or '..'")
		case strings.EqualFold(part, ".git"):
			return "", bad("must not lead into .git")
		}
	}
	return clean, nil
}

// CheckService also brings the path into its stored form.
func CheckService(s *state.Service) (err error) {
	switch {
	case !IsName(s.Meta.Name):
		return RefuseName(s.Meta.Name)
	case !IsName(s.Spec.Source):
		return refusal.New(refusal.Invalid, "spec.source %q: is not a name of a source", s.Spec.Source)
	case s.Spec.Catalog:
		if err := checkCatalogService(&s.Spec); err != nil {
			return err
		}
	case s.Spec.ServiceAccount != "":
		return refusal.New(refusal.Invalid, "spec.serviceAccount: goes with spec.catalog: objects are applied as spec.sync.impersonate says")
	case !IsName(s.Spec.Cluster):
		return refusal.New(refusal.Invalid, "spec.cluster %q: is not a name of a cluster", s.Spec.Cluster)
	}
	switch {
	case s.Spec.Namespace != "" && !IsName(s.Spec.Namespace):
		return refusal.New(refusal.Invalid, "spec.namespace %q: is not a name of a namespace", s.Spec.Namespace)
	case s.Spec.Project != "" && !IsName(s.Spec.Project):
		return refusal.New(refusal.Invalid, "spec.project %q: is not a name of a project", s.Spec.Project)
	}
	for i, name := range s.Spec.ConfigSets {
		if !IsName(name) {
			return refusal.New(refusal.Invalid, "spec.configSets[%d] %q: is not a name of a configuration set", i, name)
		}
	}
	if err := checkSettings(s.Spec.Config, "config"); err != nil {
		return err
	}
	if s.Spec.Path, err = cleanFolder("path", s.Spec.Path); err != nil {
		return err
	}
	if len(s.Spec.Sources) > 0 {
		if err := checkSources(&s.Spec); err != nil {
			return err
		}
	} else if err := validateRef(s.Spec.Ref); err != nil {
		return err
	}
	if err := checkWindows(s.Spec.Wishes().Windows, "sync.windows"); err != nil {
		return err
	}
	if err := checkTests(&s.Spec); err != nil {
		return err
	}
	if err := validateRules("include", s.Spec.Include); err != nil {
		return err
	}
	return validateRules("ignore", s.Spec.Ignore)
}

// LacksNamespace says whether the agent is asked to make a namespace that the service does not name.
func LacksNamespace(s *state.ServiceSpec) bool { return s.Namespace == "" && s.Wishes().Made != nil }

// checkCatalogService refuses what has no meaning without a cluster.
func checkCatalogService(s *state.ServiceSpec) error {
	sync := s.Wishes()
	for _, of := range []struct {
		field string
		set   bool
	}{
		{"cluster", s.Cluster != ""},
		{"namespace", s.Namespace != ""},
		{"render", s.Render != nil},
		{"configSets", len(s.ConfigSets) > 0},
		{"config", len(s.Config) > 0},
		{"sync.dependsOn", len(sync.DependsOn) > 0},
		{"sync.impersonate", sync.Impersonate != ""},
		{"sync.ignore", len(sync.Ignore) > 0},
		{"sync.health", len(sync.Health) > 0},
		{"sync.windows", len(sync.Windows) > 0},
		{"sync.mode: manual", sync.Mode == state.ModeManual},
		{"tests", s.Tests != nil},
	} {
		if of.set {
			return refusal.New(refusal.Invalid, "spec.%s: leave it out: with spec.catalog the folder goes to the catalog as it is, not to a cluster", of.field)
		}
	}
	if !IsName(s.ServiceAccount) {
		return refusal.New(refusal.Invalid, "spec.serviceAccount %q: name the service account whose rights the folder has", s.ServiceAccount)
	}
	return nil
}

// validateRules refuses what would be no rule in a .gitignore: anything else is one.
func validateRules(field string, rules []string) error {
	for i, rule := range rules {
		switch {
		case strings.TrimSpace(rule) == "":
			return refusal.New(refusal.Invalid, "spec.%s[%d]: is empty", field, i)
		case strings.HasPrefix(rule, "#"):
			return refusal.New(refusal.Invalid,
				"spec.%s[%d] %q: is a comment; write \\# for a name that begins with #", field, i, rule)
		case strings.ContainsFunc(rule, unicode.IsControl):
			return refusal.New(refusal.Invalid, "spec.%s[%d] %q: must be one line without control characters", field, i, rule)
		}
	}
	return nil
}

// RefsOfService are the resources that a service names, whose spec is this field.
func RefsOfService(s *state.ServiceSpec, field string) []Reference {
	refs := refsToSources(s, field)
	if s.Catalog {
		refs = append(refs, RefTo(store.KindServiceAccount, s.ServiceAccount, field+".serviceAccount"))
	} else {
		refs = append(refs, RefTo(store.KindCluster, s.Cluster, field+".cluster"))
	}
	if s.Project != "" {
		refs = append(refs, RefTo(store.KindProject, s.Project, field+".project"))
	}
	refs = append(refs, eachTo(store.KindConfigSet, s.ConfigSets, field+".configSets")...)
	return append(refs, RefsOfField(s.Config, field+".config")...)
}

// refsToSources are the sources that a service names.
func refsToSources(s *state.ServiceSpec, field string) []Reference {
	if len(s.Sources) == 0 {
		return []Reference{RefTo(store.KindSource, s.Source, field+".source")}
	}
	var refs []Reference
	for i, is := range s.Sources {
		refs = append(refs, RefTo(store.KindSource, is.Source, fmt.Sprintf("%s.sources[%d].source", field, i)))
	}
	return refs
}

// checkTests refuses tests that never could run, and brings the path into its stored form.
func checkTests(s *state.ServiceSpec) error {
	if s.Tests == nil {
		return nil
	}
	var tests struct{ Path, Schedule, TimeZone, ServiceAccount string }
	if err := json.Unmarshal(s.Tests, &tests); err != nil {
		return fmt.Errorf("decode tests: %w", err)
	}
	path, err := cleanFolder("tests.path", tests.Path)
	switch {
	case err != nil:
		return err
	case tests.Path != "" && path == "":
		return refusal.New(refusal.Invalid, "spec.tests.path %q: is the whole folder of the service: name one below it, such as tests", tests.Path)
	case tests.ServiceAccount != "" && !kubename.IsObject(tests.ServiceAccount):
		return refusal.New(refusal.Invalid, "spec.tests.serviceAccount %q: is not a name of a service account in Kubernetes", tests.ServiceAccount)
	case tests.TimeZone != "" && tests.Schedule == "":
		return refusal.New(refusal.Invalid, "spec.tests.timeZone: goes with spec.tests.schedule, which is empty")
	case tests.Schedule != "":
		if _, err := cron.Parse(tests.Schedule, tests.TimeZone); err != nil {
			return refusal.New(refusal.Invalid, "spec.tests: %s", err)
		}
	}
	if path == tests.Path {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(s.Tests, &fields); err != nil {
		return fmt.Errorf("decode tests: %w", err)
	}
	if fields["path"], err = json.Marshal(path); err != nil {
		return fmt.Errorf("encode path of tests: %w", err)
	}
	s.Tests, err = json.Marshal(fields)
	return err
}
