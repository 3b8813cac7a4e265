//go:build !linux

package kubetest

import "syscall"

// dieWithParent is a thing of Linux; elsewhere Stop has to be reached.
func dieWithParent() *syscall.SysProcAttr { return nil }
