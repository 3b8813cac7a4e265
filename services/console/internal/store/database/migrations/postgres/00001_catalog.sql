-- Times are microseconds since 1970, UTC. Texts that hold JSON say so.

-- +goose Up
-- One row: the number of the last change. Whoever writes to the catalog holds it until the commit.
CREATE TABLE log (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    seq BIGINT NOT NULL
);
INSERT INTO log (id, seq) VALUES (1, 0);

CREATE TABLE resources (
    uid         TEXT   NOT NULL PRIMARY KEY,
    kind        TEXT   NOT NULL,
    name        TEXT   COLLATE "C" NOT NULL,
    revision    BIGINT NOT NULL,
    seq         BIGINT NOT NULL, -- its last change, in changes
    labels      TEXT   NOT NULL, -- JSON
    spec        TEXT   NOT NULL, -- JSON
    sealed      BYTEA,           -- secret values, never in clear, never in revisions
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    UNIQUE (kind, name)
);

-- Which resources a resource names.
CREATE TABLE refs (
    uid  TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (uid, kind, name)
);
CREATE INDEX refs_target ON refs (kind, name);

CREATE TABLE revisions (
    uid      TEXT   NOT NULL,
    revision BIGINT NOT NULL,
    kind     TEXT   NOT NULL,
    name     TEXT   COLLATE "C" NOT NULL,
    action   TEXT   NOT NULL, -- created, updated, deleted
    author   TEXT   NOT NULL,
    time     BIGINT NOT NULL,
    labels   TEXT   NOT NULL, -- JSON
    spec     TEXT   NOT NULL, -- JSON
    PRIMARY KEY (uid, revision)
);

CREATE TABLE changes (
    seq     BIGINT  NOT NULL PRIMARY KEY,
    nonce   TEXT    NOT NULL, -- tells this change from another that had its number in a history that was lost
    kind    TEXT    NOT NULL,
    name    TEXT    COLLATE "C" NOT NULL,
    uid     TEXT    NOT NULL,
    deleted BOOLEAN NOT NULL
);

-- Statuses, apart from resources: most of them change without being a change of the catalog.
CREATE TABLE heads (
    source_uid TEXT   NOT NULL PRIMARY KEY,
    epoch      BIGINT NOT NULL,
    owner      TEXT   NOT NULL,
    state      TEXT   NOT NULL -- JSON
);
CREATE TABLE hub (
    service_uid TEXT NOT NULL PRIMARY KEY,
    state       TEXT NOT NULL -- JSON
);
CREATE TABLE reports (
    service_uid  TEXT   NOT NULL,
    cluster_uid  TEXT   NOT NULL,
    sequence     BIGINT NOT NULL,
    receive_time BIGINT NOT NULL,
    state        TEXT   NOT NULL, -- JSON
    PRIMARY KEY (service_uid, cluster_uid)
);
CREATE INDEX reports_cluster ON reports (cluster_uid);
CREATE TABLE seen (
    cluster_uid TEXT   NOT NULL PRIMARY KEY,
    join_time   BIGINT NOT NULL, -- 0: no agent joined
    seen_time   BIGINT NOT NULL, -- 0: never seen
    state       TEXT   NOT NULL  -- JSON
);

-- One row, if any: the set of signing keys.
CREATE TABLE signing_keys (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    sealed BYTEA NOT NULL
);
CREATE TABLE join_tokens (
    hash        TEXT   NOT NULL PRIMARY KEY, -- SHA-256 of the token, in hex
    cluster_uid TEXT   NOT NULL,
    author      TEXT   NOT NULL,
    create_time BIGINT NOT NULL,
    expire_time BIGINT NOT NULL,
    use_time    BIGINT NOT NULL -- 0: not used
);
CREATE TABLE revocations (
    token_id    TEXT   NOT NULL, -- one of these two is empty
    subject     TEXT   NOT NULL,
    revoke_time BIGINT NOT NULL,
    expire_time BIGINT NOT NULL, -- no token that it could be about lives longer
    PRIMARY KEY (token_id, subject)
);
