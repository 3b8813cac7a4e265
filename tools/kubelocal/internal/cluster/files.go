package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// The places in a cluster's folder. The components run in that folder and are given these relative paths, so that the
// folder can be moved and socket names stay short however deep it is.
const (
	pkiDir         = "pki"
	logsDir        = "logs"
	kubeconfigFile = "kubeconfig"
	kwokConfigFile = "kwok.yaml"
	podLogFile     = "pod.log"
	execDir        = "exec" // where kubectl exec runs
	auditFile      = "audit-policy.yaml"
)

// lockDir makes the folder and takes it for this process. The lock ends with the process, however
// it ends.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Join(dir, logsDir), 0o700); err != nil {
		return nil, fmt.Errorf("make the cluster's folder: %w", err)
	}
	// etcd's socket is in there and asks for no credentials.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("close the cluster's folder to others: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("a cluster is already running in %s: stop it first, or use another --dir (%w)", dir, err)
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// writeFile replaces a file in one step: a reader sees the old content or the new.
func writeFile(path string, data []byte) error {
	dir, base := filepath.Split(path)
	temp, err := os.CreateTemp(dir, "."+base+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(temp.Name()))
	}
	return nil
}
