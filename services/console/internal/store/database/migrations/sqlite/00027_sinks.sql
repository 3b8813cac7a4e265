-- +goose Up
-- What happened before a filter was changed has to fit that which was there then, and an event that is itself refused is given up.
ALTER TABLE sinks ADD COLUMN rejections INTEGER NOT NULL DEFAULT 0; -- of the oldest event, alone
ALTER TABLE sinks ADD COLUMN filters TEXT NOT NULL DEFAULT ''; -- JSON: up to which event which others counted
