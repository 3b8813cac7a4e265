//go:build !race

package build

// largeMiB is the size of a blob that is far too large.
const largeMiB = 1 << 10
