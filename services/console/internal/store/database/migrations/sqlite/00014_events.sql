-- +goose Up
-- What happened. Kept for seven days, and a million of them.
CREATE TABLE events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they became visible
    id       TEXT   NOT NULL UNIQUE, -- the same event has the same one, however often it is told
    time     BIGINT NOT NULL,
    type     TEXT   NOT NULL,
    cluster  TEXT   NOT NULL,
    service  TEXT   NOT NULL,
    event    TEXT   NOT NULL -- JSON
);
CREATE INDEX events_time ON events (time);
CREATE INDEX events_service ON events (service, seq);
CREATE INDEX events_cluster ON events (cluster, seq);
CREATE INDEX events_type ON events (type, seq);
-- One row: the number of the last event that went.
CREATE TABLE events_gone (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    seq BIGINT NOT NULL
);
INSERT INTO events_gone (id, seq) VALUES (1, 0);
