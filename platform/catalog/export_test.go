package catalog

import "time"

// Hurry makes a catalog's waits short.
func (c *Catalog) Hurry(silence time.Duration) {
	c.timing = timing{silence: silence, firstBackoff: time.Millisecond, lastBackoff: 5 * time.Millisecond, saveDelay: time.Millisecond}
}

// Decode reads a snapshot, for its fuzz target.
func Decode(b []byte) (services int, err error) {
	s, err := decode(b)
	if err != nil {
		return 0, err
	}
	return len(s.state.services), nil
}

// Replay reads a snapshot's body, behind its checksum.
var Replay = replay

// Saved is the file of the snapshot.
func (c *Catalog) Saved() string { return c.file }
