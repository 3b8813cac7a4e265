-- +goose Up
-- Why what the agent of a cluster pushed is not its view, and since when. Data is of before; receive_time is 0 if no push was ever kept.
ALTER TABLE views ADD COLUMN refusal TEXT NOT NULL DEFAULT '';
ALTER TABLE views ADD COLUMN refuse_time BIGINT NOT NULL DEFAULT 0;
