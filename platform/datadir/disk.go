package datadir

import "fmt"

// nearlyFull is the part of a disk, in percent, that is left when somebody should make room.
const nearlyFull = 5

// Shortage says in words that the disk of a data folder is nearly full; empty: it is not.
func Shortage(dir string) string { return shortage(free(dir)) }

func shortage(left, all uint64) string {
	if all == 0 || left >= all/100*nearlyFull {
		return ""
	}
	return fmt.Sprintf("the disk of its data folder is nearly full: %d MiB of %d MiB are left", left>>20, all>>20)
}
