-- +goose Up
-- Every write of a status changes its touch_time: with a B-tree each also moved an entry there, and wrote all other indexes of the table anew. A BRIN
-- index has a line for some pages, and from PostgreSQL 16 on such a write leaves all indexes alone where its page has room.
DROP INDEX hub_touch;
DROP INDEX hub_refs_touch;
DROP INDEX reports_touch;
DROP INDEX seen_touch;
CREATE INDEX hub_touch ON hub USING brin (touch_time) WITH (pages_per_range = 8, autosummarize = on);
CREATE INDEX hub_refs_touch ON hub_refs USING brin (touch_time) WITH (pages_per_range = 8, autosummarize = on);
CREATE INDEX reports_touch ON reports USING brin (touch_time) WITH (pages_per_range = 8, autosummarize = on);
CREATE INDEX seen_touch ON seen USING brin (touch_time) WITH (pages_per_range = 8, autosummarize = on);
ALTER TABLE hub SET (fillfactor = 80);
ALTER TABLE reports SET (fillfactor = 80);
ALTER TABLE seen SET (fillfactor = 80);
ALTER TABLE deployments SET (fillfactor = 80);
