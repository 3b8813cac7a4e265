package build

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"fairlead.dev/platform/durable"
)

// fewLines are not worth to be written again.
const fewLines = 1000

// openMemo reads what can be read, and goes on with a disk that takes or gives nothing.
func openMemo(path string, log *slog.Logger) (*memo, error) {
	m := newMemo(path)
	if err := durable.Sweep(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("open memo: %w", err)
	}
	if err := m.loadFile(); err != nil {
		log.Warn("memo can't be read to its end; what else it held is built again. Check the disk", "err", err)
	}
	err := m.rewriteFile()
	if err != nil {
		m.torn = true
		err = errors.Join(err, m.openFile())
	}
	if err != nil {
		log.Warn("memo is not written anew; it goes on as it is. Check the disk", "err", err)
	}
	return m, nil
}

// loadFile reads the file's lines. Lines that are torn, damaged or too long are left out.
func (m *memo) loadFile() error {
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
			m.addLine(r, len(line)+1)
		}
	})
}

// rewriteFile leaves one line per content in the file, of each source what was used last at the end. mu is held.
func (m *memo) rewriteFile() error {
	m.lines = len(m.byID) // also after an error: it is not tried again with every line
	var out bytes.Buffer
	for _, of := range m.sources {
		for at := of.recent.Back(); at != nil; at = at.Prev() {
			out.Write(encodeRecord(at.Value.(*entry).recordOf())) //nolint:forcetypeassert // nothing else is in there
		}
	}
	if err := durable.WriteFile(m.path, out.Bytes(), 0o600); err != nil {
		return err
	}
	m.torn, m.bytes = false, out.Len()
	return m.openFile()
}

// openFile opens the file that is there now for more lines. mu is held.
func (m *memo) openFile() error {
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

// writeLine appends a line. A file that is mostly outdated is written anew. mu is held.
func (m *memo) writeLine(line []byte) error {
	if m.lines++; m.lines > 2*len(m.byID)+fewLines && m.rewriteFile() == nil {
		return nil
	}
	if m.file == nil {
		if err := m.openFile(); err != nil {
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

func (m *memo) closeFile() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
