-- +goose Up
-- When the stream of its agent broke last; 0: none did.
ALTER TABLE seen ADD COLUMN lost_time BIGINT NOT NULL DEFAULT 0;
