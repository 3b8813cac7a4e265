//go:build unix

package up

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Where a cluster can't have a real node, a person reads at once that pods are pretended, why, and what to do.
func TestPretendedPodsAreSaidAndWhy(t *testing.T) {
	t.Parallel()
	refusing := filepath.Join(t.TempDir(), "nodelocal")
	if err := os.WriteFile(refusing, []byte("#!/bin/sh\necho 'nodelocal: there is no containerd: apt-get install containerd' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	notBuilt := "`make nodelocal` builds them"
	if os.Geteuid() != 0 {
		notBuilt = "need root"
	}
	for program, want := range map[string]string{
		"":                                      "names no program",
		filepath.Join(t.TempDir(), "not built"): notBuilt,
		refusing:                                "there is no containerd: apt-get install containerd",
	} {
		data, err := openDataDir(filepath.Join(t.TempDir(), "data"), false)
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		u := &up{options: Options{Nodelocal: program, Stderr: &said}, data: data, began: time.Now()}
		clusters := []cluster{{Name: nodeCluster, local: true}}
		u.planNodes(t.Context(), clusters)
		if clusters[0].RealPods {
			t.Errorf("%q: the cluster has real pods", program)
		}
		if text := said.String(); !strings.Contains(text, "pods are pretended: ") || !strings.Contains(text, want) {
			t.Errorf("%q: said %q, want %q", program, text, want)
		}
		if err := data.releaseLock(); err != nil {
			t.Error(err)
		}
	}
}
