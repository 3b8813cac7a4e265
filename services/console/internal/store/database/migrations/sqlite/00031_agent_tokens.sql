-- +goose Up
-- A line of tokens of an agent: each is renewed once, and bound to the same key.
CREATE TABLE agent_tokens (
    family      TEXT   NOT NULL PRIMARY KEY, -- id of the first token of the line
    cluster_uid TEXT   NOT NULL,
    key         TEXT   NOT NULL, -- Ed25519, in base64
    generation  BIGINT NOT NULL, -- of the newest token
    request     TEXT   NOT NULL, -- SHA-256 of the request for it, in hex
    renew_time  BIGINT NOT NULL, -- when it was made
    use_time    BIGINT NOT NULL  -- when it was first seen in use; 0: it was not
);
CREATE INDEX agent_tokens_cluster ON agent_tokens (cluster_uid);
CREATE INDEX agent_tokens_renew ON agent_tokens (renew_time);
ALTER TABLE seen ADD COLUMN reuse_time BIGINT NOT NULL DEFAULT 0; -- when a token was used that had been renewed before; 0: none was
ALTER TABLE seen ADD COLUMN reuse TEXT NOT NULL DEFAULT ''; -- in words
