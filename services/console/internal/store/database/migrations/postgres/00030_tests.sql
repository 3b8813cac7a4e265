-- +goose Up
-- The last runs of the tests of services. Times are 0 for what was not reached.
CREATE TABLE test_runs (
    service_uid TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    start_time  BIGINT NOT NULL,
    end_time    BIGINT NOT NULL,
    time        BIGINT NOT NULL, -- of the observation
    data        BYTEA  NOT NULL, -- a ServiceDetail, deflated
    PRIMARY KEY (service_uid, id)
);
-- An asking for tests is no new deployment: it gets another digest, and its content has the one that it had.
ALTER TABLE deployments ADD COLUMN content_digest TEXT NOT NULL DEFAULT ''; -- empty: as digest, of before there were tests
ALTER TABLE deployments ADD COLUMN tests TEXT NOT NULL DEFAULT ''; -- JSON: the last run of its tests; empty: there was none
ALTER TABLE deployments ADD COLUMN tests_time BIGINT NOT NULL DEFAULT 0; -- when that run began
