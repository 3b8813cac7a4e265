package registry

import (
	"testing"

	"fairlead.dev/services/gitcache/internal/oci"
)

// TestArtifactIsKnownByWhatItsSubjectNames: its tag, or its digest.
func TestArtifactIsKnownByWhatItsSubjectNames(t *testing.T) {
	t.Parallel()
	layers := []oci.Layer{{Digest: "sha256:aa", Size: 1}}
	id := func(tag string, manifest oci.Digest) string {
		return Artifact{Tag: tag, Manifest: manifest, Layers: layers}.ID().String()
	}
	if id("", "sha256:01") == id("", "sha256:02") {
		t.Error("two digests are one artifact")
	}
	if id("1", "sha256:01") != id("1", "sha256:02") {
		t.Error("another manifest of the same layers is another artifact under a tag")
	}
}
