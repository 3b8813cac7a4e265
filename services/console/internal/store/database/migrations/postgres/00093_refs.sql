-- +goose Up
-- Nothing: SQLite alone keeps a row apart from its key.
SELECT 1;
