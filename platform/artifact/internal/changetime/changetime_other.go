//go:build !linux

package changetime

import (
	"io/fs"
	"time"
)

// Of is not known here: each file is read before it is sent.
func Of(fs.FileInfo) time.Time { return time.Time{} }
