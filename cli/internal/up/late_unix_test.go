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

// halfBroken plays kubelocal: clusters run, and the administrators can't be bound in those of a pattern.
const halfBroken = `#!/bin/sh
case "$*" in
start*) while [ "$1" != --dir ]; do shift; done; echo "READY name=x server=y kubeconfig=$2"; exec sleep 1000 ;;
BROKEN) echo 'no API server' >&2; exit 1 ;;
esac
`

// One cluster that does not come up leaves the others their run, and is said; without any there is no run.
func TestClusterThatDoesNotComeUpIsLeftOut(t *testing.T) {
	t.Parallel()
	for broken, want := range map[string]string{"*local-b*": "local-a", "*": ""} {
		dir := t.TempDir()
		kubelocal := filepath.Join(dir, "kubelocal")
		if err := os.WriteFile(kubelocal, []byte(strings.Replace(halfBroken, "BROKEN", broken, 1)), 0o700); err != nil {
			t.Fatal(err)
		}
		data, err := openDataDir(filepath.Join(dir, "data"), false)
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		u := &up{options: Options{Kubelocal: kubelocal, Stderr: &said}, data: data, began: time.Now()}
		u.children = newChildren(data, u.sayf)
		clusters := []cluster{{Name: "local-a", local: true}, {Name: "local-b", local: true}}
		err = u.raiseClusters(t.Context(), clusters)
		var names []string
		for _, c := range working(clusters) {
			names = append(names, c.Name)
		}
		u.children.stopAll()
		if got := strings.Join(names, " "); got != want || (err != nil) != (want == "") {
			t.Errorf("broken %s: %s came up, %v", broken, got, err)
		}
		if text := said.String(); want != "" && !strings.Contains(text, "no API server: going on without local-b") {
			t.Errorf("said:\n%s", text)
		}
		if err := data.releaseLock(); err != nil {
			t.Error(err)
		}
	}
}
