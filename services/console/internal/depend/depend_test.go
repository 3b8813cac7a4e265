package depend

import (
	"strings"
	"testing"
)

func TestCirclesAreFound(t *testing.T) {
	t.Parallel()
	waits := map[string][]string{
		"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": nil, "x": {"y"}, "y": {"z", "a"},
		"z": {"y"},
	}
	if got := circleIn(waits, []string{"a", "b", "c", "d"}); got != nil {
		t.Errorf("there is none, got %v", got)
	}
	if got := circleIn(waits, []string{"a", "x"}); got != nil {
		t.Errorf("it was there before, got %v", got)
	}
	if got := strings.Join(circleIn(waits, []string{"a", "x", "z"}), " "); got != "y z" {
		t.Errorf("got %q", got)
	}
}
