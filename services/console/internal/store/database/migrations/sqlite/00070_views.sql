-- +goose Up
-- What agents saw last in their clusters. number grows with every write of a view, in the order of commits: consoles read what others wrote by it.
CREATE TABLE views (
    cluster_uid  TEXT   NOT NULL PRIMARY KEY,
    term         BIGINT NOT NULL,
    sequence     BIGINT NOT NULL,
    number       BIGINT NOT NULL,
    receive_time BIGINT NOT NULL,
    data         BLOB  NOT NULL
);
CREATE INDEX views_number ON views (number);
