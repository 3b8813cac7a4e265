package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/charttest"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/subprocess"
)

// sourcesAll measures sources that are not Git: chart repositories and registries.
func sourcesAll(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	for i, part := range []bench{sourcesIndex, sourcesRegistry, sourcesRegistries, sourcesPull} {
		if err := part(ctx, bins, filepath.Join(dir, strconv.Itoa(i)), stdout); err != nil {
			return err
		}
	}
	return nil
}

// chartHost is a chart repository on this machine, whose index is a file. URL is that of the repository.
type chartHost struct {
	URL   string
	bytes atomic.Int64 // that it sent
	polls atomic.Int64 // requests for the index that ended

	mu       sync.Mutex // guards what follows
	index    string     // path
	etag     string
	packages map[string][]byte
}

func startChartHost() (*chartHost, func(), error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	h := &chartHost{URL: "http://" + l.Addr().String(), packages: map[string][]byte{}}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	return h, func() { _ = s.Close() }, nil
}

func (h *chartHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	index, etag, tgz := h.index, h.etag, h.packages[r.URL.Path]
	h.mu.Unlock()
	counted := &countedAnswer{ResponseWriter: w, bytes: &h.bytes}
	if r.URL.Path != "/index.yaml" {
		_, _ = counted.Write(tgz)
		return
	}
	defer h.polls.Add(1)
	w.Header().Set("Etag", etag)
	if r.Header.Get("If-None-Match") == etag {
		h.bytes.Add(answerBytes)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	f, err := os.Open(index)
	if err != nil {
		http.Error(w, "no index", http.StatusInternalServerError)
		return
	}
	defer f.Close()
	_, _ = io.Copy(counted, f)
}

// answerBytes are the bytes of a request and an answer without a body, about.
const answerBytes = 500

type countedAnswer struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c *countedAnswer) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// push adds packages of the chart web, and writes an index with at least so many bytes: of other charts above all.
func (h *chartHost) push(dir string, bytes int64, versions ...string) error {
	f, err := os.CreateTemp(dir, "index-*.yaml")
	if err != nil {
		return err
	}
	w, written := bufio.NewWriterSize(f, 1<<20), int64(0)
	add := func(format string, args ...any) {
		n, _ := fmt.Fprintf(w, format, args...) // the error is Flush's
		written += int64(n)
	}
	add("apiVersion: v1\nentries:\n")
	h.mu.Lock()
	defer h.mu.Unlock()
	entry := func(chart, version, digest string) {
		add("  - apiVersion: v2\n    appVersion: 1.2.3\n    created: \"2026-11-22T10:00:00Z\"\n    description: A chart of %s, with words enough to be as long as others are\n    digest: %s\n", chart, digest)
		add("    home: https://charts.example.com/%s\n    name: %s\n    type: application\n    urls:\n    - %s-%s.tgz\n    version: %s\n", chart, chart, chart, version, version)
	}
	for i := 0; written < bytes; i++ {
		chart := fmt.Sprintf("chart-%05d", i)
		add("  %s:\n", chart)
		for j := range 100 {
			entry(chart, fmt.Sprintf("1.%d.0", j), strings.Repeat("0", 64))
		}
	}
	add("  web:\n")
	for _, version := range versions {
		at := "/web-" + version + ".tgz"
		if h.packages[at] == nil {
			h.packages[at] = charttest.Package("web", version, chartFiles(version))
		}
		sum := sha256.Sum256(h.packages[at])
		entry("web", version, hex.EncodeToString(sum[:]))
	}
	add("generated: \"2026-11-22T10:00:00Z\"\n")
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return err
	}
	h.index, h.etag = f.Name(), strconv.Quote(filepath.Base(f.Name()))
	return nil
}

// chartFiles are those of a chart of usual size: 40 templates, 160 KiB.
func chartFiles(version string) map[string]string {
	files := map[string]string{"values.yaml": "replicas: 2\n"}
	for i := range 40 {
		files[fmt.Sprintf("templates/object-%02d.yaml", i)] = fmt.Sprintf("# %s %d\n", version, i) +
			strings.Repeat("key: {{ .Values.replicas }} # some words of a template\n", 75)
	}
	return files
}

// followCharts makes a source of charts with a service of the newest web below 2, and waits until a version is
// published.
func followCharts(ctx context.Context, f *gitcache.Fleet, h *chartHost, version string) error {
	spec := &consolev1.SourceSpec{Helm: &consolev1.HelmSource{Url: h.URL, Interval: durationpb.New(never)}}
	if err := f.FollowAs(ctx, "charts", spec, "web", &consolev1.ServiceSpec{Chart: "web", Version: "^1"}); err != nil {
		return err
	}
	return f.ResolvedTo(ctx, "charts", "chart:web@"+version)
}

// sourcesIndex measures the memory that an index of 100 MB takes, and a poll without news beside one of all of it.
func sourcesIndex(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withFleet(ctx, bins, dir, func(f *gitcache.Fleet, c *gitcache.Cache) error {
		const bytes, polls = 100 << 20, 20
		h, stop, err := startChartHost()
		if err != nil {
			return err
		}
		defer stop()
		if err := h.push(dir, 1, "1.0.0"); err != nil {
			return err
		}
		if err := followCharts(ctx, f, h, "1.0.0"); err != nil {
			return err
		}
		if !retry.Sleep(ctx, time.Minute) { // the memory of the start is given back by then
			return ctx.Err()
		}
		idle := gitcache.RSS(c.Pid())
		if err := gitcache.ForgetPeak(c.Pid()); err != nil {
			return err
		}
		if err := h.push(dir, bytes, "1.0.0", "1.0.1"); err != nil {
			return err
		}
		sent, used := h.bytes.Load(), gitcache.CPU(c.Pid())
		if err := pollOnce(ctx, f, c, h); err != nil {
			return err
		}
		if err := f.ResolvedTo(ctx, "charts", "chart:web@1.0.1"); err != nil {
			return err
		}
		fullBytes, fullCPU := h.bytes.Load()-sent, gitcache.CPU(c.Pid())-used
		fmt.Fprintf(stdout, "BENCH sources.index_parse_peak_mib %.0f MiB\n", float64(gitcache.PeakRSS(c.Pid())-idle)/(1<<20))
		sent, used = h.bytes.Load(), gitcache.CPU(c.Pid())
		for range polls {
			if err := pollOnce(ctx, f, c, h); err != nil {
				return err
			}
		}
		byBytes := float64(h.bytes.Load()-sent) / polls / float64(fullBytes)
		byCPU := (gitcache.CPU(c.Pid()) - used).Seconds() / polls / fullCPU.Seconds()
		fmt.Fprintf(stdout, "BENCH sources.helm_nochange_poll_bytes_vs_full %.6f x\n", byBytes)
		fmt.Fprintf(stdout, "BENCH sources.helm_nochange_poll_cpu_vs_full %.4f x\n", byCPU)
		fmt.Fprintf(stdout, "BENCH sources.helm_nochange_poll_vs_full %.4f x\n", max(byBytes, byCPU))
		return nil
	})
}

// pollOnce asks for a poll until the host has answered one more.
func pollOnce(ctx context.Context, f *gitcache.Fleet, c *gitcache.Cache, h *chartHost) error {
	before := h.polls.Load()
	if err := f.Refresh(ctx, c, "charts"); err != nil {
		return err
	}
	return process.Await(ctx, "a poll", func(context.Context) error {
		if h.polls.Load() > before {
			return nil
		}
		return errors.New("not polled")
	})
}

// registry is a real one: see tools/registrylocal.
type registry struct {
	Host, CA, Username, Password, Control string

	path, folder string
	process      *subprocess.Process
}

func startRegistry(ctx context.Context, folder string) (*registry, error) {
	path, err := process.Run(ctx, nil, "", "tools/registrylocal/build.sh")
	if err != nil {
		return nil, err
	}
	r := &registry{path: strings.TrimSpace(path), folder: folder}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.path, "serve", folder, "-plain")
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if r.process, err = subprocess.Start(cmd); err != nil {
		return nil, err
	}
	go func() {
		<-r.process.Ended()
		_ = w.Close()
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, r)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start registrylocal: %w", err), r.process.Stop(time.Second))
	}
	return r, nil
}

// push pushes a version of the chart web as helm push does.
func (r *registry) push(ctx context.Context, version string) error {
	file := filepath.Join(r.folder, "web-"+version+".tgz")
	if err := os.WriteFile(file, charttest.Package("web", version, chartFiles(version)), 0o600); err != nil {
		return err
	}
	_, err := process.Run(ctx, nil, "", r.path, "helm-push", r.folder, "charts/web:"+version, file)
	return err
}

// log is what the registry was asked for: requests that begin so.
func (r *registry) count(ctx context.Context, prefix string) (n int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Control, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n, err
}

// sourcesRegistry counts what a registry is asked: by a poll without news, and for a version that 1,000 services
// follow.
func sourcesRegistry(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withFleet(ctx, bins, dir, func(f *gitcache.Fleet, c *gitcache.Cache) (err error) {
		const services, polls = 1000, 10
		r, err := startRegistry(ctx, filepath.Join(dir, "registry"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.process.Stop(time.Second)) }()
		if err := r.push(ctx, "1.0.0"); err != nil {
			return err
		}
		spec := &consolev1.SourceSpec{Helm: &consolev1.HelmSource{Url: "oci://" + r.Host + "/charts", Insecure: true, Interval: durationpb.New(never)}}
		for i := range services {
			if err := f.FollowAs(ctx, "charts", spec, fmt.Sprintf("web-%d", i), &consolev1.ServiceSpec{Chart: "web", Version: "^1", Path: fmt.Sprintf("templates-%d", i)}); err != nil {
				return err
			}
		}
		if err := f.ResolvedTo(ctx, "charts", "chart:web@1.0.0"); err != nil {
			return err
		}
		const downloads = "GET /v2/charts/web/blobs/"
		before, err := r.count(ctx, downloads)
		if err != nil {
			return err
		}
		if err := r.push(ctx, "1.0.1"); err != nil {
			return err
		}
		if err := f.Refresh(ctx, c, "charts"); err != nil {
			return err
		}
		if err := f.ResolvedTo(ctx, "charts", "chart:web@1.0.1"); err != nil {
			return err
		}
		after, err := r.count(ctx, downloads)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "BENCH sources.upstream_downloads_1000_services %d downloads\n", after-before)

		// Of a version that is named whole: a range lists the tags besides.
		exact := &consolev1.SourceSpec{Helm: &consolev1.HelmSource{Url: "oci://" + r.Host + "/charts", Insecure: true, Interval: durationpb.New(never)}}
		if err := f.FollowAs(ctx, "exact", exact, "exact", &consolev1.ServiceSpec{Chart: "web", Version: "1.0.1"}); err != nil {
			return err
		}
		if err := f.ResolvedTo(ctx, "exact", "chart:web@1.0.1"); err != nil {
			return err
		}
		most := 0
		for range polls {
			n, err := requestsOfPoll(ctx, f, c, r)
			if err != nil {
				return err
			}
			most = max(most, n)
		}
		fmt.Fprintf(stdout, "BENCH sources.oci_nochange_poll_requests %d requests\n", most)
		return nil
	})
}

// requestsOfPoll counts the requests of one poll of the source exact.
func requestsOfPoll(ctx context.Context, f *gitcache.Fleet, c *gitcache.Cache, r *registry) (int, error) {
	before, err := r.count(ctx, "")
	if err != nil {
		return 0, err
	}
	if err := f.Polled(ctx, c, "exact"); err != nil {
		return 0, err
	}
	after, err := r.count(ctx, "")
	return after - before, err
}

// artifactHost plays a registry with one artifact, team/shop:1.
type artifactHost struct {
	layer, manifest []byte
	polls           atomic.Int64
}

func newArtifactHost() (*artifactHost, error) {
	h := &artifactHost{layer: []byte("kind: ConfigMap\n")}
	var err error
	h.manifest, err = json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "layers": []any{map[string]any{
		"mediaType": "text/yaml", "digest": digestOf(h.layer), "size": len(h.layer),
		"annotations": map[string]string{"org.opencontainers.image.title": "a.yaml"},
	}}})
	return h, err
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (h *artifactHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "/blobs/") {
		_, _ = w.Write(h.layer)
		return
	}
	if r.Method == http.MethodHead {
		h.polls.Add(1)
	}
	w.Header().Set("Content-Type", manifestType)
	w.Header().Set("Docker-Content-Digest", digestOf(h.manifest))
	w.Header().Set("Content-Length", strconv.Itoa(len(h.manifest)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(h.manifest)
	}
}

// sourcesRegistries measures polls of 1,000 registries, each at an address of its own, every two minutes.
func sourcesRegistries(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withFleet(ctx, bins, dir, func(f *gitcache.Fleet, c *gitcache.Cache) error {
		const registries = 1000
		h, err := newArtifactHost()
		if err != nil {
			return err
		}
		s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		defer func() { _ = s.Close() }()
		for i := range registries {
			l, err := net.Listen("tcp", fmt.Sprintf("127.1.%d.%d:0", i/250, i%250+1))
			if err != nil {
				return err
			}
			go func() { _ = s.Serve(l) }()
			spec := &consolev1.SourceSpec{Oci: &consolev1.OCISource{
				Url:      "oci://" + l.Addr().String() + "/team/shop",
				Insecure: true, Interval: durationpb.New(2 * time.Minute),
			}}
			name := fmt.Sprintf("registry-%d", i)
			if err := f.FollowAs(ctx, name, spec, name, &consolev1.ServiceSpec{Ref: "tag:1"}); err != nil {
				return err
			}
		}
		for i := range registries {
			if err := f.ResolvedTo(ctx, fmt.Sprintf("registry-%d", i), "tag:1@"); err != nil {
				return err
			}
		}
		polls, used, since := h.polls.Load(), gitcache.CPU(c.Pid()), time.Now()
		if !retry.Sleep(ctx, 2*time.Minute) {
			return ctx.Err()
		}
		fmt.Fprintf(stdout, "BENCH sources.polls_1000_registries_2min %d polls\n", h.polls.Load()-polls)
		fmt.Fprintf(stdout, "BENCH sources.poll_cores_1000_registries %.3f cores\n", (gitcache.CPU(c.Pid())-used).Seconds()/time.Since(since).Seconds())
		return nil
	})
}

// sourcesPull compares the CPU time that a new version of a chart takes, until its artifact is there, with `helm pull
// --untar`.
func sourcesPull(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withFleet(ctx, bins, dir, func(f *gitcache.Fleet, c *gitcache.Cache) error {
		const versions = 20
		h, stop, err := startChartHost()
		if err != nil {
			return err
		}
		defer stop()
		pushed := []string{"1.0.0"}
		if err := h.push(dir, 1, pushed...); err != nil {
			return err
		}
		if err := followCharts(ctx, f, h, "1.0.0"); err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		var ours, peer time.Duration
		for i := range versions {
			version := fmt.Sprintf("1.0.%d", i+1)
			pushed = append(pushed, version)
			if err := h.push(dir, 1, pushed...); err != nil {
				return err
			}
			before := gitcache.CPU(c.Pid())
			if err := f.Refresh(ctx, c, "charts"); err != nil {
				return err
			}
			if err := f.ResolvedTo(ctx, "charts", "chart:web@"+version); err != nil {
				return err
			}
			ours += gitcache.CPU(c.Pid()) - before
			cmd := exec.CommandContext(ctx, self, "helm-pull", h.URL, version, filepath.Join(dir, "pulled-"+version))
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("pull with Helm: %w: %s", err, out)
			}
			peer += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		}
		fmt.Fprintf(stdout, "BENCH sources.chart_to_artifact_cpu_ms %.1f ms\n", ours.Seconds()*1e3/versions)
		fmt.Fprintf(stdout, "BENCH sources.helm_pull_cpu_ms %.1f ms\n", peer.Seconds()*1e3/versions)
		fmt.Fprintf(stdout, "BENCH sources.chart_to_artifact_vs_helm_pull %.2f x\n", ours.Seconds()/peer.Seconds())
		return nil
	})
}
