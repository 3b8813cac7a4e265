package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// JoinToken lets one agent join as a cluster. The token itself is kept by nobody but its owner.
type JoinToken struct {
	// Hash is SHA-256 of the token, in hex.
	Hash    string
	Cluster string // uid
	Expire  time.Time
}

// AgentToken is a line of tokens of an agent, as of its newest one.
type AgentToken struct {
	// Family is the id of the line's first token.
	Family  string
	Cluster string // uid
	// Key is the public key that the tokens are bound to.
	Key string
	// Generation is that of the newest token.
	Generation int64
	// Request is SHA-256 of the request for the newest token, in hex.
	Request   string
	RenewTime time.Time
	// UseTime is when the newest token was first seen in use; zero: it was not.
	UseTime time.Time
}

const agentTokenColumns = "family, cluster_uid, key, generation, request, renew_time, use_time"

func scanAgentToken(row database.Row) (t AgentToken, err error) {
	var renewed, used int64
	err = row.Scan(&t.Family, &t.Cluster, &t.Key, &t.Generation, &t.Request, &renewed, &used)
	t.RenewTime, t.UseTime = database.FromMicros(renewed), database.FromMicros(used)
	return t, database.NotFound(err)
}

// AgentToken returns a line of tokens, or ErrNotFound.
func (v View) AgentToken(ctx context.Context, family string) (AgentToken, error) {
	return scanAgentToken(v.db.QueryRowContext(ctx, "SELECT "+agentTokenColumns+" FROM agent_tokens WHERE family = $1", family))
}

// AgentTokens returns lines of tokens by their families.
func (v View) AgentTokens(ctx context.Context, families []string) (map[string]AgentToken, error) {
	return database.ByKey(ctx, v.db, "SELECT "+agentTokenColumns+" FROM agent_tokens WHERE family IN ", families, func(rows *sql.Rows) (string, AgentToken, error) {
		t, err := scanAgentToken(rows)
		return t.Family, t, err
	})
}

// PutAgentToken keeps a line of tokens, and forgets those whose newest token was made before a time at which it has
// expired.
func (t *Tx) PutAgentToken(ctx context.Context, a AgentToken, expired time.Time) error {
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM agent_tokens WHERE renew_time < $1", database.Micros(expired)); err != nil {
		return fmt.Errorf("trim tokens of agents: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO agent_tokens ("+agentTokenColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7)"+
		" ON CONFLICT (family) DO UPDATE SET cluster_uid = excluded.cluster_uid, key = excluded.key, generation = excluded.generation,"+
		" request = excluded.request, renew_time = excluded.renew_time, use_time = excluded.use_time",
		a.Family, a.Cluster, a.Key, a.Generation, a.Request, database.Micros(a.RenewTime), database.Micros(a.UseTime)); err != nil {
		return fmt.Errorf("keep the agent's token: %w", err)
	}
	return nil
}

// UseAgentToken notes when a line's newest token was first seen in use.
func (t *Tx) UseAgentToken(ctx context.Context, family string, generation int64, at time.Time) error {
	if _, err := t.tx.ExecContext(ctx, "UPDATE agent_tokens SET use_time = $1 WHERE family = $2 AND generation = $3 AND use_time = 0", database.Micros(at), family, generation); err != nil {
		return fmt.Errorf("note use of the agent's token: %w", err)
	}
	return nil
}

// Reused notes that a token of a cluster's agents was used which had been renewed before. first: nothing was noted
// since the cluster's credentials were taken away last.
func (t *Tx) Reused(ctx context.Context, cluster, how string) (first bool, err error) {
	res, err := t.tx.ExecContext(ctx, "INSERT INTO seen (cluster_uid, join_time, seen_time, state, reuse_time, reuse, touch_time) VALUES ($1, 0, 0, '{}', $2, $3, "+t.tx.Dialect.Now+")"+
		" ON CONFLICT (cluster_uid) DO UPDATE SET reuse_time = excluded.reuse_time, reuse = excluded.reuse, touch_time = excluded.touch_time WHERE seen.reuse_time = 0", cluster, database.Micros(t.tx.Now), how)
	if err != nil {
		return false, fmt.Errorf("note reuse of a token: %w", err)
	}
	n, err := res.RowsAffected()
	if n > 0 {
		t.touched.Clusters = append(t.touched.Clusters, cluster)
	}
	return n > 0, err
}

// EndAgentTokens forgets one line of a cluster's tokens, or all of them if family is empty, and what was noted of their
// reuse: they are revoked.
func (t *Tx) EndAgentTokens(ctx context.Context, cluster, family string) error {
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM agent_tokens WHERE cluster_uid = $1 AND ($2 = '' OR family = $2)", cluster, family); err != nil {
		return fmt.Errorf("forget tokens of agents: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE seen SET reuse_time = 0, reuse = '', touch_time = "+t.tx.Dialect.Now+" WHERE cluster_uid = $1", cluster); err != nil {
		return fmt.Errorf("forget reuse of tokens: %w", err)
	}
	t.touched.Clusters = append(t.touched.Clusters, cluster)
	return nil
}

// HasAgentTokens tells whether agents of a cluster have a line of tokens.
func (v View) HasAgentTokens(ctx context.Context, cluster string) (has bool, err error) {
	const query = "SELECT EXISTS (SELECT 1 FROM agent_tokens WHERE cluster_uid = $1)"
	if err := v.db.QueryRowContext(ctx, query, cluster).Scan(&has); err != nil {
		return false, fmt.Errorf("look for tokens of agents: %w", err)
	}
	return has, nil
}

// Leave marks a cluster as left.
func (t *Tx) Leave(ctx context.Context, cluster string) error {
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO seen (cluster_uid, join_time, seen_time, state, leave_time, touch_time) VALUES ($1, 0, 0, '{}', $2, "+t.tx.Dialect.Now+")"+
		" ON CONFLICT (cluster_uid) DO UPDATE SET leave_time = excluded.leave_time, touch_time = excluded.touch_time", cluster, database.Micros(t.tx.Now)); err != nil {
		return fmt.Errorf("record leave: %w", err)
	}
	t.touched.Clusters = append(t.touched.Clusters, cluster)
	return nil
}

// AddJoinToken keeps a join token, and forgets those that have expired.
func (t *Tx) AddJoinToken(ctx context.Context, j JoinToken) error {
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM join_tokens WHERE expire_time <= $1", database.Micros(t.tx.Now)); err != nil {
		return fmt.Errorf("trim join tokens: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO join_tokens (hash, cluster_uid, author, create_time, expire_time, use_time) VALUES ($1, $2, $3, $4, $5, 0)",
		j.Hash, j.Cluster, t.tx.Author, database.Micros(t.tx.Now), database.Micros(j.Expire)); err != nil {
		return fmt.Errorf("insert join token: %w", err)
	}
	return nil
}

// DropJoinTokens forgets those of a cluster.
func (t *Tx) DropJoinTokens(ctx context.Context, cluster string) error {
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM join_tokens WHERE cluster_uid = $1", cluster); err != nil {
		return fmt.Errorf("drop join tokens: %w", err)
	}
	return nil
}

// UseJoinToken uses a token up and returns its cluster, with the time as its time of joining.
// database.ErrNotFound for a token that is unknown, used or expired, and for a cluster that is gone.
func (t *Tx) UseJoinToken(ctx context.Context, hash string) (Resource, error) {
	var uid string
	err := t.tx.QueryRowContext(ctx, "UPDATE join_tokens SET use_time = $1 WHERE hash = $2 AND use_time = 0 AND expire_time > $1 RETURNING cluster_uid",
		database.Micros(t.tx.Now), hash).Scan(&uid)
	if err != nil {
		return Resource{}, fmt.Errorf("use join token: %w", database.NotFound(err))
	}
	cluster, err := scanResource(t.tx.QueryRowContext(ctx, "SELECT "+resourceColumns+" FROM resources r WHERE uid = $1", uid))
	if err != nil {
		return Resource{}, fmt.Errorf("read cluster: %w", database.NotFound(err))
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO seen (cluster_uid, join_time, seen_time, state, touch_time) VALUES ($1, $2, 0, '{}', "+t.tx.Dialect.Now+")"+
		" ON CONFLICT (cluster_uid) DO UPDATE SET join_time = excluded.join_time, leave_time = 0, touch_time = excluded.touch_time", uid, database.Micros(t.tx.Now)); err != nil {
		return Resource{}, fmt.Errorf("record join: %w", err)
	}
	t.touched.Clusters = append(t.touched.Clusters, uid)
	return cluster, nil
}
