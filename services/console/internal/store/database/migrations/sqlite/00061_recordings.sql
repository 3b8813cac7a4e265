-- +goose Up
-- What people saw of shells in pods.
CREATE TABLE recordings (
    id          TEXT   NOT NULL PRIMARY KEY, -- later ones sort later
    cluster     TEXT   NOT NULL,             -- name
    subject     TEXT   NOT NULL,
    begin_time  BIGINT NOT NULL,
    update_time BIGINT NOT NULL,             -- of the last piece
    end_time    BIGINT NOT NULL,             -- 0: it goes on, or its tunnel was killed
    bytes       BIGINT NOT NULL,             -- of its pieces
    incomplete  TEXT   NOT NULL,             -- why it does not hold all; empty: it does
    data        TEXT   NOT NULL              -- JSON
);
CREATE TABLE recording_pieces (
    recording_id TEXT   NOT NULL,
    seq          BIGINT NOT NULL,
    data         BLOB  NOT NULL, -- sealed
    PRIMARY KEY (recording_id, seq)
);
