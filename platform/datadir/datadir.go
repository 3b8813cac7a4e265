// Package datadir prepares the folder that a service keeps its state in.
//
// On a machine the folder belongs to the service's user, and nobody else gets into it. In a pod it is a volume that
// belongs to root, which the service may write to by its group (fsGroup, or group 0 of a random user): its mode can't
// be changed there, and need not be, because the files within are readable by their owner only.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fairlead.dev/platform/lockfile"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// lockName is the file that Take locks.
	lockName = "lock"
	// lockPatience is how long Take waits for the process before this one: the lock of one that has ended may still be
	// held by a child that was just about to start.
	lockPatience, lockPause = time.Second, 20 * time.Millisecond
	// byOthers are the rights of users that are neither the owner nor in the group.
	byOthers = 0o007
)

// Ensure makes the folder, closed to other users where its mode can be changed, and checks that this process can make
// files in it.
func Ensure(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if err := restrict(dir, dirMode); err != nil {
		return fmt.Errorf("protect data folder: %w", err)
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("data folder %s%s: user %d, groups %d can't make files there. "+
			"Give the folder to that user or one of its groups (in a pod: securityContext.fsGroup)", dir, describe(dir), os.Getuid(), groups())
	}
	if err != nil {
		return fmt.Errorf("data folder %s: %w", dir, err)
	}
	return nil
}

// Take makes the folder as Ensure does, and keeps other processes from it until the lock is released, or this process
// ends: two that write to one folder damage each other's files.
func Take(dir string) (*lockfile.Lock, error) {
	if err := Ensure(dir); err != nil {
		return nil, err
	}
	for began := time.Now(); ; <-time.After(lockPause) {
		lock, err := lockfile.Try(filepath.Join(dir, lockName))
		switch {
		case err == nil:
			return lock, nil
		case !errors.Is(err, lockfile.ErrHeld):
			return nil, fmt.Errorf("take data folder: %w", err)
		case time.Since(began) > lockPatience:
			return nil, fmt.Errorf("data folder %s: another process works in it. "+
				"End that process, or give each process a --data-dir of its own", dir)
		}
	}
}

// Protect checks that other users can neither read nor write the named files of the folder, and takes those rights away
// where it can. A file that is missing is left to its writer, which gives it the right mode. A link is left to the
// owner of its target, such as a mounted Secret.
func Protect(dir string, names ...string) error {
	for _, name := range names {
		if err := protect(dir, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func protect(dir, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err == nil {
		err = restrict(path, fileMode)
	}
	isOpen := false
	if err == nil {
		isOpen, err = open(path)
	}
	if err == nil && isOpen {
		isOpen, err = open(dir) // a closed folder keeps other users from the file, too
	}
	switch {
	case err != nil:
		return fmt.Errorf("protect secrets: %w", err)
	case isOpen:
		return exposed(path, mountOptions(path))
	}
	return nil
}

// exposed is the error of a secret that other users can get at; options are those of mountOptions.
func exposed(path, options string) error {
	if options == "" {
		return fmt.Errorf("%s%s: other users can read or change this secret, and user %d can't change its mode. "+
			"Run `chmod 0600` on it as its owner", path, describe(path), os.Getuid())
	}
	return fmt.Errorf("%s%s: other users can read or change this secret, and its file system takes modes from its mount alone. "+
		"Mount it with the options %s (in Kubernetes: mountOptions of the StorageClass or the PersistentVolume)", path, describe(path), options)
}

// restrict changes the mode, unless the path belongs to another user or its file system has no modes.
func restrict(path string, mode fs.FileMode) error {
	err := os.Chmod(path, mode)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || readOnly(err) {
		return nil
	}
	return err
}

// open says whether other users have any right.
func open(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return info.Mode().Perm()&byOthers != 0, nil
}

// groups are those of the process.
func groups() []int {
	more, err := os.Getgroups()
	if err != nil || slices.Contains(more, os.Getgid()) {
		return more
	}
	return append([]int{os.Getgid()}, more...)
}
