-- +goose Up
-- The last status of a commit that a sink set, by name and ref, so that none is set twice.
CREATE TABLE commit_statuses (
    sink_uid    TEXT NOT NULL,
    context     TEXT NOT NULL, -- name of the status
    ref         TEXT NOT NULL, -- that its services follow
    repository  TEXT NOT NULL,
    commit_id   TEXT NOT NULL,
    digest      TEXT NOT NULL, -- of the content that came with the commit; empty: the hub can't deliver the commit
    state       TEXT NOT NULL,
    description TEXT NOT NULL,
    PRIMARY KEY (sink_uid, context, ref)
);
