package config_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/services/agent/internal/config"
)

// world is an agent's folder, and what the agent would do.
type world struct {
	t       *testing.T
	dir     string
	keeper  *config.Store
	trouble error
	applied []int // the concurrency of each configuration that was put in force
	stop    func()
}

// start is a start of the agent. As it is in a bubble, so is its clock.
func (w *world) start() {
	w.t.Helper()
	var err error
	w.keeper, err = config.Open(config.Deps{
		Dir: w.dir, Log: slog.New(slog.DiscardHandler),
		Apply:    func(s agentconfig.Settings) { w.applied = append(w.applied, s.Concurrency) },
		Well:     func() error { return w.trouble },
		Sync:     func() { w.keeper.Synced() },
		Ceilings: func(agentconfig.Settings) []string { return []string{agentconfig.LogLevel} },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	keeper := w.keeper
	go func() { ended <- keeper.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

func delivery(concurrency int32) *deliveryv1.AgentConfigDelivery {
	layers := []*deliveryv1.AgentLayer{{Name: "edge", Settings: &deliveryv1.AgentSettings{Concurrency: concurrency}}}
	return &deliveryv1.AgentConfigDelivery{Digest: agentconfig.Digest(layers), Layers: layers}
}

func (w *world) take(d *deliveryv1.AgentConfigDelivery) {
	w.t.Helper()
	if err := w.keeper.Take(d); err != nil {
		w.t.Fatal(err)
	}
}

// is compares what is in force, and what the hub is told.
func (w *world) is(concurrency int, inForce string, trial bool, refusal string) {
	w.t.Helper()
	synctest.Wait()
	settings, _ := w.keeper.InForce()
	state := w.keeper.State()
	if settings.Concurrency != concurrency || state.GetInForce() != inForce || state.GetTrial() != trial ||
		!strings.Contains(state.GetRefusal(), refusal) || (refusal == "") != (state.GetRefusal() == "") {
		w.t.Errorf("concurrency %d with %v; want %d in force as %.15q, trial %v, refusal %q", settings.Concurrency,
			state, concurrency, inForce, trial, refusal)
	}
	if len(w.applied) > 0 && w.applied[len(w.applied)-1] != concurrency {
		w.t.Errorf("applied %v, want %d last", w.applied, concurrency)
	}
}

// elapse lets time pass in a bubble.
func elapse(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // fake time

func bubble(t *testing.T, run func(w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dir: dir}
		w.start()
		run(w)
		w.stop()
	})
}

func TestAConfigurationIsGoodAfterItsTrial(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		if s := w.keeper.State(); s != nil {
			t.Errorf("an agent that was never configured says %v", s)
		}
		two := delivery(2)
		w.take(two)
		w.is(2, two.GetDigest(), true, "")
		if got := w.keeper.State(); got.GetWanted() != two.GetDigest() || got.GetLayers() != nil ||
			!slices.Equal(got.GetCeilings(), []string{agentconfig.LogLevel}) {
			t.Errorf("the hub is told %v", got)
		}
		elapse(3 * time.Minute)
		w.is(2, two.GetDigest(), false, "")
		w.stop()
		w.start()
		w.is(2, two.GetDigest(), false, "") // before the hub has said anything
		w.take(&deliveryv1.AgentConfigDelivery{})
		w.is(0, "", true, "")
		elapse(3 * time.Minute)
		w.is(0, "", false, "")
	})
}

func TestAnAgentThatIsNotWellGoesBack(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		two, three := delivery(2), delivery(3)
		w.take(two)
		elapse(3 * time.Minute)
		w.trouble = errors.New("the cluster could not be read yet")
		w.take(three)
		w.is(3, three.GetDigest(), true, "")
		elapse(9 * time.Minute)
		w.is(3, three.GetDigest(), true, "")
		elapse(2 * time.Minute)
		w.is(2, two.GetDigest(), false, "could not be read")
		if got := w.keeper.State(); got.GetWanted() != three.GetDigest() || len(got.GetLayers()) != 1 ||
			got.GetRefuseTime() == nil {
			t.Errorf("the hub is told %v", got)
		}
		w.trouble = nil
		w.take(three) // of another distributor: it is not tried again
		w.is(2, two.GetDigest(), false, "could not be read")
		w.stop()
		w.start()
		w.is(2, two.GetDigest(), false, "could not be read")
		w.take(two)
		w.is(2, two.GetDigest(), false, "")
		w.take(three) // wanted anew
		w.is(3, three.GetDigest(), true, "")
	})
}

// TestAnAgentThatEndsAgainAndAgainGoesBack is what kill -9 leaves: the disk alone.
func TestAnAgentThatEndsAgainAndAgainGoesBack(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		two, three := delivery(2), delivery(3)
		w.take(two)
		elapse(3 * time.Minute)
		w.take(three)
		w.stop()
		w.start()
		w.is(3, three.GetDigest(), true, "")
		w.stop()
		w.start()
		w.is(2, two.GetDigest(), false, "started 2 times")
		elapse(3 * time.Minute)
		w.stop()
		w.start()
		w.is(2, two.GetDigest(), false, "started 2 times")
	})
}

func TestTheFirstConfigurationGoesBackToFlags(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.trouble = errors.New("not ready")
		w.take(delivery(1))
		elapse(11 * time.Minute)
		w.is(0, "", false, "not ready")
	})
}

// TestAHubThatIsAwayBlamesNoConfiguration: the agent does not reach the hub with the one before, either.
func TestAHubThatIsAwayBlamesNoConfiguration(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		back    time.Duration
		blamed  string
		another bool
	}{
		"the hub was away":             {5 * time.Minute, "", true},
		"the configuration cut it off": {10 * time.Second, "did not reach the hub", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, dir: dir}
				reached := false
				var err error
				w.keeper, err = config.Open(config.Deps{
					Dir: dir, Log: slog.New(slog.DiscardHandler), Apply: func(agentconfig.Settings) {},
					Well:     func() error { return nil },
					Sync:     func() {},
					Ceilings: func(agentconfig.Settings) []string { return nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() { _ = w.keeper.Run(ctx) }()
				w.take(delivery(2))
				elapse(10*time.Minute + time.Second)
				w.is(0, "", false, "did not reach the hub")
				elapse(tc.back)
				w.keeper.Synced()
				if got := w.keeper.State().GetWanted() != delivery(2).GetDigest(); got != tc.another {
					t.Errorf("the hub sends it again: %v, want %v (reached %v)", got, tc.another, reached)
				}
				w.is(0, "", false, tc.blamed)
				w.keeper.Synced()
				w.is(0, "", false, tc.blamed)
			})
		})
	}
}

func TestWhatTheAgentDoesNotKnowIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		two := delivery(2)
		w.take(two)
		elapse(3 * time.Minute)
		newer := delivery(3)
		newer.Layers[0].Settings.ProtoReflect().SetUnknown([]byte{0x98, 0x3f, 0x01}) // field 1011
		newer.Digest = agentconfig.Digest(newer.GetLayers())
		w.take(newer)
		w.is(2, two.GetDigest(), false, "upgrade the agent")
		for _, settings := range []*deliveryv1.AgentSettings{{Off: []string{"views", "later"}}, {LogLevel: "later"}} {
			newer.Layers[0].Settings = settings
			newer.Digest = agentconfig.Digest(newer.GetLayers())
			w.take(newer)
			w.is(2, two.GetDigest(), false, "upgrade the agent")
		}
		forged := delivery(3)
		forged.Digest = two.GetDigest()[:20]
		w.take(forged)
		w.is(2, two.GetDigest(), false, "digest")
	})
}

func TestAnAgentThatMayKnowMoreAsksAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		two, newer := delivery(2), delivery(3)
		w.take(two)
		elapse(3 * time.Minute)
		newer.Layers[0].Settings.Off = []string{"later"}
		newer.Digest = agentconfig.Digest(newer.GetLayers())
		w.take(newer)
		w.is(2, two.GetDigest(), false, "upgrade the agent")
		w.stop()
		w.start() // after its upgrade
		w.is(2, two.GetDigest(), false, "")
		if got := w.keeper.State().GetWanted(); got == newer.GetDigest() {
			t.Error("the hub is told that the agent was sent it, and sends it no more")
		}
	})
}

// TestAnAgentThatWasPutBackHoldsWhatItKnows has a later version of the agent write what is on the disk.
func TestAnAgentThatWasPutBackHoldsWhatItKnows(t *testing.T) {
	t.Parallel()
	two, three := delivery(2), delivery(3)
	for _, later := range []string{`"later":{"x":1}`, `"off":["later"]`, `"logLevel":"later"`} {
		bubble(t, func(w *world) {
			w.take(two)
			elapse(3 * time.Minute)
			w.stop()
			w.edit(`"concurrency":2`, `"concurrency":2,`+later)
			w.edit(two.GetDigest(), "sha256:later")
			w.start()
			w.is(2, two.GetDigest(), false, "upgraded")
			got := w.keeper.State()
			if got.GetWanted() != "sha256:later" || got.GetRefuseTime() == nil ||
				!proto.Equal(got.GetLayers()[0], two.GetLayers()[0]) {
				t.Errorf("%s: the hub is told %v", later, got)
			}
			w.take(three)
			w.is(3, three.GetDigest(), true, "")
		})
	}
	bubble(t, func(w *world) {
		w.take(two)
		elapse(3 * time.Minute)
		w.take(three)
		w.stop()
		w.edit(`"concurrency":3`, `"concurrency":3,"later":{"x":1}`)
		w.start()
		w.is(2, two.GetDigest(), false, "upgraded")
		if got := w.keeper.State(); got.GetWanted() != three.GetDigest() {
			t.Errorf("the hub is told %v", got)
		}
	})
}

// edit changes what is on the disk.
func (w *world) edit(from, to string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	edited := strings.ReplaceAll(string(text), from, to)
	if edited == string(text) {
		w.t.Fatalf("%s has no %s", text, from)
	}
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestADamagedRecordIsAskedForAnew(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.take(delivery(2))
		w.stop()
		if err := os.WriteFile(filepath.Join(w.dir, "config.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.start()
		if s := w.keeper.State(); s != nil {
			t.Errorf("the hub is told %v, so that it sends nothing", s)
		}
	})
}

func TestChangesOfWhatIsInForceAreTold(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		_, changed := w.keeper.InForce()
		w.take(nil)
		w.take(&deliveryv1.AgentConfigDelivery{})
		select {
		case <-changed:
			t.Error("nothing was sent, and something is in force")
		default:
		}
		w.take(delivery(2))
		select {
		case <-changed:
		default:
			t.Error("nobody was told")
		}
	})
}

// TestADiskThatCannotBeWrittenStartsTheAgentWithoutItsTrial: no file fits into a folder whose path is so long, but for
// one with a short name.
func TestADiskThatCannotBeWrittenStartsTheAgentWithoutItsTrial(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		two := delivery(2)
		w.take(two)
		elapse(3 * time.Minute)
		w.take(delivery(3))
		w.stop()
		text, err := os.ReadFile(filepath.Join(w.dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		const longest = 4095 - len("/config.json")
		for len(w.dir) < longest-1 {
			w.dir += "/" + strings.Repeat("d", max(1, min(200, longest-len(w.dir)-1)))
		}
		if err := errors.Join(os.MkdirAll(w.dir, 0o700),
			os.WriteFile(filepath.Join(w.dir, "config.json"), text, 0o600)); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.is(2, two.GetDigest(), false, "can't write")
		if why := w.keeper.State().GetRefusal(); len(why) > 1024 {
			t.Errorf("the hub is told %d bytes, which it does not take", len(why))
		}
	})
}
