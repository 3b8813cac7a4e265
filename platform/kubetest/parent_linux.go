package kubetest

import "syscall"

// dieWithParent ends a child when this process goes, however it goes.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
