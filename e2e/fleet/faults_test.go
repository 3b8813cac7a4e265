package fleet

import (
	"slices"
	"strings"
	"testing"
)

// A kill breaks connections, and the part that comes back takes calls late: it explains no other answer.
func TestAFirstDeliveryForgivesWhatAKillExplains(t *testing.T) {
	t.Parallel()
	crowd := []string{
		"sync: unavailable: unexpected EOF",
		"sync: unavailable: too many calls at once: keep what you have and ask again after the time in Retry-After",
		"watch: stream: unavailable: read tcp: connection reset by peer",
	}
	kill := []string{
		"report: unavailable: dial tcp ",
		"sync: unavailable: the catalog is being read",
		"sync: deadline_exceeded: context deadline exceeded",
		"sync: unknown: read message: http2: client connection force closed via ClientConn.Close",
		"watch: stream: internal: protocol error: incomplete envelope: http2: client connection force closed via ClientConn.Close",
		"watch: stream: unknown: write envelope: write tcp 10.0.0.1:7: write: broken pipe",
		"download: https://127.0.0.1:7: fetch artifact: GET from 127.0.0.1:7: dial tcp 127.0.0.1:7: connect: connection refused",
	}
	none := []string{
		"sync: unauthenticated: the token is not valid",
		"sync: permission_denied: cluster a may not have this",
		"sync: internal: internal error",
		"sync: invalid_argument: have: too many",
		"watch: stream: not_found: no such cluster",
		"report: resource_exhausted: 4 MiB is too long",
		"sync: unknown: HTTP status 502 Bad Gateway",
		"agent: not a token",
		"download: https://127.0.0.1:7: the content differs from its digest",
	}
	for disturb, forgiven := range map[string][]string{
		"": crowd, DisturbStarve: crowd, DisturbKill: slices.Concat(crowd, kill),
	} {
		r := &Run{cfg: Config{Disturb: disturb}}
		for _, text := range slices.Concat(crowd, kill, none) {
			call, _, _ := strings.Cut(text, ": ")
			name := call + ": " + firstLine(strings.TrimPrefix(text, call+": "))
			if got, want := r.forgivenAtFirst(name, text), slices.Contains(forgiven, text); got != want {
				t.Errorf("disturbed by %q: %s: forgiven: %v, want %v", disturb, text, got, want)
			}
		}
	}
}
