package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// Config is what a service is configured with.
type Config struct {
	// Revision is HeldConfig while nothing can be delivered yet.
	Revision string
	Sealed   []byte
	// Problem is why the newest can't be delivered; empty: it is.
	Problem     string
	ProblemTime time.Time
}

// HeldConfig is the revision of a service that waits for its first configuration.
const HeldConfig = "held"

// Configs returns what is kept, by service uid.
func (v View) Configs(ctx context.Context, services []string) (map[string]Config, error) {
	return database.ByKey(ctx, v.db, selectConfigs+" IN ", services, scanConfig)
}

// ConfigsWithin returns what is kept of all services whose uids are in a range, by service uid.
func (v View) ConfigsWithin(ctx context.Context, uids Range) (map[string]Config, error) {
	return within(ctx, v, selectConfigs, uids, scanConfig)
}

const selectConfigs = "SELECT service_uid, revision, sealed, problem, problem_time FROM configs WHERE service_uid"

func scanConfig(rows *sql.Rows) (uid string, c Config, err error) {
	var us int64
	err = rows.Scan(&uid, &c.Revision, &c.Sealed, &c.Problem, &us)
	c.ProblemTime = database.FromMicros(us)
	return uid, c, err
}

// ServiceConfig is a configuration and whose it is.
type ServiceConfig struct {
	Service Resource
	Config  Config
}

// PutConfigs keeps configurations; the zero Config: none. Followers are told, by changes of the services that are no
// new revisions of them.
func (t *Tx) PutConfigs(ctx context.Context, list []ServiceConfig) error {
	if len(list) == 0 {
		return nil
	}
	var kept []ServiceConfig
	var without []string
	services := make([]Resource, len(list))
	for i, c := range list {
		services[i] = c.Service
		if c.Config.Revision != "" || c.Config.Problem != "" {
			kept = append(kept, c)
		} else {
			without = append(without, c.Service.UID)
		}
	}
	for chunk := range slices.Chunk(without, database.ChunkSize) {
		if _, err := t.tx.ExecContext(ctx, "DELETE FROM configs WHERE service_uid IN "+t.tx.Dialect.Placeholders(1, len(chunk)), database.Anys(chunk)...); err != nil {
			return fmt.Errorf("delete configurations: %w", err)
		}
	}
	err := database.Insert(ctx, t.tx, "INSERT INTO configs (service_uid, revision, sealed, problem, problem_time) VALUES "+
		" ON CONFLICT (service_uid) DO UPDATE SET revision = excluded.revision, sealed = excluded.sealed, problem = excluded.problem, problem_time = excluded.problem_time",
		kept, func(c ServiceConfig) []any {
			return []any{c.Service.UID, c.Config.Revision, c.Config.Sealed, c.Config.Problem, database.Micros(c.Config.ProblemTime)}
		})
	if err != nil {
		return fmt.Errorf("write configurations: %w", err)
	}
	return t.touchAll(ctx, services)
}

// ConfigKey is the key of revisions, sealed; ErrNotFound before there is one.
func (v View) ConfigKey(ctx context.Context) (sealed []byte, err error) {
	return sealed, database.NotFound(v.db.QueryRowContext(ctx, "SELECT sealed FROM config_key WHERE id = 1").Scan(&sealed))
}

// PutConfigKey keeps the key of revisions.
func (t *Tx) PutConfigKey(ctx context.Context, sealed []byte) error {
	_, err := t.tx.ExecContext(ctx, "INSERT INTO config_key (id, sealed) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed", sealed)
	if err != nil {
		return fmt.Errorf("write key of configurations: %w", err)
	}
	return nil
}
