package build

import (
	"fmt"
	"hash/crc32"
	"iter"
	"log/slog"
	"time"

	"fairlead.dev/platform/recordlog"
)

// maxLine of the memo's file: a record with the longest filter.
const maxLine = 256 << 10

// openMemo reads what can be read, and goes on with a disk that takes or gives nothing.
func openMemo(path string, log *slog.Logger) (*memo, error) {
	m := &memo{now: time.Now, byID: map[key]*entry{}, byDigest: map[key]*entry{}, sources: map[string]*contents{}}
	options := recordlog.Options{Sum: crc32.IEEETable, MaxLine: maxLine, Log: log}
	replay := func(r record) { m.addLine(r, len(encodeRecord(r))) }
	var err error
	if m.log, err = recordlog.Open(path, options, replay, m.liveRecords); err != nil {
		return nil, fmt.Errorf("open memo: %w", err)
	}
	return m, nil
}

// liveRecords are all that is remembered, of each source what was used last at the end. mu is held.
func (m *memo) liveRecords() iter.Seq[record] {
	return func(yield func(record) bool) {
		for _, of := range m.sources {
			for at := of.recent.Back(); at != nil; at = at.Prev() {
				if !yield(at.Value.(*entry).recordOf()) { //nolint:forcetypeassert // nothing else is in there
					return
				}
			}
		}
	}
}

func encodeRecord(r record) []byte {
	line, _ := recordlog.EncodeLine(crc32.IEEETable, r) // strings and numbers always encode
	return line
}

func (m *memo) closeFile() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Close()
}
