package datadir

import (
	"strings"
	"testing"
)

func TestADiskThatIsNearlyFullIsToldWithWhatIsLeft(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, test := range []struct {
		left, all uint64
		want      string
	}{
		{0, 0, ""},
		{6 * gib, 100 * gib, ""},
		{gib, 100 * gib, "1024 MiB of 102400 MiB are left"},
		{4 * gib, 100 * gib, ""},
		{gib / 2, 12 * gib, "512 MiB of 12288 MiB are left"},
		{gib, 12 * gib, ""},
		{0, 100 * gib, "0 MiB of 102400 MiB are left"},
	} {
		if got := shortage(test.left, test.all); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%d of %d: %q, want %q", test.left, test.all, got, test.want)
		}
	}
	if left, all := free(t.TempDir()); all == 0 || left > all {
		t.Errorf("%d of %d bytes are free", left, all)
	}
}
