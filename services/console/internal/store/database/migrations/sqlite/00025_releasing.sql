-- Few of all services have a pin that goes by itself, and each push asks for them.

-- +goose Up
CREATE INDEX resources_releasing ON resources (kind, name) WHERE kind = 'service' AND spec LIKE '%"unpinAfter":%';
