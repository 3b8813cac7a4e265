-- +goose Up
-- One row: whether services that the catalog does not have stay in clusters until a person says otherwise.
CREATE TABLE removals (
    id           INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    hold_time    BIGINT  NOT NULL, -- 0: they don't
    reason       TEXT    NOT NULL,
    confirmation TEXT    NOT NULL -- another one after each confirmation
);
INSERT INTO removals (id, hold_time, reason, confirmation) VALUES (1, 0, '', '');
-- Which services would have been removed from a cluster.
CREATE TABLE held_removals (
    cluster_uid TEXT   NOT NULL PRIMARY KEY,
    services    TEXT   NOT NULL, -- JSON
    hold_time   BIGINT NOT NULL
);
