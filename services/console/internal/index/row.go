package index

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unique"

	platform "fairlead.dev/platform/catalog"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

// word is a text that many rows share.
type word = unique.Handle[string]

// labels are all of a resource's in one word, which those with the same labels share: each key and each value, in the
// order of keys and with labelEnd behind.
type labels struct{ word }

// labelEnd is in no text: it is no UTF-8.
const labelEnd = "\xff"

func newLabels(of map[string]string) labels {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(of)) {
		text.WriteString(key + labelEnd + of[key] + labelEnd)
	}
	return labels{unique.Make(text.String())}
}

func (l labels) get(want string) (value string, ok bool) {
	for text := l.Value(); text != ""; {
		var key string
		key, text, _ = strings.Cut(text, labelEnd)
		value, text, _ = strings.Cut(text, labelEnd)
		if key == want {
			return value, true
		}
	}
	return "", false
}

// found is the key of the first label whose value begins with a word in small letters, or that is the word as
// key=value.
func (l labels) found(want string) string {
	for text := l.Value(); text != ""; {
		var key, value string
		key, text, _ = strings.Cut(text, labelEnd)
		value, text, _ = strings.Cut(text, labelEnd)
		if low := strings.ToLower(value); strings.HasPrefix(low, want) || strings.ToLower(key)+"="+low == want {
			return key
		}
	}
	return ""
}

// row is what lists and filters look at of a resource. Immutable.
type row struct {
	kind      store.Kind
	name, uid string
	labels    labels
	revision  int64
	created   int64 // microseconds, as all times here; 0: never
	updated   int64

	project, cluster, source, ref, path, namespace, url, role word
	follows                                                   word // of a service: what it follows in Git, its ref or a pin

	// The fields below come of statuses.
	state   word
	version word
	since   int64
	seen    int64
	joined  int64
	left    int64
	until   int64 // when an alive one is not any more
	alive   bool  // of a cluster: what it said last can be trusted
	begun   bool  // of a cluster: an agent joined or was seen
	viewing bool  // of a cluster: its agent pushes views
	// keepsSets: of a cluster: its agent keeps ViewSets.
	keepsSets bool
	sum       uint64         // of all that is shown
	essence   *state.Essence // of a service; nil: its status was not read yet
}

// structure is what a resource's own text says.
func structure(r store.Resource) *row {
	out := &row{
		kind: r.Kind, name: r.Name, uid: r.UID, labels: newLabels(r.Labels), revision: r.Revision,
		created: database.Micros(r.CreateTime), updated: database.Micros(r.UpdateTime),
	}
	var spec struct {
		Project, Cluster, Source, Ref, Path, Namespace, Role string

		Git, Helm, OCI struct{ URL string }
		Bucket         state.BucketSource

		Sync     struct{ Pin string }
		Template struct{ Project, Source string }
	}
	_ = json.Unmarshal(r.Spec, &spec) // a spec of another form has none of these
	if r.Kind == store.KindGlobalService {
		spec.Project, spec.Source = spec.Template.Project, spec.Template.Source
	}
	out.project, out.cluster, out.source = unique.Make(spec.Project), unique.Make(spec.Cluster), unique.Make(spec.Source)
	out.ref, out.path, out.namespace = unique.Make(spec.Ref), unique.Make(spec.Path), unique.Make(spec.Namespace)
	out.follows = unique.Make(platform.PinnedRef(spec.Ref, spec.Sync.Pin))
	out.url, out.role = unique.Make(cmp.Or(spec.Git.URL, spec.Helm.URL, spec.OCI.URL, state.SourceSpec{Bucket: spec.Bucket}.Upstream().URL)), unique.Make(spec.Role)
	out.state, out.version = unique.Make(""), unique.Make("")
	return out
}

// keep takes over what came of statuses before.
func (r *row) keep(before *row) {
	if before != nil && before.uid == r.uid {
		r.state, r.since, r.seen, r.joined, r.left = before.state, before.since, before.seen, before.joined, before.left
		r.alive, r.begun, r.until, r.version, r.essence = before.alive, before.begun, before.until, before.version, before.essence
		r.viewing, r.keepsSets = before.viewing, before.keepsSets
	}
	if r.state.Value() == "" && r.kind == store.KindService {
		r.state = unique.Make(string(state.Pending))
	}
}

// status takes over what a loaded resource says.
func (r *row) status(value any) {
	switch v := value.(type) {
	case state.Service:
		essence := v.Essence()
		r.state, r.since, r.essence = unique.Make(string(v.Status.State)), database.Micros(v.Status.Since), &essence
	case state.Source:
		word := sourcePending
		switch {
		case v.Status.Problem.Fails():
			word, r.since = sourceFailing, database.Micros(v.Status.Problem.Since)
		case len(v.Status.Heads) > 0, v.Status.Problem != nil:
			word = sourceReady
		}
		r.state = unique.Make(word)
	case state.Cluster:
		r.alive, r.seen, r.version = v.Status.Connected, database.Micros(v.Status.LastSeen), unique.Make(v.Status.Agent.Version)
		r.joined, r.left = database.Micros(v.Status.JoinTime), database.Micros(v.Status.LeaveTime)
		r.begun = r.joined != 0 || r.seen != 0
		r.viewing, r.keepsSets = v.Status.Agent.Views, v.Status.Agent.ViewSets
	}
}

// asCluster is as much of a cluster as its services' states depend on.
func (r *row) asCluster() state.Cluster {
	return state.Cluster{
		Meta:   state.Meta{CreateTime: database.FromMicros(r.created)},
		Status: state.ClusterStatus{JoinTime: database.FromMicros(r.joined), LastSeen: database.FromMicros(r.seen), Connected: r.alive},
	}
}

// The states of sources.
const (
	sourcePending = "pending"
	sourceFailing = "failing"
	sourceReady   = "ready"
)

// Fields are those that a kind can be asked for; see docs/catalog.md.
func Fields(kind store.Kind) query.Fields {
	f := query.Fields{"name": query.Text, "uid": query.Text, "labels": query.Labels, "revision": query.Number, "create_time": query.Time, "update_time": query.Time}
	switch kind {
	case store.KindService:
		for _, name := range []string{"project", "cluster", "source", "ref", "path", "namespace"} {
			f[name] = query.Text
		}
		f["state"] = query.Levels(string(state.Healthy), string(state.Progressing), string(state.Pending), string(state.Held), string(state.Waiting),
			string(state.Differs), string(state.Unknown), string(state.Degraded), string(state.Failed))
		f["state_since"] = query.Time
	case store.KindSource:
		f["url"], f["state_since"] = query.Text, query.Time
		f["state"] = query.Levels(sourceReady, sourcePending, sourceFailing)
	case store.KindCluster:
		f["connected"], f["last_seen_time"], f["agent_version"] = query.Levels("false", "true"), query.Time, query.Text
	case store.KindGlobalService:
		f["project"], f["source"] = query.Text, query.Text
	case store.KindGrant:
		f["role"] = query.Text
	}
	return f
}

// Name implements query.Named.
func (r *row) Name() string { return r.name }

// Field implements query.Row.
func (r *row) Field(name string) (query.Value, bool) {
	text := func(s string) (query.Value, bool) { return query.Value{Text: s}, s != "" }
	at := func(us int64) (query.Value, bool) { return query.Value{Number: us}, us != 0 }
	switch name {
	case "name":
		return text(r.name)
	case "uid":
		return text(r.uid)
	case "revision":
		return query.Value{Number: r.revision}, true
	case "create_time":
		return at(r.created)
	case "update_time":
		return at(r.updated)
	case "project":
		return text(r.project.Value())
	case "cluster":
		return text(r.cluster.Value())
	case "source":
		return text(r.source.Value())
	case "ref":
		return text(r.ref.Value())
	case "path":
		return text(r.path.Value())
	case "namespace":
		return text(r.namespace.Value())
	case "url":
		return text(r.url.Value())
	case "role":
		return text(r.role.Value())
	case "state":
		return text(r.state.Value())
	case "state_since":
		return at(r.since)
	case "last_seen_time":
		return at(r.seen)
	case "agent_version":
		return text(r.version.Value())
	case "connected":
		if r.alive {
			return text("true")
		}
		return text("false")
	}
	if key, ok := strings.CutPrefix(name, "labels."); ok {
		value, ok := r.labels.get(key)
		return query.Value{Text: value}, ok
	}
	return query.Value{}, false
}

// seenBy says whether who looks may see it.
func (r *row) seenBy(sees Sees) bool {
	return sees == nil || sees(r.kind, r.name, r.project.Value(), r.cluster.Value())
}
