-- +goose Up
-- Long lists about services that their agents hand over: what comes replaces what was before.
CREATE TABLE service_details (
    service_uid TEXT   NOT NULL,
    kind        TEXT   NOT NULL, -- objects, diff
    digest      TEXT   NOT NULL, -- of the service that it is about
    time        BIGINT NOT NULL,
    data        BLOB   NOT NULL, -- a ServiceDetail, deflated
    PRIMARY KEY (service_uid, kind)
);
