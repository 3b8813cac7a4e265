package audit

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestARecordingIsPlayedAtItsPace(t *testing.T) {
	t.Parallel()
	const cast = `{"version":2,"width":80,"height":24}
[1.0, "o", "one "]
[2.0, "r", "132x43"]
[62.0, "o", "two"]
`
	for name, tc := range map[string]struct {
		play  replay
		lasts time.Duration
	}{
		"as it was":            {replay{speed: 1}, 62 * time.Second},
		"faster":               {replay{speed: 4}, 15500 * time.Millisecond},
		"without long pauses":  {replay{speed: 1, idle: 2 * time.Second}, 4 * time.Second},
		"faster without those": {replay{speed: 2, idle: 2 * time.Second}, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, out := time.Now(), &strings.Builder{}
			if err := tc.play.playRecord(t.Context(), strings.NewReader(cast),
				out); err != nil || out.String() != "one two" || time.Since(began) != tc.lasts {
				t.Errorf("%s: %q in %s, %v; want %s", name, out, time.Since(began), err, tc.lasts)
			}
		})
	}
	for _, broken := range []string{"{}\nnonsense\n", "{}\n[\"a\", 1, 2]\n", "{}\n[1]\n"} {
		if err := (replay{speed: 1}).playRecord(t.Context(), strings.NewReader(broken), &strings.Builder{}); err == nil {
			t.Errorf("%q is played", broken)
		}
	}
}
