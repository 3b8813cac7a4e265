//go:build !unix

package datadir

// Elsewhere files have no modes.

func readOnly(error) bool { return false }

func describe(string) string { return "" }
