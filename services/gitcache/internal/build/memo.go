package build

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/durable"
)

// maxMemos bounds the memo in memory and on disk; about 400 bytes each.
const maxMemos = 100_000

// memo remembers which artifact a content became. All of it can be computed again, so its file is only
// appended to, without fsync: a line that a crash has torn fails its checksum and is left out.
type memo struct {
	mu       sync.Mutex // guards what follows
	path     string
	file     *os.File
	bySource map[string]record
	byDigest map[artifact.Digest]record
}

func openMemo(path string) (*memo, error) {
	m := &memo{path: path, bySource: map[string]record{}, byDigest: map[artifact.Digest]record{}}
	if err := m.load(); err != nil {
		return nil, fmt.Errorf("load memo: %w", err)
	}
	if err := m.rewrite(); err != nil {
		return nil, fmt.Errorf("write memo: %w", err)
	}
	return m, nil
}

func (m *memo) load() error {
	f, err := os.Open(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if r, ok := decodeRecord(lines.Bytes()); ok {
			m.add(r)
		}
	}
	return nil // a line too long to be one of ours ends the useful part
}

// rewrite leaves one line per content.
func (m *memo) rewrite() error {
	if err := durable.Sweep(filepath.Dir(m.path)); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, r := range m.bySource {
		out.Write(encodeRecord(r))
	}
	if err := durable.WriteFile(m.path, out.Bytes(), 0o600); err != nil {
		return err
	}
	var err error
	m.file, err = os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

func (m *memo) add(r record) {
	if len(m.bySource) >= maxMemos {
		// Which ones go does not matter: they are built again when somebody asks.
		for id, old := range m.bySource {
			delete(m.bySource, id)
			delete(m.byDigest, old.Digest)
			break
		}
	}
	m.bySource[r.SourceID] = r
	m.byDigest[r.Digest] = r
}

func (m *memo) get(sourceID string) (record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.bySource[sourceID]
	return r, ok
}

func (m *memo) getDigest(d artifact.Digest) (record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.byDigest[d]
	return r, ok
}

// put remembers; on disk as well if the disk takes it.
func (m *memo) put(r record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.bySource[r.SourceID]; ok && old == r {
		return nil
	}
	m.add(r)
	_, err := m.file.Write(encodeRecord(r))
	return err
}

func (m *memo) close() error { return m.file.Close() }

// encodeRecord makes a line: checksum, space, JSON.
func encodeRecord(r record) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		return nil // strings and numbers always encode
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(b), b)
}

func decodeRecord(line []byte) (record, bool) {
	var r record
	if len(line) < 10 || fmt.Sprintf("%08x ", crc32.ChecksumIEEE(line[9:])) != string(line[:9]) {
		return r, false
	}
	if json.Unmarshal(line[9:], &r) != nil {
		return r, false
	}
	_, err := artifact.ParseDigest(string(r.Digest))
	return r, err == nil && r.SourceID != ""
}

// of returns what is known of a source.
func (m *memo) of(uid string) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var known []Record
	for _, r := range m.bySource {
		if r.Source == uid {
			known = append(known, r.Record)
		}
	}
	return known
}

// learn takes a record unless there is one already.
func (m *memo) learn(r record) {
	if _, known := m.get(r.SourceID); !known {
		_ = m.put(r) // all that a disk that fails costs is a build after the next start
	}
}
