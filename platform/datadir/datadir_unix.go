//go:build unix

package datadir

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// readOnly says that a single file is mounted, and can't be written.
func readOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// describe is the mode and the owner, for messages.
func describe(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf(" (%s, user %d, group %d)", info.Mode(), owner.Uid, owner.Gid)
	}
	return fmt.Sprintf(" (%s)", info.Mode())
}
