-- +goose Up
-- What services are configured with, all layers put together.
CREATE TABLE configs (
    service_uid  TEXT NOT NULL PRIMARY KEY,
    revision     TEXT NOT NULL, -- held: nothing can be delivered yet; empty: without configuration
    sealed       BLOB, -- values, by which revision they are
    problem      TEXT NOT NULL, -- why the newest can't be delivered; empty: it is
    problem_time INTEGER NOT NULL
);
-- The key of revisions, sealed.
CREATE TABLE config_key (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    sealed BLOB NOT NULL
);
