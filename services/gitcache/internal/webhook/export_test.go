package webhook

import "time"

// AtOnce is how many are worked on.
const AtOnce = atOnce

// Hurry bounds the time of a body.
func (h *Handler) Hurry(d time.Duration) { h.patience = d }
