//go:build !unix

package lockfile

import "os"

// Elsewhere there are no locks: two commands at the same moment may lose one's change.

func lock(*os.File) error    { return nil }
func tryLock(*os.File) error { return nil }
func unlock(*os.File) error  { return nil }
