//go:build !unix

package mirror

func descriptors(most int) int { return most }

func yield(int) {}
