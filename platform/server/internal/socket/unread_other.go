//go:build !linux

package socket

import "syscall"

// HasUnread is not known here.
func HasUnread(syscall.Conn) bool { return false }
