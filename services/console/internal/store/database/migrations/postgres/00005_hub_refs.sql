-- +goose Up
-- From which commit the services of a ref are handed out, those whose row in hub names none.
CREATE TABLE hub_refs (
    source_uid TEXT NOT NULL,
    ref        TEXT COLLATE "C" NOT NULL,
    state      TEXT NOT NULL, -- JSON
    PRIMARY KEY (source_uid, ref)
);
