// Package faults takes from the built product what a network, a machine or a start can take from it, and sees it say
// so, serve on and recover.
package faults
