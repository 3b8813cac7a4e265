-- +goose Up
-- Who did what. Rows are added, and go when they are older than 90 days; the database itself refuses the rest.
CREATE TABLE audit (
    seq     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order in which they became visible
    id      TEXT   COLLATE "C" NOT NULL UNIQUE,
    time    BIGINT NOT NULL,
    actor   TEXT   COLLATE "C" NOT NULL, -- user:ada
    cluster TEXT   COLLATE "C" NOT NULL,
    action  TEXT   COLLATE "C" NOT NULL,
    event   TEXT   NOT NULL  -- JSON
);
CREATE INDEX audit_time ON audit (time, seq);
CREATE INDEX audit_actor ON audit (actor, time, seq);
CREATE INDEX audit_cluster ON audit (cluster, time, seq);
-- +goose StatementBegin
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.time <= (EXTRACT(EPOCH FROM now())::BIGINT - 90 * 86400) * 1000000 THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit events are never changed, and kept for 90 days';
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_is_kept BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
