package build

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/durable"
)

const (
	// The memo in memory, and half of what it may be on disk; about 400 bytes each without filters.
	maxMemos     = 100_000
	maxMemoBytes = 64 << 20
	// fewLines are not worth to be written again.
	fewLines = 1000
)

// memo remembers which artifact a content became. All of it can be computed again, so its file is only
// appended to, without fsync: a line that a crash has torn fails its checksum and is left out.
type memo struct {
	mu       sync.Mutex // guards what follows
	path     string
	file     *os.File
	torn     bool // the file may end in the middle of a line
	lines    int  // in the file
	bytes    int  // of the records, as lines
	bySource map[string]record
	byDigest map[artifact.Digest][]string // source_ids
}

// openMemo reads what can be read, and goes on with a disk that takes or gives nothing.
func openMemo(path string, log *slog.Logger) (*memo, error) {
	m := &memo{path: path, bySource: map[string]record{}, byDigest: map[artifact.Digest][]string{}}
	if err := durable.Sweep(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("open memo: %w", err)
	}
	if err := m.load(); err != nil {
		log.Warn("memo can't be read to its end; what else it held is built again. Check the disk", "err", err)
	}
	err := m.rewrite()
	if err != nil {
		m.torn = true
		err = errors.Join(err, m.open())
	}
	if err != nil {
		log.Warn("memo is not written anew; it goes on as it is. Check the disk", "err", err)
	}
	return m, nil
}

// load reads the file's lines. Those that are torn, damaged or too long are left out.
func (m *memo) load() error {
	f, err := os.Open(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return eachLine(f, func(line []byte) {
		if r, ok := decodeRecord(line); ok {
			m.add(r, len(line)+1)
		}
	})
}

// rewrite leaves one line per content in the file. mu is held.
func (m *memo) rewrite() error {
	m.lines = len(m.bySource) // also after an error: it is not tried again with every line
	var out bytes.Buffer
	for _, r := range m.bySource {
		out.Write(encodeRecord(r))
	}
	if err := durable.WriteFile(m.path, out.Bytes(), 0o600); err != nil {
		return err
	}
	m.torn, m.bytes = false, out.Len()
	return m.open()
}

// open opens the file that is there now for more lines. mu is held.
func (m *memo) open() error {
	f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if m.file != nil {
		err = m.file.Close() // of what is replaced
	}
	m.file = f
	return err
}

// add takes a record that is a line of so many bytes. mu is held.
func (m *memo) add(r record, line int) {
	m.drop(r.SourceID)
	m.bytes += line
	// Which ones go does not matter: they are built again when somebody asks.
	for id := range m.bySource {
		if len(m.bySource) < maxMemos && m.bytes <= maxMemoBytes {
			break
		}
		m.drop(id)
	}
	m.bySource[r.SourceID] = r
	m.byDigest[r.Digest] = append(m.byDigest[r.Digest], r.SourceID)
}

// drop forgets a content. mu is held.
func (m *memo) drop(sourceID string) {
	old, ok := m.bySource[sourceID]
	if !ok {
		return
	}
	m.bytes -= len(encodeRecord(old))
	delete(m.bySource, sourceID)
	if same := slices.DeleteFunc(m.byDigest[old.Digest], func(id string) bool { return id == sourceID }); len(same) > 0 {
		m.byDigest[old.Digest] = same
	} else {
		delete(m.byDigest, old.Digest)
	}
}

func (m *memo) get(sourceID string) (record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.bySource[sourceID]
	return r, ok
}

// getDigest returns all contents that became an artifact: the mirror of one may be gone.
func (m *memo) getDigest(d artifact.Digest) []record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []record
	for _, id := range m.byDigest[d] {
		all = append(all, m.bySource[id])
	}
	return all
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

// put remembers; on disk as well if the disk takes it.
func (m *memo) put(r record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.bySource[r.SourceID]; ok && old == r {
		return nil
	}
	line := encodeRecord(r)
	m.add(r, len(line))
	return m.write(line)
}

// learn takes a record unless there is one already.
func (m *memo) learn(r record) error {
	if _, known := m.get(r.SourceID); known {
		return nil
	}
	return m.put(r)
}

// forget drops a record that turned out to be wrong. On disk it stays until a right one follows.
func (m *memo) forget(sourceID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(sourceID)
}

// write appends a line. A file that is mostly outdated is written anew. mu is held.
func (m *memo) write(line []byte) error {
	if m.lines++; m.lines > 2*len(m.bySource)+fewLines && m.rewrite() == nil {
		return nil
	}
	if m.file == nil {
		if err := m.open(); err != nil {
			return err
		}
	}
	if m.torn {
		line = append([]byte{'\n'}, line...)
	}
	_, err := m.file.Write(line)
	m.torn = err != nil
	return err
}

func (m *memo) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
