-- Freezes of projects and clusters end by their own time, too.

-- +goose Up
DROP INDEX resources_ending;
CREATE INDEX resources_ending ON resources (kind, name) WHERE kind IN ('service', 'project', 'cluster') AND spec LIKE '%"until":%';
