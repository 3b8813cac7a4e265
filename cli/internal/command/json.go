package command

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// printJSON prints a message in several lines.
func (a *app) printJSON(m proto.Message) error {
	var text bytes.Buffer
	if err := spaced(m, func(raw []byte) error { return json.Indent(&text, raw, "", "  ") }); err != nil {
		return err
	}
	return a.printf("%s\n", &text)
}

// jsonLine is a message in one line.
func jsonLine(m proto.Message) (string, error) {
	var text bytes.Buffer
	err := spaced(m, func(raw []byte) error { return json.Compact(&text, raw) })
	return text.String(), err
}

// spaced gives a message's JSON spaces of ours: protojson varies its own on purpose.
func spaced(m proto.Message, format func(raw []byte) error) error {
	raw, err := protojson.Marshal(m)
	if err == nil {
		err = format(raw)
	}
	if err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	return nil
}
