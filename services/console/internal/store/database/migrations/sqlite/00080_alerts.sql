-- +goose Up
-- What alerts have found. version grows with every change of state; look_time and unknown_count are of the last round.
CREATE TABLE alerts (
    alert_uid TEXT   NOT NULL PRIMARY KEY,
    version   BIGINT NOT NULL,
    look_time BIGINT NOT NULL,
    unknown_count BIGINT NOT NULL,
    state     TEXT   NOT NULL
);
-- When a console may evaluate all alerts next: one row, from the first round on.
CREATE TABLE alert_rounds (
    id        BIGINT NOT NULL PRIMARY KEY,
    next_time BIGINT NOT NULL
);
