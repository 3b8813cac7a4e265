package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// source is the commit that images are made of.
type source struct {
	root     string // of the repository
	version  string
	revision string
	time     time.Time
	cache    string // folder for what is compiled for this machine's platform; empty: Go's
}

// readSource asks git. Without it (an unpacked archive) images have no revision, and the begin of time.
func readSource(ctx context.Context, root string) source {
	s := source{root: root, version: "dev", time: time.Unix(0, 0).UTC()}
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	if version := git("describe", "--tags", "--always", "--dirty"); version != "" {
		s.version = version
	}
	s.revision = git("rev-parse", "HEAD")
	if seconds, err := strconv.ParseInt(git("log", "-1", "--format=%ct"), 10, 64); err == nil {
		s.time = time.Unix(seconds, 0).UTC()
	}
	return s
}

// compile builds programs into a folder, the same bytes for the same commit whatever the folders are called. One go command for all of them
// reads their packages once, and links side by side.
func (s source) compile(ctx context.Context, p platform, to string, pkgs ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{
		"build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X fairlead.dev/platform/version.Version=" + s.version, "-o", to + string(filepath.Separator),
	}, pkgs...)...)
	cmd.Dir = s.root
	// Flags and variables of the person who builds are left out: they would make other bytes. GOGC changes none: see tools/compile.sh.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOOS="+p.os, "GOARCH="+p.arch,
		"GOWORK="+filepath.Join(s.root, "go.work"), "GOGC=400")
	if s.cache != "" && p == thisPlatform() {
		cmd.Env = append(cmd.Env, "GOCACHE="+s.cache)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w: %s", strings.Join(pkgs, ", "), p, err, out)
	}
	return nil
}

// compiled returns the files of programs in dir, and compiles those that are not there yet: a program may be in several images and archives.
func (s source) compiled(ctx context.Context, p platform, of []program, dir string) ([]string, error) {
	to := filepath.Join(dir, p.os+"-"+p.arch)
	if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // public
		return nil, err
	}
	var files, missing []string
	for _, one := range of {
		file := filepath.Join(to, path.Base(one.pkg)+p.ending())
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, one.pkg)
		}
		files = append(files, file)
	}
	if len(missing) == 0 {
		return files, nil
	}
	return files, s.compile(ctx, p, to, missing...)
}

// built is an image for one platform.
type built struct {
	v1.Image
	platform platform
	binaries []string // of its programs
}

// build makes the image for a platform; programs are compiled into dir.
func (s source) build(ctx context.Context, of image, p platform, dir string) (built, error) {
	files := common()
	b := built{platform: p}
	var err error
	if b.binaries, err = s.compiled(ctx, p, of.programs, dir); err != nil {
		return b, err
	}
	for i, program := range of.programs {
		files = append(files, file{path: program.path, mode: 0o755, from: b.binaries[i]})
	}
	for _, folder := range of.folders {
		files = append(files, file{path: "/run/fairlead/" + folder, mode: 0o700, folder: true, mine: true})
	}
	if of.local != nil {
		more, err := of.local()
		if err != nil {
			return b, err
		}
		files = append(files, more...)
	}
	layer, err := newLayer(files, s.time)
	if err != nil {
		return b, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: s.time}, CreatedBy: "tools/images"}}); err != nil {
		return b, fmt.Errorf("add layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return b, fmt.Errorf("read configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: s.time}
	config.Config = s.config(of)
	b.Image, err = mutate.ConfigFile(img, config)
	if err != nil {
		return b, fmt.Errorf("write configuration: %w", err)
	}
	return b, nil
}

// How often a container is asked for its health; compose files and Kubernetes have their own.
const (
	healthInterval = 10 * time.Second
	healthTimeout  = 5 * time.Second
	healthStart    = 60 * time.Second
)

func (s source) config(of image) v1.Config {
	config := v1.Config{
		User: fmt.Sprintf("%d:%[1]d", owner), WorkingDir: "/data", Entrypoint: of.entrypoint, Env: append([]string{}, of.env...),
		Labels: map[string]string{
			"org.opencontainers.image.title": of.title, "org.opencontainers.image.description": of.description,
			"org.opencontainers.image.version": s.version, "org.opencontainers.image.revision": s.revision,
			"org.opencontainers.image.source": "https://fairlead.dev", "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.created": s.time.Format(time.RFC3339),
		},
	}
	if len(of.programs) > 0 {
		config.Entrypoint = append([]string{of.programs[0].path}, of.verb...)
	}
	if of.service {
		config.Env = append(config.Env, "FAIRLEAD_DATA_DIR=/data")
		config.Healthcheck = &v1.HealthConfig{
			Test: append(append([]string{"CMD"}, config.Entrypoint...), "healthcheck"), Interval: healthInterval,
			Timeout: healthTimeout, StartPeriod: healthStart, Retries: 3,
		}
	}
	config.Env = append(config.Env, "HOME=/data")
	return config
}
