-- +goose Up
-- Who did what. Rows are added, and go when they are older than 90 days; the database itself refuses the rest.
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they became visible
    id      TEXT    NOT NULL UNIQUE,
    time    BIGINT  NOT NULL,
    actor   TEXT    NOT NULL, -- user:ada
    cluster TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    event   TEXT    NOT NULL  -- JSON
);
CREATE INDEX audit_time ON audit (time, seq);
CREATE INDEX audit_actor ON audit (actor, time, seq);
CREATE INDEX audit_cluster ON audit (cluster, time, seq);
-- +goose StatementBegin
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'audit events are never changed'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
WHEN OLD.time > (CAST(strftime('%s', 'now') AS INTEGER) - 90 * 86400) * 1000000
BEGIN SELECT RAISE(ABORT, 'audit events are kept for 90 days'); END;
-- +goose StatementEnd
