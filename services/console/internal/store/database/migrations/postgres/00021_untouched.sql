-- +goose Up
-- Nothing: consoles that share a database look for what others wrote by the indexes that SQLite drops here.
SELECT 1;
