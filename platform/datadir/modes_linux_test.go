package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSharesWithoutModesAreToldTheirMountOptions(t *testing.T) {
	t.Parallel()
	owner := fmt.Sprintf("uid=%d,gid=%d", os.Getuid(), os.Getgid())
	for magic, want := range map[uint32]string{
		0xff534d42: "file_mode=0600,dir_mode=0700," + owner, // CIFS
		0xfe534d42: "file_mode=0600,dir_mode=0700," + owner, // SMB 2 and later
		0x4d44:     "fmask=0177,dmask=0077," + owner,        // FAT
		0xef53:     "",                                      // ext4
		0x6969:     "",                                      // NFS
	} {
		if got := optionsOf(magic); got != want {
			t.Errorf("%#x: options %q, want %q", magic, got, want)
		}
	}
	err := exposed("/data/key", "file_mode=0600,dir_mode=0700,uid=7,gid=7")
	for _, words := range []string{
		"/data/key", "takes modes from its mount alone", "file_mode=0600,dir_mode=0700,uid=7,gid=7", "mountOptions",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q does not say %q", err, words)
		}
	}
	if err := exposed("/data/key", ""); !strings.Contains(err.Error(), "Run `chmod 0600` on it as its owner") {
		t.Errorf("on another file system: %v", err)
	}
}

func TestSecretsAreClosedToOthers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := Ensure(dir); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{key, dir} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := Protect(dir, "key", "none"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
