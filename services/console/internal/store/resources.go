package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/kind"
	"fairlead.dev/services/console/internal/store/database"
)

// Kind is a kind of resource.
type Kind string

// The kinds of the catalog.
const (
	KindSource         Kind = "source"
	KindCluster        Kind = "cluster"
	KindService        Kind = "service"
	KindSecret         Kind = "secret"
	KindGrant          Kind = "grant"
	KindProject        Kind = "project"
	KindGlobalService  Kind = "globalservice"
	KindRole           Kind = "role"
	KindServiceAccount Kind = "serviceaccount"
	KindConfigSet      Kind = "configset"
	KindBackend        Kind = "backend"
	KindSink           Kind = "sink"
	KindAgentConfig    Kind = "agentconfig"
	KindViewSet        Kind = "viewset"
	KindAlert          Kind = "alert"
)

// Kinds is all of them, a kind behind those that it may name.
func Kinds() []Kind {
	all := kind.All()
	out := make([]Kind, len(all))
	for i, k := range all {
		out[i] = Kind(k.Singular())
	}
	return out
}

// Draft is what a caller says about a resource.
type Draft struct {
	Kind   Kind
	Name   string
	Labels map[string]string
	// Spec is JSON.
	Spec []byte
	// Sealed holds secret values, sealed. Sealed is no part of the history.
	Sealed []byte
	// Refs are the resources that the spec names.
	Refs []Ref
	// Action is what the history calls the write; empty: created or updated.
	Action string
	// Continues is the uid of the deleted resource whose history a new one continues; empty: its history begins with
	// it.
	Continues string
}

// Ref names a resource.
type Ref struct {
	Kind Kind
	Name string
}

// Resource is a draft that was written.
type Resource struct {
	Kind       Kind
	Name       string
	Labels     map[string]string
	Spec       []byte
	Sealed     []byte
	UID        string
	Revision   int64
	CreateTime time.Time
	UpdateTime time.Time
	// Seq is the number of its last change.
	Seq int64
}

// ETag names this state of the resource: it differs after any write, also after a deletion.
func (r Resource) ETag() string {
	return r.UID + "." + strconv.FormatInt(r.Revision, 10)
}

// Revision is an entry of a resource's history.
type Revision struct {
	UID      string
	Revision int64
	Action   string
	Author   string
	Time     time.Time
	Labels   map[string]string
	Spec     []byte
}

const resourceColumns = "r.kind, r.name, r.labels, r.spec, r.sealed, r.uid, r.revision, r.create_time, r.update_time, r.seq"

func scanResource(row database.Row, more ...any) (Resource, error) {
	var r Resource
	var labels string
	var created, updated int64
	dest := append([]any{&r.Kind, &r.Name, &labels, &r.Spec, &r.Sealed, &r.UID, &r.Revision, &created, &updated, &r.Seq}, more...)
	if err := row.Scan(dest...); err != nil {
		return Resource{}, err
	}
	r.CreateTime, r.UpdateTime = database.FromMicros(created), database.FromMicros(updated)
	return r, r.decodeLabels(labels)
}

func (r *Resource) decodeLabels(text string) error {
	if err := json.Unmarshal([]byte(text), &r.Labels); err != nil {
		return fmt.Errorf("decode labels of %s %q: %w", r.Kind, r.Name, err)
	}
	return nil
}

// Get returns a resource, or ErrNotFound.
func (v View) Get(ctx context.Context, kind Kind, name string) (Resource, error) {
	if strings.ContainsRune(name, 0) {
		return Resource{}, ErrNotFound // PostgreSQL has no such text
	}
	row := v.db.QueryRowContext(ctx, "SELECT "+resourceColumns+" FROM resources r WHERE kind = $1 AND name = $2", kind, name)
	r, err := scanResource(row)
	return r, database.NotFound(err)
}

// State tells one state of all resources of some kinds from any other.
func (v View) State(ctx context.Context, kinds ...Kind) (string, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT kind, COUNT(*), MAX(seq) FROM resources WHERE kind IN "+
		v.db.Dialect.Placeholders(1, len(kinds))+" GROUP BY kind ORDER BY kind", database.Anys(kinds)...)
	parts, err := database.Collect(rows, err, func(rows *sql.Rows) (string, error) {
		var kind string
		var count, seq int64
		err := rows.Scan(&kind, &count, &seq)
		return fmt.Sprintf("%s/%d/%d", kind, count, seq), err
	})
	return strings.Join(parts, " "), err
}

// List returns up to limit resources of a kind whose names come behind after, in the order of names.
func (v View) List(ctx context.Context, kind Kind, after string, limit int) ([]Resource, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT "+resourceColumns+
		" FROM resources r WHERE kind = $1 AND name > $2 ORDER BY name LIMIT $3", kind, after, limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (Resource, error) { return scanResource(rows) })
}

// Named returns those of the resources that exist.
func (v View) Named(ctx context.Context, kind Kind, names []string) (map[string]Resource, error) {
	found := make(map[string]Resource, len(names))
	for chunk := range slices.Chunk(names, database.ChunkSize) {
		in, args := v.db.Dialect.List(chunk, kind)
		rows, err := v.db.QueryContext(ctx, "SELECT "+resourceColumns+" FROM resources r WHERE kind = $1 AND name IN "+in, args...)
		list, err := database.Collect(rows, err, func(rows *sql.Rows) (Resource, error) { return scanResource(rows) })
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			found[r.Name] = r
		}
	}
	return found, nil
}

// Referrers returns up to limit resources that name ref, in the order of names.
func (v View) Referrers(ctx context.Context, ref Ref, limit int) ([]Ref, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT r.kind, r.name FROM refs f JOIN resources r ON r.uid = f.uid"+
		" WHERE f.kind = $1 AND f.name = $2 ORDER BY r.kind, r.name LIMIT $3", ref.Kind, ref.Name, limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (ref Ref, err error) {
		return ref, rows.Scan(&ref.Kind, &ref.Name)
	})
}

// Labelled returns all resources with a label, in the order of kinds and names.
func (v View) Labelled(ctx context.Context, key, value string) ([]Resource, error) {
	pair := strings.Trim(encodeLabels(map[string]string{key: value}), "{}")
	like := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(pair)
	rows, err := v.db.QueryContext(ctx, "SELECT "+resourceColumns+` FROM resources r WHERE labels LIKE $1 ESCAPE '\' ORDER BY kind, name`, "%"+like+"%")
	list, err := database.Collect(rows, err, func(rows *sql.Rows) (Resource, error) { return scanResource(rows) })
	// The text may be within a value, and SQLite takes upper for lower case.
	return slices.DeleteFunc(list, func(r Resource) bool { is, ok := r.Labels[key]; return !ok || is != value }), err
}

// CountReferrers says how many resources of a kind name each of these of another kind.
func (v View) CountReferrers(ctx context.Context, of, kind Kind, names []string) (map[string]int, error) {
	counts := make(map[string]int, len(names))
	for chunk := range slices.Chunk(names, database.ChunkSize) {
		rows, err := v.db.QueryContext(ctx, "SELECT f.name, COUNT(*) FROM refs f JOIN resources r ON r.uid = f.uid"+
			" WHERE r.kind = $1 AND f.kind = $2 AND f.name IN "+v.db.Dialect.Placeholders(3, len(chunk))+" GROUP BY f.name", database.Anys(chunk, of, kind)...)
		if _, err := database.Collect(rows, err, func(rows *sql.Rows) (name string, err error) {
			var n int
			err = rows.Scan(&name, &n)
			counts[name] = n
			return name, err
		}); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// Share is how many services of a project at a cluster name a resource; empty: of none.
type Share struct {
	Name, Project, Cluster string
	Services               int
}

// Shares counts the services that name each of these resources, by what rights to see services depend on.
func (v View) Shares(ctx context.Context, kind Kind, names []string) (shares []Share, err error) {
	for chunk := range slices.Chunk(names, database.ChunkSize) {
		rows, err := v.db.QueryContext(ctx, "SELECT f.name, COALESCE(p.name, ''), COALESCE(c.name, ''), COUNT(*)"+
			" FROM refs f JOIN resources r ON r.uid = f.uid"+
			" LEFT JOIN refs p ON p.uid = f.uid AND p.kind = $1 LEFT JOIN refs c ON c.uid = f.uid AND c.kind = $2"+
			" WHERE r.kind = $3 AND f.kind = $4 AND f.name IN "+v.db.Dialect.Placeholders(5, len(chunk))+
			" GROUP BY f.name, p.name, c.name", database.Anys(chunk, KindProject, KindCluster, KindService, kind)...)
		some, err := database.Collect(rows, err, func(rows *sql.Rows) (s Share, err error) {
			return s, rows.Scan(&s.Name, &s.Project, &s.Cluster, &s.Services)
		})
		if err != nil {
			return nil, err
		}
		shares = append(shares, some...)
	}
	return shares, nil
}

// Revisions returns up to limit entries of a resource's history, the newest first.
func (v View) Revisions(ctx context.Context, uid string, limit int) ([]Revision, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT uid, revision, action, author, time, labels, spec FROM revisions"+
		" WHERE uid = $1 ORDER BY revision DESC LIMIT $2", uid, limit)
	return database.Collect(rows, err, scanRevision)
}

func scanRevision(rows *sql.Rows) (r Revision, err error) {
	var us int64
	var labels string
	if err := rows.Scan(&r.UID, &r.Revision, &r.Action, &r.Author, &us, &labels, database.UnpackInto(&r.Spec)); err != nil {
		return r, err
	}
	r.Time = database.FromMicros(us)
	return r, json.Unmarshal([]byte(labels), &r.Labels)
}

// WithUID returns a resource, or ErrNotFound.
func (v View) WithUID(ctx context.Context, uid string) (Resource, error) {
	r, err := scanResource(v.db.QueryRowContext(ctx, "SELECT "+resourceColumns+" FROM resources r WHERE uid = $1", uid))
	return r, database.NotFound(err)
}

// Names of resources, by uid.
func (v View) Names(ctx context.Context, uids []string) (map[string]string, error) {
	return database.ByKey(ctx, v.db, "SELECT uid, name FROM resources WHERE uid IN ", uids, func(rows *sql.Rows) (uid, name string, err error) {
		return uid, name, rows.Scan(&uid, &name)
	})
}
