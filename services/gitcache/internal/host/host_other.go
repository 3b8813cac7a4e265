//go:build !unix

package host

func LimitDescriptors(most int) int { return most }

func YieldProcessor(int) {}

func FreeShare(string) float64 { return 1 }
