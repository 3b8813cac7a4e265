package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is a kind of resource.
type Kind string

// The kinds of the catalog.
const (
	KindSource  Kind = "source"
	KindCluster Kind = "cluster"
	KindService Kind = "service"
	KindSecret  Kind = "secret"
)

// Kinds is all of them, a kind behind those that it may name.
func Kinds() []Kind { return []Kind{KindSecret, KindSource, KindCluster, KindService} }

// Draft is what a caller says about a resource.
type Draft struct {
	Kind   Kind
	Name   string
	Labels map[string]string
	// Spec is JSON.
	Spec []byte
	// Sealed holds secret values, sealed. It is no part of the history.
	Sealed []byte
	// Refs are the resources that the spec names.
	Refs []Ref
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

type scanner interface{ Scan(...any) error }

func scanResource(row scanner, more ...any) (Resource, error) {
	var r Resource
	var labels string
	var created, updated int64
	dest := append([]any{&r.Kind, &r.Name, &labels, &r.Spec, &r.Sealed, &r.UID, &r.Revision, &created, &updated, &r.Seq}, more...)
	if err := row.Scan(dest...); err != nil {
		return Resource{}, err
	}
	r.CreateTime, r.UpdateTime = fromMicros(created), fromMicros(updated)
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
	row := v.q.QueryRowContext(ctx, "SELECT "+resourceColumns+" FROM resources r WHERE kind = $1 AND name = $2", kind, name)
	r, err := scanResource(row)
	return r, notFound(err)
}

func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// List returns up to limit resources of a kind whose names come behind after, in the order of names.
func (v View) List(ctx context.Context, kind Kind, after string, limit int) ([]Resource, error) {
	rows, err := v.q.QueryContext(ctx, "SELECT "+resourceColumns+
		" FROM resources r WHERE kind = $1 AND name > $2 ORDER BY name LIMIT $3", kind, after, limit)
	return collect(rows, err, func(rows *sql.Rows) (Resource, error) { return scanResource(rows) })
}

// Named returns those of the resources that exist.
func (v View) Named(ctx context.Context, kind Kind, names []string) (map[string]Resource, error) {
	found := make(map[string]Resource, len(names))
	for chunk := range slices.Chunk(names, chunkSize) {
		rows, err := v.q.QueryContext(ctx, "SELECT "+resourceColumns+
			" FROM resources r WHERE kind = $1 AND name IN "+placeholders(2, len(chunk)), anys(chunk, kind)...)
		list, err := collect(rows, err, func(rows *sql.Rows) (Resource, error) { return scanResource(rows) })
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
	rows, err := v.q.QueryContext(ctx, "SELECT r.kind, r.name FROM refs f JOIN resources r ON r.uid = f.uid"+
		" WHERE f.kind = $1 AND f.name = $2 ORDER BY r.kind, r.name LIMIT $3", ref.Kind, ref.Name, limit)
	return collect(rows, err, func(rows *sql.Rows) (ref Ref, err error) {
		return ref, rows.Scan(&ref.Kind, &ref.Name)
	})
}

// Revisions returns up to limit entries of a resource's history, the newest first.
func (v View) Revisions(ctx context.Context, uid string, limit int) ([]Revision, error) {
	rows, err := v.q.QueryContext(ctx, "SELECT uid, revision, action, author, time, labels, spec FROM revisions"+
		" WHERE uid = $1 ORDER BY revision DESC LIMIT $2", uid, limit)
	return collect(rows, err, func(rows *sql.Rows) (Revision, error) {
		var r Revision
		var us int64
		var labels string
		if err := rows.Scan(&r.UID, &r.Revision, &r.Action, &r.Author, &us, &labels, &r.Spec); err != nil {
			return r, err
		}
		r.Time = fromMicros(us)
		return r, json.Unmarshal([]byte(labels), &r.Labels)
	})
}

// Create writes a new resource. The caller has seen in the same Tx that there is none of its name.
func (t *Tx) Create(ctx context.Context, d Draft) (Resource, error) {
	r := Resource{
		Kind: d.Kind, Name: d.Name, Labels: d.Labels, Spec: d.Spec, Sealed: d.Sealed,
		UID: newID(), Revision: 1, CreateTime: t.now, UpdateTime: t.now,
	}
	var err error
	if r.Seq, err = t.change(ctx, r, false); err != nil {
		return Resource{}, err
	}
	labels, err := json.Marshal(d.Labels)
	if err != nil {
		return Resource{}, fmt.Errorf("encode labels: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO resources (kind, name, labels, spec, sealed, uid, revision, create_time, update_time, seq)"+
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		r.Kind, r.Name, string(labels), string(r.Spec), r.Sealed, r.UID, r.Revision, micros(r.CreateTime), micros(r.UpdateTime), r.Seq); err != nil {
		return Resource{}, fmt.Errorf("insert %s: %w", r.Kind, err)
	}
	if err := t.refer(ctx, r.UID, d.Refs); err != nil {
		return Resource{}, err
	}
	if r.Kind == KindSource {
		if _, err := t.tx.ExecContext(ctx, "INSERT INTO heads (source_uid, epoch, owner, state) VALUES ($1, 0, '', '{}')", r.UID); err != nil {
			return Resource{}, fmt.Errorf("insert heads: %w", err)
		}
	}
	return r, t.record(ctx, r, "created")
}

// Update writes a draft over a resource that the caller got in the same Tx.
func (t *Tx) Update(ctx context.Context, r Resource, d Draft) (Resource, error) {
	r.Labels, r.Spec, r.Sealed = d.Labels, d.Spec, d.Sealed
	r.Revision++
	r.UpdateTime = t.now
	var err error
	if r.Seq, err = t.change(ctx, r, false); err != nil {
		return Resource{}, err
	}
	labels, err := json.Marshal(d.Labels)
	if err != nil {
		return Resource{}, fmt.Errorf("encode labels: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE resources SET labels = $1, spec = $2, sealed = $3, revision = $4, update_time = $5, seq = $6 WHERE uid = $7",
		string(labels), string(r.Spec), r.Sealed, r.Revision, micros(r.UpdateTime), r.Seq, r.UID); err != nil {
		return Resource{}, fmt.Errorf("update %s: %w", r.Kind, err)
	}
	if err := t.refer(ctx, r.UID, d.Refs); err != nil {
		return Resource{}, err
	}
	return r, t.record(ctx, r, "updated")
}

// Delete removes a resource that the caller got in the same Tx, with its status. Its history stays.
func (t *Tx) Delete(ctx context.Context, r Resource) error {
	var err error
	if r.Seq, err = t.change(ctx, r, true); err != nil {
		return err
	}
	for _, stmt := range []string{
		"DELETE FROM resources WHERE uid = $1",
		"DELETE FROM refs WHERE uid = $1",
		"DELETE FROM heads WHERE source_uid = $1",
		"DELETE FROM hub WHERE service_uid = $1",
		"DELETE FROM reports WHERE service_uid = $1",
		"DELETE FROM reports WHERE cluster_uid = $1",
		"DELETE FROM seen WHERE cluster_uid = $1",
		"DELETE FROM join_tokens WHERE cluster_uid = $1",
	} {
		if _, err := t.tx.ExecContext(ctx, stmt, r.UID); err != nil {
			return fmt.Errorf("delete %s: %w", r.Kind, err)
		}
	}
	r.Revision++
	r.Spec = []byte("{}")
	return t.record(ctx, r, "deleted")
}

// refer replaces what a resource names.
func (t *Tx) refer(ctx context.Context, uid string, refs []Ref) error {
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM refs WHERE uid = $1", uid); err != nil {
		return fmt.Errorf("delete references: %w", err)
	}
	for _, ref := range refs {
		if _, err := t.tx.ExecContext(ctx, "INSERT INTO refs (uid, kind, name) VALUES ($1, $2, $3)", uid, ref.Kind, ref.Name); err != nil {
			return fmt.Errorf("insert reference: %w", err)
		}
	}
	return nil
}

// record adds to the history, and forgets what is too far back.
func (t *Tx) record(ctx context.Context, r Resource, action string) error {
	labels, err := json.Marshal(r.Labels)
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec)"+
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		r.UID, r.Revision, r.Kind, r.Name, action, t.author, micros(t.now), string(labels), string(r.Spec)); err != nil {
		return fmt.Errorf("insert revision: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM revisions WHERE uid = $1 AND revision <= $2", r.UID, r.Revision-maxRevisions); err != nil {
		return fmt.Errorf("trim revisions: %w", err)
	}
	return nil
}

// chunkSize bounds the values of one IN list.
const chunkSize = 500

// placeholders is a list of n placeholders, the first with number first.
func placeholders(first, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(",$" + strconv.Itoa(first+i))
	}
	return "(" + strings.TrimPrefix(b.String(), ",") + ")"
}

func anys[T any](list []T, first ...any) []any {
	for _, v := range list {
		first = append(first, v)
	}
	return first
}

// collect reads all rows.
func collect[T any](rows *sql.Rows, err error, scan func(*sql.Rows) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has told
	var list []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}
