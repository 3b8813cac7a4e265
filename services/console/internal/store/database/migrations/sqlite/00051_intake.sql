-- +goose Up
-- Nothing: indexes of what consoles look for at each other are PostgreSQL's only.
SELECT 1;
