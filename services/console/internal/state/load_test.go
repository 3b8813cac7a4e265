package state

import (
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store"
)

func TestAClusterIsConnectedWhileItWasSeenLately(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tt := range map[string]struct {
		seen store.Seen
		want bool
	}{
		"never seen":                      {store.Seen{}, false},
		"seen":                            {store.Seen{SeenTime: ago(4 * time.Minute)}, true},
		"seen too long ago":               {store.Seen{SeenTime: ago(6 * time.Minute)}, false},
		"its stream broke just now":       {store.Seen{SeenTime: ago(2 * time.Minute), LostTime: ago(80 * time.Second)}, true},
		"its stream broke and none came":  {store.Seen{SeenTime: ago(2 * time.Minute), LostTime: ago(100 * time.Second)}, false},
		"its stream broke and one came":   {store.Seen{SeenTime: ago(2 * time.Minute), LostTime: ago(3 * time.Minute)}, true},
		"its stream broke, and long ago":  {store.Seen{SeenTime: ago(10 * time.Minute), LostTime: ago(9 * time.Minute)}, false},
		"seen as the stream broke, so on": {store.Seen{SeenTime: ago(2 * time.Minute), LostTime: ago(2 * time.Minute)}, true},
	} {
		if got := connected(tt.seen, now); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
