package inventory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/object"
)

// formatVersion of the ConfigMaps. An agent refuses what it does not know: guessing could prune. Format 1, of
// lines of seven strings in parts with names by chance, and format 2, in which no sum in a complete record meant
// leaving, are read and written as this one.
const formatVersion = 3

// The keys of a ConfigMap's data.
const (
	stateKey   = "state"   // state as JSON, in the first ConfigMap only
	objectsKey = "objects" // one line per object: a JSON array of nine strings, see line
)

const (
	// shardBytes bounds the lines of a ConfigMap: it is rewritten when one of them changes.
	shardBytes = 128 << 10
	// sparse is the mean size below which fewer shards are made of them.
	sparse = 16 << 10
	// maxBits bounds shards to 1,024 of them, which is 128 MiB.
	maxBits = 10
)

// state is the first ConfigMap's account of the whole.
type state struct {
	Format   int      `json:"format"`
	Service  string   `json:"service"`
	Complete bool     `json:"complete"`
	Applied  Applied  `json:"applied"`
	Objects  int      `json:"objects"`
	Bits     int      `json:"bits,omitempty"` // of a key's sum that say which shard it is in
	Chunks   []string `json:"chunks,omitempty"`
	Progress Progress `json:"progress,omitzero"`
	Release  Release  `json:"release,omitzero"`
	Orphan   bool     `json:"orphan,omitempty"`
	Begun    string   `json:"begun,omitempty"`
	Some     bool     `json:"some,omitempty"`
	Asked    Asked    `json:"asked,omitzero"`
	Account  string   `json:"account,omitempty"`
	Kept     []string `json:"kept,omitempty"`
	Spared   []string `json:"spared,omitempty"`

	CalledOff int64  `json:"calledOff,omitempty"`
	Seal      string `json:"seal,omitempty"`

	Left    []object.Key    `json:"left,omitempty"`
	Repairs uint64          `json:"repairs,omitempty"`
	Tests   json.RawMessage `json:"tests,omitempty"`

	Cluster string `json:"cluster,omitempty"`
}

func headName(service string) string { return "inventory." + service }

// disassemble writes a record as ConfigMaps: small ones in the head, others in shards that are named by their
// content, so that an object that changes rewrites one of them. bits is of the record before.
func disassemble(record Record, bits int) (head *unstructured.Unstructured, chunks []*unstructured.Unstructured, used int, err error) {
	lines := make([][]byte, len(record.Entries))
	total := 0
	for i, entry := range record.Entries {
		if lines[i], err = line(entry); err != nil {
			return nil, nil, 0, err
		}
		total += len(lines[i])
	}
	for bits > 0 && total>>bits < sparse {
		bits--
	}
	shards := spread(record.Entries, lines, bits)
	for bits < maxBits && slices.ContainsFunc(shards, func(shard []byte) bool { return len(shard) > shardBytes }) {
		bits++
		shards = spread(record.Entries, lines, bits)
	}
	account := state{
		Format: formatVersion, Service: record.Service, Complete: record.Complete, Applied: record.Applied, Objects: len(record.Entries),
		Bits: bits, Progress: record.Progress, Release: record.Release, Orphan: record.Orphan, Repairs: record.Repairs, Seal: record.Seal,
		Begun: record.Begun, Some: record.Some, Asked: record.Asked, Account: record.Account, Kept: record.Kept,
		Spared: record.Spared, CalledOff: record.CalledOff, Left: record.Left, Tests: record.Tests,
		Cluster: record.Cluster,
	}
	data := map[string]any{}
	if bits == 0 {
		data[objectsKey] = string(shards[0])
		shards = nil
	}
	for _, shard := range shards {
		if len(shard) == 0 {
			continue
		}
		chunk := configMap(shardName(record.Service, shard), record.Service, map[string]any{objectsKey: string(shard)})
		chunks = append(chunks, chunk)
		account.Chunks = append(account.Chunks, chunk.GetName())
	}
	text, err := json.Marshal(account)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("encode inventory: %w", err)
	}
	data[stateKey] = string(text)
	return configMap(headName(record.Service), record.Service, data), chunks, bits, nil
}

// spread puts lines into 2^bits shards, by the sums of their keys.
func spread(entries []Entry, lines [][]byte, bits int) [][]byte {
	shards := make([]bytes.Buffer, 1<<bits)
	for i, entry := range entries {
		shards[keySum(entry.Key)&(1<<bits-1)].Write(lines[i])
	}
	texts := make([][]byte, len(shards))
	for i := range shards {
		texts[i] = shards[i].Bytes()
	}
	return texts
}

func keySum(key object.Key) object.Sum {
	return object.SumOf([]byte(key.Group + "\x00" + key.Kind + "\x00" + key.Namespace + "\x00" + key.Name))
}

func shardName(service string, text []byte) string {
	sum := sha256.Sum256(text)
	return headName(service) + "." + hex.EncodeToString(sum[:10])
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
	wave := ""
	if e.Wave != 0 || e.Hook || e.Leaving || e.Expires || !e.Ended.IsZero() {
		wave = strconv.Itoa(int(e.Wave))
	}
	if e.Expires {
		wave += expiresMark
	}
	if !e.Ended.IsZero() {
		wave += endedMark + strconv.FormatInt(e.Ended.Unix(), 10)
	}
	if e.Hook {
		wave += hookMark
	}
	if e.Leaving {
		wave += leavingMark
	}
	text, err := json.Marshal([9]string{e.Group, e.Version, e.Kind, e.Namespace, e.Name, string(e.UID), sumText(e.Sum), sumText(e.Owned), wave})
	if err != nil {
		return nil, fmt.Errorf("encode inventory entry: %w", err)
	}
	return append(text, '\n'), nil
}

// The marks follow the wave, in this order; endedMark is followed by seconds since 1970. An agent of before
// the first two of them refuses a line that has them.
const expiresMark, endedMark, hookMark, leavingMark = "t", "d", "h", "l"

func sumText(sum object.Sum) string {
	if sum == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", uint64(sum))
}

func parseSum(text string) (object.Sum, error) {
	if text == "" {
		return 0, nil
	}
	sum, err := strconv.ParseUint(text, 16, 64)
	return object.Sum(sum), err
}

func parseLine(text string) (Entry, error) {
	var columns []string
	if err := json.Unmarshal([]byte(text), &columns); err != nil {
		return Entry{}, err
	}
	if len(columns) != 7 && len(columns) != 9 {
		return Entry{}, fmt.Errorf("a line has %d columns", len(columns))
	}
	entry := Entry{
		Ref: object.Ref{
			Key:     object.Key{Group: columns[0], Kind: columns[2], Namespace: columns[3], Name: columns[4]},
			Version: columns[1],
		},
		UID: types.UID(columns[5]),
	}
	var err error
	if entry.Sum, err = parseSum(columns[6]); err != nil || len(columns) == 7 {
		return entry, err
	}
	if entry.Owned, err = parseSum(columns[7]); err != nil || columns[8] == "" {
		return entry, err
	}
	text, entry.Leaving = strings.CutSuffix(columns[8], leavingMark)
	text, entry.Hook = strings.CutSuffix(text, hookMark)
	text, ended, done := strings.Cut(text, endedMark)
	if done {
		seconds, err := strconv.ParseInt(ended, 10, 64)
		if err != nil {
			return entry, err
		}
		entry.Ended = time.Unix(seconds, 0).UTC()
	}
	text, entry.Expires = strings.CutSuffix(text, expiresMark)
	wave, err := strconv.ParseInt(text, 10, 32)
	entry.Wave = int32(wave)
	return entry, err
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
		kept, err := decodeStored(service, head, found)
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

func decodeStored(
	service string, head *unstructured.Unstructured, found map[string]*unstructured.Unstructured,
) (stored, error) {
	text, _, _ := unstructured.NestedString(head.Object, "data", stateKey)
	var account state
	if err := json.Unmarshal([]byte(text), &account); err != nil {
		return stored{}, fmt.Errorf("read state: %w", err)
	}
	if account.Format < 1 || account.Format > formatVersion || account.Service != service {
		return stored{}, fmt.Errorf("written by another version of the agent, or changed by hand (format %d)", account.Format)
	}
	kept := stored{
		record: Record{
			Service: service, Applied: account.Applied, Complete: account.Complete,
			Progress: account.Progress, Release: account.Release, Orphan: account.Orphan, Repairs: account.Repairs, Seal: account.Seal,
			Begun: account.Begun, Some: account.Some, Asked: account.Asked, Account: account.Account,
			Kept: account.Kept, Spared: account.Spared, CalledOff: account.CalledOff, Left: account.Left, Tests: account.Tests,
			Cluster: account.Cluster,
		},
		version: head.GetResourceVersion(), chunks: account.Chunks, bits: account.Bits,
		annotations: head.GetAnnotations(),
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
		if account.Format > 1 && part != head && part.GetName() != shardName(service, []byte(text)) {
			return stored{}, fmt.Errorf("its part %s was changed by hand", part.GetName())
		}
		for row := range strings.Lines(text) {
			entry, err := parseLine(row)
			if err != nil {
				return stored{}, fmt.Errorf("read entry: %w", err)
			}
			entry.Leaving = entry.Leaving || account.Format < 3 && account.Complete && entry.Sum == 0
			kept.record.Entries = append(kept.record.Entries, entry)
		}
	}
	if len(kept.record.Entries) != account.Objects {
		return stored{}, fmt.Errorf("it lists %d objects, and should list %d", len(kept.record.Entries), account.Objects)
	}
	slices.SortFunc(kept.record.Entries, func(a, b Entry) int { return object.Compare(a.Key, b.Key) })
	return kept, nil
}
