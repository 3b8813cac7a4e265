-- +goose Up
-- Since when the guard of a global service keeps a service whose cluster is not chosen any more. A service that is chosen again keeps its
-- row, which counts for nothing: the guard writes it anew when it keeps the service again.
CREATE TABLE held_services (
    service_uid TEXT    NOT NULL PRIMARY KEY,
    hold_time   INTEGER NOT NULL
);
