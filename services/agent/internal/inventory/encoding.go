package inventory

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/object"
)

// formatVersion of the ConfigMaps. An agent refuses what it does not know: guessing could prune.
const formatVersion = 1

// The keys of a ConfigMap's data.
const (
	stateKey   = "state"   // state as JSON, in the first ConfigMap only
	objectsKey = "objects" // one line per object: a JSON array of seven strings, see line
)

// state is the first ConfigMap's account of the whole.
type state struct {
	Format   int      `json:"format"`
	Service  string   `json:"service"`
	Complete bool     `json:"complete"`
	Applied  Applied  `json:"applied"`
	Objects  int      `json:"objects"`
	Chunks   []string `json:"chunks,omitempty"`
}

func headName(service string) string { return "inventory." + service }

// disassemble writes a record as ConfigMaps.
func disassemble(record Record) (head *unstructured.Unstructured, chunks []*unstructured.Unstructured, err error) {
	var parts []string
	var part bytes.Buffer
	for _, entry := range record.Entries {
		text, err := line(entry)
		if err != nil {
			return nil, nil, err
		}
		if part.Len()+len(text) > chunkBytes {
			parts = append(parts, part.String())
			part.Reset()
		}
		part.Write(text)
	}
	parts = append(parts, part.String())
	account := state{
		Format: formatVersion, Service: record.Service, Complete: record.Complete, Applied: record.Applied, Objects: len(record.Entries),
	}
	for _, text := range parts[1:] {
		chunk := configMap(headName(record.Service)+"."+strings.ToLower(rand.Text()), record.Service, map[string]any{objectsKey: text})
		chunks = append(chunks, chunk)
		account.Chunks = append(account.Chunks, chunk.GetName())
	}
	text, err := json.Marshal(account)
	if err != nil {
		return nil, nil, fmt.Errorf("encode inventory: %w", err)
	}
	head = configMap(headName(record.Service), record.Service, map[string]any{stateKey: string(text), objectsKey: parts[0]})
	return head, chunks, nil
}

func configMap(name, service string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": Namespace, "labels": map[string]any{Label: service}},
		"data":     data,
	}}
}

// line is JSON and not columns with a separator: names of RBAC objects may hold any character.
func line(e Entry) ([]byte, error) {
	text, err := json.Marshal([7]string{e.Group, e.Version, e.Kind, e.Namespace, e.Name, string(e.UID), e.Hash})
	if err != nil {
		return nil, fmt.Errorf("encode inventory entry: %w", err)
	}
	return append(text, '\n'), nil
}

func parseLine(text string) (Entry, error) {
	var columns [7]string
	if err := json.Unmarshal([]byte(text), &columns); err != nil {
		return Entry{}, err
	}
	return Entry{
		Ref: object.Ref{
			Key:     object.Key{Group: columns[0], Kind: columns[2], Namespace: columns[3], Name: columns[4]},
			Version: columns[1],
		},
		UID: types.UID(columns[5]), Hash: columns[6],
	}, nil
}

// assemble reads records from ConfigMaps. Chunks that no head names are orphans of a killed writer.
// A service whose record can't be read is broken: to take it for empty could give its objects away.
func assemble(found map[string]*unstructured.Unstructured) (records map[string]stored, broken map[string]error, orphans []string) {
	records, broken = map[string]stored{}, map[string]error{}
	used := map[string]bool{}
	for name, head := range found {
		service := head.GetLabels()[Label]
		if name != headName(service) {
			continue
		}
		kept, err := read(service, head, found)
		used[name] = true
		if err != nil {
			broken[service] = fmt.Errorf("read inventory (ConfigMap %s/%s): %w. Restore it, or delete it to let the service adopt its objects again",
				Namespace, name, err)
			continue
		}
		records[service] = kept
		for _, chunk := range kept.chunks {
			used[chunk] = true
		}
	}
	for name, chunk := range found {
		service := chunk.GetLabels()[Label]
		if !used[name] && broken[service] == nil && strings.HasPrefix(name, headName(service)+".") {
			orphans = append(orphans, name)
		}
	}
	return records, broken, orphans
}

func read(service string, head *unstructured.Unstructured, found map[string]*unstructured.Unstructured) (stored, error) {
	text, _, _ := unstructured.NestedString(head.Object, "data", stateKey)
	var account state
	if err := json.Unmarshal([]byte(text), &account); err != nil {
		return stored{}, fmt.Errorf("read state: %w", err)
	}
	if account.Format != formatVersion || account.Service != service {
		return stored{}, fmt.Errorf("written by another version of the agent, or changed by hand (format %d)", account.Format)
	}
	kept := stored{
		record:  Record{Service: service, Applied: account.Applied, Complete: account.Complete},
		version: head.GetResourceVersion(), chunks: account.Chunks,
	}
	parts := []*unstructured.Unstructured{head}
	for _, name := range account.Chunks {
		chunk, ok := found[name]
		if !ok {
			return stored{}, fmt.Errorf("its part %s is missing", name)
		}
		parts = append(parts, chunk)
	}
	for _, part := range parts {
		text, _, _ := unstructured.NestedString(part.Object, "data", objectsKey)
		for row := range strings.Lines(text) {
			entry, err := parseLine(row)
			if err != nil {
				return stored{}, fmt.Errorf("read entry: %w", err)
			}
			kept.record.Entries = append(kept.record.Entries, entry)
		}
	}
	if len(kept.record.Entries) != account.Objects {
		return stored{}, fmt.Errorf("it lists %d objects, and should list %d", len(kept.record.Entries), account.Objects)
	}
	return kept, nil
}
