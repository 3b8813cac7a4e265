package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"fairlead.dev/platform/gitserver"
)

// gitHost serves the sources' repositories from this process.
type gitHost struct {
	dir     string
	listen  string
	account *gitserver.Account // of a server for a hub elsewhere; nil: none
	server  *gitserver.Server
	stop    context.CancelFunc
	ended   chan error
}

func startGit(ctx context.Context, cfg Config, listen string) (*gitHost, error) {
	g := &gitHost{dir: filepath.Join(cfg.Dir, "git"), listen: listen}
	if e := cfg.Elsewhere; e != nil {
		password, err := os.ReadFile(e.file("git/password"))
		if err != nil {
			return nil, err
		}
		g.account = &gitserver.Account{
			User: "git", Password: strings.TrimSpace(string(password)), CertFile: e.file("tls/tls.crt"), KeyFile: e.file("tls/tls.key"),
		}
	}
	var err error
	if g.server, err = g.newServer(); err != nil {
		return nil, err
	}
	for source := range cfg.Sources {
		if err := g.server.Create(ctx, sourceName(source), seed(cfg, source)); err != nil {
			return nil, err
		}
	}
	return g, g.serve(ctx)
}

func (g *gitHost) newServer() (*gitserver.Server, error) {
	return gitserver.New(gitserver.Config{Dir: g.dir, Listen: g.listen, Account: g.account, Log: slog.New(slog.DiscardHandler)})
}

// serve begins, or begins again, to answer.
func (g *gitHost) serve(ctx context.Context) (err error) {
	if g.server, err = g.newServer(); err != nil {
		return err
	}
	if err := g.server.Listen(); err != nil {
		return err
	}
	ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.ended = make(chan error, 1)
	go func() { g.ended <- g.server.Run(ctx) }()
	return nil
}

// close ends what serve began; a second time it does nothing.
func (g *gitHost) close() error {
	if g.ended == nil {
		return nil
	}
	g.stop()
	err := <-g.ended
	g.ended = nil
	return err
}

// seed is the first content of a source: for each group of each service a folder with three manifests.
func seed(cfg Config, source int) fstest.MapFS {
	files := fstest.MapFS{"README.md": {Data: []byte("Folders of a simulated fleet.\n")}}
	for j := range cfg.Services {
		if cfg.sourceOf(j) != source {
			continue
		}
		for k := range cfg.groupsOf(j) {
			for _, kind := range []string{"ConfigMap", "Deployment", "Service"} {
				name := folder(j, k) + "/" + strings.ToLower(kind) + ".yaml"
				files[name] = &fstest.MapFile{Data: manifest(kind, name, "first")}
			}
			if j < len(cfg.Sizes) {
				files[folder(j, k)+"/noise.txt"] = &fstest.MapFile{Data: noise(uint64(j), uint64(k), cfg.Sizes[j])}
			}
		}
	}
	return files
}

// noise does not compress. The noise of a service's group is always the same.
func noise(service, group uint64, size int) []byte {
	r := rand.New(rand.NewPCG(service, group)) //nolint:gosec // noise is no secret
	b := make([]byte, 0, size+8)
	for len(b) < size {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:size]
}

// manifest is about a kilobyte, as most are.
func manifest(kind, name, version string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\napiVersion: v1\nkind: %s\nmetadata:\n  name: web\n  annotations:\n    version: %q\n", name, kind, version)
	for i := range 30 {
		fmt.Fprintf(&b, "    example.com/note-%d: what a team keeps here\n", i)
	}
	return b.Bytes()
}

// push commits a change to one folder and returns the commit and when it could be fetched.
func (g *gitHost) push(ctx context.Context, source int, folder, version string) (string, time.Time, error) {
	name := folder + "/configmap.yaml"
	data := manifest("ConfigMap", name, version)
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter Fleet <fleet@example.com> %d +0000\ndata %d\n%s\n", time.Now().Unix(), len(version), version)
	fmt.Fprintf(&in, "from refs/heads/main^0\nM 100644 inline %s\ndata %d\n%s\n", name, len(data), data)
	repo := filepath.Join(g.dir, sourceName(source)+".git")
	cmd := exec.CommandContext(ctx, "git", "--git-dir="+repo, "fast-import", "--quiet")
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", time.Time{}, fmt.Errorf("commit to %s: %w: %s", repo, err, bytes.TrimSpace(out))
	}
	at := time.Now()
	cmd = exec.CommandContext(ctx, "git", "--git-dir="+repo, "rev-parse", "refs/heads/main")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if err != nil {
		return "", time.Time{}, errors.New("read the new commit of " + repo)
	}
	return strings.TrimSpace(string(out)), at, nil
}
