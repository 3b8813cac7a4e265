package catalog

import (
	"io"
	"time"
)

// Hurry makes a catalog's waits short.
func (c *Catalog) Hurry(silence time.Duration) {
	c.timing = timing{
		silence: silence, firstBackoff: time.Millisecond, lastBackoff: 5 * time.Millisecond,
		saveDelay: time.Millisecond,
	}
}

// Decode reads a file, for its fuzz target, and says how much of it counts.
func Decode(r io.Reader) (services int, size int64, err error) {
	s, err := decode(r)
	if err != nil {
		return 0, 0, err
	}
	return len(s.state.services), s.size, nil
}

// Kept is a service as it comes back from the disk.
func Kept(s *Service) *Service { return NewService(s.message()) }

// Saved is the file of the snapshot.
func (c *Catalog) Saved() string { return c.file }
