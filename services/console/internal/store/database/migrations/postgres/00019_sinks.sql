-- +goose Up
-- How far each sink is with the events, and how sending to it goes.
CREATE TABLE sinks (
    sink_uid     TEXT NOT NULL PRIMARY KEY,
    seq          BIGINT NOT NULL, -- all events up to this one are sent, given up, or not for it
    next_time    BIGINT NOT NULL, -- nothing is sent before
    sender       TEXT NOT NULL DEFAULT '', -- who sends, or sent last
    lease_time   BIGINT NOT NULL DEFAULT 0, -- nobody else sends before
    attempts     BIGINT NOT NULL DEFAULT 0, -- that failed, since the last that did not
    waiting      BIGINT NOT NULL DEFAULT 0, -- events, as of the last attempt
    oldest_time  BIGINT NOT NULL DEFAULT 0, -- of the oldest of them; 0: none waits
    send_time    BIGINT NOT NULL DEFAULT 0, -- when something was taken last
    sent         BIGINT NOT NULL DEFAULT 0, -- events
    dropped      BIGINT NOT NULL DEFAULT 0, -- events
    problem      TEXT NOT NULL DEFAULT '', -- why the last attempt failed; empty: it did not
    problem_time BIGINT NOT NULL DEFAULT 0 -- since when
);
