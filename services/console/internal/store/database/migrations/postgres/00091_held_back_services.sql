-- +goose Up
-- When the guard of a global service began to hold back a service whose cluster is no longer chosen. The row stays when the cluster is chosen
-- again; the guard overwrites it at the next hold.
CREATE TABLE held_back_services (
    service_uid TEXT    NOT NULL PRIMARY KEY,
    hold_time   BIGINT NOT NULL
);
