package agent

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/tunnelclient"
	"fairlead.dev/services/agent/internal/config"
	"fairlead.dev/services/agent/internal/reconcile"
	"fairlead.dev/services/agent/internal/render"
	"fairlead.dev/services/agent/internal/views"
)

const (
	// askEvery is between two questions of an agent that stands by for its configuration, and firstAsk before the first
	// one.
	askEvery, firstAsk = 2 * time.Minute, time.Second
	// everything is below each level of a log.
	everything = slog.Level(math.MinInt16)
	// configured is whose policy the tunnel refuses by.
	configured = "an AgentConfig of the hub"
)

// openConfig puts in force what the hub configured before the agent started. All parts that can be configured are there
// by then.
func (a *Agent) openConfig() (err error) {
	a.config, err = config.Open(config.Deps{
		Dir: a.cfg.DataDir, Apply: a.configure, Well: a.Ready, Sync: func() { a.poller.Soon() }, Ceilings: a.ceilings, Log: a.log,
	})
	return err
}

// configure puts settings in force, each below what the agent's flags say.
func (a *Agent) configure(s agentconfig.Settings) {
	level := everything
	if s.LogLevel != nil {
		level = *s.LogLevel
	}
	a.level.Set(level)
	a.width.Narrow(s.APIRequests)
	a.controller.Renderer.Narrow(render.Limits{CPU: s.RendererCPU, Time: s.RendererTime, Memory: s.RendererBytes()})
	a.controller.Narrow(reconcile.Narrower{
		Concurrency: s.Concurrency, RequireAccount: s.RequireAccount, Accounts: s.Accounts, Registries: s.Registries,
	})
	var policies []tunnelclient.Policy
	also := func(p tunnelclient.Policy) {
		p.By, p.AllowSystem = configured, true // whom the flags let in
		policies = append(policies, p)
	}
	if s.ReadOnly || s.NoImpersonation {
		also(tunnelclient.Policy{ReadOnly: s.ReadOnly, NoImpersonation: s.NoImpersonation})
	}
	for _, users := range s.ImpersonateUsers {
		also(tunnelclient.Policy{ImpersonatedUsers: users})
	}
	for _, groups := range s.ImpersonateGroups {
		also(tunnelclient.Policy{ImpersonatedGroups: groups})
	}
	a.policies.Store(&policies)
}

// tunnelPolicies are those of the configuration.
func (a *Agent) tunnelPolicies() []tunnelclient.Policy {
	if policies := a.policies.Load(); policies != nil {
		return *policies
	}
	return nil
}

// ceilings are the keys of settings that the flags are narrower than.
func (a *Agent) ceilings(s agentconfig.Settings) (keys []string) {
	within := func(lists [][]string, flags []string) bool {
		return len(flags) == 0 || !slices.ContainsFunc(slices.Concat(lists...), func(name string) bool { return !slices.Contains(flags, name) })
	}
	tunnel := a.cfg.Tunnel
	for key, narrower := range map[string]bool{
		agentconfig.LogLevel:                s.LogLevel != nil && !a.log.Enabled(context.Background(), *s.LogLevel),
		agentconfig.ImpersonationAccounts:   !within(s.Accounts, a.cfg.Accounts),
		agentconfig.TunnelImpersonateUsers:  len(s.ImpersonateUsers) > 0 && tunnel.NoImpersonation || !within(s.ImpersonateUsers, tunnel.ImpersonatedUsers),
		agentconfig.TunnelImpersonateGroups: len(s.ImpersonateGroups) > 0 && tunnel.NoImpersonation || !within(s.ImpersonateGroups, tunnel.ImpersonatedGroups),
	} {
		if narrower {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (a *Agent) noViews() bool {
	settings, _ := a.config.InForce()
	return settings.NoViews
}

// streams tells whether hear keeps a stream.
func (a *Agent) streams() bool {
	settings, _ := a.config.InForce()
	return !settings.NoStreams
}

// openViewSets has the view keep what the hub sent before the agent started; nil: the agent keeps none.
func (a *Agent) openViewSets() (deliveryclient.ViewSets, error) {
	if a.cfg.NoViewSets {
		return nil, nil //nolint:nilnil // nil is none
	}
	return views.OpenKept(a.cfg.DataDir, a.view, a.log)
}

// viewState is the view that the hub has acknowledged; nil: none, or views are off.
func (a *Agent) viewState() *deliveryv1.ViewState {
	if a.noViews() {
		return nil
	}
	return a.pusher.State()
}

// off is the mode in which something does not run.
const off = "off"

func unless(isOff func(agentconfig.Settings) bool) func(agentconfig.Settings) string {
	return func(s agentconfig.Settings) string {
		if isOff(s) {
			return off
		}
		return ""
	}
}

// tunnelOf names how people are let in: whoever is in while that changes comes in anew.
func tunnelOf(s agentconfig.Settings) string {
	if s.NoTunnel {
		return off
	}
	return fmt.Sprint(s.ReadOnly, s.NoImpersonation, s.ImpersonateUsers, s.ImpersonateGroups)
}

// during runs something until ctx ends, but not while its mode is off; when the mode becomes another one, it is ended
// and run anew.
func (a *Agent) during(ctx context.Context, of func(agentconfig.Settings) string, run func(context.Context) error) error {
	for {
		settings, changed := a.config.InForce()
		mode := of(settings)
		runs, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			if mode == off {
				<-runs.Done()
				ended <- nil
				return
			}
			ended <- run(runs)
		}()
		for of(settings) == mode {
			select {
			case err := <-ended:
				stop()
				return err
			case <-changed:
				settings, changed = a.config.InForce()
			}
		}
		stop()
		if err := <-ended; err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// standBy keeps the configuration of an agent that does not work, since people come through it, too.
func (a *Agent) standBy(ctx context.Context) {
	for wait := firstAsk; ; wait = askEvery {
		settings, _ := a.config.InForce()
		if wait = max(wait, settings.PollInterval); wait > firstAsk && a.config.State().GetTrial() {
			wait = askOnTrial
		}
		if !retry.Sleep(ctx, retry.Spread(wait)) {
			return
		}
		if err := a.poller.AskConfig(ctx); err != nil && ctx.Err() == nil {
			a.log.Debug("the hub did not say how the agent is to be configured", "err", err)
		}
	}
}

// askOnTrial is askEvery while a configuration is on trial: without an answer it would be taken back.
const askOnTrial = 30 * time.Second

// quieter is a log whose level can be raised above its own.
func quieter(log *slog.Logger) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(everything)
	return slog.New(leveled{log.Handler(), level}), level
}

type leveled struct {
	slog.Handler
	level *slog.LevelVar
}

func (h leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level.Level() && h.Handler.Enabled(ctx, level)
}

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}

func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}
