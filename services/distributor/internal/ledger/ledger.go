// Package ledger keeps what was delivered last, so that a restart with everything else away serves the
// same.
//
// The ledger is a log of lines, each with its checksum: what was had for a folder, however many services it is for, or
// a service that is delivered something else; the last line about each counts. The file is rewritten when most of it is
// history. Losing some of it costs a question to a gitcache, so a line that is damaged is skipped and what follows a
// torn end is cut off.
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
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"fairlead.dev/platform/durable"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	fileName = "contents.log"
	// formerName had a line per service. The contents in it are asked for again.
	formerName = "deliveries.log"
	// maxLine bounds one record, in bytes; names, paths and commit subjects are all far below it.
	maxLine = 1 << 20
	// slack is how many lines of history are never worth a rewrite.
	slack = 1000
	// checksumLen is what a line begins with: 8 hex digits of CRC-32C and a space.
	checksumLen = 9
)

// entry is one line: one of these is set.
type entry struct {
	Content *plan.Content `json:"content,omitempty"`
	Gone    *plan.Key     `json:"gone,omitempty"` // a content
	Apart   *plan.Apart   `json:"apart,omitempty"`
}

// Ledger is the open log. For one goroutine.
type Ledger struct {
	path  string
	log   *slog.Logger
	file  *os.File
	live  plan.Memory
	lines int // in the file
}

// Open reads the ledger in dir, creating the folder if need be, and returns what was delivered last.
func Open(dir string, log *slog.Logger) (*Ledger, plan.Memory, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, plan.Memory{}, fmt.Errorf("open ledger: %w", err)
	}
	if err := durable.Remove(filepath.Join(dir, formerName)); err != nil {
		return nil, plan.Memory{}, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{path: filepath.Join(dir, fileName), log: log, live: empty()}
	if err := l.load(); err != nil {
		log.Warn("ledger can't be read to its end: gitcaches are asked for the rest again", "err", err)
	}
	// A new file: without history, damage or a torn end. A disk that has no room for it may still be served from.
	if err := l.rewrite(); err != nil {
		log.Warn("ledger can't be written: free or repair the disk", "err", err)
	}
	return l, plan.Memory{Contents: maps.Clone(l.live.Contents), Apart: maps.Clone(l.live.Apart)}, nil
}

func empty() plan.Memory {
	return plan.Memory{Contents: map[plan.Key]*plan.Content{}, Apart: map[string]plan.Apart{}}
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
func read(r io.Reader) (live plan.Memory, bad int, err error) {
	live = empty()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		e, ok := decode(lines.Bytes())
		if !ok {
			bad++
			continue
		}
		e.into(live)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return live, bad + 1, nil // not a ledger from here on
	}
	return live, bad, lines.Err()
}

// into brings a line in. False: it changes nothing.
func (e entry) into(live plan.Memory) bool {
	switch {
	case e.Content != nil:
		live.Contents[e.Content.Key()] = e.Content
		return true
	case e.Gone != nil:
		_, known := live.Contents[*e.Gone]
		delete(live.Contents, *e.Gone)
		return known
	case e.Apart.Over:
		_, known := live.Apart[e.Apart.Service]
		delete(live.Apart, e.Apart.Service)
		return known
	}
	live.Apart[e.Apart.Service] = *e.Apart
	return true
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
	set := 0
	for _, is := range []bool{e.Content != nil, e.Gone != nil, e.Apart != nil} {
		if is {
			set++
		}
	}
	return e, err == nil && set == 1
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
	for e := range entries(c) {
		if !e.into(l.live) {
			continue
		}
		if err := encode(&out, e); err != nil {
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

// entries are the lines for a change. Entries that are gone come first: they may be back.
func entries(c plan.Change) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for i := range c.Gone {
			if !yield(entry{Gone: &c.Gone[i]}) {
				return
			}
		}
		for i := range c.Apart {
			if !yield(entry{Apart: &c.Apart[i]}) {
				return
			}
		}
		for _, d := range c.Delivered {
			if !yield(entry{Content: d.Content}) {
				return
			}
		}
	}
}

func (l *Ledger) write(b []byte) error {
	lines := bytes.Count(b, []byte("\n"))
	if l.file == nil || l.lines+lines > 2*l.count()+slack {
		return l.rewrite()
	}
	_, err := l.file.Write(b)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		// The content of the file is unknown now: begin a new one next time.
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
	for _, c := range l.live.Contents {
		if err := encode(&out, entry{Content: c}); err != nil {
			return err
		}
	}
	for _, a := range l.live.Apart {
		if err := encode(&out, entry{Apart: &a}); err != nil {
			return err
		}
	}
	err := errors.Join(durable.WriteFile(l.path, out.Bytes(), 0o600), l.Close())
	// The old file may have no name any more; if that failed, a new one is begun next time.
	l.file, l.lines = nil, l.count()
	if err != nil {
		return err
	}
	l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0)
	return err
}

func (l *Ledger) count() int { return len(l.live.Contents) + len(l.live.Apart) }

// Close closes the file; everything is on the disk already.
func (l *Ledger) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
