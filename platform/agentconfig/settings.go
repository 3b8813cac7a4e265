package agentconfig

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// The keys of settings, as YAML has them.
const (
	PollInterval            = "poll.interval"
	PollJitter              = "poll.jitter"
	Concurrency             = "concurrency"
	APIRequests             = "apiRequests"
	RendererTime            = "renderer.time"
	RendererCPU             = "renderer.cpu"
	RendererMemory          = "renderer.memory"
	ImagesRegistries        = "images.registries"
	ImpersonationRequired   = "impersonation.required"
	ImpersonationAccounts   = "impersonation.accounts"
	TunnelReadOnly          = "tunnel.readOnly"
	TunnelNoImpersonation   = "tunnel.noImpersonation"
	TunnelImpersonateUsers  = "tunnel.impersonateUsers"
	TunnelImpersonateGroups = "tunnel.impersonateGroups"
	// Off and a feature is a key: off.views.
	Off      = "off"
	LogLevel = "logLevel"
)

// The features that can be off.
const (
	tunnel  = "tunnel"
	streams = "streams"
	views   = "views"
)

// Settings are what layers come to together. Numbers that are 0 say nothing. A list of lists: what it is about has to
// be in each of them.
type Settings struct {
	PollInterval time.Duration
	PollJitter   int // percent
	Concurrency  int
	APIRequests  int
	RendererTime time.Duration
	RendererCPU  time.Duration
	// RendererMemory is in MiB.
	RendererMemory int
	Registries     [][]string
	RequireAccount bool
	Accounts       [][]string
	ReadOnly       bool
	// NoImpersonation, ImpersonateUsers and ImpersonateGroups are about people who come through the tunnel.
	NoImpersonation                     bool
	ImpersonateUsers, ImpersonateGroups [][]string
	NoTunnel, NoStreams, NoViews        bool
	// LogLevel is nil if no layer names one.
	LogLevel *slog.Level

	from map[string][]string // names of the layers that decided, by key
}

// Value is a setting as people read it.
type Value struct {
	Key, Text string
	// From are the layers that it is from.
	From []string
}

// Merge puts layers together.
func Merge(layers []*deliveryv1.AgentLayer) Settings {
	s := Settings{from: map[string][]string{}}
	for _, layer := range layers {
		s.add(layer.GetName(), layer.GetSettings())
	}
	return s
}

// Knows tells whether Merge knows all values of settings: a newer hub may have others.
func Knows(in *deliveryv1.AgentSettings) bool { return !Strip(proto.CloneOf(in)) }

// Strip takes those values out of settings that Merge does not know, and tells whether there were any.
func Strip(in *deliveryv1.AgentSettings) (stripped bool) {
	off := slices.DeleteFunc(slices.Clone(in.GetOff()), func(feature string) bool {
		return feature != tunnel && feature != streams && feature != views
	})
	if stripped = len(off) < len(in.GetOff()); stripped {
		in.Off = off
	}
	var level slog.Level
	if in.GetLogLevel() != "" && level.UnmarshalText([]byte(in.GetLogLevel())) != nil {
		in.LogLevel, stripped = "", true
	}
	return stripped
}

func (s *Settings) add(name string, in *deliveryv1.AgentSettings) {
	most(s, PollInterval, &s.PollInterval, in.GetPoll().GetInterval().AsDuration(), name)
	most(s, PollJitter, &s.PollJitter, int(in.GetPoll().GetJitter()), name)
	least(s, Concurrency, &s.Concurrency, int(in.GetConcurrency()), name)
	least(s, APIRequests, &s.APIRequests, int(in.GetApiRequests()), name)
	least(s, RendererTime, &s.RendererTime, in.GetRenderer().GetTime().AsDuration(), name)
	least(s, RendererCPU, &s.RendererCPU, in.GetRenderer().GetCpu().AsDuration(), name)
	least(s, RendererMemory, &s.RendererMemory, int(in.GetRenderer().GetMemory()), name)
	s.only(ImagesRegistries, &s.Registries, in.GetImages().GetRegistries(), name)
	s.rule(ImpersonationRequired, &s.RequireAccount, in.GetImpersonation().GetRequired(), name)
	s.only(ImpersonationAccounts, &s.Accounts, in.GetImpersonation().GetAccounts(), name)
	s.rule(TunnelReadOnly, &s.ReadOnly, in.GetTunnel().GetReadOnly(), name)
	s.rule(TunnelNoImpersonation, &s.NoImpersonation, in.GetTunnel().GetNoImpersonation(), name)
	s.only(TunnelImpersonateUsers, &s.ImpersonateUsers, in.GetTunnel().GetImpersonateUsers(), name)
	s.only(TunnelImpersonateGroups, &s.ImpersonateGroups, in.GetTunnel().GetImpersonateGroups(), name)
	for feature, off := range map[string]*bool{tunnel: &s.NoTunnel, streams: &s.NoStreams, views: &s.NoViews} {
		s.rule(Off+"."+feature, off, slices.Contains(in.GetOff(), feature), name)
	}
	level := slog.LevelDebug
	if in.GetLogLevel() == "" || level.UnmarshalText([]byte(in.GetLogLevel())) != nil {
		return
	}
	if s.LogLevel == nil || level > *s.LogLevel {
		s.LogLevel, s.from[LogLevel] = &level, nil
	}
	if level == *s.LogLevel {
		s.decided(LogLevel, name)
	}
}

func (s *Settings) decided(key, layer string) { s.from[key] = append(s.from[key], layer) }

// least takes the smaller number, most the larger one.
func least[N int | time.Duration](s *Settings, key string, to *N, value N, layer string) {
	take(s, key, to, value, layer, value < *to)
}

func most[N int | time.Duration](s *Settings, key string, to *N, value N, layer string) {
	take(s, key, to, value, layer, value > *to)
}

func take[N int | time.Duration](s *Settings, key string, to *N, value N, layer string, narrower bool) {
	if value == 0 {
		return
	}
	if *to == 0 || narrower {
		*to, s.from[key] = value, nil
	}
	if *to == value {
		s.decided(key, layer)
	}
}

// rule holds if one layer says so.
func (s *Settings) rule(key string, to *bool, value bool, layer string) {
	if value {
		*to = true
		s.decided(key, layer)
	}
}

// only adds a list that things have to be in.
func (s *Settings) only(key string, to *[][]string, value []string, layer string) {
	if len(value) > 0 {
		*to = append(*to, value)
		s.decided(key, layer)
	}
}

// Values are the settings that layers name, in the order of their keys.
func (s *Settings) Values() []Value {
	texts := map[string]string{
		PollInterval: s.PollInterval.String(), PollJitter: strconv.Itoa(s.PollJitter) + " %",
		Concurrency: strconv.Itoa(s.Concurrency), APIRequests: strconv.Itoa(s.APIRequests),
		RendererTime: s.RendererTime.String(), RendererCPU: s.RendererCPU.String(), RendererMemory: strconv.Itoa(s.RendererMemory) + " MiB",
		ImagesRegistries: lists(s.Registries), ImpersonationAccounts: lists(s.Accounts),
		TunnelImpersonateUsers: lists(s.ImpersonateUsers), TunnelImpersonateGroups: lists(s.ImpersonateGroups),
	}
	if s.LogLevel != nil {
		texts[LogLevel] = strings.ToLower(s.LogLevel.String())
	}
	out := make([]Value, 0, len(s.from))
	for _, key := range slices.Sorted(maps.Keys(s.from)) {
		out = append(out, Value{Key: key, Text: cmp.Or(texts[key], "true"), From: s.from[key]})
	}
	return out
}

// lists are written with commas within a list, and "and" between two.
func lists(all [][]string) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = strings.Join(one, ", ")
	}
	return strings.Join(texts, " and ")
}

// RendererBytes is RendererMemory in bytes.
func (s *Settings) RendererBytes() int64 { return int64(s.RendererMemory) << 20 }

// AllowsImage tells whether an image may be pulled.
func AllowsImage(registries [][]string, image string) bool {
	where := repository(image)
	for _, one := range registries {
		if !slices.ContainsFunc(one, func(registry string) bool { return where == registry || strings.HasPrefix(where, registry+"/") }) {
			return false
		}
	}
	return true
}

// repository is an image's registry and path, as container runtimes complete what is left out.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		image = image[:colon]
	}
	registry, path, found := strings.Cut(image, "/")
	switch {
	case !found:
		return "docker.io/library/" + image
	case !strings.ContainsAny(registry, ".:") && registry != "localhost":
		return "docker.io/" + image
	case (registry == "docker.io" || registry == "index.docker.io") && !strings.Contains(path, "/"):
		return "docker.io/library/" + path
	case registry == "index.docker.io":
		return "docker.io/" + path
	}
	return image
}
