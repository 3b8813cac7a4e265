-- +goose Up
-- Services whose deployments are kept though they are deleted, for as long as the deletion can be undone.
CREATE TABLE deleted_services (
    uid         TEXT   NOT NULL PRIMARY KEY,
    delete_time BIGINT NOT NULL
);
CREATE INDEX deleted_services_time ON deleted_services (delete_time);
