package golden_test

import (
	"testing"

	"fairlead.dev/platform/golden"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"shop   prod  3f1c0d2e (12s ago)": "shop  prod  HEX (AGE)",
		"582d103d +1m2.3s +300ms":         "HEX +AGE +AGE",
		"2026-11-21 07:02:01 pod web-6c5f4d7b9d-x2vbk, replicaset web-6c5f4d7b9d, service web-shop": "TIME pod web-HASH-ID, replicaset web-HASH, service web-shop",
		"Pod golden/web-79bcc84859-52m5m  Running, ReplicaSet web-79bcc848, 52m5m":                  "Pod golden/web-HASH-ID  Running, ReplicaSet web-HASH, AGE",
		"metadata.etag: abc.1 at http://127.0.0.1:7480/sample.git":                                  "metadata.etag: X",
		"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef":                   "HASH",
	} {
		if got := golden.Text(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
