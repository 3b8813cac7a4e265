package child

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/render"
)

// renderTemplates renders plain manifests that are templates. Files named _*.tpl only define.
func (j *job) renderTemplates() error {
	root := template.New("").Option("missingkey=error").Funcs(fixedFunctions()).Funcs(j.kept.wrapFunctions(fixedFunctions()))
	includes := 0
	root.Funcs(template.FuncMap{"include": func(name string, data any) (string, error) {
		const maxIncludes = 200
		if includes++; includes > maxIncludes {
			return "", fmt.Errorf("%s: include is nested more than %d deep", name, maxIncludes)
		}
		defer func() { includes-- }()
		var out strings.Builder
		err := root.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}})
	var names []string
	sources := map[string][]byte{}
	err := j.folder.Walk(func(entry artifact.Entry, content io.Reader) error {
		name, ok := j.folder.Name(entry)
		if !ok {
			return nil
		}
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		j.depends = j.depends || bytes.Contains(data, []byte("KubernetesVersion")) || bytes.Contains(data, []byte("APIVersions"))
		if _, err := root.New(name).Parse(string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))); err != nil {
			return j.mistakeAt(name, err.Error())
		}
		if !render.Defines(name) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	scope := map[string]any{
		"Configuration": j.Scope.Configuration,
		"Cluster": map[string]any{
			"Name": j.Scope.Cluster.Name, "Labels": j.Scope.Cluster.Labels,
			"KubernetesVersion": j.Scope.Cluster.KubernetesVersion, "APIVersions": j.Scope.Cluster.APIVersions,
		},
		"Service": map[string]any{"Name": j.Scope.Service.Name, "Namespace": j.Scope.Service.Namespace},
	}
	var texts []text
	for _, name := range names {
		var out limited
		j.kept.template = name
		if err := root.ExecuteTemplate(&out, name, scope); err != nil {
			if j.unanswered {
				return err
			}
			return j.mistakeAt(name, err.Error())
		}
		texts = append(texts, text{file: name, text: out.String()})
	}
	if text := j.kept.describeUnkept(sources); text != "" {
		j.noteWarning(text)
	}
	return j.readManifests(texts)
}

// fixedFunctions are sprig's that always give the same, but for what is random by its purpose.
func fixedFunctions() template.FuncMap {
	all := template.FuncMap(sprig.HermeticTxtFuncMap())
	maps.DeleteFunc(all, func(name string, _ any) bool {
		return slices.Contains([]string{"env", "expandenv", "getHostByName"}, name)
	})
	return all
}

// limited is text that does not grow without an end.
type limited struct{ strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	const most = 16 << 20
	if l.Len()+len(p) > most {
		return 0, fmt.Errorf("renders to more than %d bytes", most)
	}
	return l.Builder.Write(p)
}
