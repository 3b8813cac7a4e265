-- +goose Up
-- Each new token removes those that have expired: without an index by looking at all of them.
CREATE INDEX join_tokens_expire ON join_tokens (expire_time);
