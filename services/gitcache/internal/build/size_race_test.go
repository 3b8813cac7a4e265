//go:build race

package build

// largeMiB is less than in size_test.go: the race detector makes a gigabyte take minutes.
const largeMiB = 80
