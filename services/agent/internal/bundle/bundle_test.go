package bundle_test

import (
	"bytes"
	"strings"
	"testing"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/agent/internal/bundle"
)

// pack takes paths in order; "a -> b" is a link.
func pack(t *testing.T, paths ...string) *bytes.Buffer {
	t.Helper()
	var tar bytes.Buffer
	w := artifact.NewWriter(&tar, artifact.Limits{})
	for _, path := range paths {
		name, target, link := strings.Cut(path, " -> ")
		var err error
		if link {
			err = w.Symlink(name, target)
		} else {
			err = w.File(name, false, 2, strings.NewReader("{}"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &tar
}

func TestReadTakesManifestsOnly(t *testing.T) {
	t.Parallel()
	files, err := bundle.Read(pack(t, ".github/x.yaml", "LICENSE", "README -> LICENSE", "a.yaml", "deep/b.json", "deep/c.txt"), "apps")
	if err != nil || len(files) != 2 || files[0].Path != "a.yaml" || files[1].Path != "deep/b.json" {
		t.Errorf("got %v %v", files, err)
	}
}

// What a link hides would look as if it had been removed from the folder.
func TestLinksThatCouldHideManifestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, paths := range [][]string{
		{"a.yaml", "b.yaml -> a.yaml"},
		{"base/a.yaml", "prod -> base"},
		{"base/deep/a.yaml", "x/prod -> ../base/deep"},
	} {
		if _, err := bundle.Read(pack(t, paths...), "apps"); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
			t.Errorf("%v: %v", paths, err)
		}
	}
}

func TestDamagedArtifactIsAnError(t *testing.T) {
	t.Parallel()
	tar := pack(t, "a.yaml")
	tar.Truncate(tar.Len() - 700)
	if files, err := bundle.Read(tar, ""); err == nil {
		t.Errorf("got %v", files)
	}
}
