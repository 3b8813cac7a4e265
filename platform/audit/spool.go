package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/durable"
)

const (
	// A segment of the spool is a row of records, and only appended to: length of the body, CRC-32C of length and body
	// (4 bytes each, big endian), and the body, a RecordAuditEventsRequest. A record without a body is the last one of
	// a process that lost nothing.
	extension  = ".spool"
	headLength = 8
	// segmentBytes is from which size on another segment is begun. The sent part of a segment is not noted: as much may
	// be sent again after a kill.
	segmentBytes = 4 << 20
	// maxSpoolBytes is about a million events: what a replica records in a quarter of an hour of 1,000 requests
	// a second, or in weeks of an ordinary day's use, while the console is away.
	maxSpoolBytes = 256 << 20
	// maxBatches bounds what is known of them in memory: five a second for six hours.
	maxBatches = 100_000
	// maxKept is how many batches that wait are in memory, too: a console that takes events in gets them from there. A
	// second of 6,000 requests is so many.
	maxKept = 8
)

var (
	errFull    = errors.New("the spool of audit events is full")
	errDamaged = errors.New("batch of audit events is damaged")
	castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a constant
)

// spool is the batches that wait for the console. One appends and ends, one reads and drops.
//
// The last segment is there as long as the process runs, so that the next one sees by its end how this one ended.
type spool struct {
	dir  string
	max  int64
	file *os.File // of the last segment; nil: another is to be begun. The appender's alone, as is next.
	next uint64

	mu       sync.Mutex // guards what follows
	segments []*segment // the oldest first
	batches  []batch    // the oldest first
	bytes    int64      // of batches
}

type segment struct {
	path    string
	size    int64 // up to the end of the last whole record; of the last segment the appender's alone
	waiting int   // batches
}

type batch struct {
	in       *segment
	at, size int64
	events   []*consolev1.AuditEvent // nil: on the disk only
}

// found is what a process has left to the next one.
type found struct {
	killed  bool       // or it has lost events without telling
	damaged []*segment // segments that can't be read to their ends
}

func openSpool(dir string) (s *spool, left found, err error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, left, fmt.Errorf("open spool of audit events: %w", err)
	}
	entries, err := os.ReadDir(dir) // in the order of names
	if err != nil {
		return nil, left, fmt.Errorf("open spool of audit events: %w", err)
	}
	s = &spool{dir: dir, max: maxSpoolBytes}
	for _, e := range entries {
		var number uint64
		if _, err := fmt.Sscanf(e.Name(), "%016x"+extension, &number); err != nil || !strings.HasSuffix(e.Name(), extension) {
			continue
		}
		whole, closed, err := s.load(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, left, fmt.Errorf("open spool of audit events: %w", err)
		}
		left.killed = !closed
		if !whole {
			left.damaged = append(left.damaged, s.segments[len(s.segments)-1])
		}
		s.next = number + 1
	}
	s.sweep()
	return s, left, nil
}

// load finds the batches of a segment.
func (s *spool) load(path string) (whole, closed bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, false, err
	}
	in := &segment{path: path}
	s.segments = append(s.segments, in)
	return s.index(in, file, info.Size())
}

// index goes from head to head. Bodies are looked at when they are sent.
func (s *spool) index(in *segment, from io.ReaderAt, size int64) (whole, closed bool, err error) {
	var head [headLength]byte
	for in.size < size {
		rest := size - in.size
		if closed || rest < headLength {
			return false, closed, nil
		}
		if _, err := from.ReadAt(head[:], in.size); err != nil {
			return false, false, err
		}
		length := headLength + int64(binary.BigEndian.Uint32(head[:]))
		switch {
		case length > rest || length == headLength && !valid(head[:]):
			return false, false, nil
		case length == headLength:
			closed = true
		default:
			s.add(batch{in: in, at: in.size, size: length})
		}
		in.size += length
	}
	return true, closed, nil
}

func (s *spool) add(b batch) {
	s.batches = append(s.batches, b)
	s.bytes += b.size
	b.in.waiting++
}

// append makes a batch of events. The events are on the disk when append returns.
func (s *spool) append(events []*consolev1.AuditEvent) error {
	record, err := encode(events)
	if err != nil {
		return err
	}
	b := batch{size: int64(len(record))}
	s.mu.Lock()
	full := s.bytes+b.size > s.max || len(s.batches) >= maxBatches
	s.mu.Unlock()
	if full {
		return errFull
	}
	if b.in, b.at, err = s.write(record); err != nil {
		return fmt.Errorf("write audit events: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.batches) < maxKept {
		b.events = events
	}
	s.add(b)
	return nil
}

// write appends a record to the last segment. A segment that refused gets no more: after an fsync that failed the
// kernel may call clean what it has lost.
func (s *spool) write(record []byte) (in *segment, at int64, err error) {
	in, err = s.begin()
	if err != nil {
		return nil, 0, err
	}
	if _, err = s.file.WriteAt(record, in.size); err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		err = errors.Join(err, s.file.Truncate(in.size), s.file.Close())
		s.file = nil
		return nil, 0, err
	}
	at = in.size
	in.size += int64(len(record))
	return in, at, nil
}

// begin returns the segment to append to, and begins another if it has to.
func (s *spool) begin() (*segment, error) {
	s.mu.Lock()
	var last *segment
	if len(s.segments) > 0 {
		last = s.segments[len(s.segments)-1]
	}
	s.mu.Unlock()
	if s.file != nil && last.size < segmentBytes {
		return last, nil
	}
	if last == nil || last.size > 0 {
		last = &segment{path: filepath.Join(s.dir, fmt.Sprintf("%016x%s", s.next, extension))}
	}
	file, err := os.OpenFile(last.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := durable.SyncDir(s.dir); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if s.file != nil {
		_ = s.file.Close() // all of it is on the disk
	}
	s.file = file
	s.mu.Lock()
	if n := len(s.segments); n == 0 || s.segments[n-1] != last {
		s.segments = append(s.segments, last)
		s.next++
	}
	s.mu.Unlock()
	s.sweep()
	return last, nil
}

// end closes the spool. A process that lost nothing leaves its mark, or nothing at all if nothing waits.
func (s *spool) end(well bool) error {
	s.mu.Lock()
	waits := len(s.batches) > 0
	s.mu.Unlock()
	var err error
	if well && waits {
		_, _, err = s.write(closing())
	}
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	if well && !waits {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, in := range s.segments {
			err = errors.Join(err, os.Remove(in.path))
		}
		s.segments = nil
	}
	return err
}

// oldest is the batch to send next.
func (s *spool) oldest() (batch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.batches) == 0 {
		return batch{}, false
	}
	return s.batches[0], true
}

// read returns the events of a batch that is on the disk only.
func (b batch) read() ([]*consolev1.AuditEvent, error) {
	file, err := os.Open(b.in.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	record := make([]byte, b.size)
	if _, err := file.ReadAt(record, b.at); err != nil && err != io.EOF {
		return nil, err
	}
	return decode(record)
}

// drop forgets the oldest batch.
func (s *spool) drop() {
	s.mu.Lock()
	b := s.batches[0]
	s.batches[0] = batch{}
	s.batches = s.batches[1:]
	s.bytes -= b.size
	b.in.waiting--
	done := b.in.waiting == 0
	s.mu.Unlock()
	if done {
		s.sweep()
	}
}

// sweep removes segments of which nothing waits, but for the last one. The removal need not be for good: an event that
// is sent again is kept once.
func (s *spool) sweep() {
	s.mu.Lock()
	var keep, done []*segment
	for i, in := range s.segments {
		if in.waiting > 0 || i == len(s.segments)-1 {
			keep = append(keep, in)
		} else {
			done = append(done, in)
		}
	}
	s.segments = keep
	s.mu.Unlock()
	for _, in := range done {
		_ = os.Remove(in.path)
	}
}

// waiting is how many bytes wait.
func (s *spool) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

func encode(events []*consolev1.AuditEvent) ([]byte, error) {
	record, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, headLength), &consolev1.RecordAuditEventsRequest{Events: events})
	if err != nil {
		return nil, fmt.Errorf("encode audit events: %w", err)
	}
	return sealed(record), nil
}

// closing is the record without a body.
func closing() []byte { return sealed(make([]byte, headLength)) }

// sealed fills in the head of a record.
func sealed(record []byte) []byte {
	binary.BigEndian.PutUint32(record, uint32(len(record)-headLength)) // a batch is far below 4 GiB
	binary.BigEndian.PutUint32(record[4:], sum(record))
	return record
}

func valid(record []byte) bool { return binary.BigEndian.Uint32(record[4:]) == sum(record) }

func sum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum(record[:4], castagnoli), castagnoli, record[headLength:])
}

func decode(record []byte) ([]*consolev1.AuditEvent, error) {
	if len(record) < headLength || !valid(record) {
		return nil, errDamaged
	}
	var req consolev1.RecordAuditEventsRequest
	if err := proto.Unmarshal(record[headLength:], &req); err != nil {
		return nil, errDamaged
	}
	return req.GetEvents(), nil
}
