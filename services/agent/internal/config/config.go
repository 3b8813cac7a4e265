// Package config keeps, on disk, what the hub configures the agent with, and which of it is known to work.
//
// What the hub sends is in force at once, on trial. It is good once the agent has synced with it and was well for a
// while. If that does not come about, or the agent ends again and again before, the last good one returns, and the hub
// is told why. A configuration that was taken back is not tried again until the hub sends another one. The flags of the
// agent hold besides: package config only ever narrows them.
package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/retry"
)

const (
	// soak is how long an agent has to be well with a configuration, and syncs how often it has to reach the hub, until
	// it is good.
	soak  = 2 * time.Minute
	syncs = 2
	// bound is when a configuration that is not good yet is taken back, and starts the start at which it is.
	bound  = 10 * time.Minute
	starts = 3
	// look is between two looks at a trial. Each has the agent sync, whatever the interval of its polls is.
	look = 30 * time.Second
	// away: if the agent reaches the hub only so long after a configuration was taken back because it did not, the hub
	// was away.
	away = 2 * time.Minute
	// maxTold bounds the layers that the hub is told of, in bytes.
	maxTold = 16 << 10
	// maxWhy bounds why a configuration is refused: the hub takes no more.
	maxWhy = 1024
)

// Deps is what a Store works with.
type Deps struct {
	Dir string
	// Apply puts settings in force. Apply returns when they are, or soon will be.
	Apply func(agentconfig.Settings)
	// Well is nil while the agent works.
	Well func() error
	// Sync has the agent ask the hub now.
	Sync func()
	// Ceilings are the keys of settings that the agent's flags are narrower than.
	Ceilings func(agentconfig.Settings) []string
	Log      *slog.Logger
}

// Store keeps the configuration. A Store is safe for concurrent use.
type Store struct {
	Deps
	path string
	wake chan struct{} // capacity 1: a trial began

	mu    sync.Mutex // guards what follows
	state state
	// began is when this process put the candidate in force, and synced how often it has reached the hub since.
	began  time.Time
	synced int
	// inForce are the settings in force, and changed is closed when they are others.
	inForce agentconfig.Settings
	changed chan struct{}
}

// state is what the disk has.
type state struct {
	// Wanted is the digest of what the hub sent last.
	Wanted string `json:"wanted,omitempty"`
	// Good is the last that is known to work; nil: none, only flags.
	Good *version `json:"good,omitempty"`
	// Candidate is in force on trial, for the nth start; nil: there is none.
	Candidate *version `json:"candidate,omitempty"`
	Starts    int      `json:"starts,omitempty"`
	// Refusal is why Wanted is not in force; nil: it is.
	Refusal *refusal `json:"refusal,omitempty"`
}

type version struct {
	Digest string `json:"digest"`
	// Delivery is an AgentConfigDelivery as protojson.
	Delivery json.RawMessage `json:"delivery"`
}

type refusal struct {
	Digest string    `json:"digest"`
	Why    string    `json:"why"`
	Time   time.Time `json:"time"`
	// Unreached: the agent did not reach the hub with it. Unknown: it has settings that the agent does not know.
	Unreached bool `json:"unreached,omitempty"`
	Unknown   bool `json:"unknown,omitempty"`
}

// Open reads what the disk has and puts it in force. A candidate that the agent was started with too often is taken
// back first.
func Open(deps Deps) (*Store, error) {
	k := &Store{Deps: deps, path: filepath.Join(deps.Dir, "config.json"), wake: make(chan struct{}, 1), changed: make(chan struct{})}
	data, err := os.ReadFile(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read configuration: %w", err)
	default:
		if err := json.Unmarshal(data, &k.state); err != nil {
			deps.Log.Warn("the record of the configuration is damaged; only flags hold until the hub sends it again", "err", err)
			k.state = state{}
		}
	}
	if k.state = k.state.known(); k.state.Refusal != nil && k.state.Refusal.Unknown {
		deps.Log.Error("the agent does not know all of what it is configured with, as an earlier version may", "why", k.state.Refusal.Why)
	}
	if k.state.Candidate != nil {
		next := k.state
		if next.Starts++; next.Starts >= starts {
			next = next.refused(fmt.Sprintf("the agent was started %d times with it and ended each time before it was known to work", starts-1), false)
		}
		if err := k.keep(next); err != nil {
			// Starts that are not counted might go on for ever. The agent works on without the candidate.
			deps.Log.Error("the configuration on trial is left, for its trial can't be written to the disk", "folder", deps.Dir, "err", err)
			if next.Candidate != nil {
				next = k.state.refused(fmt.Sprintf("the agent can't write its trial to the disk: %v", err), false)
			}
			k.state = next
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.enforce()
	return k, nil
}

// known is the state without what this version of the agent does not know: a later one may have written it. Of the last
// good configuration the rest holds, for all of it narrows. What an earlier version did not know is asked for again.
func (s state) known() state {
	if s.Refusal != nil && s.Refusal.Unknown {
		s.Refusal, s.Wanted = nil, s.force().digest()
	}
	const putBack = "the agent was put back to a version that does not know all settings: %s in force until the agent is upgraded"
	if _, all := s.Candidate.read(); !all {
		s = s.refused(fmt.Sprintf(putBack, "the last good configuration is"), false)
		s.Refusal.Unknown = true
	}
	layers, all := s.Good.read()
	if all {
		return s
	}
	if s.Wanted == s.Good.Digest {
		s.Refusal = &refusal{Digest: s.Wanted, Why: fmt.Sprintf(putBack, "those that it knows are"), Time: time.Now(), Unknown: true}
	}
	s.Good = nil
	if good, err := versionOf(&deliveryv1.AgentConfigDelivery{Digest: agentconfig.Digest(layers), Layers: layers}); err == nil && len(layers) > 0 {
		s.Good = good
	}
	return s
}

// refused is the state without its candidate.
func (s state) refused(why string, unreached bool) state {
	s.Refusal = &refusal{Digest: s.Candidate.Digest, Why: why, Time: time.Now(), Unreached: unreached}
	s.Candidate, s.Starts = nil, 0
	return s
}

// keep writes a state to the disk, and then takes it over.
func (k *Store) keep(next state) error {
	text, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	if err := durable.WriteFile(k.path, text, 0o600); err != nil {
		return fmt.Errorf("keep configuration: %w", err)
	}
	k.state = next
	return nil
}

// force is the version in force; nil: only flags are.
func (s state) force() *version {
	if s.Candidate != nil {
		return s.Candidate
	}
	return s.Good
}

// enforce puts the version of the state in force. mu is held.
func (k *Store) enforce() {
	k.began, k.synced = time.Now(), 0
	k.inForce = agentconfig.Merge(k.state.force().layers())
	k.Apply(k.inForce)
	close(k.changed)
	k.changed = make(chan struct{})
	if k.state.Candidate != nil {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

func versionOf(d *deliveryv1.AgentConfigDelivery) (*version, error) {
	text, err := protojson.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return &version{Digest: d.GetDigest(), Delivery: text}, nil
}

// read returns the layers as far as this version of the agent knows their settings, and whether it knows all.
func (v *version) read() (layers []*deliveryv1.AgentLayer, all bool) {
	if v == nil {
		return nil, true
	}
	var d deliveryv1.AgentConfigDelivery
	if all = protojson.Unmarshal(v.Delivery, &d) == nil; !all {
		proto.Reset(&d)
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(v.Delivery, &d); err != nil {
			return nil, false
		}
	}
	for _, layer := range d.GetLayers() {
		all = !agentconfig.Strip(layer.GetSettings()) && all
	}
	return d.GetLayers(), all
}

func (v *version) layers() []*deliveryv1.AgentLayer {
	layers, _ := v.read()
	return layers
}

func (v *version) digest() string {
	if v == nil {
		return ""
	}
	return v.Digest
}

// InForce are the settings in force, until the channel is closed.
func (k *Store) InForce() (agentconfig.Settings, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inForce, k.changed
}

// Take takes over what the hub sent; nil: nothing new. When it returns without an error that is on the disk and in
// force.
func (k *Store) Take(sent *deliveryv1.AgentConfigDelivery) error {
	if sent == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.state
	next.Wanted, next.Refusal = sent.GetDigest(), nil
	before := next.force().digest()
	switch why := check(sent); {
	case k.state.Refusal != nil && k.state.Refusal.Digest == sent.GetDigest():
		next.Refusal = k.state.Refusal
		return k.keep(next)
	case why != "":
		next.Refusal = &refusal{Digest: sent.GetDigest(), Why: why, Time: time.Now(), Unknown: true}
		k.Log.Error("the agent can't be configured as the hub wants", "why", why, "stays", before)
		return k.keep(next)
	case sent.GetDigest() == next.Good.digest():
		next.Candidate, next.Starts = nil, 0
	case next.Candidate == nil || sent.GetDigest() != next.Candidate.Digest:
		candidate, err := versionOf(sent)
		if err != nil {
			return err
		}
		next.Candidate, next.Starts = candidate, 1
	}
	if err := k.keep(next); err != nil {
		return err
	}
	if next.force().digest() != before {
		k.Log.Info("the agent is configured anew", "digest", sent.GetDigest(), "trial", next.Candidate != nil)
		k.enforce()
	}
	return nil
}

// check says why a configuration can't be taken; "": it can. What this agent does not know it can't hold, and a part of
// a configuration may allow more than all of it.
func check(sent *deliveryv1.AgentConfigDelivery) string {
	if agentconfig.Digest(sent.GetLayers()) != sent.GetDigest() {
		return "its digest is not that of its layers"
	}
	for _, layer := range sent.GetLayers() {
		if unknown(layer.ProtoReflect()) || !agentconfig.Knows(layer.GetSettings()) {
			return fmt.Sprintf("agentconfig %q has settings that this agent does not know: upgrade the agent", layer.GetName())
		}
	}
	return ""
}

func unknown(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Message() != nil && !fd.IsList() && !fd.IsMap() {
			found = found || unknown(v.Message())
		}
		return !found
	})
	return found
}

// State is what the hub is told; nil: the hub has never sent a configuration.
func (k *Store) State() *deliveryv1.AgentConfigState {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.state
	if s.Wanted == "" && s.force() == nil {
		return nil
	}
	out := &deliveryv1.AgentConfigState{Wanted: s.Wanted, InForce: s.force().digest(), Trial: s.Candidate != nil, Ceilings: k.Ceilings(k.inForce)}
	if s.Refusal != nil {
		out.Refusal, out.RefuseTime = cut(s.Refusal.Why), timestamppb.New(s.Refusal.Time)
	}
	if layers := s.force().layers(); s.Wanted != out.GetInForce() && proto.Size(&deliveryv1.AgentConfigState{Layers: layers}) <= maxTold {
		out.Layers = layers
	}
	return out
}

// cut bounds a text for the hub.
func cut(why string) string {
	return strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
}

// Synced notes that the agent has reached the hub.
func (k *Store) Synced() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.synced++
	if r := k.state.Refusal; r != nil && r.Unreached {
		next := k.state
		calm := *r
		calm.Unreached = false
		next.Refusal = &calm
		if k.synced == 1 && time.Since(k.began) > away {
			next.Refusal, next.Wanted = nil, next.force().digest() // the hub sends it again
		}
		if err := k.keep(next); err != nil {
			k.Log.Warn("the configuration's state is not kept", "err", err)
		}
	}
}

// Run judges trials until ctx ends.
func (k *Store) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
		}
		k.Sync() // the hub learns that it is in force
		for wait := k.judge(); wait > 0; wait = k.judge() {
			if !retry.Sleep(ctx, wait) {
				return nil
			}
			k.Sync()
		}
	}
}

// judge decides about the candidate, or says when to look again; 0: there is none any more.
func (k *Store) judge() time.Duration {
	trouble := k.Well()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state.Candidate == nil {
		return 0
	}
	passed := time.Since(k.began)
	if k.synced >= syncs && passed >= soak && trouble == nil {
		next := k.state
		next.Good, next.Candidate, next.Starts = next.Candidate, nil, 0
		if next.Good.Digest == "" {
			next.Good = nil
		}
		if err := k.keep(next); err != nil {
			k.Log.Error("the configuration works, and can't be kept as the good one", "err", err)
			return look
		}
		k.Log.Info("the agent works with its configuration", "digest", next.Good.digest())
		return 0
	}
	if passed < bound {
		return min(look, bound-passed)
	}
	why, unreached := "", k.synced == 0
	switch {
	case unreached:
		why = fmt.Sprintf("the agent did not reach the hub for %s with it", bound)
	case trouble != nil:
		why = fmt.Sprintf("the agent was not well after %s with it: %v", bound, trouble)
	default:
		why = fmt.Sprintf("the agent reached the hub only once within %s with it", bound)
	}
	k.takeBack(why, unreached)
	return 0
}

// takeBack puts the last good configuration in force. mu is held.
func (k *Store) takeBack(why string, unreached bool) {
	next := k.state.refused(why, unreached)
	k.Log.Error("the agent goes back to its last good configuration", "why", why, "refused", next.Refusal.Digest, "good", next.Good.digest())
	if err := k.keep(next); err != nil {
		k.Log.Error("that the configuration was taken back is not kept", "err", err)
		k.state = next
	}
	k.enforce()
}
