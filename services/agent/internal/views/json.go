package views

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"fairlead.dev/services/agent/internal/object"
)

// A custom resource has no Protobuf. Its JSON is read one object at a time; what a record does not keep is dropped with
// the object.

// bounded stops a reader that brings more than maxFrame for one event.
type bounded struct {
	from io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("an event of more than %d bytes", maxFrame)
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// jsonEvents reads the events of a watch in JSON.
func jsonEvents(body io.Reader) func() (event, error) {
	from := &bounded{from: body}
	decoder := json.NewDecoder(from)
	decoder.UseNumber()
	return func() (event, error) {
		from.left = maxFrame
		var e struct {
			Type   string         `json:"type"`
			Object map[string]any `json:"object"`
		}
		if err := decoder.Decode(&e); err != nil {
			if _, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // Decode wraps none
				err = &brokenError{err}
			}
			return event{}, err
		}
		if e.Object == nil {
			return event{}, &brokenError{fmt.Errorf("an event %q without an object", e.Type)}
		}
		return event{kind: e.Type, fields: e.Object}, nil
	}
}

func parseJSONPage(body []byte) (page, error) {
	var list struct {
		Metadata struct {
			Version string `json:"resourceVersion"`
			Next    string `json:"continue"`
		} `json:"metadata"`
		Items []map[string]any `json:"items"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&list); err != nil {
		return page{}, fmt.Errorf("read a list: %w", err)
	}
	p := page{version: list.Metadata.Version, next: list.Metadata.Next}
	for _, fields := range list.Items {
		if fields == nil {
			return page{}, errors.New("read a list: an item is no object")
		}
		p.items = append(p.items, event{fields: fields})
	}
	return p, nil
}

func metaOfFields(fields map[string]any) (m meta) {
	of := mapIn(fields, "metadata")
	m.uid, m.name, m.version = textIn(of, "uid"), textIn(of, "name"), textIn(of, "resourceVersion")
	m.namespace = word([]byte(textIn(of, "namespace")))
	m.service = word([]byte(textIn(mapIn(of, "labels"), object.ServiceLabel)))
	m.end = textIn(mapIn(of, "annotations"), "k8s.io/initial-events-end") == "true"
	m.created = timeIn(of, "creationTimestamp")
	m.deleted = of["deletionTimestamp"] != nil
	owners, _ := of["ownerReferences"].([]any)
	for _, one := range owners {
		if owner, _ := one.(map[string]any); owner["controller"] == true {
			m.owner, m.ownerKind, m.ownerName = word([]byte(textIn(owner, "uid"))), word([]byte(textIn(owner, "kind"))), word([]byte(textIn(owner, "name")))
		}
	}
	return m
}

func failureOf(fields map[string]any) error {
	f := &failure{reason: textIn(fields, "reason"), message: clean(textIn(fields, "message"))}
	if code, ok := fields["code"].(json.Number); ok {
		n, _ := code.Int64() // 0 of what is no code
		f.code = int(n)
	}
	return f
}

func mapIn(of map[string]any, name string) map[string]any {
	in, _ := of[name].(map[string]any)
	return in
}

func textIn(of map[string]any, name string) string {
	text, _ := of[name].(string)
	return text
}

// timeIn is a time in seconds; 0: there is none.
func timeIn(of map[string]any, name string) int64 {
	at, err := time.Parse(time.RFC3339, textIn(of, name))
	if err != nil {
		return 0
	}
	return at.Unix()
}
