//go:build !race

package acceptance

// mostGrowth is what 300 slow clients may cost, in bytes. If each download held its 16 MiB it were 1,600.
const mostGrowth = 96 << 20
