package render

import (
	"testing"
	"time"
)

// A configuration lowers the limits of renderers, and never raises one.
func TestLimitsAreOnlyNarrowed(t *testing.T) {
	t.Parallel()
	usual := Limits{CPU: usualCPU, Time: usualTime, Memory: maxMemory}
	narrow := Limits{CPU: time.Second, Time: 2 * time.Second, Memory: 64 << 20}
	for _, tc := range []struct{ to, want Limits }{
		{Limits{}, usual},
		{Limits{CPU: 2 * usualCPU, Time: 2 * usualTime, Memory: 2 * maxMemory}, usual},
		{narrow, narrow},
		{Limits{Memory: narrow.Memory}, Limits{CPU: usualCPU, Time: usualTime, Memory: narrow.Memory}},
	} {
		r := New()
		r.Narrow(tc.to)
		tc.want.configured = tc.want != usual
		if got := r.currentLimits(); got != tc.want {
			t.Errorf("narrowed to %+v it is %+v, want %+v", tc.to, got, tc.want)
		}
	}
}
