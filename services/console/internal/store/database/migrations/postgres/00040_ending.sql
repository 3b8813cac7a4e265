-- Few of all services have a lever that ends by its own time, and each console asks for them every few seconds.

-- +goose Up
CREATE INDEX resources_ending ON resources (kind, name) WHERE kind = 'service' AND spec LIKE '%"until":%';
