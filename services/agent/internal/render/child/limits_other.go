//go:build !linux

package child

// confine does nothing here: the parent's limits on time and output hold.
func confine(uint64) error { return nil }
