package app

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/platform/catalogyaml"
)

// CheckPlainFormat knows the forms of what is no resource.
func CheckPlainFormat(format string) error {
	return CheckOneOf(format, []string{FormatTable, FormatJSON, FormatYAML, FormatJSONPath, FormatColumns})
}

// ShowPlain prints the fields of messages that are no resources as JSON or YAML.
func (a *App) ShowPlain(format string, ms ...proto.Message) error {
	write := catalogyaml.Plain
	if format == FormatYAML {
		write = catalogyaml.PlainYAML
	}
	text, err := write(ms...)
	if err != nil {
		return err
	}
	if IsTemplate(format) {
		return a.FillTemplate(format, text, [][]byte{text})
	}
	return a.Printf("%s", text)
}

// JSONLine is a message in one line, as the API writes it.
func JSONLine(m proto.Message) (string, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("write as JSON: %w", err)
	}
	var text bytes.Buffer
	err = json.Compact(&text, raw) // protojson varies its spaces on purpose
	return text.String(), err
}
