-- The deployments of a service lie together, and without a key apart from them: one of two trees goes.

-- +goose Up
ALTER TABLE deployments RENAME TO deployments_before;
CREATE TABLE deployments (
    service_uid    TEXT   NOT NULL,
    number         BIGINT NOT NULL, -- counts from 1
    digest         TEXT   NOT NULL,
    state          TEXT   NOT NULL, -- JSON: what was known at its beginning
    deliver_time   BIGINT NOT NULL,
    apply_time     BIGINT NOT NULL DEFAULT 0,
    healthy_time   BIGINT NOT NULL DEFAULT 0,
    end_time       BIGINT NOT NULL DEFAULT 0,
    outcome        TEXT   NOT NULL DEFAULT '',
    message        TEXT   NOT NULL DEFAULT '',
    content_digest TEXT   NOT NULL DEFAULT '',
    tests          TEXT   NOT NULL DEFAULT '',
    tests_time     BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (service_uid, number)
) WITHOUT ROWID;
INSERT INTO deployments (service_uid, number, digest, state, deliver_time, apply_time, healthy_time, end_time, outcome,
    message, content_digest, tests, tests_time)
SELECT service_uid, number, digest, state, deliver_time, apply_time, healthy_time, end_time, outcome, message,
    content_digest, tests, tests_time
FROM deployments_before ORDER BY service_uid, number;
DROP TABLE deployments_before;
