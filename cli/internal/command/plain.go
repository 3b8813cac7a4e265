package command

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/platform/manifest"
)

// checkPlainFormat knows the forms of what is no resource.
func checkPlainFormat(format string) error {
	return checkOneOf(format, []string{formatTable, formatJSON, formatYAML, formatJSONPath, formatColumns})
}

// showPlain prints the fields of messages that are no resources as JSON or YAML.
func (a *app) showPlain(format string, ms ...proto.Message) error {
	write := manifest.Plain
	if format == formatYAML {
		write = manifest.PlainYAML
	}
	text, err := write(ms...)
	if err != nil {
		return err
	}
	if isTemplate(format) {
		return a.fillTemplate(format, text, [][]byte{text})
	}
	return a.printf("%s", text)
}

// jsonLine is a message in one line, as the API writes it.
func jsonLine(m proto.Message) (string, error) {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("write as JSON: %w", err)
	}
	var text bytes.Buffer
	err = json.Compact(&text, raw) // protojson varies its spaces on purpose
	return text.String(), err
}
