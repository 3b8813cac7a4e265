//go:build race

package distributor_test

// mostGrowth is larger here: the detector has memory of its own for all that is used.
const mostGrowth = 640 << 20
