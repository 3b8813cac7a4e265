package oci_test

import (
	"runtime"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/oci"
)

// TestDocumentsOfManyValuesTakeLittleMemory, however short the values are. It is not parallel: it measures.
func TestDocumentsOfManyValuesTakeLittleMemory(t *testing.T) { //nolint:paralleltest // measures
	const kind = "application/vnd.oci.image.manifest.v1+json"
	manifest := func(body []byte) error {
		_, _, err := oci.Decode(body, kind)
		return err
	}
	tags := func(body []byte) error {
		_, err := oci.DecodeTags(body)
		return err
	}
	for name, tc := range map[string]struct {
		decode func([]byte) error
		body   string
	}{
		"layers":    {manifest, `{"layers": [` + strings.Repeat("{},", 1_300_000) + "{}]}"},
		"no layers": {manifest, `{"layers": [` + strings.Repeat("0,", 2_000_000) + "0]}"},
		"manifests": {manifest, `{"manifests": [` + strings.Repeat("{},", 1_300_000) + "{}]}"},
		"urls":      {manifest, `{"layers": [{"urls": [` + strings.Repeat(`"",`, 1_300_000) + `""]}]}`},
		"tags":      {tags, `{"tags": [` + strings.Repeat(`"",`, 2_500_000) + `""]}`},
	} {
		body := []byte(tc.body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := tc.decode(body)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%s: %d MiB of memory for %d", name, took>>20, len(tc.body)>>20)
		}
		if err == nil || !strings.Contains(err.Error(), "more than the limit of") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCommasInTextAreNoValues: annotations hold sentences, and JSON.
func TestCommasInTextAreNoValues(t *testing.T) {
	t.Parallel()
	text := `{"layers": [{"digest": "` + digest + `", "size": 3, "annotations": {"a": "` +
		strings.Repeat(`\",,,`, 100_000) + `"}}]}`
	if m, _, err := oci.Decode([]byte(text), "application/vnd.oci.image.manifest.v1+json"); err != nil ||
		len(m.Layers) != 1 {
		t.Errorf("%v, %v", m, err)
	}
}

// TestWhatIsNoTagIsLeftOut: lists are long, and kept for a poll.
func TestWhatIsNoTagIsLeftOut(t *testing.T) {
	t.Parallel()
	got, err := oci.DecodeTags([]byte(`{"tags": ["1.0.0", "", "../x", "` + strings.Repeat("x", 200) + `", "v2"]}`))
	if err != nil || strings.Join(got, " ") != "1.0.0 v2" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTokenIsNoLargerThanAHeader can be: thousands are kept.
func TestTokenIsNoLargerThanAHeader(t *testing.T) {
	t.Parallel()
	for n, taken := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		if _, _, err := oci.DecodeToken([]byte(`{"token": "` + strings.Repeat("x", n) + `"}`)); (err == nil) != taken {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
