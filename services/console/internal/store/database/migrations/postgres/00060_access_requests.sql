-- +goose Up
-- Requests to be lent access to a cluster, and what became of them.
CREATE TABLE access_requests (
    id       TEXT   NOT NULL PRIMARY KEY, -- later ones sort later
    subject  TEXT   NOT NULL,             -- who asks
    cluster  TEXT   NOT NULL,             -- name
    state    TEXT   NOT NULL,
    due_time BIGINT NOT NULL,             -- when it lapses or ends; 0: it is over
    end_time BIGINT NOT NULL,             -- when it was over; 0: it is not
    data     TEXT   NOT NULL              -- JSON
);
CREATE INDEX access_requests_due ON access_requests (due_time) WHERE due_time > 0;
CREATE INDEX access_requests_end ON access_requests (end_time) WHERE end_time > 0;
