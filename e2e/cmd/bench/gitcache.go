package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/retry"
)

// never is an interval for sources that are polled when asked only.
const never = 24 * time.Hour

// gitcacheAll measures the Git-aware origin.
func gitcacheAll(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	for i, part := range []bench{gitcachePoll, gitcacheRefs, gitcacheBuild, gitcacheScale} {
		if err := part(ctx, bins, filepath.Join(dir, strconv.Itoa(i)), stdout); err != nil {
			return err
		}
	}
	return nil
}

// withFleet runs a bench over one gitcache with a Redis.
func withFleet(ctx context.Context, bins stack.Binaries, dir string, do func(*gitcache.Fleet, *gitcache.Cache) error) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	redis, err := gitcache.StartAlone(ctx, dir)
	if err != nil {
		return err
	}
	f, err := gitcache.Start(ctx, gitcache.Config{Bins: bins.Dir, Dir: dir, Redis: redis})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	c, err := f.Add(ctx, "gitcache-0")
	if err != nil {
		return err
	}
	return do(f, c)
}

// gitcachePoll measures what it costs to look for changes, and to get one, in a large repository.
func gitcachePoll(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withFleet(ctx, bins, dir, func(f *gitcache.Fleet, c *gitcache.Cache) error {
		const folders, tags = 47, 200 // 47^3 files and their folders: 106,080 objects
		r, err := f.Host.CreateLarge(ctx, "large", folders, tags)
		if err != nil {
			return err
		}
		if err := noChange(ctx, f, r, dir, stdout); err != nil {
			return err
		}
		return oneCommit(ctx, f, c, r, dir, stdout)
	})
}

// noChange compares our list of refs with go-git's fetch, in one process without anything else.
func noChange(ctx context.Context, f *gitcache.Fleet, r *gitcache.Repo, dir string, stdout io.Writer) error {
	mirror, program := filepath.Join(dir, "mirror.git"), filepath.Join(dir, "benchmark")
	for _, command := range [][]string{
		{"git", "clone", "--quiet", "--mirror", f.Host.URL(r.Name), mirror},
		{"go", "build", "-o", program, "fairlead.dev/services/gitcache/internal/benchmark"},
	} {
		if _, err := process.Run(ctx, nil, "", command[0], command[1:]...); err != nil {
			return err
		}
	}
	out, err := process.Run(ctx, nil, "", program, "-url", f.Host.URL(r.Name), "-mirror", mirror)
	if err != nil {
		return err
	}
	used := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if used[name], err = strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("read %q: %w", lines.Text(), err)
		}
	}
	fmt.Fprintf(stdout, "BENCH gitcache.nochange_poll_cpu_us %.0f us\n", used["list"]/1e3)
	fmt.Fprintf(stdout, "BENCH gitcache.nochange_fetch_cpu_us %.0f us\n", used["fetch"]/1e3)
	fmt.Fprintf(stdout, "BENCH gitcache.nochange_poll_vs_fetch_cpu %.4f x\n", used["list"]/used["fetch"])
	return nil
}

// oneCommit compares the bytes that one new commit takes with those of a shallow clone.
func oneCommit(ctx context.Context, f *gitcache.Fleet, c *gitcache.Cache, r *gitcache.Repo, dir string, stdout io.Writer) error {
	if err := f.Follow(ctx, r.Name, never); err != nil {
		return err
	}
	if err := f.Resolved(ctx, c, r, r.Last().ID); err != nil {
		return err
	}
	since := time.Now()
	commit, err := r.Push(ctx)
	if err != nil {
		return err
	}
	if err := f.Refresh(ctx, c, r.Name); err != nil {
		return err
	}
	if err := f.Resolved(ctx, c, r, commit.ID); err != nil {
		return err
	}
	log := f.Host.Log(since)
	ours := sum(log, r.Name)
	since = time.Now()
	if _, err := process.Run(ctx, nil, "", "git", "clone", "--quiet", "--bare", "--depth", "1", f.Host.URL(r.Name), filepath.Join(dir, "shallow.git")); err != nil {
		return err
	}
	shallow := sum(f.Host.Log(since), r.Name)
	log = slices.DeleteFunc(log, func(r gitcache.Request) bool { return !r.Pack })
	fmt.Fprintf(stdout, "BENCH gitcache.one_commit_bytes %d B\n", ours)
	fmt.Fprintf(stdout, "BENCH gitcache.one_commit_pack_bytes %d B\n", sum(log, r.Name))
	fmt.Fprintf(stdout, "BENCH gitcache.depth1_bytes %d B\n", shallow)
	fmt.Fprintf(stdout, "BENCH gitcache.one_commit_bytes_vs_depth1 %.6f x\n", float64(ours)/float64(shallow))
	return nil
}

// gitcacheRefs measures what the first fetch and a poll take of a repository with very many refs, on a host that has
// version 2 of Git's protocol and on one that has version 1.
func gitcacheRefs(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withFleet(ctx, bins, dir, func(f *gitcache.Fleet, c *gitcache.Cache) error {
		const refs = 50_000
		r, err := f.Host.Create(ctx, "refs")
		if err != nil {
			return err
		}
		if err := r.AddRefs(refs); err != nil {
			return err
		}
		old := gitcache.OldPrefix + r.Name
		if err := f.Host.Alias(old, r); err != nil {
			return err
		}
		for _, side := range []struct{ source, suffix string }{{r.Name, ""}, {old, "_version_1"}} {
			since := time.Now()
			if err := f.Follow(ctx, side.source, never); err != nil {
				return err
			}
			if err := f.ResolvedAs(ctx, c, side.source, r.Last().ID); err != nil {
				return err
			}
			polled := time.Now()
			poll, err := largestPoll(ctx, f, c, side.source)
			if err != nil {
				return err
			}
			first := sum(f.Host.Log(since), side.source) - sum(f.Host.Log(polled), side.source)
			fmt.Fprintf(stdout, "BENCH gitcache.poll_bytes_%d_refs%s %d bytes\n", refs, side.suffix, poll)
			fmt.Fprintf(stdout, "BENCH gitcache.first_fetch_bytes_%d_refs%s %d bytes\n", refs, side.suffix, first)
		}
		return nil
	})
}

// largestPoll is the largest number of bytes that the Git host sent for one of some polls.
func largestPoll(ctx context.Context, f *gitcache.Fleet, c *gitcache.Cache, source string) (most int64, err error) {
	const polls = 5
	for range polls {
		since := time.Now()
		if err := f.Refresh(ctx, c, source); err != nil {
			return 0, err
		}
		for sum(f.Host.Log(since), source) == 0 {
			if !retry.Sleep(ctx, 100*time.Millisecond) {
				return 0, ctx.Err()
			}
		}
		most = max(most, sum(f.Host.Log(since), source))
	}
	return most, nil
}

func sum(log []gitcache.Request, repo string) (bytes int64) {
	for _, r := range log {
		if r.Repo == repo {
			bytes += r.Bytes
		}
	}
	return bytes
}

// gitcacheBuild measures what it costs to make an artifact of a folder of large manifests, and its size.
func gitcacheBuild(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withFleet(ctx, bins, dir, func(f *gitcache.Fleet, c *gitcache.Cache) error {
		const files, bytes, commits = 147, 14 << 20, 11
		r, err := f.Host.CreateDefinitions(ctx, "definitions", files, bytes, commits)
		if err != nil {
			return err
		}
		if err := f.Follow(ctx, r.Name, never); err != nil {
			return err
		}
		if err := f.Resolved(ctx, c, r, r.Commit(0).ID); err != nil { // warms up
			return err
		}
		var ours, targz, archive time.Duration
		for i := 1; i < commits; i++ {
			// In turn, so that all meet the same noise.
			commit := r.Commit(i).ID
			before := gitcache.CPU(c.Pid())
			if err := f.Resolved(ctx, c, r, commit); err != nil {
				return err
			}
			ours += gitcache.CPU(c.Pid()) - before
			tree := filepath.Join(dir, "tree"+strconv.Itoa(i))
			if err := os.Mkdir(tree, 0o700); err != nil {
				return err
			}
			for _, peer := range []struct {
				used    *time.Duration
				command string
			}{
				{&targz, `GIT_INDEX_FILE="$2/index" git --git-dir="$0" --work-tree="$2" checkout --force "$1" -- deploy && tar -czf "$2/out.tar.gz" -C "$2/deploy" .`},
				{&archive, `git --git-dir="$0" archive "$1" deploy | zstd -q -f -T1 -o "$2/out.tar.zst"`},
			} {
				used, err := shell(ctx, peer.command, r.Dir(), commit, tree)
				if err != nil {
					return err
				}
				*peer.used += used
			}
			if err := os.RemoveAll(tree); err != nil {
				return err
			}
		}
		n := time.Duration(commits - 1)
		fmt.Fprintf(stdout, "BENCH gitcache.build_cpu_ms %d ms\n", (ours / n).Milliseconds())
		fmt.Fprintf(stdout, "BENCH gitcache.checkout_targz_cpu_ms %d ms\n", (targz / n).Milliseconds())
		fmt.Fprintf(stdout, "BENCH gitcache.build_cpu_vs_checkout_targz %.2f x\n", ours.Seconds()/targz.Seconds())
		fmt.Fprintf(stdout, "BENCH gitcache.git_archive_zstd_cpu_ms %d ms\n", (archive / n).Milliseconds())
		fmt.Fprintf(stdout, "BENCH gitcache.build_cpu_vs_git_archive_zstd %.2f x\n", ours.Seconds()/archive.Seconds())
		return sizes(ctx, f, c, r, stdout)
	})
}

// shell runs a command line and returns the CPU time of all that it ran.
func shell(ctx context.Context, line string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-euo", "pipefail", "-c", line}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func sizes(ctx context.Context, f *gitcache.Fleet, c *gitcache.Cache, r *gitcache.Repo, stdout io.Writer) error {
	size := map[string]int64{}
	for _, encoding := range []string{"zstd", "gzip"} {
		n, err := f.DownloadBytes(ctx, c, r, encoding)
		if err != nil {
			return err
		}
		size[encoding] = n
		fmt.Fprintf(stdout, "BENCH gitcache.%s_bytes %d B\n", encoding, n)
	}
	fmt.Fprintf(stdout, "BENCH gitcache.zstd_vs_gzip_bytes %.2f x\n", float64(size["zstd"])/float64(size["gzip"]))
	return nil
}

// gitcacheResolve times a request for what was built before.
func gitcacheResolve(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return withFleet(ctx, bins, dir, func(f *gitcache.Fleet, c *gitcache.Cache) error {
		r, err := follow(ctx, f, c, 100)
		if err != nil {
			return err
		}
		return resolveWarm(ctx, f, c, r, stdout)
	})
}

// gitcacheScale measures a gitcache with 100 repositories and one with 1,000.
func gitcacheScale(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	err := withFleet(ctx, bins, filepath.Join(dir, "100"), func(f *gitcache.Fleet, c *gitcache.Cache) error {
		r, err := follow(ctx, f, c, 100)
		if err != nil {
			return err
		}
		if err := resolveWarm(ctx, f, c, r, stdout); err != nil {
			return err
		}
		// The memory of the first fetches is given back by then.
		if !retry.Sleep(ctx, 2*time.Minute) {
			return ctx.Err()
		}
		fmt.Fprintf(stdout, "BENCH gitcache.idle_rss_mib_100_repos %d MiB\n", gitcache.RSS(c.Pid())>>20)
		return nil
	})
	if err != nil {
		return err
	}
	return withFleet(ctx, bins, filepath.Join(dir, "1000"), func(f *gitcache.Fleet, c *gitcache.Cache) error {
		if _, err := follow(ctx, f, c, 1000); err != nil {
			return err
		}
		before, since := gitcache.CPU(c.Pid()), time.Now()
		if !retry.Sleep(ctx, 2*time.Minute) {
			return ctx.Err()
		}
		cores := (gitcache.CPU(c.Pid()) - before).Seconds() / time.Since(since).Seconds()
		fmt.Fprintf(stdout, "BENCH gitcache.polls_1000_repos_2min %d polls\n", len(f.Host.Log(since)))
		fmt.Fprintf(stdout, "BENCH gitcache.poll_cores_1000_repos %.3f cores\n", cores)
		fmt.Fprintf(stdout, "BENCH gitcache.idle_rss_mib_1000_repos %d MiB\n", gitcache.RSS(c.Pid())>>20)
		return nil
	})
}

// follow makes sources at the default interval, of one repository under many names, and waits until
// all are fetched.
func follow(ctx context.Context, f *gitcache.Fleet, c *gitcache.Cache, sources int) (*gitcache.Repo, error) {
	const folders, tags = 8, 20 // 512 files
	r, err := f.Host.CreateLarge(ctx, "shop", folders, tags)
	if err != nil {
		return nil, err
	}
	for i := range sources {
		name := fmt.Sprintf("shop-%d", i)
		if err := f.Host.Alias(name, r); err != nil {
			return nil, err
		}
		if err := f.Follow(ctx, name, 2*time.Minute); err != nil {
			return nil, err
		}
	}
	for i := range sources {
		if err := f.ResolvedAs(ctx, c, fmt.Sprintf("shop-%d", i), r.Last().ID); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// resolveWarm times requests one after the other, beside requests that do nothing.
func resolveWarm(ctx context.Context, f *gitcache.Fleet, c *gitcache.Cache, r *gitcache.Repo, stdout io.Writer) error {
	resolve := f.Resolver(c)
	warm, err := quietest(func(i int) error { return resolve(ctx, fmt.Sprintf("shop-%d", i%100), r.Last().ID) })
	if err != nil {
		return err
	}
	nothing, err := quietest(func(int) error { return f.Healthy(ctx, c) })
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "BENCH gitcache.resolve_warm_us %d us\n", warm.Microseconds())
	fmt.Fprintf(stdout, "BENCH gitcache.healthz_us %d us\n", nothing.Microseconds())
	fmt.Fprintf(stdout, "BENCH gitcache.resolve_warm_vs_healthz %.1f x\n", warm.Seconds()/nothing.Seconds())
	return nil
}

// quietest is the median time of a call, in the batch in which the machine had least else to do.
func quietest(call func(i int) error) (time.Duration, error) {
	const batches, calls = 20, 300
	best := time.Hour
	for range batches {
		var took []time.Duration
		for i := range calls {
			begin := time.Now()
			if err := call(i); err != nil {
				return 0, err
			}
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		best = min(best, took[calls/2])
	}
	return best, nil
}
