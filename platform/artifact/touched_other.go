//go:build !linux

package artifact

import (
	"io/fs"
	"time"
)

// touched is not known here: every file is read before it is sent.
func touched(fs.FileInfo) time.Time { return time.Time{} }
