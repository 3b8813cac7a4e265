package mirror

// SetFree sets how much of the disk seems free.
func (s *Mirrors) SetFree(free func() float64) { s.free = func(string) float64 { return free() } }
