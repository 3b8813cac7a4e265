package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/e2e/fleet"
	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
)

const (
	// artifactRounds are taken of either side, in turn; artifactRound is how long each is.
	artifactRounds, artifactRound = 15, 400 * time.Millisecond
	// artifactReaders download at the same time.
	artifactReaders = 4
)

// distributorArtifacts measures what identity, authorisation and the look at the bytes cost a download, beside
// a server of the same files that does nothing of it, and what many agents that want the same cost the origin.
func distributorArtifacts(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	worst := 1e9
	for _, plaintext := range []bool{true, false} {
		least, err := vsFileServer(ctx, bins, filepath.Join(dir, strconv.FormatBool(plaintext)), plaintext, stdout)
		if err != nil {
			return err
		}
		worst = min(worst, least)
	}
	fmt.Fprintf(stdout, "BENCH distributor.artifact_vs_fileserver %.2f x\n", worst)
	return fanout(ctx, bins, filepath.Join(dir, "fanout"), stdout)
}

// vsFileServer returns the worst ratio of throughputs with artifacts of a megabyte.
func vsFileServer(ctx context.Context, bins stack.Binaries, dir string, plaintext bool, stdout io.Writer) (worst float64, err error) {
	sizes := []int{16 << 10, 1 << 20, 16 << 20}
	e, err := fleet.OpenEdge(ctx, fleet.Config{
		Bins: bins.Dir, Dir: dir, Clusters: 1, Services: len(sizes), Sources: 1, Sizes: sizes, Plaintext: plaintext, NextPoll: time.Minute,
	}, os.Stderr)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	services, err := e.Delivered(ctx, 0)
	if err != nil {
		return 0, err
	}
	peer, err := startFileServer(ctx, e, dir, plaintext)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, peer.stop()) }()
	worst = 1e9
	for i, service := range services {
		for _, two := range []bool{false, true} { // HTTP/1.1 and HTTP/2
			lane := lane{edge: e, peer: peer, digest: artifact.Digest(service.GetArtifact().GetDigest()), two: two, plaintext: plaintext}
			ratio, err := lane.compare(ctx, stdout, sizes[i])
			if err != nil {
				return 0, err
			}
			if sizes[i] == 1<<20 {
				worst = min(worst, ratio)
			}
		}
	}
	return worst, nil
}

// lane is one way to download one artifact.
type lane struct {
	edge           *fleet.Edge
	peer           *fileServer
	digest         artifact.Digest
	two, plaintext bool
}

func (l lane) name(size int) string {
	name := map[bool]string{true: "h2", false: "http1"}[l.two]
	if !l.plaintext {
		name += "_tls"
	}
	return fmt.Sprintf("%s_%dk", name, size>>10)
}

// compare takes rounds in turn, so that both sides meet the same noise, and prints the medians.
func (l lane) compare(ctx context.Context, stdout io.Writer, size int) (float64, error) {
	ours, err := l.side(l.edge.URL("distributor")+artifact.Path+string(l.digest), l.edge.Pid("distributor"))
	if err != nil {
		return 0, err
	}
	theirs, err := l.side(l.peer.url+"/"+l.digest.Hex()+".tar.zst", l.peer.pid())
	if err != nil {
		return 0, err
	}
	defer ours.close()
	defer theirs.close()
	var ratios, rates []float64
	for i := range artifactRounds + 1 {
		order := []*side{ours, theirs}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		rate := map[*side]float64{}
		for _, s := range order {
			if rate[s], err = s.round(ctx); err != nil {
				return 0, err
			}
		}
		if i == 0 { // connections, caches, and the first look at the bytes
			ours.used, ours.bytes, theirs.used, theirs.bytes = 0, 0, 0, 0
			continue
		}
		ratios, rates = append(ratios, rate[ours]/rate[theirs]), append(rates, rate[ours])
	}
	ratio := median(ratios)
	fmt.Fprintf(stdout, "BENCH distributor.artifact_vs_fileserver_%s %.2f x\n", l.name(size), ratio)
	fmt.Fprintf(stdout, "BENCH distributor.artifact_cpu_vs_fileserver_%s %.2f x\n", l.name(size), theirs.perByte()/ours.perByte())
	fmt.Fprintf(stdout, "BENCH distributor.artifact_mb_per_second_%s %.0f MB/s\n", l.name(size), median(rates)/1e6)
	return ratio, nil
}

// side is one of two servers of the same bytes.
type side struct {
	url    string
	client *http.Client
	pid    int
	used   time.Duration
	bytes  int64
}

func (l lane) side(url string, pid int) (*side, error) {
	roots, err := trusted(l.edge.CAFile)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!l.two)
	protocols.SetHTTP2(l.two && !l.plaintext)
	protocols.SetUnencryptedHTTP2(l.two && l.plaintext)
	transport := &http.Transport{
		TLSClientConfig: roots, Protocols: protocols, DisableCompression: true,
		MaxIdleConnsPerHost: artifactReaders, ReadBufferSize: 64 << 10,
	}
	authorized := client.Authorize(transport, identitytest.Source(l.edge.Token(0), identity.ServiceDistributor))
	return &side{url: url, client: &http.Client{Transport: authorized}, pid: pid}, nil
}

func (s *side) close() { s.client.CloseIdleConnections() }

// perByte is the server's CPU time.
func (s *side) perByte() float64 { return s.used.Seconds() / float64(s.bytes) }

// round downloads for a while and returns bytes per second.
func (s *side) round(ctx context.Context) (float64, error) {
	var wg sync.WaitGroup
	var bytes atomic.Int64
	errs := make([]error, artifactReaders)
	before, begin := gitcache.CPU(s.pid), time.Now()
	for i := range artifactReaders {
		wg.Go(func() {
			for errs[i] == nil && time.Since(begin) < artifactRound {
				var n int64
				n, errs[i] = s.get(ctx)
				bytes.Add(n)
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	s.used += gitcache.CPU(s.pid) - before
	s.bytes += bytes.Load()
	return float64(bytes.Load()) / took.Seconds(), errors.Join(errs...)
}

func (s *side) get(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", "zstd")
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET %s: %s", req.URL.Path, resp.Status)
	}
	return io.Copy(io.Discard, resp.Body)
}

// fanout counts what it takes the hub to give one new artifact to many agents at once: after a push, and with
// the caches of distributor and gitcache emptied.
func fanout(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	const agents = 2000
	self, err := os.Executable()
	if err != nil {
		return err
	}
	seen, err := fleet.Do(ctx, fleet.Config{
		Bins: bins.Dir, Dir: dir, Clusters: agents, Services: 1, Sources: 1, Sizes: []int{256 << 10}, Wave: agents, NextPoll: time.Minute,
		Downloads: 1, Cold: true, Executable: self,
	}, os.Stderr)
	if err != nil {
		return err
	}
	if err := seen.Fault(); err != nil {
		return err
	}
	// Builds and transfers have to be 1: the worse one counts.
	fmt.Fprintf(stdout, "BENCH distributor.fanout_builds %d builds\n", max(seen.Pushed.Builds, seen.Cold.Builds))
	fmt.Fprintf(stdout, "BENCH distributor.fanout_transfers %d transfers\n", max(seen.Pushed.Transfers, seen.Cold.Transfers))
	fmt.Fprintf(stdout, "BENCH distributor.fanout_misses_after_push %d agents\n", seen.Pushed.Misses)
	fmt.Fprintf(stdout, "BENCH distributor.fanout_cold_downloads %d agents\n", seen.Cold.Downloads)
	fmt.Fprintf(stdout, "BENCH distributor.fanout_cold_seconds %.1f s\n", seen.Cold.Took.Seconds())
	return nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
