package catalog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// The file is a recorded stream: a line that names the format, and frames. A frame is a WatchResponse
// behind its length and its CRC-32C, both of 4 bytes. First comes a snapshot, from SnapshotBegin to
// SnapshotEnd, then what changed since, as it came. A snapshot that is not whole is none; of what
// follows it, everything up to the first frame that is damaged counts: the rest is asked for again.
const (
	magic = "fairlead catalog 2\n"
	// batch is the number of changes per message.
	batch = 256
	// frameHead is the length of what is before a message.
	frameHead = 8
	// maxMessage bounds one message of the file, in bytes.
	maxMessage = 64 << 20
)

var (
	errSnapshot = errors.New("catalog snapshot is damaged")
	// errFrame: there is no frame here, or it is damaged.
	errFrame = errors.New("damaged frame")
)

// snapshot is what a file comes to.
type snapshot struct {
	state    *state
	kinds    []consolev1.Kind
	token    string
	revision int64
	saved    time.Time
	// base is how long the snapshot is in the file, and size with what follows it and is whole.
	base, size int64
}

func load(file string) (snapshot, error) {
	f, err := os.Open(file)
	if err != nil {
		return snapshot{}, fmt.Errorf("read catalog snapshot: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return snapshot{}, fmt.Errorf("read catalog snapshot: %w", err)
	}
	snap, err := decode(f)
	snap.saved = info.ModTime()
	return snap, err
}

func decode(r io.Reader) (snapshot, error) {
	in := &reader{r: bufio.NewReaderSize(r, 64<<10)}
	line := make([]byte, len(magic))
	if _, err := io.ReadFull(in.r, line); err != nil || string(line) != magic {
		return snapshot{}, fmt.Errorf("%w: not a snapshot of this format", errSnapshot)
	}
	snap := snapshot{state: newState(), size: int64(len(magic))}
	for {
		m, size, err := in.next()
		switch {
		case err == nil && snap.take(m):
			snap.size += size
			if m.GetSnapshotEnd() != nil {
				snap.base = snap.size
			}
		case snap.base > 0:
			return snap, nil
		default:
			return snapshot{}, fmt.Errorf("%w: %w", errSnapshot, errFrame)
		}
	}
}

// take brings a message in. False: it has no place where it is.
func (s *snapshot) take(m *consolev1.WatchResponse) bool {
	began, ended := s.size > int64(len(magic)), s.base > 0
	switch m.GetEvent().(type) {
	case *consolev1.WatchResponse_SnapshotBegin:
		s.kinds = m.GetSnapshotBegin().GetKinds()
		return !began
	case *consolev1.WatchResponse_SnapshotEnd:
		s.token, s.revision = m.GetResumeToken(), m.GetRevision()
		return began && !ended
	case *consolev1.WatchResponse_Changes:
		if !began || ended && m.GetResumeToken() == "" {
			return false
		}
		for _, ch := range m.GetChanges().GetChanges() {
			s.state.apply(ch)
		}
		if ended {
			s.token, s.revision = m.GetResumeToken(), m.GetRevision()
		}
		return true
	}
	return false
}

// reader reads frames.
type reader struct {
	r   *bufio.Reader
	buf []byte
}

// next returns a message and how long its frame is.
func (r *reader) next() (*consolev1.WatchResponse, int64, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return nil, 0, err
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n == 0 || n > maxMessage { // no message is empty: zeros are what a power cut leaves
		return nil, 0, errFrame
	}
	if err := r.fill(int(n)); err != nil {
		return nil, 0, err
	}
	if checksum(r.buf) != binary.BigEndian.Uint32(head[4:]) {
		return nil, 0, errFrame
	}
	m := &consolev1.WatchResponse{}
	if err := proto.Unmarshal(r.buf, m); err != nil {
		return nil, 0, err
	}
	return m, frameHead + int64(n), nil
}

// fill reads n bytes into buf, which grows only by what is there: the length may be a lie.
func (r *reader) fill(n int) error {
	const step = 1 << 20
	r.buf = r.buf[:0]
	for len(r.buf) < n {
		at := len(r.buf)
		more := min(step, n-at)
		if cap(r.buf) < at+more {
			r.buf = append(r.buf, make([]byte, more)...)
		}
		r.buf = r.buf[:at+more]
		if _, err := io.ReadFull(r.r, r.buf[at:]); err != nil {
			return err
		}
	}
	return nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// writer writes frames.
type writer struct {
	w    io.Writer
	buf  []byte
	size int64 // written
}

func (w *writer) frame(m *consolev1.WatchResponse) error {
	out, err := proto.MarshalOptions{}.MarshalAppend(append(w.buf[:0], make([]byte, frameHead)...), m)
	if err != nil {
		return err
	}
	w.buf = out
	binary.BigEndian.PutUint32(out, uint32(len(out)-frameHead))
	binary.BigEndian.PutUint32(out[4:], checksum(out[frameHead:]))
	n, err := w.w.Write(out)
	w.size += int64(n)
	return err
}

// base writes a snapshot, from the line that names the format.
func (w *writer) base(kinds []consolev1.Kind, of contents, token string, revision int64) error {
	n, err := io.WriteString(w.w, magic)
	if w.size += int64(n); err != nil {
		return err
	}
	if err := w.frame(&consolev1.WatchResponse{Event: &consolev1.WatchResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{Kinds: kinds}}}); err != nil {
		return err
	}
	some := &consolev1.Changes{}
	flush := func() error {
		if len(some.GetChanges()) == 0 {
			return nil
		}
		err := w.frame(&consolev1.WatchResponse{Event: &consolev1.WatchResponse_Changes{Changes: some}})
		some.Changes = some.Changes[:0]
		return err
	}
	for ch := range of.changes {
		if some.Changes = append(some.Changes, ch); len(some.Changes) == batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return w.frame(&consolev1.WatchResponse{
		Event: &consolev1.WatchResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}, ResumeToken: token, Revision: revision,
	})
}
