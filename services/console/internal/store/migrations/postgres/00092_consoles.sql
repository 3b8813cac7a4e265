-- +goose Up
-- The consoles that share the database, each with when it said last that it is there, by the database's clock.
CREATE TABLE consoles (
    id         TEXT   NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    version    TEXT   NOT NULL,
    start_time BIGINT NOT NULL,
    seen_time  BIGINT NOT NULL
);
