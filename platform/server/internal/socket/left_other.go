//go:build !linux

package socket

import "syscall"

// HasLeft is not known here.
func HasLeft(syscall.Conn) bool { return false }
