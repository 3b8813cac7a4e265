package datadir

import (
	"fmt"
	"os"
	"syscall"
)

// mountOptions are those that keep other users out of a file system that takes modes from its mount alone, and lets a
// chmod pass without effect; "" for any other file system.
func mountOptions(path string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return "" // the mode and the owner are said anyway
	}
	return optionsOf(uint32(stat.Type)) // 32 bits, on some platforms signed
}

// optionsOf are those for a kind of file system, by its magic number in statfs(2).
func optionsOf(magic uint32) string {
	const (
		smb, cifs, smb2  = 0x517b, 0xff534d42, 0xfe534d42
		fat, exfat, ntfs = 0x4d44, 0x2011bab0, 0x7366746e
	)
	switch magic {
	case smb, cifs, smb2:
		return fmt.Sprintf("file_mode=0600,dir_mode=0700,uid=%d,gid=%d", os.Getuid(), os.Getgid())
	case fat, exfat, ntfs:
		return fmt.Sprintf("fmask=0177,dmask=0077,uid=%d,gid=%d", os.Getuid(), os.Getgid())
	}
	return ""
}
