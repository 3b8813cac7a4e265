package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/util/jsonpath"

	"fairlead.dev/cli/internal/table"
)

// The forms of output. A template follows the last two, behind "=".
const (
	formatTable    = "table"
	formatWide     = "wide"
	formatJSON     = "json"
	formatYAML     = "yaml"
	formatName     = "name"
	formatJSONPath = "jsonpath"
	formatColumns  = "custom-columns"
)

// templateFormats are the forms that a template follows.
func templateFormats() []string { return []string{formatJSONPath, formatColumns} }

// checkOneOf says what a command can print. A template is parsed, so that its mistakes are found before the hub is asked.
func checkOneOf(format string, known []string) error {
	form, template, has := strings.Cut(format, "=")
	switch {
	case !slices.Contains(known, form):
		return fmt.Errorf("unknown form of output %q: known are %s", format, strings.Join(known, ", "))
	case slices.Contains(templateFormats(), form) && template == "":
		return fmt.Errorf("-o %s needs a template, such as %s", form, map[string]string{
			formatJSONPath: "-o jsonpath='{.metadata.name}'", formatColumns: "-o custom-columns=NAME:.metadata.name,STATE:.status.state",
		}[form])
	case has && !slices.Contains(templateFormats(), form):
		return fmt.Errorf("-o %s takes no template: leave %q out", form, "="+template)
	case form == formatJSONPath:
		_, err := parsePath(template)
		return err
	case form == formatColumns:
		_, err := parseColumns(template)
		return err
	}
	return nil
}

// isTemplate tells the forms with a template.
func isTemplate(format string) bool {
	form, _, _ := strings.Cut(format, "=")
	return slices.Contains(templateFormats(), form)
}

// fillTemplate prints JSON by the template of a format. rows are what custom-columns makes a row each of.
func (a *app) fillTemplate(format string, whole []byte, rows [][]byte) error {
	form, template, _ := strings.Cut(format, "=")
	if form == formatColumns {
		return a.fillColumns(template, rows)
	}
	path, err := parsePath(template)
	if err != nil {
		return err
	}
	text, err := findText(path, whole)
	if err != nil {
		return err
	}
	return a.printf("%s", text)
}

func (a *app) fillColumns(template string, rows [][]byte) error {
	columns, err := parseColumns(template)
	if err != nil {
		return err
	}
	var head []string
	for _, c := range columns {
		head = append(head, c.head)
	}
	t := table.New(head...)
	for _, row := range rows {
		var cells []string
		for _, c := range columns {
			text, err := findText(c.path, row)
			if err != nil {
				return err
			}
			if text == "" {
				text = "<none>"
			}
			cells = append(cells, text)
		}
		t.AddRow(cells...)
	}
	return a.writeTable(t)
}

// findText returns what a path finds in JSON. A field that is missing is nothing, as resources leave out what is empty.
func findText(path *jsonpath.JSONPath, raw []byte) (string, error) {
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return "", fmt.Errorf("read resources: %w", err)
	}
	var b bytes.Buffer
	if err := path.Execute(&b, tree); err != nil {
		return "", fmt.Errorf("-o jsonpath: %w", err)
	}
	return b.String(), nil
}

// barePath is a path as people write it without braces: metadata.name, .metadata.name.
var barePath = regexp.MustCompile(`^\{?\.?([^{}]*)\}?$`)

func parsePath(template string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(template, "{") {
		template = "{." + strings.TrimPrefix(template, ".") + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return nil, fmt.Errorf("-o jsonpath: %q: %w", template, err)
	}
	return path, nil
}

// column is one of custom-columns.
type column struct {
	head string
	path *jsonpath.JSONPath
}

func parseColumns(template string) ([]column, error) {
	var columns []column
	for part := range strings.SplitSeq(template, ",") {
		head, text, ok := strings.Cut(part, ":")
		m := barePath.FindStringSubmatch(text)
		if !ok || head == "" || m == nil || m[1] == "" {
			return nil, fmt.Errorf("-o custom-columns: %q must be like STATE:.status.state", part)
		}
		path, err := parsePath("{." + m[1] + "}")
		if err != nil {
			return nil, err
		}
		columns = append(columns, column{head, path})
	}
	return columns, nil
}

// listing is a list that is not of the catalog, as the forms of output have it.
type listing struct {
	whole proto.Message // for JSON, YAML and templates
	names []string
	none  string // is said where a table would be empty
	table func(v view) *table.Table
}

// prefixNames returns the names of what is listed, each behind its kind.
func prefixNames[T any](kind string, list []T, id func(T) string) []string {
	names := make([]string, 0, len(list))
	for _, one := range list {
		names = append(names, kind+id(one))
	}
	return names
}

// showListing prints a list in a form of output.
func (a *app) showListing(format string, is listing) error {
	if isTemplate(format) || format == formatJSON || format == formatYAML {
		return a.showPlain(format, is.whole)
	}
	switch format {
	case formatName:
		for _, name := range is.names {
			if err := a.printf("%s\n", name); err != nil {
				return err
			}
		}
		return nil
	case formatTable, formatWide:
	default:
		const known = "table, wide, json, yaml, name, jsonpath, custom-columns"
		return fmt.Errorf("unknown form of output %q: known are %s", format, known)
	}
	if len(is.names) == 0 {
		a.notef("%s", is.none)
		return nil
	}
	return a.writeTable(is.table(view{now: a.Now(), wide: format == formatWide}))
}

// writeTable prints a table: cells are cut and coloured for a terminal only, because programs read what is piped.
func (a *app) writeTable(t *table.Table) error {
	t.Headless = t.Headless || a.noHeaders
	if !isTerminal(a.Stdout) {
		t.MaxCell = 0
	}
	if a.hasColours() {
		t.Colour = cellColour
	}
	return t.Write(a.Stdout)
}

// hasColours says whether what is printed may have colours.
func (a *app) hasColours() bool {
	return isTerminal(a.Stdout) && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

// cellColour is that of a state, in columns that have one.
func cellColour(head, cell string) table.Colour {
	if !slices.Contains([]string{"STATE", "HEALTH", "OUTCOME", "SYNC"}, head) {
		return ""
	}
	word, _, _ := strings.Cut(strings.ToLower(cell), " ")
	return stateColour(strings.TrimSuffix(word, ","))
}

// stateColour is that of a word for how something is.
func stateColour(word string) table.Colour {
	switch strings.ToLower(word) {
	case "healthy", "ready", "connected", "ok", "passed", "in":
		return table.Green
	case "failed", "fail", "failing", "degraded", "missing", "copied", "disconnected", "error":
		return table.Red
	case "progressing", "pending", "waiting", "wait", "differs", "stale", "draining":
		return table.Yellow
	case "unknown", "held", "disabled", "left", "?":
		return table.Grey
	}
	return ""
}
