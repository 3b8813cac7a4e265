-- +goose Up
-- What the folder that a service comes of has said last of how it is synced: what people set by hand since stays.
CREATE TABLE declared (
    uid  TEXT NOT NULL PRIMARY KEY,
    said TEXT NOT NULL -- JSON
);
