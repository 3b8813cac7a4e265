-- +goose Up
-- How many services of a global service went when, for the guard against too many.
CREATE TABLE global_deletions (
    global_uid TEXT   NOT NULL,
    time       INTEGER NOT NULL,
    deleted    INTEGER NOT NULL,
    PRIMARY KEY (global_uid, time)
);
