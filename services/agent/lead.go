package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/lead"
)

// elect prepares to be one of several agents: own, by which the work is done, lets no write pass for one that leads no
// more.
func (a *Agent) elect(config, own *rest.Config) error {
	id, err := replica(a.cfg.DataDir)
	if err != nil {
		return err
	}
	if a.leases, err = cluster.New(config); err != nil {
		return err
	}
	a.elector = lead.New(a.leases.Leases(inventory.Namespace), id, a.log)
	own.Wrap(a.elector.Fence)
	a.telemetry.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlead_agent_leads", Help: "1 while this agent is the one that works.",
	}, func() float64 {
		if a.elector.Leads() {
			return 1
		}
		return 0
	}))
	return nil
}

// replica names the agent among those of its cluster. The name is as old as the data folder.
func replica(dir string) (string, error) {
	path := filepath.Join(dir, "replica")
	data, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(data)); err == nil && name != "" {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the replica's name: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name the replica: %w", err)
	}
	const chance = 8 // letters, against two hosts of one name
	name := host + "-" + strings.ToLower(rand.Text()[:chance])
	if err := durable.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the replica's name: %w", err)
	}
	return name, nil
}

// standsBy tells that the agent has nothing to do but to wait for its turn.
func (a *Agent) standsBy() bool {
	select {
	case <-a.belongs:
		return a.elector != nil && !a.elector.Leads()
	default:
		return false
	}
}

// lead works, once it is this agent's turn. An agent that has lost its turn ends, since what it knows is about to be
// old: started anew it stands by.
func (a *Agent) lead(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if a.elector == nil {
		group.Go(func() error { return a.work(ctx) }) // also while the cluster does not answer
	}
	group.Go(func() error {
		known, err := a.belong(ctx)
		switch {
		case !known || err != nil:
			return err
		case a.elector == nil:
			close(a.begin)
			return nil
		}
		return a.takeTurn(ctx)
	})
	return group.Wait()
}

func (a *Agent) takeTurn(ctx context.Context) error {
	waits, won := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() { a.standBy(waits) })
	again, err := a.elector.Win(ctx)
	won()
	waiting.Wait()
	if err != nil {
		return nil //nolint:nilerr // told to stop
	}
	a.log.Info("this agent works now", "again", again)
	group, ends := errgroup.WithContext(ctx)
	group.Go(func() error { return a.elector.Hold(ends) })
	group.Go(func() error {
		if !again {
			if err := a.doubt(ends); err != nil || ends.Err() != nil {
				return err
			}
		}
		group.Go(func() error { return a.catchUp(ends, again) })
		return a.work(ends)
	})
	err = group.Wait()
	if !errors.Is(err, lead.ErrLost) {
		a.elector.Release(context.WithoutCancel(ctx))
	}
	return err
}

// doubt drops what the disk has of services, since another agent has led since this one did: what was wanted long ago,
// and how services were then. Of what is in the cluster nothing is wanted until the hub tells of it, however long that
// takes: a hub whose console is away answers, and leaves out what it is not sure of.
func (a *Agent) doubt(ctx context.Context) error {
	if err := errors.Join(a.reporter.Drop(), a.details.Drop()); err != nil {
		return err
	}
	backoff := retry.Backoff{Floor: belongFloor, Max: belongMax}
	for {
		err := a.inventory.Load(ctx)
		if err == nil {
			return a.desired.Doubt(a.inventory.Services(), a.elector.Heard())
		}
		wait := backoff.Next()
		if ctx.Err() == nil {
			a.log.Error("the cluster can't be read; nothing is applied until it can", "err", err, "retry_in", wait)
		}
		if !retry.Sleep(ctx, wait) {
			return nil
		}
	}
}

// catchUp holds the work back until the hub has answered, if another agent has led since this one did: what belongs
// together is known together then.
func (a *Agent) catchUp(ctx context.Context, again bool) error {
	const look = 50 * time.Millisecond
	for !again && !a.poller.Synced() {
		if !retry.Sleep(ctx, look) {
			return nil
		}
	}
	if err := a.elector.Know(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop
		}
		return err
	}
	close(a.begin)
	return nil
}
