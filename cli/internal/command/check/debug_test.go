package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/cli/internal/bundle"
	"fairlead.dev/cli/internal/clitest"
)

// A namespace without pods is most likely a wrong one, and its logs are missing.
func TestABundleWithoutPodsSaysThatLogsAreMissing(t *testing.T) {
	folder := t.TempDir()
	program := "#!/bin/sh\ncase \"$*\" in *--output=json*) echo '{\"items\": []}';; esac\n"
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	made, err := bundle.Create(filepath.Join(folder, "b.tar.gz"), bundle.NewMasker(), clitest.Noon())
	if err != nil {
		t.Fatal(err)
	}
	defer made.Abandon()
	b := bundling{bundle: made, kubeContext: "hub", namespace: "fairleed"}
	if err := b.addInstallation(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"installation/logs: there are no pods in namespace fairleed"}
	if !slices.Equal(made.Problems, want) {
		t.Errorf("missing is %q, want %q", made.Problems, want)
	}
}
