package datadir

import "fmt"

// A disk is nearly full, and somebody should make room, when so many percent of it are left and no more than so many
// bytes: a twentieth of a large disk is room enough.
const (
	nearlyFull     = 5
	nearlyFullMost = 2 << 30
)

// NearlyFull begins the words of a Shortage.
const NearlyFull = "the disk of its data folder is nearly full"

// Shortage says in words that the disk of a data folder is nearly full; empty: it is not.
func Shortage(dir string) string { return shortage(free(dir)) }

func shortage(left, all uint64) string {
	if all == 0 || left >= min(all/100*nearlyFull, nearlyFullMost) {
		return ""
	}
	return fmt.Sprintf(NearlyFull+": %d MiB of %d MiB are left", left>>20, all>>20)
}
