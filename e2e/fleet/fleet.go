// Package fleet runs the built hub under a simulated fleet: thousands of agents that speak the real
// protocol over connections of their own, with the agent's own code for polls, nudges, choice of a
// distributor and tunnel sessions. Only the cluster behind each agent is missing: what is delivered counts
// as applied, and downloads are verified and thrown away. docs/fleet.md says how to read the figures.
package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// waveClusters is how many clusters use the folder of a wave, by default: what one push to a shared folder
	// reaches.
	waveClusters = 1000
	// groups is in how many groups of clusters each other service is; each group has a folder of its own.
	groups = 100
	// agentsPerProcess keeps a simulator's process below 20,000 descriptors, with a tunnel session each.
	agentsPerProcess = 5000
)

// Config of a run.
type Config struct {
	Bins string // folder with the built programs
	// Dir keeps everything, also what was prepared, for the next run of the same size.
	Dir      string
	Clusters int
	Services int // per cluster
	Sources  int
	// Postgres has the console use a PostgreSQL, which is new for each run; else SQLite.
	Postgres bool
	// Plaintext has the agents use h2c, as behind a proxy that ends TLS.
	Plaintext bool
	// NextPoll is the mean time between polls: 2 min in the field, less to compress time.
	NextPoll time.Duration
	// Duration is how long the steady state is measured.
	Duration time.Duration
	// ChangesPerHour is the share of services whose folders change.
	ChangesPerHour float64
	// Downloads is the share of deliveries that are really downloaded.
	Downloads float64
	// Tunnels is the share of agents with a tunnel session.
	Tunnels float64
	// Executable is a program that calls Part with its arguments, and so runs agents; empty: they run in this process.
	Executable string
	// Sizes are the bytes that do not compress in the folders of the first services.
	Sizes []int
	// Wave is how many clusters share the folder of a wave; 0: 1,000.
	Wave int
	// Cold empties the caches of the hub at the end, and has all agents ask for one artifact at once.
	Cold bool
	// Faults has a second distributor, half of the agents behind a balancer of connections, and at the end an
	// outage of each part and of all; Hold is how long each lasts at least.
	Faults bool
	Hold   time.Duration
	// Disturb is what happens to the hub in the middle of the first delivery; empty: nothing.
	Disturb string
	// ViewsPerSecond is how many clusters push a change of their view each second, once all have pushed one; 0: none
	// has a view.
	ViewsPerSecond float64
	// Reconnect restarts the distributor at the end, and measures until all agents are back.
	Reconnect bool
	// Elsewhere is a hub that runs already; nil: the run starts one.
	Elsewhere *Elsewhere
}

// Elsewhere is a hub that runs already, in pods for example, and stays when the run ends. Its processes are not
// measured.
type Elsewhere struct {
	URLs map[string]string // by part
	// Secrets is the folder that `fairlead init --git` made for the hub. Its Secret "git" has to be in the hub.
	Secrets string
	// GitListen is an address of this machine that the gitcaches reach, of a host in the certificate.
	GitListen string
}

func (e *Elsewhere) file(name string) string { return filepath.Join(e.Secrets, name) }

// Validate says what is missing.
func (e *Elsewhere) Validate() error {
	for _, part := range hubParts() {
		if e.URLs[part] == "" {
			return fmt.Errorf("hub: the URL of its %s is missing", part)
		}
	}
	if len(e.URLs) > len(hubParts()) {
		return fmt.Errorf("hub: its parts are %s, not %s", strings.Join(hubParts(), ", "), strings.Join(slices.Sorted(maps.Keys(e.URLs)), ", "))
	}
	if e.Secrets == "" || e.GitListen == "" {
		return errors.New("hub: its secrets and an address for the Git server are needed")
	}
	return nil
}

// Validate says what is wrong.
func (c Config) Validate() error {
	switch {
	case c.Clusters < 1 || c.Clusters > 50_000:
		return errors.New("clusters: must be 1 to 50,000")
	case c.Services < 1 || c.Services > 1000:
		return errors.New("services: must be 1 to 1,000 per cluster")
	case len(c.Sizes) > c.Services:
		return errors.New("sizes: there are more than services")
	case c.Sources < 1:
		return errors.New("sources: at least one is needed")
	case c.Disturb == DisturbStarve && c.Executable == "":
		return errors.New("disturb: processes that take processor time away need an executable")
	case !slices.Contains([]string{"", DisturbKill, DisturbStarve}, c.Disturb):
		return fmt.Errorf("disturb: must be %s or %s", DisturbKill, DisturbStarve)
	case c.Downloads < 0 || c.Downloads > 1 || c.Tunnels < 0 || c.Tunnels > 1 || c.ChangesPerHour < 0:
		return errors.New("shares must be from 0 to 1")
	case c.Elsewhere == nil:
		return nil
	case c.Postgres || c.Plaintext || c.Cold || c.Faults || c.Disturb != "" || c.Reconnect || c.ViewsPerSecond > 0:
		return errors.New("hub: faults, restarts and views need a hub that the run starts")
	}
	return c.Elsewhere.Validate()
}

// CacheDir is where what was prepared for a fleet of this size is kept between runs.
func CacheDir(c Config) (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "fairlead-fleet", fmt.Sprintf("%dx%dx%d", c.Clusters, c.Services, c.Sources)), err
}

// size is what a folder may be kept for.
func (c Config) size() string {
	return fmt.Sprintf("%d clusters with %d services each from %d sources", c.Clusters, c.Services, c.Sources)
}

// claim has the folder remember the size of the fleet that it is for, and refuses that of another size: the services of
// its other clusters would wait for agents that nobody runs.
func (c Config) claim() error {
	file := filepath.Join(c.Dir, "size")
	kept, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.WriteFile(file, []byte(c.size()), 0o600)
	case err != nil:
		return err
	case string(kept) != c.size():
		return fmt.Errorf("%s keeps a fleet of %s, and this one is of %s: give another folder, or remove this one", c.Dir, kept, c.size())
	}
	return nil
}

func clusterName(i int) string { return fmt.Sprintf("edge-%05d", i) }

func serviceName(cluster, j int) string { return fmt.Sprintf("s%02d-edge-%05d", j, cluster) }

func sourceName(i int) string { return fmt.Sprintf("mono-%d", i) }

func (c Config) sourceOf(j int) int { return j % c.Sources }

func (c Config) wave() int {
	if c.Wave > 0 {
		return c.Wave
	}
	return waveClusters
}

// groupOf says which folder of service j a cluster uses. Service 0 is in waves.
func (c Config) groupOf(cluster, j int) int {
	if j == 0 {
		return cluster / c.wave()
	}
	return cluster % c.groupsOf(j)
}

func (c Config) groupsOf(j int) int {
	if j == 0 {
		return (c.Clusters + c.wave() - 1) / c.wave()
	}
	return min(groups, c.Clusters)
}

func folder(j, group int) string { return fmt.Sprintf("apps/s%02d/g%02d", j, group) }

// users is how many services have a folder.
func (c Config) users(j, group int) int {
	n := 0
	for i := range c.Clusters {
		if c.groupOf(i, j) == group {
			n++
		}
	}
	return n
}
