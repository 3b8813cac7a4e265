-- +goose Up
-- People's logins, as long as they last: sessions in browsers, tokens of the command, and tokens that administrators made for them.
CREATE TABLE logins (
    id            TEXT   NOT NULL PRIMARY KEY, -- of its tokens
    subject       TEXT   NOT NULL, -- user:ada
    client        TEXT   NOT NULL, -- browser, command or token
    action        TEXT   NOT NULL, -- by which it began in the audit trail; empty: it began before this table
    parent        TEXT   NOT NULL, -- token that a session was begun with
    program       TEXT   NOT NULL, -- as it calls itself
    begin_time    BIGINT NOT NULL,
    begin_address TEXT   NOT NULL,
    use_time      BIGINT NOT NULL, -- 0: never
    use_address   TEXT   NOT NULL,
    expire_time   BIGINT NOT NULL  -- of its newest token
);
CREATE INDEX logins_subject ON logins (subject, begin_time, id);
CREATE INDEX logins_expire ON logins (expire_time);
