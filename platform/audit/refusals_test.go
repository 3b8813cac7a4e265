package audit

import (
	"testing"
	"time"
)

// A caller that is refused again and again does not fill the trail, and how often it was is told later.
func TestRefusalsOfOneCallerAreBounded(t *testing.T) {
	t.Parallel()
	var f Refusals
	now := time.Unix(600, 0)
	told := 0
	for range 1000 {
		if _, tell := f.count("agent:edge-1", now); tell {
			told++
		}
	}
	if told != refusalsPerMinute {
		t.Errorf("told %d times", told)
	}
	if untold, tell := f.count("agent:edge-2", now); !tell || untold != 0 {
		t.Error("another caller is not told of")
	}
	if untold, tell := f.count("agent:edge-1", now.Add(time.Minute)); !tell || untold != 1000-refusalsPerMinute {
		t.Errorf("a minute later: %d, %v", untold, tell)
	}
}
