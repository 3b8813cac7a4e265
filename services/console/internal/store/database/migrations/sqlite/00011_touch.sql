-- +goose Up
-- When a status was written last, in microseconds: consoles look for what the others wrote.
ALTER TABLE hub ADD COLUMN touch_time BIGINT NOT NULL DEFAULT 0;
ALTER TABLE hub_refs ADD COLUMN touch_time BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reports ADD COLUMN touch_time BIGINT NOT NULL DEFAULT 0;
ALTER TABLE seen ADD COLUMN touch_time BIGINT NOT NULL DEFAULT 0;
CREATE INDEX hub_touch ON hub (touch_time);
CREATE INDEX hub_refs_touch ON hub_refs (touch_time);
CREATE INDEX reports_touch ON reports (touch_time);
CREATE INDEX seen_touch ON seen (touch_time);
