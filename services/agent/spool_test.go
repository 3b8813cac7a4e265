package agent

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// A folder that comes no further gives its place to others.
func TestAFolderThatStallsIsNotAwaited(t *testing.T) {
	t.Parallel()
	a := &Agent{cfg: Config{DataDir: t.TempDir()}}
	synctest.Test(t, func(t *testing.T) {
		body, sent := io.Pipe()
		go func() { _, _ = sent.Write([]byte("a part")) }()
		if _, _, err := a.spool(body); err == nil || !strings.Contains(err.Error(), "did not come within 1m0s") {
			t.Errorf("got %v", err)
		}
		_ = sent.Close() // as the stream of a request does that is answered
	})
	file, _, err := a.spool(strings.NewReader("whole"))
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
}
