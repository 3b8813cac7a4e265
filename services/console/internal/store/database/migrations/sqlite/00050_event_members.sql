-- +goose Up
-- What happened to many services at once is one event; this is what it says of each of them. NULL: it is about one service, or none.
ALTER TABLE events ADD COLUMN members BLOB;
CREATE INDEX events_members ON events (seq) WHERE members IS NOT NULL;
