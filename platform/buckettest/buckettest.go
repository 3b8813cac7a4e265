// Package buckettest is a real S3 server for tests (versitygw), and a real client that writes to it: see tools/s3local.
package buckettest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/subprocess"
)

// buildTime covers a first build with nothing cached.
const buildTime = 30 * time.Minute

// Server is a running one.
type Server struct {
	Host                 string // host:port
	CA                   string // PEM
	AccessKey, SecretKey string
	Region               string
	Control              string

	folder  string
	process *subprocess.Process
}

// binary is the path of s3local, which is built if need be.
var binary = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // built once for all tests of a package
	if path := os.Getenv("S3LOCAL"); path != "" {
		return path, nil
	}
	dir, err := os.Getwd()
	for err == nil {
		script := filepath.Join(dir, "tools", "s3local", "build.sh")
		if _, missing := os.Stat(script); missing == nil {
			ctx, cancel := context.WithTimeout(context.Background(), buildTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, script)
			cmd.Stderr = os.Stderr // a first build takes a minute, and says why it fails
			out, err := cmd.Output()
			if err != nil {
				return "", fmt.Errorf("build s3local: %w", err)
			}
			return strings.TrimSpace(string(out)), nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("no tools/s3local above this folder")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
})

// Start runs a server until the end of the test. args are those of s3local serve. The short form skips the
// test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	longform.Only(t, "an S3 server")
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{folder: t.TempDir()}
	cmd := exec.CommandContext(context.Background(), path, append([]string{"serve", s.folder}, args...)...)
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if s.process, err = subprocess.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	go func() {
		<-s.process.Ended()
		_ = w.Close() // else a process that ends before its line is waited for
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		t.Fatalf("start s3local: %v", err)
	}
	return s
}

// Stop ends it.
func (s *Server) Stop() { _ = s.process.Stop(time.Second) }

// Put writes objects into a bucket, which is made if it is not there.
func (s *Server) Put(t testing.TB, bucket string, objects map[string]string) {
	t.Helper()
	s.change(t, objects, nil, bucket)
}

// PutVersions is Put into a bucket that keeps versions.
func (s *Server) PutVersions(t testing.TB, bucket string, objects map[string]string) {
	t.Helper()
	s.change(t, objects, nil, bucket, "-versioned")
}

// Remove removes objects.
func (s *Server) Remove(t testing.TB, bucket string, keys ...string) {
	t.Helper()
	s.change(t, nil, keys, bucket)
}

func (s *Server) change(t testing.TB, put map[string]string, remove []string, args ...string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	wanted := struct {
		Put    map[string][]byte `json:"put"`
		Remove []string          `json:"remove"`
	}{map[string][]byte{}, remove}
	for key, content := range put {
		wanted.Put[key] = []byte(content)
	}
	input, err := json.Marshal(wanted)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, append([]string{"change", s.folder}, args...)...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("s3local change %v: %v\n%s", args, err, said.String())
	}
}

// Log is what the server was asked: method, path, status, and the scheme of the authorization.
func (s *Server) Log(t testing.TB) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Control, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\n")
}
