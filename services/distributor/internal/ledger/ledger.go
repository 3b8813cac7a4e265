// Package ledger keeps what was delivered last, so that a restart with everything else away serves the
// same.
//
// It is a log of lines, each with its checksum: a delivery, or a service that is gone; the last line
// about a service counts. It is rewritten when most of it is history. Losing some of it costs a
// question to a gitcache, so a line that is damaged is skipped and what follows a torn end is cut off.
package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	fileName = "deliveries.log"
	// maxLine bounds one record, in bytes; names, paths and commit subjects are all far below it.
	maxLine = 1 << 20
	// slack is how many lines of history are never worth a rewrite.
	slack = 1000
	// checksumLen is what a line begins with: 8 hex digits of CRC-32C and a space.
	checksumLen = 9
)

// entry is one line.
type entry struct {
	Delivery *plan.Delivery `json:"delivery,omitempty"`
	Gone     string         `json:"gone,omitempty"` // a service
}

// Ledger is the open log. For one goroutine.
type Ledger struct {
	path  string
	log   *slog.Logger
	file  *os.File
	live  map[string]*plan.Delivery
	lines int // in the file
}

// Open reads the ledger in dir, creating the folder if need be, and returns what was delivered last.
func Open(dir string, log *slog.Logger) (*Ledger, []*plan.Delivery, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{path: filepath.Join(dir, fileName), log: log, live: map[string]*plan.Delivery{}}
	if err := l.load(); err != nil {
		return nil, nil, fmt.Errorf("open ledger: %w", err)
	}
	// A new file: without history, damage or a torn end.
	if err := l.rewrite(); err != nil {
		return nil, nil, fmt.Errorf("open ledger: %w", err)
	}
	return l, slices.Collect(maps.Values(l.live)), nil
}

func (l *Ledger) load() error {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	live, bad, err := read(f)
	if bad > 0 {
		l.log.Warn("ledger has damaged lines, they are skipped", "lines", bad)
	}
	l.live = live
	return errors.Join(err, f.Close())
}

// read gives what the lines of a ledger come to, and how many of them are damaged.
func read(r io.Reader) (live map[string]*plan.Delivery, bad int, err error) {
	live = map[string]*plan.Delivery{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		e, ok := decode(lines.Bytes())
		switch {
		case !ok:
			bad++
		case e.Delivery != nil:
			live[e.Delivery.Service] = e.Delivery
		default:
			delete(live, e.Gone)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return live, bad + 1, nil // not a ledger from here on
	}
	return live, bad, lines.Err()
}

func decode(line []byte) (entry, bool) {
	if len(line) < checksumLen || line[checksumLen-1] != ' ' {
		return entry{}, false
	}
	sum, err := strconv.ParseUint(string(line[:checksumLen-1]), 16, 32)
	if err != nil || uint32(sum) != checksum(line[checksumLen:]) {
		return entry{}, false
	}
	var e entry
	err = json.Unmarshal(line[checksumLen:], &e)
	return e, err == nil && (e.Delivery != nil) != (e.Gone != "")
}

func encode(out *bytes.Buffer, e entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%08x %s\n", checksum(b), b)
	return nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Record adds what a change of the plan did. An error means that it may be forgotten by the next start.
func (l *Ledger) Record(c plan.Change) error {
	var out bytes.Buffer
	for _, name := range c.Gone {
		if l.live[name] == nil {
			continue
		}
		delete(l.live, name)
		if err := encode(&out, entry{Gone: name}); err != nil {
			return fmt.Errorf("record deliveries: %w", err)
		}
	}
	for _, d := range c.Delivered {
		l.live[d.Service] = d
		if err := encode(&out, entry{Delivery: d}); err != nil {
			return fmt.Errorf("record deliveries: %w", err)
		}
	}
	if out.Len() == 0 {
		return nil
	}
	if err := l.write(out.Bytes()); err != nil {
		return fmt.Errorf("record deliveries: %w", err)
	}
	return nil
}

func (l *Ledger) write(b []byte) error {
	lines := bytes.Count(b, []byte("\n"))
	if l.file == nil || l.lines+lines > 2*len(l.live)+slack {
		return l.rewrite()
	}
	_, err := l.file.Write(b)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		// What is in the file now is unknown: begin a new one next time.
		err = errors.Join(err, l.file.Close())
		l.file = nil
		return err
	}
	l.lines += lines
	return nil
}

// rewrite begins a new file with what is live, and goes on in it.
func (l *Ledger) rewrite() error {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(l.live)) {
		if err := encode(&out, entry{Delivery: l.live[name]}); err != nil {
			return err
		}
	}
	err := errors.Join(durable.WriteFile(l.path, out.Bytes(), 0o600), l.Close())
	// The old file may have no name any more; if that failed, a new one is begun next time.
	l.file, l.lines = nil, len(l.live)
	if err != nil {
		return err
	}
	l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

// Close closes the file; everything is on the disk already.
func (l *Ledger) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
