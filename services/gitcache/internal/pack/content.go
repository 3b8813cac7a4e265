package pack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"fairlead.dev/services/gitcache/internal/git"
)

// TempPrefix begins the names of temporary files. Temporary files have no name for long; a killed process may leave
// one.
const TempPrefix = "tmp_"

// content is an object: in memory, or in the scratch file.
type content struct {
	kind git.Kind
	size int64
	mem  []byte
	file *os.File // nil: it is in mem
	at   int64    // where it begins in file
}

// space is where objects are kept while others are made from them. For one goroutine.
type space struct {
	dir    string // of the scratch file
	memory int64  // left
	file   *os.File
	end    int64
}

// holdContent keeps what write gives, which must be size bytes.
func (s *space) holdContent(kind git.Kind, size int64, write func(io.Writer) error) (*content, error) {
	c := &content{kind: kind, size: size}
	if size <= s.memory {
		s.memory -= size
		b, err := fillBuffer(size, write)
		c.mem = b
		return c, err
	}
	if err := s.openFile(size); err != nil {
		return nil, err
	}
	c.file, c.at = s.file, s.end
	s.end += size
	counted := &count{w: io.NewOffsetWriter(c.file, c.at), left: size}
	w := bufio.NewWriterSize(counted, 64<<10)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	return c, fullError(err, size-counted.left, size)
}

// fillBuffer returns what write gives, which must be size bytes.
func fillBuffer(size int64, write func(io.Writer) error) ([]byte, error) {
	w := &memory{b: make([]byte, 0, size)}
	err := write(w)
	return w.b, fullError(err, int64(len(w.b)), size)
}

func fullError(err error, n, size int64) error {
	if err == nil && n != size {
		return damagedf("an object has %d bytes, not %d", n, size)
	}
	return err
}

// openFile makes the scratch file. The file has no name, so that it goes with the process.
func (s *space) openFile(size int64) error {
	if s.end+size > maxScratch {
		return overLimit("the history has deltas upon deltas of large files that take more than %d GiB to follow. Keep manifests in a repository without them", maxScratch>>30)
	}
	if s.file != nil {
		return nil
	}
	f, err := os.CreateTemp(s.dir, TempPrefix+"object_")
	if err != nil {
		return fmt.Errorf("keep a large object: %w", err)
	}
	s.file = f
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("keep a large object: %w", err)
	}
	return nil
}

// freeContent gives a content's space back. The last content of the scratch file makes room in it.
func (s *space) freeContent(c *content) {
	switch {
	case c.file == nil:
		s.memory += c.size
		c.mem = nil
	case c.at+c.size == s.end:
		s.end = c.at
	}
}

func (s *space) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// copyTo writes a part of the content.
func (c *content) copyTo(w io.Writer, from, n int64) error {
	if c.file == nil {
		_, err := w.Write(c.mem[from : from+n])
		return err
	}
	got, err := io.Copy(w, io.NewSectionReader(c.file, c.at+from, n))
	if err == nil && got != n {
		return io.ErrUnexpectedEOF
	}
	return err
}

// memory is a bytes.Buffer that never grows.
type memory struct{ b []byte }

func (m *memory) Write(p []byte) (int, error) {
	if len(p) > cap(m.b)-len(m.b) {
		return 0, errOverrun
	}
	m.b = append(m.b, p...)
	return len(p), nil
}

var errOverrun = fmt.Errorf("%w: an object is longer than it says", ErrDamaged)

// count lets so many bytes through.
type count struct {
	w    io.Writer
	left int64
}

func (c *count) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, errOverrun
	}
	n, err := c.w.Write(p)
	c.left -= int64(n)
	return n, err
}

// copyAll is io.Copy of all that an inflater has.
func copyAll(w io.Writer, i *inflater, buffer []byte) error {
	for {
		n, err := i.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
