-- +goose Up
-- How many bytes of members came up to an event and with it: what is kept of them is bounded by the difference.
ALTER TABLE events ADD COLUMN weight BIGINT NOT NULL DEFAULT 0;
CREATE INDEX events_weight ON events (weight) WHERE members IS NOT NULL;
