-- +goose Up
-- The consoles that share the database. seen_time is the last sign of life, by the database's clock.
CREATE TABLE consoles (
    id         TEXT   NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    version    TEXT   NOT NULL,
    start_time INTEGER NOT NULL,
    seen_time  INTEGER NOT NULL
);
