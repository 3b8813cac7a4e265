-- +goose Up
-- What was delivered of services. Times are 0 for what was not reached.
CREATE TABLE deployments (
    service_uid  TEXT   NOT NULL,
    number       BIGINT NOT NULL, -- counts from 1
    digest       TEXT   NOT NULL,
    state        TEXT   NOT NULL, -- JSON: what was known at its beginning
    deliver_time BIGINT NOT NULL,
    apply_time   BIGINT NOT NULL DEFAULT 0,
    healthy_time BIGINT NOT NULL DEFAULT 0,
    end_time     BIGINT NOT NULL DEFAULT 0,
    outcome      TEXT   NOT NULL DEFAULT '',
    message      TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (service_uid, number)
);
CREATE INDEX revisions_name ON revisions (kind, name, time);
