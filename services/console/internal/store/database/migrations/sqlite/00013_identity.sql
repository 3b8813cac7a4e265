-- +goose Up
-- Who has ever logged in.
CREATE TABLE people (
    name       TEXT   NOT NULL PRIMARY KEY,
    provider   TEXT   NOT NULL, -- issuer of the last login; empty: a link or the hub secret
    login_time BIGINT NOT NULL
);
CREATE TABLE login_links (
    hash        TEXT   NOT NULL PRIMARY KEY, -- SHA-256 of the code, in hex
    person      TEXT   NOT NULL, -- JSON: name and groups
    author      TEXT   NOT NULL,
    create_time BIGINT NOT NULL,
    expire_time BIGINT NOT NULL,
    use_time    BIGINT NOT NULL -- 0: not used
);
-- Foreign tokens that were exchanged, so that each is so once.
CREATE TABLE exchanged (
    hash        TEXT   NOT NULL PRIMARY KEY,
    expire_time BIGINT NOT NULL
);
CREATE TABLE api_tokens (
    id            TEXT   NOT NULL PRIMARY KEY,
    hash          TEXT   NOT NULL, -- SHA-256 of the token, in hex
    subject       TEXT   NOT NULL, -- user:ada, user:serviceaccount:ci
    member_of     TEXT   NOT NULL, -- JSON: groups of a user
    limits        TEXT   NOT NULL, -- JSON
    description   TEXT   NOT NULL,
    creator       TEXT   NOT NULL,
    create_time   BIGINT NOT NULL,
    expire_time   BIGINT NOT NULL,
    last_use_time BIGINT NOT NULL, -- 0: never
    revoke_time   BIGINT NOT NULL  -- 0: not revoked
);
CREATE INDEX api_tokens_subject ON api_tokens (subject, id);
ALTER TABLE seen ADD COLUMN leave_time BIGINT NOT NULL DEFAULT 0; -- 0: the cluster has not left
-- One row: what the audit trail takes, so that nobody has to count it.
CREATE TABLE audit_volume (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    bytes BIGINT NOT NULL
);
INSERT INTO audit_volume (id, bytes) SELECT 1, COALESCE(SUM(LENGTH(event) + 256), 0) FROM audit;
DROP TRIGGER audit_is_kept;
-- +goose StatementBegin
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
WHEN OLD.time > (CAST(strftime('%s', 'now') AS INTEGER) - 7 * 86400) * 1000000
BEGIN SELECT RAISE(ABORT, 'audit events are kept for 7 days at least'); END;
-- +goose StatementEnd
