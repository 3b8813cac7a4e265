//go:build !linux

package render

// residentBytes is not known: only the child's own limits hold.
func residentBytes(int) int64 { return 0 }
