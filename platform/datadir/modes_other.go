//go:build !linux

package datadir

func mountOptions(string) string { return "" }
