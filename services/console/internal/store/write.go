package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// Create writes new resources. The caller has seen in the same Tx that there is none of their names.
func (t *Tx) Create(ctx context.Context, drafts ...Draft) ([]Resource, error) {
	list := make([]Resource, len(drafts))
	var refs []reference
	var sources []Resource
	actions := map[string][]Resource{}
	for i, d := range drafts {
		list[i] = Resource{
			Kind: d.Kind, Name: d.Name, Labels: d.Labels, Spec: d.Spec, Sealed: d.Sealed,
			UID: newUID(t.tx.Now, i), Revision: 1, CreateTime: t.tx.Now, UpdateTime: t.tx.Now, Seq: t.number(),
		}
		if d.Continues != "" {
			var err error
			if list[i].Revision, err = t.continueHistory(ctx, d.Continues, list[i].UID); err != nil {
				return nil, err
			}
		}
		action := cmp.Or(d.Action, "created")
		actions[action] = append(actions[action], list[i])
		for _, ref := range d.Refs {
			refs = append(refs, reference{list[i].UID, ref})
		}
		if d.Kind == KindSource {
			sources = append(sources, list[i])
		}
	}
	if err := t.log(ctx, false, list...); err != nil {
		return nil, err
	}
	err := database.Insert(ctx, t.tx, "INSERT INTO resources (kind, name, labels, spec, sealed, uid, revision, create_time, update_time, seq) VALUES ", list, func(r Resource) []any {
		return []any{r.Kind, r.Name, encodeLabels(r.Labels), string(r.Spec), r.Sealed, r.UID, r.Revision, database.Micros(r.CreateTime), database.Micros(r.UpdateTime), r.Seq}
	})
	if err != nil {
		return nil, fmt.Errorf("insert resource: %w", err)
	}
	if err := t.refer(ctx, refs); err != nil {
		return nil, err
	}
	err = database.Insert(ctx, t.tx, "INSERT INTO heads (source_uid, epoch, owner, state) VALUES ", sources, func(r Resource) []any {
		return []any{r.UID, 0, "", "{}"}
	})
	if err != nil {
		return nil, fmt.Errorf("insert heads: %w", err)
	}
	for _, action := range database.SortedKeys(actions) {
		if err := t.record(ctx, action, actions[action]...); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// continueHistory gives the revisions and deployments of a deleted resource to the new one that continues its history,
// and returns the new one's first revision. A deployment names the revision of the service that it was made of, so both
// are given or neither.
func (t *Tx) continueHistory(ctx context.Context, from, to string) (revision int64, err error) {
	if err := t.tx.QueryRowContext(ctx, "SELECT CAST(COALESCE(MAX(revision), 0) + 1 AS BIGINT) FROM revisions WHERE uid = $1", from).Scan(&revision); err != nil {
		return 0, fmt.Errorf("read last revision: %w", err)
	}
	for _, stmt := range []string{
		"UPDATE revisions SET uid = CAST($2 AS TEXT) WHERE uid = $1",
		// A console that did not see the deletion yet may have begun a deployment after it.
		"UPDATE deployments SET service_uid = CAST($2 AS TEXT), end_time = CASE WHEN end_time = 0 THEN CAST($3 AS BIGINT) ELSE end_time END WHERE service_uid = $1",
		"DELETE FROM deleted_services WHERE uid = $1",
	} {
		args := []any{from, to, database.Micros(t.tx.Now)}
		if _, err := t.tx.ExecContext(ctx, stmt, args[:strings.Count(stmt, "$")]...); err != nil {
			return 0, fmt.Errorf("continue history: %w", err)
		}
	}
	return revision, nil
}

// Update writes a draft over a resource that the caller got in the same Tx.
func (t *Tx) Update(ctx context.Context, r Resource, d Draft) (Resource, error) {
	r.Labels, r.Spec, r.Sealed = d.Labels, d.Spec, d.Sealed
	r.Revision++
	r.UpdateTime = t.tx.Now
	var err error
	if r.Seq, err = t.change(ctx, r, false); err != nil {
		return Resource{}, err
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE resources SET labels = $1, spec = $2, sealed = $3, revision = $4, update_time = $5, seq = $6 WHERE uid = $7",
		encodeLabels(r.Labels), string(r.Spec), r.Sealed, r.Revision, database.Micros(r.UpdateTime), r.Seq, r.UID); err != nil {
		return Resource{}, fmt.Errorf("update %s: %w", r.Kind, err)
	}
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM refs WHERE uid = $1", r.UID); err != nil {
		return Resource{}, fmt.Errorf("delete references: %w", err)
	}
	var refs []reference
	for _, ref := range d.Refs {
		refs = append(refs, reference{r.UID, ref})
	}
	if err := t.refer(ctx, refs); err != nil {
		return Resource{}, err
	}
	return r, t.recordAgain(ctx, r, cmp.Or(d.Action, "updated"))
}

// Delete removes a resource that the caller got in the same Tx, with its status. Its history stays: the deployments of
// a service until ForgetDeleted.
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
		"DELETE FROM hub_refs WHERE source_uid = $1",
		"DELETE FROM reports WHERE service_uid = $1",
		"DELETE FROM reports WHERE cluster_uid = $1",
		"DELETE FROM seen WHERE cluster_uid = $1",
		"DELETE FROM views WHERE cluster_uid = $1",
		"DELETE FROM view_curves WHERE cluster_uid = $1",
		"DELETE FROM service_details WHERE service_uid = $1",
		"DELETE FROM configs WHERE service_uid = $1",
		"DELETE FROM places WHERE backend_uid = $1",
		"DELETE FROM readings WHERE backend_uid = $1",
		"DELETE FROM sinks WHERE sink_uid = $1",
		"DELETE FROM commit_statuses WHERE sink_uid = $1",
		"DELETE FROM test_runs WHERE service_uid = $1",
		"DELETE FROM join_tokens WHERE cluster_uid = $1",
		"DELETE FROM agent_tokens WHERE cluster_uid = $1",
		"DELETE FROM held_removals WHERE cluster_uid = $1",
		"DELETE FROM held_back_services WHERE service_uid = $1",
		"DELETE FROM declared WHERE uid = $1",
	} {
		if _, err := t.tx.ExecContext(ctx, stmt, r.UID); err != nil {
			return fmt.Errorf("delete %s: %w", r.Kind, err)
		}
	}
	if r.Kind == KindService {
		if err := t.keepDeployments(ctx, r.UID); err != nil {
			return err
		}
	}
	r.Revision++
	r.Spec = []byte("{}")
	return t.recordAgain(ctx, r, "deleted")
}

// reference says that the resource with a uid names another one.
type reference struct {
	uid string
	to  Ref
}

func (t *Tx) refer(ctx context.Context, refs []reference) error {
	err := database.Insert(ctx, t.tx, "INSERT INTO refs (uid, kind, name) VALUES ", refs, func(r reference) []any {
		return []any{r.uid, r.to.Kind, r.to.Name}
	})
	if err != nil {
		return fmt.Errorf("insert references: %w", err)
	}
	return nil
}

// record adds to the history.
func (t *Tx) record(ctx context.Context, action string, list ...Resource) error {
	err := database.Insert(ctx, t.tx, "INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ", list, func(r Resource) []any {
		return []any{r.UID, r.Revision, r.Kind, r.Name, action, t.tx.Author, database.Micros(t.tx.Now), encodeLabels(r.Labels), t.tx.Dialect.Text(r.Spec)}
	})
	if err != nil {
		return fmt.Errorf("insert revision: %w", err)
	}
	return nil
}

// recordAgain adds to the history of a resource that has one, and forgets what is too far back.
func (t *Tx) recordAgain(ctx context.Context, r Resource, action string) error {
	if err := t.record(ctx, action, r); err != nil {
		return err
	}
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM revisions WHERE uid = $1 AND revision <= $2", r.UID, r.Revision-maxRevisions); err != nil {
		return fmt.Errorf("trim revisions: %w", err)
	}
	return nil
}

// encodeLabels is their JSON. A map of texts always has one.
func encodeLabels(labels map[string]string) string {
	text, _ := json.Marshal(labels)
	return string(text)
}

// Author is who this write is recorded for.
func (t *Tx) Author() string { return t.tx.Author }

// Now is the time of this write.
func (t *Tx) Now() time.Time { return t.tx.Now }
