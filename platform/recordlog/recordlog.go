// Package recordlog keeps records in one file, so that a restart finds what was known before.
//
// Each record is a line of its own: 8 hex digits of a CRC-32 of the rest, a space, JSON. The caller holds in memory
// what the records come to. The log replays them once, and asks the caller for the live ones when most of the file is
// history. Damage costs the lines that it hits and no others. A disk that takes or gives nothing stops no start.
package recordlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"

	"fairlead.dev/platform/durable"
)

const (
	// Slack is how many lines of history are never worth a new file.
	Slack = 1000
	// sumBytes is the length of a checksum and its space.
	sumBytes = 9
)

// Options say how a file is written. Files of one name have the same Sum in all releases.
type Options struct {
	Sum *crc32.Table
	// Sync: once Append returns nil, a power cut takes no live record. Without Sync a kill takes none, a power cut may
	// take the newest, and records of an Append that failed may wait for the next new file.
	Sync bool
	// MaxLine bounds a line that is read, in bytes. Longer lines count as damaged.
	MaxLine int
	Log     *slog.Logger
}

// Log is an open file of records. A Log is for one goroutine.
type Log[R any] struct {
	path    string
	options Options
	live    func() iter.Seq[R]

	file   *os.File // nil: opened by the next write
	torn   bool     // the file may end in the middle of a line
	behind bool     // the file may lack live records
	lines  int      // in the file, since it was new
	kept   int      // lines that the file had when it was new
}

// Open replays the records of a file in their order and goes on in a new file of the live ones. Open makes the folder,
// which holds no other file that is being written. An error is about the folder: trouble with the file is logged.
//
// The caller changes what live yields before it calls Append.
func Open[R any](path string, options Options, replay func(R), live func() iter.Seq[R]) (*Log[R], error) {
	if err := durable.Sweep(filepath.Dir(path)); err != nil {
		return nil, err
	}
	l := &Log[R]{path: path, options: options, live: live, torn: true}
	damaged, err := l.replayFile(replay)
	if damaged > 0 {
		options.Log.Warn("a file of records has damaged lines, they are skipped", "file", path, "lines", damaged)
	}
	if err != nil {
		options.Log.Warn("a file of records can't be read to its end, the rest is lost: check the disk",
			"file", path, "err", err)
	}
	if err := l.rewriteFile(); err != nil {
		options.Log.Warn("a file of records can't be written: free or repair the disk", "file", path, "err", err)
	}
	return l, nil
}

func (l *Log[R]) replayFile(replay func(R)) (damaged int, err error) {
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, l.options.MaxLine)
	for long := false; ; {
		line, err := in.ReadSlice('\n')
		if text := bytes.TrimSuffix(line, []byte("\n")); len(text) > 0 && !long {
			if record, ok := decodeLine[R](l.options.Sum, text); ok {
				replay(record)
			} else {
				damaged++
			}
		}
		switch long = errors.Is(err, bufio.ErrBufferFull); {
		case err == nil, long:
		case errors.Is(err, io.EOF):
			return damaged, nil
		default:
			return damaged, err
		}
	}
}

// EncodeLine returns the line of a record.
func EncodeLine(sum *crc32.Table, record any) ([]byte, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, sum), text), nil
}

func decodeLine[R any](sum *crc32.Table, line []byte) (record R, ok bool) {
	if len(line) < sumBytes || fmt.Sprintf("%08x ", crc32.Checksum(line[sumBytes:], sum)) != string(line[:sumBytes]) {
		return record, false
	}
	return record, json.Unmarshal(line[sumBytes:], &record) == nil
}

// Append adds records to the file. After an error the file may lack them; a later Append writes them, see Options.Sync.
func (l *Log[R]) Append(records ...R) error {
	if len(records) == 0 {
		return nil
	}
	var lines []byte
	for _, record := range records {
		line, err := EncodeLine(l.options.Sum, record)
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	if err := l.writeLines(lines); err != nil {
		return err
	}
	if l.lines += len(records); l.behind || l.lines > 2*l.kept+Slack {
		return l.rewriteFile()
	}
	return nil
}

func (l *Log[R]) writeLines(lines []byte) (err error) {
	if l.file == nil {
		if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			l.file, l.behind = nil, true
			return err
		}
	}
	if l.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	if _, err = l.file.Write(lines); err == nil && l.options.Sync {
		err = l.file.Sync()
	}
	if l.torn = err != nil; l.torn {
		l.behind = true
		err = errors.Join(err, l.Close())
	}
	return err
}

// rewriteFile replaces the file by one of live records.
func (l *Log[R]) rewriteFile() error {
	var lines bytes.Buffer
	count := 0
	for record := range l.live() {
		line, err := EncodeLine(l.options.Sum, record)
		if err != nil {
			return err
		}
		lines.Write(line)
		count++
	}
	// Even after an error the old file may have no name any more.
	err := errors.Join(durable.WriteFile(l.path, lines.Bytes(), 0o600), l.Close())
	l.torn = l.torn && err != nil
	// A rewrite that failed costs as much as one that did not. Only a promise makes each Append try again.
	l.behind = l.options.Sync && err != nil
	l.lines, l.kept = count, count
	return err
}

// Close closes the file.
func (l *Log[R]) Close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
