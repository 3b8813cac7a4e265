//go:build race

package acceptance

// mostGrowth is larger here: the detector has memory of its own for all that is used.
const mostGrowth = 640 << 20
