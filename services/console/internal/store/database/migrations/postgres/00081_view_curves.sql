-- +goose Up
-- The last 24 hours of a few figures of each cluster. Consoles write them now and then, and add up what they write.
CREATE TABLE view_curves (
    cluster_uid TEXT  NOT NULL PRIMARY KEY,
    data        BYTEA NOT NULL
);
