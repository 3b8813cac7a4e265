package live

import (
	"encoding/json"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/filter"
	"fairlead.dev/services/console/internal/store"
)

// row is what lists and filters look at of a resource. Immutable.
type row struct {
	kind      store.Kind
	name, uid string
	labels    map[string]string
	revision  int64
	created   int64 // microseconds, as all times here
	updated   int64

	project, cluster, source, ref, path, namespace, url, role, version string

	// What follows comes of statuses.
	state    string
	since    int64
	seen     int64
	joined   int64
	left     int64
	alive    bool // of a cluster: what it said last can be trusted
	begun    bool // of a cluster: an agent joined or was seen
	lastSeen time.Time
	until    time.Time // when an alive one is not any more
	sum      uint64    // of all that is shown
}

// structure is what a resource's own text says.
func structure(r store.Resource) *row {
	out := &row{
		kind: r.Kind, name: r.Name, uid: r.UID, labels: r.Labels, revision: r.Revision,
		created: r.CreateTime.UnixMicro(), updated: r.UpdateTime.UnixMicro(),
	}
	var spec struct {
		Project, Cluster, Source, Ref, Path, Namespace, Role string

		Git      struct{ URL string }
		Template struct{ Project, Source string }
	}
	_ = json.Unmarshal(r.Spec, &spec) // what has another form has none of these
	out.project, out.cluster, out.source, out.ref, out.path = spec.Project, spec.Cluster, spec.Source, spec.Ref, spec.Path
	out.namespace, out.url, out.role = spec.Namespace, spec.Git.URL, spec.Role
	if r.Kind == store.KindGlobalService {
		out.source, out.project = spec.Template.Source, spec.Project
	}
	return out
}

// keep takes over what came of statuses before.
func (r *row) keep(before *row) {
	if before != nil && before.uid == r.uid {
		r.state, r.since, r.seen, r.joined, r.left = before.state, before.since, before.seen, before.joined, before.left
		r.alive, r.begun, r.lastSeen, r.until, r.version = before.alive, before.begun, before.lastSeen, before.until, before.version
	}
	if r.state == "" && r.kind == store.KindService {
		r.state = string(catalog.Pending)
	}
}

// status takes over what a loaded resource says.
func (r *row) status(value any) {
	switch v := value.(type) {
	case catalog.Service:
		r.state, r.since = string(v.Status.State), micros(v.Status.Since)
	case catalog.Source:
		switch {
		case v.Status.Problem != nil:
			r.state, r.since = sourceFailing, micros(v.Status.Problem.Since)
		case len(v.Status.Heads) > 0:
			r.state = sourceReady
		default:
			r.state = sourcePending
		}
	case catalog.Cluster:
		r.alive, r.seen, r.lastSeen, r.version = v.Status.Connected, micros(v.Status.LastSeen), v.Status.LastSeen, v.Status.Agent.Version
		r.joined, r.left = micros(v.Status.JoinTime), micros(v.Status.LeaveTime)
		r.begun = !v.Status.JoinTime.IsZero() || !v.Status.LastSeen.IsZero()
	}
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// The states of sources.
const (
	sourcePending = "pending"
	sourceFailing = "failing"
	sourceReady   = "ready"
)

// Fields are those that a kind can be asked for; see docs/catalog.md.
func Fields(kind store.Kind) filter.Fields {
	f := filter.Fields{"name": filter.Text, "uid": filter.Text, "labels": filter.Labels, "revision": filter.Number, "create_time": filter.Time, "update_time": filter.Time}
	switch kind {
	case store.KindService:
		for _, name := range []string{"project", "cluster", "source", "ref", "path", "namespace"} {
			f[name] = filter.Text
		}
		f["state"] = filter.Levels(string(catalog.Healthy), string(catalog.Progressing), string(catalog.Pending), string(catalog.Held), string(catalog.Waiting),
			string(catalog.Differs), string(catalog.Unknown), string(catalog.Degraded), string(catalog.Failed))
		f["state_since"] = filter.Time
	case store.KindSource:
		f["url"], f["state_since"] = filter.Text, filter.Time
		f["state"] = filter.Levels(sourceReady, sourcePending, sourceFailing)
	case store.KindCluster:
		f["connected"], f["last_seen_time"], f["agent_version"] = filter.Levels("false", "true"), filter.Time, filter.Text
	case store.KindGlobalService:
		f["project"], f["source"] = filter.Text, filter.Text
	case store.KindGrant:
		f["role"] = filter.Text
	}
	return f
}

// Field implements filter.Row.
func (r *row) Field(name string) (filter.Value, bool) {
	text := func(s string) (filter.Value, bool) { return filter.Value{Text: s}, s != "" }
	at := func(us int64) (filter.Value, bool) { return filter.Value{Number: us}, us != 0 }
	switch name {
	case "name":
		return text(r.name)
	case "uid":
		return text(r.uid)
	case "revision":
		return filter.Value{Number: r.revision}, true
	case "create_time":
		return at(r.created)
	case "update_time":
		return at(r.updated)
	case "project":
		return text(r.project)
	case "cluster":
		return text(r.cluster)
	case "source":
		return text(r.source)
	case "ref":
		return text(r.ref)
	case "path":
		return text(r.path)
	case "namespace":
		return text(r.namespace)
	case "url":
		return text(r.url)
	case "role":
		return text(r.role)
	case "state":
		return text(r.state)
	case "state_since":
		return at(r.since)
	case "last_seen_time":
		return at(r.seen)
	case "agent_version":
		return text(r.version)
	case "connected":
		if r.alive {
			return text("true")
		}
		return text("false")
	}
	if key, ok := strings.CutPrefix(name, "labels."); ok {
		value, ok := r.labels[key]
		return filter.Value{Text: value}, ok
	}
	return filter.Value{}, false
}

// seenBy says whether who looks may see it.
func (r *row) seenBy(sees Sees) bool {
	return sees == nil || sees(r.kind, r.name, r.project, r.cluster)
}
