// Package deploy renders the agent's manifest from the agent's Helm chart, so that the console and Helm say the same.
// It knows of Helm's templates what the chart uses: text/template and a few functions.
package deploy

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

//go:embed charts/agent/values.yaml charts/agent/templates/*.yaml charts/agent/templates/_names.tpl
var charts embed.FS

const agentChart = "charts/agent"

// Namespace is where the agent is.
const Namespace = "fairlead-system"

// release says the names that Helm fills in.
type release struct{ Name, Service string }

type chart struct{ AppVersion string }

type capabilities struct{ APIVersions noAPIs }

// noAPIs is what is known of the cluster: nothing, so that there is nothing that needs a CRD.
type noAPIs struct{}

// Has is called by the chart.
func (noAPIs) Has(string) bool { return false }

// Agent renders the agent's chart with values over its own. The version is that of the image, unless the values say
// another. The namespace comes first, so that the whole can be applied as it is. Values that the chart does not know
// are an error, as they are for Helm.
func Agent(values map[string]any, version string) ([]byte, error) {
	rendered, err := agentFiles(values, version)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(rendered))
	slices.SortStableFunc(names, func(a, b string) int { return order(a) - order(b) })
	var out bytes.Buffer
	for _, name := range names {
		if text := strings.TrimSpace(rendered[name]); text != "" {
			fmt.Fprintf(&out, "---\n%s\n", text)
		}
	}
	return out.Bytes(), nil
}

// order puts the namespace before what is in it.
func order(name string) int {
	if name == "namespace.yaml" {
		return 0
	}
	return 1
}

// agentFiles returns what each template gives.
func agentFiles(values map[string]any, version string) (map[string]string, error) {
	merged, err := defaults()
	if err != nil {
		return nil, err
	}
	if err := merge(merged, values, ""); err != nil {
		return nil, err
	}
	data := map[string]any{
		"Values": merged, "Release": release{"fairlead-agent", "fairlead"}, "Chart": chart{version}, "Capabilities": capabilities{},
	}
	set := template.New("agent").Option("missingkey=zero")
	set.Funcs(template.FuncMap{
		"toJson":    toJSON,
		"required":  required,
		"default":   orDefault,
		"sha256sum": func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"trunc":     func(n int, text string) string { return text[:min(n, len(text))] },
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := set.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
	})
	if _, err := set.ParseFS(charts, agentChart+"/templates/*"); err != nil {
		return nil, fmt.Errorf("read the agent's chart: %w", err)
	}
	files, err := fs.Glob(charts, agentChart+"/templates/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("read the agent's chart: %w", err)
	}
	rendered := map[string]string{}
	for _, file := range files {
		var out strings.Builder
		if err := set.ExecuteTemplate(&out, path.Base(file), data); err != nil {
			if missing, ok := errors.AsType[missingError](err); ok {
				return nil, missing
			}
			return nil, fmt.Errorf("render the agent's chart: %w", err)
		}
		rendered[path.Base(file)] = out.String()
	}
	return rendered, nil
}

func defaults() (map[string]any, error) {
	text, err := charts.ReadFile(agentChart + "/values.yaml")
	if err != nil {
		return nil, fmt.Errorf("read the agent's chart: %w", err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("read the agent's chart: %w", err)
	}
	return values, nil
}

// merge puts values over those of the chart. Maps that are empty there take any key.
func merge(into, values map[string]any, at string) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name, value := at+key, values[key]
		before, known := into[key]
		if !known {
			return fmt.Errorf("the agent's chart has no value %q: it has %s", name, strings.Join(slices.Sorted(maps.Keys(into)), ", "))
		}
		if kind(before) != kind(value) {
			return fmt.Errorf("value %q must be a %s, not a %s", name, kind(before), kind(value))
		}
		inner, isMap := before.(map[string]any)
		if isMap && len(inner) > 0 && key != "requests" && key != "limits" {
			if err := merge(inner, value.(map[string]any), name+"."); err != nil {
				return err
			}
			continue
		}
		into[key] = value
	}
	return nil
}

// kind names a value's kind as people do.
func kind(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "yes or no"
	case string:
		return "text"
	case map[string]any:
		return "map"
	case []any:
		return "list"
	}
	if reflect.TypeOf(value).Kind() == reflect.Slice {
		return "list"
	}
	return "number"
}

// missingError is about a value that has to be given.
type missingError struct{ text string }

func (e missingError) Error() string { return e.text }

func required(text string, value any) (any, error) {
	if value == nil || value == "" {
		return nil, missingError{text}
	}
	return value, nil
}

func orDefault(fallback, value any) any {
	if value == nil || reflect.ValueOf(value).IsZero() {
		return fallback
	}
	return value
}

func toJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}
