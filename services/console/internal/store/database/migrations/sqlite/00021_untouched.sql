-- +goose Up
-- Only consoles that share a database look for what others wrote. One that has its own pays for these with every status.
DROP INDEX hub_touch;
DROP INDEX hub_refs_touch;
DROP INDEX reports_touch;
DROP INDEX seen_touch;
