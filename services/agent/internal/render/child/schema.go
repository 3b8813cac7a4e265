package child

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// schemaURL is what Helm calls the schema of any chart.
const schemaURL = "file:///values.schema.json"

// validateValues holds values against the schemas of a chart and of its dependencies, as Helm does, but fetches
// nothing.
func (j *job) validateValues(loaded *chart.Chart, given map[string]any) error {
	if j.spec.GetHelm().GetSkipSchemaValidation() {
		return nil
	}
	values, err := chartutil.CoalesceValues(loaded, given)
	if err != nil {
		return j.mistakeAt(j.folder.Root(), "values: "+err.Error())
	}
	if err := j.checkClosed(loaded, values); err != nil {
		return err
	}
	if err := chartutil.ValidateAgainstSchema(loaded, values); err != nil {
		return j.mistakeAt(j.folder.Root(), "values: values don't meet the specifications of the schema(s) in the following chart(s):\n"+err.Error())
	}
	return nil
}

// checkClosed refuses a schema that Helm would fetch something for. Only the schemas that are going to be used count: a
// dependency without values has none.
func (j *job) checkClosed(c *chart.Chart, values map[string]any) error {
	if len(c.Schema) > 0 {
		if url := fetchedAddress(c.Schema); url != "" {
			return j.mistakeAt(path.Join(j.folder.Root(), "values.schema.json"), fmt.Sprintf(
				"the schema of chart %s refers to %q, and nothing is fetched. Write it into the schema, or set render.helm.skipSchemaValidation", c.Name(), url))
		}
	}
	for _, dependency := range c.Dependencies() {
		if below, ok := values[dependency.Name()].(map[string]any); ok {
			if err := j.checkClosed(dependency, below); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetchedAddress is the first address that a schema can't do without; "": it needs none, or is no schema, as Helm is
// about to say.
func fetchedAddress(text []byte) string {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return ""
	}
	var loads noLoads
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(&loads)
	if compiler.AddResource(schemaURL, schema) == nil {
		_, _ = compiler.Compile(schemaURL) // Helm says what is wrong with the schema
	}
	return loads.first
}

// noLoads loads nothing, and notes what it was asked for.
type noLoads struct{ first string }

// Load is a jsonschema.URLLoader. Helm takes the name of a schema (urn:) that it does not know for one that accepts
// everything.
func (l *noLoads) Load(url string) (any, error) {
	if strings.HasPrefix(url, "urn:") {
		return true, nil
	}
	if l.first == "" {
		l.first = url
	}
	return nil, errors.New("nothing is fetched")
}
