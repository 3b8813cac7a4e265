package resource

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// One that fails does not keep the others from it; Ctrl-C does, which each of them would only repeat.
func TestEachIsTriedUntilAnInterrupt(t *testing.T) {
	t.Parallel()
	runs := [][]string{{"service", "a"}, {"service", "b"}, {"service", "c"}}
	for name, test := range map[string]struct {
		fails  error
		ran    int
		failed int
		want   string
	}{
		"a failure":    {errors.New("no"), 3, 1, "1 of 3 failed, as said above"},
		"an interrupt": {fmt.Errorf("interrupted: %w", context.Canceled), 2, 0, "interrupted at service/b, number 2 of 3"},
	} {
		ran, failed := 0, 0
		err := RunEach(runs, func(args []string) error {
			if ran++; args[1] == "b" {
				return test.fails
			}
			return nil
		}, func([]string, error) { failed++ })
		if err == nil || err.Error() != test.want || ran != test.ran || failed != test.failed {
			t.Errorf("%s: %d ran, %d failed: %v", name, ran, failed, err)
		}
	}
}
