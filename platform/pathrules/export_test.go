package pathrules

// Spend adds to what a walk has cost.
func (f *Folder) Spend(steps int) { f.walk.steps += steps }
