package app

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/util/jsonpath"

	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	"fairlead.dev/platform/catalogyaml"
)

// The forms of output. A template follows the last two, behind "=".
const (
	FormatTable    = "table"
	FormatWide     = "wide"
	FormatJSON     = "json"
	FormatYAML     = "yaml"
	FormatName     = "name"
	FormatJSONPath = "jsonpath"
	FormatColumns  = "custom-columns"
)

// templateFormats are the forms that a template follows.
func templateFormats() []string { return []string{FormatJSONPath, FormatColumns} }

// CheckOneOf says what a command can print. A template is parsed, so that its mistakes are found before the hub is
// asked.
func CheckOneOf(format string, known []string) error {
	form, template, has := strings.Cut(format, "=")
	switch {
	case !slices.Contains(known, form):
		return fmt.Errorf("unknown form of output %q: known are %s", format, strings.Join(known, ", "))
	case slices.Contains(templateFormats(), form) && template == "":
		return fmt.Errorf("-o %s needs a template, such as %s", form, map[string]string{
			FormatJSONPath: "-o jsonpath='{.metadata.name}'",
			FormatColumns:  "-o custom-columns=NAME:.metadata.name,STATE:.status.state",
		}[form])
	case has && !slices.Contains(templateFormats(), form):
		return fmt.Errorf("-o %s takes no template: leave %q out", form, "="+template)
	case form == FormatJSONPath:
		_, err := parsePath(template)
		return err
	case form == FormatColumns:
		_, err := parseColumns(template)
		return err
	}
	return nil
}

// IsTemplate tells the forms with a template.
func IsTemplate(format string) bool {
	form, _, _ := strings.Cut(format, "=")
	return slices.Contains(templateFormats(), form)
}

// FillTemplate prints JSON by the template of a format. rows are what custom-columns makes a row each of.
func (a *App) FillTemplate(format string, whole []byte, rows [][]byte) error {
	form, template, _ := strings.Cut(format, "=")
	if form == FormatColumns {
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
	return a.Printf("%s", text)
}

func (a *App) fillColumns(template string, rows [][]byte) error {
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
	return a.WriteTable(t)
}

// findText returns what a path finds in JSON. A field that is missing is nothing, as resources leave out what is empty.
func findText(path *jsonpath.JSONPath, raw []byte) (string, error) {
	tree, err := catalogyaml.ParseJSON(raw) // as a float 12345678 would be written 1.2345678e+07
	if err != nil {
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

// Listing is a list that is not of the catalog, as the forms of output have it.
type Listing struct {
	Whole proto.Message // for JSON, YAML and templates
	Names []string
	None  string // is said where a table would be empty
	Table func(v view.View) *table.Table
}

// PrefixNames returns the names of what is listed, each behind its kind.
func PrefixNames[T any](kind string, list []T, id func(T) string) []string {
	names := make([]string, 0, len(list))
	for _, one := range list {
		names = append(names, kind+id(one))
	}
	return names
}

// ShowListing prints a list in a form of output.
func (a *App) ShowListing(format string, is Listing) error {
	if IsTemplate(format) || format == FormatJSON || format == FormatYAML {
		return a.ShowPlain(format, is.Whole)
	}
	switch format {
	case FormatName:
		for _, name := range is.Names {
			if err := a.Printf("%s\n", name); err != nil {
				return err
			}
		}
		return nil
	case FormatTable, FormatWide:
	default:
		const known = "table, wide, json, yaml, name, jsonpath, custom-columns"
		return fmt.Errorf("unknown form of output %q: known are %s", format, known)
	}
	if len(is.Names) == 0 {
		a.Notef("%s", is.None)
		return nil
	}
	return a.WriteTable(is.Table(view.View{Now: a.Now(), Wide: format == FormatWide}))
}

// WriteTable prints a table: cells are cut and coloured for a terminal only, because programs read what is piped.
func (a *App) WriteTable(t *table.Table) error {
	t.Headless = t.Headless || a.NoHeaders
	if !IsTerminal(a.Stdout) {
		t.MaxCell = 0
	}
	if a.HasColours() {
		t.Colour = cellColour
	}
	return t.Write(a.Stdout)
}

// HasColours says whether what is printed may have colours.
func (a *App) HasColours() bool {
	return IsTerminal(a.Stdout) && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
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

// FormatJUnit is of results of tests alone.
const FormatJUnit = "junit"
