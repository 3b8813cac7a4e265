package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/ignore"
	"helm.sh/helm/v4/pkg/strvals"

	"fairlead.dev/platform/artifact/links"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/render"
)

// renderHelm renders a chart as `helm template` does, for the real cluster.
func (j *job) renderHelm() error {
	log.SetOutput(io.Discard) //nolint:forbidigo // libraries that warn have nobody to tell
	slog.SetDefault(slog.New(slog.DiscardHandler))
	contents, err := j.readContents()
	if err != nil {
		return err
	}
	files, err := j.chartFiles(j.folder.Root(), contents)
	if err != nil {
		return err
	}
	loaded, err := loadChart(files)
	if err != nil {
		return j.mistakeAt(j.folder.Root(), err.Error())
	}
	j.warnOutdated(loaded)
	if err := j.addLocal(loaded, []string{j.folder.Root()}, contents); err != nil {
		return err
	}
	values, err := j.mergeValues(loaded, contents)
	if err != nil {
		return err
	}
	texts, err := j.templatesOf(loaded, values)
	if err != nil {
		return err
	}
	return j.readManifests(texts)
}

// loadChart reads a chart with what is in its charts/ folder.
func loadChart(files map[string][]byte) (*chart.Chart, error) {
	rules := ignore.Empty()
	if text, ok := files[ignore.HelmIgnore]; ok {
		var err error
		if rules, err = ignore.Parse(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", ignore.HelmIgnore, err)
		}
	}
	rules.AddDefaults()
	var kept []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !isIgnored(rules, name) {
			kept = append(kept, &archive.BufferedFile{Name: name, Data: bytes.TrimPrefix(files[name], []byte("\xef\xbb\xbf"))})
		}
	}
	return loader.LoadFiles(kept)
}

// isIgnored tells whether .helmignore leaves a file out, or a folder that it is in.
func isIgnored(rules *ignore.Rules, name string) bool {
	for i, c := range name {
		if c == '/' && rules.Ignore(name[:i], entry{name: name[:i], folder: true}) {
			return true
		}
	}
	return rules.Ignore(name, entry{name: name})
}

// entry is a file as .helmignore's rules look at it.
type entry struct {
	name   string
	folder bool
}

func (e entry) Name() string { return path.Base(e.name) }
func (e entry) Size() int64  { return 0 }
func (e entry) Mode() fs.FileMode {
	if e.folder {
		return fs.ModeDir
	}
	return 0
}
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return e.folder }
func (e entry) Sys() any           { return nil }

// mergeValues puts together what .Values is: files, the spec's own, and the configuration.
func (j *job) mergeValues(loaded *chart.Chart, contents map[string][]byte) (map[string]any, error) {
	given := map[string]any{}
	for _, name := range j.spec.GetHelm().GetValuesFiles() {
		name = path.Join(j.folder.Base(), name)
		target, err := j.folder.Follow(name)
		if errors.Is(err, links.ErrOutside) || errors.Is(err, links.ErrLoop) {
			return nil, j.folder.Unfollowed(name, err)
		}
		text, ok := contents[target]
		if !ok {
			return nil, j.mistakeAt(name, "there is no such file of values. Mend render.helm.valuesFiles, or push it")
		}
		more, err := loader.LoadValues(bytes.NewReader(text))
		if err != nil {
			return nil, j.mistakeAt(name, err.Error())
		}
		given = loader.MergeMaps(given, more)
	}
	given, err := mergeGiven(given, j.Scope.Given)
	if err != nil {
		return nil, err
	}
	more, err := loader.LoadValues(strings.NewReader(j.spec.GetHelm().GetValues()))
	if err != nil {
		return nil, j.mistakeAt("", "render.helm.values: "+err.Error())
	}
	given = loader.MergeMaps(given, more)
	if len(j.Scope.Configuration) > 0 {
		given["configuration"] = j.Scope.Configuration
	}
	charts := map[string]string{} // by the alias, which takes the name's place
	for _, wanted := range loaded.Metadata.Dependencies {
		charts[wanted.Alias] = wanted.Name
	}
	if err := util.ProcessDependencies(loaded, given); err != nil {
		return nil, j.mistakeAt(path.Join(j.folder.Root(), "Chart.yaml"), err.Error())
	}
	if missing := missingDependencies(loaded, charts); missing != "" {
		return nil, j.mistakeAt(path.Join(j.folder.Root(), "Chart.yaml"),
			missing+" not in charts/, and nothing is fetched. Run `helm dependency update`, and push charts/")
	}
	return given, nil
}

// mergeGiven adds what objects of the cluster hold.
func mergeGiven(values map[string]any, all []render.Given) (map[string]any, error) {
	for _, given := range all {
		var more map[string]any
		var err error
		if given.Path == "" {
			more, err = loader.LoadValues(strings.NewReader(given.Text))
		} else {
			more = map[string]any{}
			err = strvals.ParseLiteralInto(given.Path+"="+given.Text, more)
		}
		switch {
		case err != nil && given.Secret: // the decoder may quote it
			return nil, fmt.Errorf("render.helm.valuesFrom: %s: these are no values", given.From)
		case err != nil:
			return nil, fmt.Errorf("render.helm.valuesFrom: %s: %w", given.From, err)
		}
		values = loader.MergeMaps(values, more)
	}
	return values, nil
}

// missingDependencies names those that a chart wants and does not have, each once: "dependency db is", "dependencies
// db, cache are".
func missingDependencies(loaded *chart.Chart, charts map[string]string) string {
	var missing []string
	for _, wanted := range loaded.Metadata.Dependencies {
		there := slices.ContainsFunc(loaded.Dependencies(), func(c *chart.Chart) bool { return c.Name() == wanted.Name || c.Name() == wanted.Alias })
		name := wanted.Name
		if original, ok := charts[name]; ok && wanted.Alias == name {
			name = original
		}
		if !there && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return "dependency " + missing[0] + " is"
	}
	return "dependencies " + strings.Join(missing, ", ") + " are"
}

// templatesOf renders the CRDs, which are no templates, and the templates.
func (j *job) templatesOf(loaded *chart.Chart, given map[string]any) ([]text, error) {
	j.depends = readsCapabilities(loaded)
	capabilities, err := j.chartCapabilities(loaded)
	if err != nil {
		return nil, err
	}
	release := j.spec.GetHelm().GetReleaseName()
	if release == "" {
		release = j.Name
	}
	options := common.ReleaseOptions{
		Name: release, Namespace: j.Namespace, Revision: int(j.Scope.Release.Revision), IsInstall: j.Scope.Release.Install, IsUpgrade: !j.Scope.Release.Install,
	}
	if err := j.validateValues(loaded, checkedValues(loaded, given, j.Scope.Configuration)); err != nil {
		return nil, err
	}
	top, err := chartutil.ToRenderValuesWithSchemaValidation(loaded, given, options, capabilities, true)
	if err != nil {
		return nil, j.mistakeAt(j.folder.Root(), "values: "+err.Error())
	}
	if about, ok := top["Release"].(map[string]any); ok && j.Scope.ReleaseService != "" {
		about["Service"] = j.Scope.ReleaseService
	}
	sources := sourcesOf(loaded, map[string][]byte{})
	markTemplates(loaded)
	functions := j.kept.wrapFunctions(sprig.TxtFuncMap())
	functions["lookup"], functions["fairleadAt"] = j.lookUp, j.kept.templateAt
	helm := engine.Engine{CustomTemplateFuncs: functions}
	rendered, err := helm.RenderWithContext(context.Background(), loaded, top) // the parent ends the process
	if err != nil {
		said := unmarkText(strings.TrimSpace(err.Error()))
		if j.unanswered { // templates can't catch it, so it is why they failed
			return nil, fmt.Errorf("helm: %s", said)
		}
		return nil, j.mistakeAt(j.folder.Root(), "helm: "+said)
	}
	if text := j.kept.describeUnkept(sources); text != "" {
		j.noteWarning(text)
	}
	j.notes = shortenNotes(rendered[path.Join(loaded.Name(), "templates", "NOTES.txt")])
	var texts []text
	for _, crd := range loaded.CRDObjects() {
		texts = append(texts, text{file: j.fileOf(loaded, crd.Filename), text: string(crd.File.Data), dialect: kubeyaml.HelmCRD})
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		base := path.Base(name)
		if strings.HasPrefix(base, "_") || strings.HasSuffix(base, "NOTES.txt") || strings.TrimSpace(rendered[name]) == "" {
			continue
		}
		texts = append(texts, text{file: j.fileOf(loaded, name), text: rendered[name], dialect: kubeyaml.HelmTemplate})
	}
	return texts, nil
}

// maxNotes bounds the notes of a chart, in bytes.
const maxNotes = 32 << 10

// shortenNotes cuts notes that are too long, and says so.
func shortenNotes(notes string) string {
	notes = strings.ToValidUTF8(notes, "\uFFFD")
	if len(notes) <= maxNotes {
		return notes
	}
	return strings.ToValidUTF8(notes[:maxNotes], "") + fmt.Sprintf("\n(The notes have %d bytes; these are the first %d.)\n", len(notes), maxNotes)
}

// chartCapabilities are the cluster's, but for what the service says of them.
func (j *job) chartCapabilities(loaded *chart.Chart) (*common.Capabilities, error) {
	helm := j.spec.GetHelm()
	wanted, whose := j.Scope.Cluster.KubernetesVersion, "the cluster has"
	if helm.GetKubeVersion() != "" {
		wanted, whose = helm.GetKubeVersion(), "render.helm.kubeVersion is"
	}
	version, err := common.ParseKubeVersion(wanted)
	switch {
	case err != nil && helm.GetKubeVersion() != "":
		return nil, j.mistakeAt("", fmt.Sprintf("render.helm.kubeVersion: %q is no version of Kubernetes, such as 1.36", wanted))
	case err != nil:
		return nil, fmt.Errorf("read the cluster's version: %w", err)
	}
	if accepted := loaded.Metadata.KubeVersion; accepted != "" && !util.IsCompatibleRange(accepted, version.String()) {
		return nil, j.mistakeAt(path.Join(j.folder.Root(), "Chart.yaml"), fmt.Sprintf("the chart is for Kubernetes %s, and %s %s", accepted, whose, version))
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	capabilities.APIVersions = append(slices.Clone(j.Scope.Cluster.APIVersions), helm.GetApiVersions()...)
	return capabilities, nil
}

// checkedValues are the values that a chart's schema is about: a schema that knows no other values than its own would
// refuse the service's configuration.
func checkedValues(c *chart.Chart, given, configuration map[string]any) map[string]any {
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if len(configuration) == 0 || json.Unmarshal(c.Schema, &schema) == nil && schema.Properties["configuration"] != nil {
		return given
	}
	given = maps.Clone(given)
	delete(given, "configuration")
	return given
}

// readsCapabilities tells whether a chart, or one in it, reads what the cluster can do. A chart that only names it does
// no harm.
func readsCapabilities(c *chart.Chart) bool {
	return c.Metadata.KubeVersion != "" ||
		slices.ContainsFunc(c.Templates, func(file *common.File) bool { return bytes.Contains(file.Data, []byte("Capabilities")) }) ||
		slices.ContainsFunc(c.Dependencies(), readsCapabilities)
}

// fileOf is where the service's folder has what the engine calls by the chart's name: "web/templates/a.yaml".
func (j *job) fileOf(loaded *chart.Chart, name string) string {
	name = strings.TrimPrefix(name, loaded.Name()+"/")
	for in, folder := range j.beside {
		if inner, ok := strings.CutPrefix(name, in+"/"); ok {
			return path.Join(folder, inner)
		}
	}
	return path.Join(j.folder.Root(), name)
}
