-- +goose Up
-- What configuration takes of backends, as it was read last.
CREATE TABLE places (
    backend_uid TEXT NOT NULL,
    path        TEXT NOT NULL,
    sealed      BLOB, -- values; NULL: nothing was there, or it was never read
    problem     TEXT NOT NULL DEFAULT '', -- why it can't be read now; empty: it could
    read_time   INTEGER NOT NULL DEFAULT 0, -- when this was read first, found or not; 0: never
    PRIMARY KEY (backend_uid, path)
);
-- When each backend is to be read, and how that went.
CREATE TABLE readings (
    backend_uid  TEXT NOT NULL PRIMARY KEY,
    next_time    INTEGER NOT NULL,
    reader       TEXT NOT NULL DEFAULT '', -- who reads, or read last
    read_time    INTEGER NOT NULL DEFAULT 0, -- when something was read last
    problem      TEXT NOT NULL DEFAULT '', -- why it can't be read now; empty: it can
    problem_time INTEGER NOT NULL DEFAULT 0
);
