-- +goose Up
-- What recordings take, by the person and the day (UTC, since 1970) on which they began. The row of the empty subject and day 0 is the sum of all. No row: 0 bytes.
CREATE TABLE recording_usage (
    subject TEXT   NOT NULL,
    day     BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (subject, day)
);
INSERT INTO recording_usage (subject, day, bytes)
    SELECT subject, begin_time / 86400000000, SUM(bytes) FROM recordings GROUP BY subject, begin_time / 86400000000;
INSERT INTO recording_usage (subject, day, bytes) SELECT '', 0, SUM(bytes) FROM recordings HAVING COUNT(*) > 0;
CREATE INDEX recordings_begin ON recordings (begin_time);
CREATE INDEX recordings_subject ON recordings (subject, begin_time);
