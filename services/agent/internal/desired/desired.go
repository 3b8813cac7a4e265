// Package desired keeps, on disk, what the hub wants in this cluster: the services to apply, and those
// that are to leave. The store is the agent's memory with the hub away.
package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/durable"
)

// Service is all it takes to bring one service into the cluster.
type Service struct {
	Name string `json:"name"`
	// Digest changes when there is something to do.
	Digest string `json:"digest"`
	// ContentDigest stays the same when only tests, or what was asked of them, change; "": it is the digest.
	ContentDigest string `json:"contentDigest,omitempty"`
	// Namespace for objects that name none.
	Namespace string          `json:"namespace"`
	Source    string          `json:"source"`
	Path      string          `json:"path"`
	Commit    string          `json:"commit"`
	Artifact  artifact.Digest `json:"artifact"`
	Size      int64           `json:"size"`
	// Ticket is for the artifact, where others than distributors are asked for it.
	Ticket string `json:"ticket,omitempty"`
	// Traceparent is the trace of the commit.
	Traceparent string `json:"traceparent,omitempty"`

	// Render and Sync are as the hub sent them; nil: all defaults. ClusterLabels are for renderers that can see them.
	Render        *deliveryv1.RenderSpec `json:"-"`
	Sync          *deliveryv1.SyncSpec   `json:"-"`
	ClusterLabels map[string]string      `json:"clusterLabels,omitempty"`
	// Configuration is for renderers, too; nil: there is none.
	Configuration *deliveryv1.Configuration `json:"-"`
	// Former are secrets that the configuration had before, as the Store knows them: texts about the cluster may still
	// quote them.
	Former []string `json:"former,omitempty"`
	// Rules bound its objects; nil: nothing does.
	Rules *deliveryv1.ObjectRules `json:"-"`
	// Tests say when its tests run, and how; TestRequest is the last asking for a run. Tests and TestRequest may be
	// nil.
	Tests       *deliveryv1.TestSpec    `json:"-"`
	TestRequest *deliveryv1.TestRequest `json:"-"`
	// Windows say when new content may be applied. Manual: only when a person asks for a sync.
	Windows []*deliveryv1.WindowSet `json:"-"`
	Manual  bool                    `json:"manual,omitempty"`
	// AskedFor is the Content that came with the last request for a sync: what comes later waits for another one.
	AskedFor string `json:"askedFor,omitempty"`
	// AskedBefore: the service was new to this disk when it came with that request, which may be older than AskedFor by
	// any time.
	AskedBefore bool `json:"askedBefore,omitempty"`
	// Stale: an agent that knows fewer fields of a delivery wrote it down, so the hub is asked for it again.
	Stale bool `json:"-"`
	// Hidden are further texts that nobody is to read: see Store.Hide.
	Hidden []string `json:"-"`
}

// RevisionDigest names the revision: hooks run once for each, however its tests change.
func (s Service) RevisionDigest() string { return cmp.Or(s.ContentDigest, s.Digest) }

// Content names all that the service's objects are made from; equal for services that are rendered alike. How they
// are synced is not in it, but for the namespace that comes with them.
func (s Service) Content() string {
	render, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.Render)
	if err != nil {
		render = []byte(s.Digest) // never seen from a hub: only this digest is like itself then
	}
	parts := []string{s.Namespace, s.Path, string(s.Artifact), string(render)}
	for _, key := range slices.Sorted(maps.Keys(s.ClusterLabels)) {
		parts = append(parts, key, s.ClusterLabels[key])
	}
	if revision := s.Configuration.GetRevision(); revision != "" {
		parts = append(parts, "configuration", revision)
	}
	if r := s.Rules; r != nil {
		parts = append(parts, "rules", r.GetProject())
		for _, list := range [][]string{r.GetNamespaces(), r.GetKinds(), r.GetDeniedKinds()} {
			parts = append(append(parts, "list"), list...)
		}
	}
	if n := s.Sync.GetCreateNamespace(); n != nil {
		parts = append(parts, "namespace", strconv.FormatBool(n.GetOwn()))
		for _, key := range slices.Sorted(maps.Keys(n.GetLabels())) {
			parts = append(parts, key, n.GetLabels()[key])
		}
	}
	if tests := s.Tests.GetPath(); tests != "" { // a sync leaves that folder out
		parts = append(parts, "tests", tests)
	}
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// WindowsSum names the windows; empty: there are none.
func (s Service) WindowsSum() string {
	if len(s.Windows) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, set := range s.Windows {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
		if err != nil {
			text = []byte(s.Digest) // never seen from a hub
		}
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Values names what random values are kept for: the folder, how it is rendered, and the values that it is rendered
// with. Rules and the cluster's labels, which Content has, too, give no release new passwords.
func (s Service) Values() string {
	return Service{
		Namespace: s.Namespace, Path: s.Path, Artifact: s.Artifact, Render: s.Render, Digest: s.Digest,
		Configuration: &deliveryv1.Configuration{Revision: s.Configuration.GetRevision()},
	}.Content()
}

// kept is a Service as it is on disk.
type kept struct {
	*plain

	Render        json.RawMessage `json:"render,omitempty"`
	Sync          json.RawMessage `json:"sync,omitempty"`
	Configuration json.RawMessage `json:"configuration,omitempty"`
	Rules         json.RawMessage `json:"rules,omitempty"`
	Tests         json.RawMessage `json:"tests,omitempty"`
	TestRequest   json.RawMessage `json:"testRequest,omitempty"`

	Windows []json.RawMessage `json:"windows,omitempty"`
}

type plain Service

// MarshalJSON writes the options as protojson.
func (s Service) MarshalJSON() ([]byte, error) {
	out := kept{plain: (*plain)(&s)}
	for to, m := range map[*json.RawMessage]proto.Message{
		&out.Render: s.Render, &out.Sync: s.Sync, &out.Configuration: s.Configuration, &out.Rules: s.Rules,
		&out.Tests: s.Tests, &out.TestRequest: s.TestRequest,
	} {
		if !m.ProtoReflect().IsValid() {
			continue
		}
		text, err := protojson.Marshal(m)
		if err != nil {
			return nil, err
		}
		*to = text
	}
	for _, set := range s.Windows {
		text, err := protojson.Marshal(set)
		if err != nil {
			return nil, err
		}
		out.Windows = append(out.Windows, text)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote. Fields of another release are dropped: the hub tells them again, for
// the digest is another then.
func (s *Service) UnmarshalJSON(data []byte) error {
	if string(data) == "true" { // how one that is to leave was once written
		return nil
	}
	in := kept{plain: (*plain)(s)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	read := protojson.UnmarshalOptions{DiscardUnknown: true}
	if in.Render != nil {
		s.Render = &deliveryv1.RenderSpec{}
		if err := read.Unmarshal(in.Render, s.Render); err != nil {
			return err
		}
	}
	if in.Configuration != nil {
		s.Configuration = &deliveryv1.Configuration{}
		if err := read.Unmarshal(in.Configuration, s.Configuration); err != nil {
			return errors.New("the configuration is damaged") // the decoder may quote it
		}
	}
	if in.Rules != nil {
		s.Rules = &deliveryv1.ObjectRules{}
		if err := read.Unmarshal(in.Rules, s.Rules); err != nil {
			return err
		}
	}
	if in.Tests != nil {
		s.Tests = &deliveryv1.TestSpec{}
		if err := read.Unmarshal(in.Tests, s.Tests); err != nil {
			return err
		}
	}
	if in.TestRequest != nil {
		s.TestRequest = &deliveryv1.TestRequest{}
		if err := read.Unmarshal(in.TestRequest, s.TestRequest); err != nil {
			return err
		}
	}
	for _, text := range in.Windows {
		set := &deliveryv1.WindowSet{}
		if err := read.Unmarshal(text, set); err != nil {
			return err
		}
		s.Windows = append(s.Windows, set)
	}
	if in.Sync != nil {
		s.Sync = &deliveryv1.SyncSpec{}
		return read.Unmarshal(in.Sync, s.Sync)
	}
	return nil
}

// Want is what is to be done about a service.
type Want int

// The wants of a service.
const (
	Nothing Want = iota
	Apply
	Remove
)

// Store is the wanted state. A Store is safe for concurrent use.
type Store struct {
	path    string
	changed chan struct{}

	mu    sync.Mutex // guards state and hidden
	state state
	// hidden are secrets by service that are on no disk of the agent.
	hidden map[string][]string
}

// knows counts the fields of a delivery that agents have learned to keep. An agent that finds a record with a lower one
// asks the hub for all services again: their digests are those of deliveries of which the record has only parts. Raise
// it with each new field of ServiceDelivery.
const knows = 1 // windows and the manual mode

type state struct {
	Knows    int                `json:"knows,omitempty"`
	Services map[string]Service `json:"services"`
	// Leaving services are removed from the cluster and then forgotten.
	Leaving map[string]Service `json:"leaving,omitempty"`
	// Doubted services are those of Doubt, until the hub tells of them: the secrets that their configuration had, by
	// service.
	Doubted map[string][]string `json:"doubted,omitempty"`
	// Revision is of the hub's catalog that all this is from; a newer one may have been seen since.
	Revision int64 `json:"revision,omitempty"`
	// Cluster is the UID of the hub's cluster that wants all this; "": unknown.
	Cluster string `json:"cluster,omitempty"`
}

// Open reads the store from its folder. A file that can't be read is set aside: the hub tells it again.
func Open(dir string, log *slog.Logger) (*Store, error) {
	if err := durable.Sweep(dir); err != nil {
		return nil, err
	}
	s := &Store{path: filepath.Join(dir, "desired.json"), changed: make(chan struct{}, 1)}
	data, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read wanted services: %w", err)
	default:
		if err := json.Unmarshal(data, &s.state); err != nil {
			log.Warn("the record of wanted services is damaged; asking the hub anew", "err", err)
			s.state = state{}
			if err := os.Rename(s.path, s.path+".damaged"); err != nil {
				return nil, fmt.Errorf("set damaged record aside: %w", err)
			}
		}
	}
	if s.state.Services == nil {
		s.state.Services = map[string]Service{}
	}
	if s.state.Leaving == nil {
		s.state.Leaving = map[string]Service{}
	}
	if s.state.Knows < knows {
		for name, service := range s.state.Services {
			service.Stale = true
			s.state.Services[name] = service
		}
	}
	return s, nil
}

// Changed gets a value after changes; several may be told as one.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Digests are the services that are wanted, with their digests; a stale one has none, so that the hub tells it again.
func (s *Store) Digests() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	digests := make(map[string]string, len(s.state.Services))
	for name, service := range s.state.Services {
		digests[name] = service.Digest
		if service.Stale {
			digests[name] = ""
		}
	}
	return digests
}

// Artifacts are those of the wanted services.
func (s *Store) Artifacts() []artifact.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var digests []artifact.Digest
	for _, service := range s.state.Services {
		digests = append(digests, service.Artifact)
	}
	return digests
}

// Get says what is wanted of a service. Of one that is to leave only the name is known, and how it was synced.
func (s *Store) Get(name string) (Service, Want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if service, ok := s.state.Services[name]; ok {
		service.Hidden = s.hidden[name]
		return service, Apply
	}
	if leaving, ok := s.state.Leaving[name]; ok {
		leaving.Name, leaving.Hidden = name, s.hidden[name]
		return leaving, Remove
	}
	return Service{}, Nothing
}

// Hide adds to the secrets of a service those that a render took from the cluster: YAML, or single values. Earlier ones
// count, too, as the cluster may still show them.
func (s *Store) Hide(name string, secrets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hidden := s.hidden[name]
	for _, secret := range secrets {
		for _, text := range secretTexts(secret) {
			if !slices.Contains(hidden, text) {
				hidden = append(slices.Clip(hidden), text)
			}
		}
	}
	bytes := 0
	for i, text := range slices.Backward(hidden) {
		if bytes += len(text); bytes > mostFormer+maxHidden {
			hidden = hidden[i+1:]
			break
		}
	}
	if s.hidden == nil {
		s.hidden = map[string][]string{}
	}
	s.hidden[name] = hidden
}

// Names lists the services of which something is wanted.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.state.Services)), maps.Keys(s.state.Leaving))
	slices.Sort(names)
	return names
}

// Revision is that of the last Update that had one.
func (s *Store) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Revision
}

// BelongTo notes which cluster of the hub the agent joined as; empty: the hub did not say. What another cluster of the
// same name wanted is doubted, as by Doubt: the hub that there is now may never have wanted it.
func (s *Store) BelongTo(uid string) error {
	s.mu.Lock()
	was := s.state.Cluster
	s.mu.Unlock()
	if uid == "" || uid == was {
		return nil
	}
	return s.change(func(next *state) {
		if was != "" {
			names := slices.AppendSeq(slices.Collect(maps.Keys(next.Services)), maps.Keys(next.Leaving))
			next.doubt(slices.AppendSeq(names, maps.Keys(next.Doubted)))
		}
		next.Cluster = uid
	})
}

// Doubt drops all that is wanted, since another agent may have heard of something newer: until the hub tells of these
// services, which are in the cluster, nothing is wanted of them. What they are to be masked by stays. revision is of
// the catalog that the other agent has heard of; 0: unknown.
func (s *Store) Doubt(services []string, revision int64) error {
	return s.change(func(next *state) {
		next.doubt(services)
		next.Revision = cmp.Or(revision, next.Revision)
	})
}

func (s *state) doubt(services []string) {
	doubted := make(map[string][]string, len(services))
	for _, name := range services {
		doubted[name] = former(s.last(name), Service{})
	}
	s.Services, s.Leaving, s.Doubted = map[string]Service{}, map[string]Service{}, doubted
}

// Doubted lists, in order, the services of which the hub has not told since Doubt.
func (s *Store) Doubted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.state.Doubted))
}

// last is what was known of a service last.
func (s *state) last(name string) Service {
	if service, ok := s.Services[name]; ok {
		return service
	}
	if leaving, ok := s.Leaving[name]; ok {
		return leaving
	}
	return Service{Former: s.Doubted[name]}
}

// Update takes over what the hub said, at a revision of its catalog; 0: unknown. When it returns it is on
// disk.
func (s *Store) Update(services []Service, removed []string, revision int64) error {
	if len(services) == 0 && len(removed) == 0 {
		return nil
	}
	return s.change(func(next *state) {
		if revision != 0 {
			next.Revision = revision
		}
		for _, service := range services {
			before := next.last(service.Name)
			service.Former, service.AskedFor = former(before, service), askedFor(before, service)
			_, known := next.Services[service.Name]
			_, left := next.Leaving[service.Name]
			isSame := proto.Equal(service.Sync.GetRequestTime(), before.Sync.GetRequestTime())
			service.AskedBefore = service.AskedFor != "" && (!known && !left || isSame && before.AskedBefore)
			next.Services[service.Name] = service
			delete(next.Leaving, service.Name)
			delete(next.Doubted, service.Name)
		}
		for _, name := range removed {
			if _, already := next.Leaving[name]; !already {
				before := next.last(name)
				next.Leaving[name] = Service{Name: name, Sync: before.Sync, Former: former(before, Service{})}
			}
			delete(next.Services, name)
			delete(next.Doubted, name)
		}
	})
}

// askedFor is the content that the last request for a sync is about: the one that came with it. While a service is
// held, suspended or in dry run a request applies nothing, and nothing of it is left over for later.
func askedFor(before, service Service) string {
	mode := service.Sync.GetMode()
	still := !service.Manual && mode != deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED && mode != deliveryv1.SyncMode_SYNC_MODE_AUTO
	switch asked := service.Sync.GetRequestTime(); {
	case asked == nil || still:
		return ""
	case proto.Equal(asked, before.Sync.GetRequestTime()):
		return before.AskedFor
	}
	return service.Content()
}

// Asked names the last request for a sync, if the content that it is about is what is wanted now; "": there is none.
func (s Service) Asked(content string) string {
	if content == "" || content != s.Content() {
		return ""
	}
	return s.RequestID()
}

// RequestID names the last request for a sync, whatever it is about.
func (s Service) RequestID() string {
	if s.Sync.GetRequestTime() == nil {
		return ""
	}
	return s.Sync.GetRequestTime().AsTime().Format(time.RFC3339Nano)
}

// Forget drops a service that has left, unless it was wanted again meanwhile.
func (s *Store) Forget(name string) error {
	s.mu.Lock()
	delete(s.hidden, name)
	s.mu.Unlock()
	return s.change(func(next *state) { delete(next.Leaving, name) })
}

// change writes the new state before it becomes visible.
func (s *Store) change(edit func(*state)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state
	next.Services, next.Leaving, next.Doubted = maps.Clone(next.Services), maps.Clone(next.Leaving), maps.Clone(next.Doubted)
	edit(&next)
	if !slices.ContainsFunc(slices.Collect(maps.Values(next.Services)), func(service Service) bool { return service.Stale }) {
		next.Knows = knows
	}
	data, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode wanted services: %w", err)
	}
	if err := durable.WriteFile(s.path, data, 0o600); err != nil {
		return fmt.Errorf("record wanted services: %w", err)
	}
	s.state = next
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}
