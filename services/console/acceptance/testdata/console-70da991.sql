-- The SQLite database of a console of commit 70da991, the oldest release that upgrades are promised from: its migrations, all kinds
-- of resources that it had, and what a console writes besides: heads, reports, deployments, events, the audit trail, sealed
-- values. It was written by that console through its API, and is never changed: TestDatabaseOfTheFirstReleaseIsRead reads it.
-- The master key is 32 bytes from 0 to 31. All names and secrets are made up.
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
CREATE TABLE log (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    seq BIGINT NOT NULL
);
CREATE TABLE resources (
    uid         TEXT   NOT NULL PRIMARY KEY,
    kind        TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    revision    BIGINT NOT NULL,
    seq         BIGINT NOT NULL, -- its last change, in changes
    labels      TEXT   NOT NULL, -- JSON
    spec        TEXT   NOT NULL, -- JSON
    sealed      BLOB,            -- secret values, never in clear, never in revisions
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    UNIQUE (kind, name)
);
CREATE TABLE refs (
    uid  TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (uid, kind, name)
);
CREATE TABLE revisions (
    uid      TEXT   NOT NULL,
    revision BIGINT NOT NULL,
    kind     TEXT   NOT NULL,
    name     TEXT   NOT NULL,
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
    name    TEXT    NOT NULL,
    uid     TEXT    NOT NULL,
    deleted BOOLEAN NOT NULL
);
CREATE TABLE heads (
    source_uid TEXT   NOT NULL PRIMARY KEY,
    epoch      BIGINT NOT NULL,
    owner      TEXT   NOT NULL,
    state      TEXT   NOT NULL -- JSON
);
CREATE TABLE hub (
    service_uid TEXT NOT NULL PRIMARY KEY,
    state       TEXT NOT NULL -- JSON
, touch_time BIGINT NOT NULL DEFAULT 0);
CREATE TABLE reports (
    service_uid  TEXT   NOT NULL,
    cluster_uid  TEXT   NOT NULL,
    sequence     BIGINT NOT NULL,
    receive_time BIGINT NOT NULL,
    state        TEXT   NOT NULL, touch_time BIGINT NOT NULL DEFAULT 0, -- JSON
    PRIMARY KEY (service_uid, cluster_uid)
);
CREATE TABLE seen (
    cluster_uid TEXT   NOT NULL PRIMARY KEY,
    join_time   BIGINT NOT NULL, -- 0: no agent joined
    seen_time   BIGINT NOT NULL, -- 0: never seen
    state       TEXT   NOT NULL  -- JSON
, lost_time BIGINT NOT NULL DEFAULT 0, touch_time BIGINT NOT NULL DEFAULT 0, leave_time BIGINT NOT NULL DEFAULT 0);
CREATE TABLE signing_keys (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    sealed BLOB NOT NULL
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
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they became visible
    id      TEXT    NOT NULL UNIQUE,
    time    BIGINT  NOT NULL,
    actor   TEXT    NOT NULL, -- user:ada
    cluster TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    event   TEXT    NOT NULL  -- JSON
);
CREATE TABLE hub_refs (
    source_uid TEXT NOT NULL,
    ref        TEXT NOT NULL,
    state      TEXT NOT NULL, touch_time BIGINT NOT NULL DEFAULT 0, -- JSON
    PRIMARY KEY (source_uid, ref)
);
CREATE TABLE service_details (
    service_uid TEXT   NOT NULL,
    kind        TEXT   NOT NULL, -- objects, diff
    digest      TEXT   NOT NULL, -- of the service that it is about
    time        BIGINT NOT NULL,
    data        BLOB   NOT NULL, -- a ServiceDetail, deflated
    PRIMARY KEY (service_uid, kind)
);
CREATE TABLE global_deletions (
    global_uid TEXT   NOT NULL,
    time       INTEGER NOT NULL,
    deleted    INTEGER NOT NULL,
    PRIMARY KEY (global_uid, time)
);
CREATE TABLE configs (
    service_uid  TEXT NOT NULL PRIMARY KEY,
    revision     TEXT NOT NULL, -- held: nothing can be delivered yet; empty: without configuration
    sealed       BLOB, -- values, by which revision they are
    problem      TEXT NOT NULL, -- why the newest can't be delivered; empty: it is
    problem_time INTEGER NOT NULL
);
CREATE TABLE config_key (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    sealed BLOB NOT NULL
);
CREATE TABLE people (
    name       TEXT   NOT NULL PRIMARY KEY,
    provider   TEXT   NOT NULL, -- issuer of the last login; empty: a link or the hub secret
    login_time BIGINT NOT NULL
);
CREATE TABLE login_links (
    hash        TEXT   NOT NULL PRIMARY KEY, -- SHA-256 of the code, in hex
    person      TEXT   NOT NULL, -- JSON: name and groups
    author      TEXT   NOT NULL,
    create_time BIGINT NOT NULL,
    expire_time BIGINT NOT NULL,
    use_time    BIGINT NOT NULL -- 0: not used
);
CREATE TABLE exchanged (
    hash        TEXT   NOT NULL PRIMARY KEY,
    expire_time BIGINT NOT NULL
);
CREATE TABLE api_tokens (
    id            TEXT   NOT NULL PRIMARY KEY,
    hash          TEXT   NOT NULL, -- SHA-256 of the token, in hex
    subject       TEXT   NOT NULL, -- user:ada, user:serviceaccount:ci
    member_of     TEXT   NOT NULL, -- JSON: groups of a user
    limits        TEXT   NOT NULL, -- JSON
    description   TEXT   NOT NULL,
    creator       TEXT   NOT NULL,
    create_time   BIGINT NOT NULL,
    expire_time   BIGINT NOT NULL,
    last_use_time BIGINT NOT NULL, -- 0: never
    revoke_time   BIGINT NOT NULL  -- 0: not revoked
);
CREATE TABLE audit_volume (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    bytes BIGINT NOT NULL
);
CREATE TABLE events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they became visible
    id       TEXT   NOT NULL UNIQUE, -- the same event has the same one, however often it is told
    time     BIGINT NOT NULL,
    type     TEXT   NOT NULL,
    cluster  TEXT   NOT NULL,
    service  TEXT   NOT NULL,
    event    TEXT   NOT NULL -- JSON
);
CREATE TABLE events_gone (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    seq BIGINT NOT NULL
);
CREATE TABLE deployments (
    service_uid  TEXT   NOT NULL,
    number       BIGINT NOT NULL, -- counts from 1
    digest       TEXT   NOT NULL,
    state        TEXT   NOT NULL, -- JSON: what was known at its beginning
    deliver_time BIGINT NOT NULL,
    apply_time   BIGINT NOT NULL DEFAULT 0,
    healthy_time BIGINT NOT NULL DEFAULT 0,
    end_time     BIGINT NOT NULL DEFAULT 0,
    outcome      TEXT   NOT NULL DEFAULT '',
    message      TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (service_uid, number)
);
CREATE TABLE places (
    backend_uid TEXT NOT NULL,
    path        TEXT NOT NULL,
    sealed      BLOB, -- values; NULL: nothing was there, or it was never read
    problem     TEXT NOT NULL DEFAULT '', -- why it can't be read now; empty: it could
    read_time   INTEGER NOT NULL DEFAULT 0, -- when this was read first, found or not; 0: never
    PRIMARY KEY (backend_uid, path)
);
CREATE TABLE readings (
    backend_uid  TEXT NOT NULL PRIMARY KEY,
    next_time    INTEGER NOT NULL,
    reader       TEXT NOT NULL DEFAULT '', -- who reads, or read last
    read_time    INTEGER NOT NULL DEFAULT 0, -- when something was read last
    problem      TEXT NOT NULL DEFAULT '', -- why it can't be read now; empty: it can
    problem_time INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE removals (
    id           INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    hold_time    BIGINT  NOT NULL, -- 0: they don't
    reason       TEXT    NOT NULL,
    confirmation TEXT    NOT NULL -- another one after each confirmation
);
CREATE TABLE held_removals (
    cluster_uid TEXT   NOT NULL PRIMARY KEY,
    services    TEXT   NOT NULL, -- JSON
    hold_time   BIGINT NOT NULL
);
CREATE TABLE sinks (
    sink_uid     TEXT NOT NULL PRIMARY KEY,
    seq          INTEGER NOT NULL, -- all events up to this one are sent, given up, or not for it
    next_time    INTEGER NOT NULL, -- nothing is sent before
    sender       TEXT NOT NULL DEFAULT '', -- who sends, or sent last
    lease_time   INTEGER NOT NULL DEFAULT 0, -- nobody else sends before
    attempts     INTEGER NOT NULL DEFAULT 0, -- that failed, since the last that did not
    waiting      INTEGER NOT NULL DEFAULT 0, -- events, as of the last attempt
    oldest_time  INTEGER NOT NULL DEFAULT 0, -- of the oldest of them; 0: none waits
    send_time    INTEGER NOT NULL DEFAULT 0, -- when something was taken last
    sent         INTEGER NOT NULL DEFAULT 0, -- events
    dropped      INTEGER NOT NULL DEFAULT 0, -- events
    problem      TEXT NOT NULL DEFAULT '', -- why the last attempt failed; empty: it did not
    problem_time INTEGER NOT NULL DEFAULT 0 -- since when
, rejections INTEGER NOT NULL DEFAULT 0, filters TEXT NOT NULL DEFAULT '');
CREATE TABLE declared (
    uid  TEXT NOT NULL PRIMARY KEY,
    said TEXT NOT NULL -- JSON
);
INSERT INTO api_tokens (id, hash, subject, member_of, limits, description, creator, create_time, expire_time, last_use_time, revoke_time) VALUES ('7icrkhgyh2ro2yyqrz76rw5egv', '767e56783b98546ebca44e1ffbcb1d1bc42cc0489d2aed8cb9540bf2cd91f17d', 'user:ada', '["fairlead:admins"]', 'null', '', 'user:ada', 1795627777157403, 1798219777157403, 0, 0);
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (1, '01a213c17bc5591d3b01de2a4dcbb681', 1795627776964891, 'user:ada', '', 'login.hub-secret', '{"id":"01a213c17bc5591d3b01de2a4dcbb681","time":"2026-11-25T17:29:36.964891Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"login.hub-secret","name":"VZJ3J2WQN5KXY2CFEA23PNJIRI","duration":"0.000000000s","traceId":"49c0ab82d43ab86ab23e97c2269935a0","remote":"127.0.0.1","recorder":"service:console"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (2, '01a213c17bcc2314dee7d5a055b2fbaf', 1795627776971818, 'user:ada', '', 'login.hub-secret', '{"id":"01a213c17bcc2314dee7d5a055b2fbaf","time":"2026-11-25T17:29:36.971818Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"login.hub-secret","name":"7YZXRNBXBLSJUDR3OQAHB32DJR","duration":"0.000000000s","traceId":"c04a00e57feb6d58449966a6606700b3","remote":"127.0.0.1","recorder":"service:console"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (3, '01a213c17bddf4abbc2bdfb77d888b8d', 1795627776989119, 'user:ada', '', 'catalog.create', '{"id":"01a213c17bddf4abbc2bdfb77d888b8d","time":"2026-11-25T17:29:36.989119Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"source","name":"shop","duration":"0.000000000s","traceId":"d6e809ec3eec7880658b92c25e3b97e3","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"git\":{\"url\":\"https://git.example.com/shop\"}}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (4, '01a213c17be97971f7066c79f08d82f0', 1795627776996656, 'user:ada', 'edge-1', 'catalog.create', '{"id":"01a213c17be97971f7066c79f08d82f0","time":"2026-11-25T17:29:36.996656Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","cluster":"edge-1","resource":"cluster","name":"edge-1","duration":"0.000000000s","traceId":"5f4a2bf0a7b3cd3d51d6cb1eff7509ad","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (5, '01a213c17bf725ae015b92bbcc2dd67d', 1795627777014614, 'user:ada', 'edge-1', 'catalog.create', '{"id":"01a213c17bf725ae015b92bbcc2dd67d","time":"2026-11-25T17:29:37.014614Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","cluster":"edge-1","resource":"service","name":"web","duration":"0.000000000s","traceId":"632bdb3c8188b9de5a2660f52d4ce772","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"cluster\":\"edge-1\",\"path\":\"deploy\",\"source\":\"shop\"}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (6, '01a213c17bfbe6070909203620ddda12', 1795627777019379, 'user:ada', 'edge-2', 'catalog.create', '{"id":"01a213c17bfbe6070909203620ddda12","time":"2026-11-25T17:29:37.019379Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","cluster":"edge-2","resource":"cluster","name":"edge-2","duration":"0.000000000s","traceId":"e82b04cd18119473c7482fcc665dc6ef","remote":"127.0.0.1","recorder":"service:console","after":"{\"labels\":{\"env\":\"prod\"},\"spec\":{}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (7, '01a213c17c00cba2a5d87de10200ba07', 1795627777024227, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c00cba2a5d87de10200ba07","time":"2026-11-25T17:29:37.024227Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"secret","name":"db","duration":"0.000000000s","traceId":"613fd017ec4f4e4785dcb80461254ece","remote":"127.0.0.1","recorder":"service:console","after":"{\"data\":{\"password\":\"***\"}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (8, '01a213c17c075455c7f5f4132b95cd6a', 1795627777030579, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c075455c7f5f4132b95cd6a","time":"2026-11-25T17:29:37.030579Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"configset","name":"base","duration":"0.000000000s","traceId":"adc674685897182eda687f9172dcbb39","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"entries\":{\"host\":{\"text\":\"${service.name}.example.com\"},\"key\":{\"ref\":{\"key\":\"password\",\"path\":\"db\"}},\"own\":{\"secret\":true}}}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (9, '01a213c17c1367f658f66f506fa06684', 1795627777042201, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c1367f658f66f506fa06684","time":"2026-11-25T17:29:37.042201Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"project","name":"team","duration":"0.000000000s","traceId":"2a2238a4ee54ccd93e8651afc3584781","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"namespaces\":[\"shop\"]}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (10, '01a213c17c1e9073b9de0a55fb3d3ac6', 1795627777053475, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c1e9073b9de0a55fb3d3ac6","time":"2026-11-25T17:29:37.053475Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"role","name":"watcher","duration":"0.000000000s","traceId":"0d67edcd21f86b2057df7bf062881207","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"rules\":[{\"kinds\":[\"Service\"],\"verbs\":[\"view\"]}]}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (11, '01a213c17c229e523b271a30ef7dd942', 1795627777057935, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c229e523b271a30ef7dd942","time":"2026-11-25T17:29:37.057935Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"serviceaccount","name":"ci","duration":"0.000000000s","traceId":"6bfa380d30f939cd26d51d78993fa367","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (12, '01a213c17c29687fc0596a92c28ff62f', 1795627777065345, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c29687fc0596a92c28ff62f","time":"2026-11-25T17:29:37.065345Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"grant","name":"watch","duration":"0.000000000s","traceId":"0a688c0c6060458eab17fac78f62a2c0","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"clusters\":{\"all\":true},\"groups\":[\"dev''s \\u0000 é\"],\"role\":\"watcher\",\"users\":[\"ada\"]}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (13, '01a213c17c335d38764a8bf30e42ea58', 1795627777074467, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c335d38764a8bf30e42ea58","time":"2026-11-25T17:29:37.074467Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"sink","name":"chat","duration":"0.000000000s","traceId":"756f308c0eb7faa1171a94e95ea961c0","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"credentials\":{\"key\":{\"secret\":true}},\"webhook\":{\"url\":\"https://127.0.0.1:9/hook\"}}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (14, '01a213c17c39276f853d7594c61126f3', 1795627777080062, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c39276f853d7594c61126f3","time":"2026-11-25T17:29:37.080062Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"backend","name":"files","duration":"0.000000000s","traceId":"1e7cd39a6c3f4d8ac924f8c962407f87","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"files\":{},\"intervalNanos\":5000000000}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (15, '01a213c17c41fb490171af65e7a31cf6', 1795627777088123, 'service:console', 'edge-2', 'catalog.create', '{"id":"01a213c17c41fb490171af65e7a31cf6","time":"2026-11-25T17:29:37.088123Z","actor":{"kind":"service","name":"console"},"action":"catalog.create","cluster":"edge-2","resource":"service","name":"logs-edge-2","duration":"0.000000000s","traceId":"509108912419736fa270fc47fd3e0cc1","remote":"127.0.0.1","reason":"for user:ada","recorder":"service:console","after":"{\"labels\":{\"fairlead.dev/global\":\"logs\"},\"spec\":{\"cluster\":\"edge-2\",\"path\":\"logs\",\"source\":\"shop\"}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (16, '01a213c17c412179b1b7dd22ef3632c7', 1795627777088123, 'user:ada', '', 'catalog.create', '{"id":"01a213c17c412179b1b7dd22ef3632c7","time":"2026-11-25T17:29:37.088123Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.create","resource":"globalservice","name":"logs","duration":"0.000000000s","traceId":"509108912419736fa270fc47fd3e0cc1","remote":"127.0.0.1","recorder":"service:console","after":"{\"spec\":{\"clusters\":{\"labels\":{\"env\":\"prod\"}},\"template\":{\"cluster\":\"\",\"path\":\"logs\",\"source\":\"shop\"}}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (17, '01a213c17c53a4815a240df8e5561768', 1795627777106434, 'user:ada', 'edge-1', 'catalog.update', '{"id":"01a213c17c53a4815a240df8e5561768","time":"2026-11-25T17:29:37.106434Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.update","cluster":"edge-1","resource":"service","name":"web","duration":"0.000000000s","traceId":"d62e575660a414dc66b14faf1b0f1722","remote":"127.0.0.1","recorder":"service:console","before":"{\"spec\":{\"cluster\":\"edge-1\",\"path\":\"deploy\",\"source\":\"shop\"}}","after":"{\"spec\":{\"cluster\":\"edge-1\",\"configSets\":[\"base\"],\"path\":\"deploy\",\"source\":\"shop\"}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (18, '01a213c17c7aa6bd44229b695d6dd09c', 1795627777146134, 'user:ada', 'edge-1', 'catalog.update', '{"id":"01a213c17c7aa6bd44229b695d6dd09c","time":"2026-11-25T17:29:37.146134Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"catalog.update","cluster":"edge-1","resource":"service","name":"web","duration":"0.000000000s","traceId":"3ab4d2a07075ab3606263cd33a852706","remote":"127.0.0.1","recorder":"service:console","before":"{\"spec\":{\"cluster\":\"edge-1\",\"configSets\":[\"base\"],\"path\":\"deploy\",\"source\":\"shop\"}}","after":"{\"spec\":{\"cluster\":\"edge-1\",\"configSets\":[\"base\"],\"path\":\"deploy\",\"source\":\"shop\",\"sync\":{\"mode\":\"SYNC_MODE_HOLD\",\"reason\":\"the shop is degraded\"}}}"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (19, '01a213c17c851bb339d5c5bcf11dccec', 1795627777157403, 'user:ada', '', 'token.create', '{"id":"01a213c17c851bb339d5c5bcf11dccec","time":"2026-11-25T17:29:37.157403Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"token.create","name":"7icrkhgyh2ro2yyqrz76rw5egv","duration":"0.000000000s","traceId":"f877c863a6565e007c74f89aafe224bd","remote":"127.0.0.1","reason":"for user:ada until 2026-12-25T17:29:37Z","recorder":"service:console"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (20, '0000000000000001', 1795627777162038, 'user:user:ada', 'edge-1', 'tunnel.request', '{"id":"0000000000000001","time":"2026-11-25T17:29:37.162038783Z","actor":{"kind":"user","name":"user:ada","groups":["dev"]},"action":"tunnel.request","cluster":"edge-1","resource":"pods/log","verb":"get","code":200,"reason":"quote '' and \"é\u0000","recorder":"service:tunnel"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (21, '01a213c17c907279754cdd71e85299c9', 1795627777168502, 'user:ada', 'edge-1', 'join-token.create', '{"id":"01a213c17c907279754cdd71e85299c9","time":"2026-11-25T17:29:37.168502Z","actor":{"kind":"user","name":"ada","groups":["fairlead:admins"]},"action":"join-token.create","cluster":"edge-1","name":"edge-1","duration":"0.000000000s","traceId":"e4692b292216dedd7c4c865f4a55686f","remote":"127.0.0.1","recorder":"service:console"}');
INSERT INTO audit (seq, id, time, actor, cluster, action, event) VALUES (22, '01a213c17c939f07945ff40e72a08507', 1795627777170861, 'agent:edge-1', 'edge-1', 'cluster.join', '{"id":"01a213c17c939f07945ff40e72a08507","time":"2026-11-25T17:29:37.170861Z","actor":{"kind":"agent","name":"edge-1"},"action":"cluster.join","cluster":"edge-1","name":"edge-1","duration":"0.000000000s","traceId":"fafb67c50dbe7cf7d9d9e6ba0fe70b60","remote":"127.0.0.1","recorder":"service:console"}');
INSERT INTO audit_volume (id, bytes) VALUES (1, 14603);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (1, 'uucbbqa7nngdrg2dl4pa55q7sq', 'source', 'shop', 's3ipqvolgepzjssauxqywm42bp', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (2, '54ix3sfez5rmks2ukth3r3u32l', 'cluster', 'edge-1', 'f3mcpet2syduzeklalfsuinl4q', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (3, 'cqxaj6ydr42qmfgplwmtewtlzz', 'service', 'web', 'yafbtrhguzvk2uj7kewizit325', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (4, 'dl7oce4vasefh2nrqp4vtrrozi', 'source', 'shop', 's3ipqvolgepzjssauxqywm42bp', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (5, 'ztnwd45ka4tvavbxpunm4rgx56', 'cluster', 'edge-2', 'kuxjeg4b52espdjopjd2s5ewbh', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (6, 'lyqlaymhofbwo5d5f2hfx6urwz', 'secret', 'db', 'ujzrejtpxysicvjrxc7fctrugl', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (7, '665zbuy7mqlv4ienvyvdv6tbtg', 'configset', 'base', 'mvkfxewgo6n24vm2tbhudwe4xo', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (8, '4jqea6wykgafwb36uzmezjpqbc', 'project', 'team', 'nj5vyo36hrhhiyurclbsoqs63t', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (9, 'oey2rkpgcorn6q3v4plqnfltt2', 'role', 'watcher', 'ijh5avuiu6djt7arznbivrnmta', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (10, 'n6icoio6he2arse4qtxl65rsjq', 'serviceaccount', 'ci', 'iqulp32jldzboqfglw2lob5jgu', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (11, 'nmpbbpsivpxtmte6ko6vmtgqo6', 'grant', 'watch', 'wl2d3ehyya7nzlhtmpeofzbwdd', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (12, 'lbnwsuopgtmcjmaqk6f75qosc5', 'sink', 'chat', '7ec67hpiiaewjlewfu7x5w64t6', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (13, 'y4a46oiflgewcstou62fv3af45', 'backend', 'files', 'xztzicxrc2czufucw5ctbi4h36', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (14, '5by73hzqvdt5coh3z7df5w7tqj', 'globalservice', 'logs', 'umkfam5p24lzkxomlvxcs7rzbk', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (15, 'y4qmzin5gvs6rsquuzelaeqkxb', 'service', 'logs-edge-2', 'jjqg5hvin3iktfjz75bahhkojh', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (16, 'zpm43twhbzudqn3qsgw3fc2oxu', 'service', 'web', 'yafbtrhguzvk2uj7kewizit325', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (17, 'zg5ncu37wy4lflcgkgh5se5umt', 'service', 'web', 'yafbtrhguzvk2uj7kewizit325', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (18, 'egcwwenge2r24lecolyglx6wr6', 'source', 'shop', 's3ipqvolgepzjssauxqywm42bp', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (19, 'd7gchcb63ghukdo2omdffyrte2', 'source', 'shop', 's3ipqvolgepzjssauxqywm42bp', 0);
INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES (20, 'uypq5pwf72etaeba6476r4brr4', 'service', 'web', 'yafbtrhguzvk2uj7kewizit325', 0);
INSERT INTO config_key (id, sealed) VALUES (1, x'02630dcd290bd51647362d4db80f62b8027ce1fb2fe37499e1a57f6bdb0193cff5539b49aea0ad350dc69776139fb36f19a87f5f45d255515df68c5819b690a6af627436ee4fe81c42717108ee85aadda0da656ae901af2321a608476b08237c63ce3b204e9c77323e3ed02b609de53763fe0c74e6752754ccebed1e09');
INSERT INTO configs (service_uid, revision, sealed, problem, problem_time) VALUES ('yafbtrhguzvk2uj7kewizit325', '57e2c017306523d394725c46e621584b', x'02630dcd291fdbdb46cf23f309b09406b8a27dd32652464ea5a488bd8f91bc07a75472a73a05ce659cfb5b6c87552945816e558a81e50c87b68a81940e82559f304fa15efeec574eec580b2344b4db77a23d7ae29275fe9530e616f0a9cfa704e3deaaba1b189e223785f6b8cc944ba5678b9eafb638863a3612d0650a164d2e270261979dca7002da45502415bf6da2712b725e2bb6221e35ccb17790b427620b6924a0b79a9a4027f49efc43bfd1cf1d7793b7121eea45fe41cd6293c9e9424a077d78377eb93ed1f9561d2dec0cb4345ac182b141bf23099d3668be3db55df16340c836b6f1133d4ec054117b339eb0a24635fd5068994c9eb15fb1d8bb47b9ab8cacc9125f0bb5a42fe6da80870a', '', 0);
INSERT INTO deployments (service_uid, number, digest, state, deliver_time, apply_time, healthy_time, end_time, outcome, message) VALUES ('yafbtrhguzvk2uj7kewizit325', 1, 'sha256:1111111111111111111111111111111111111111111111111111111111111111', '{"cause":"spec","author":"user:ada","commit":{"commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","commitTime":"2026-11-25T16:29:36Z","subject":"it''s a commit","author":"Kim \u003ckim@example.com\u003e"},"specRevision":2,"configRevision":"57e2c017306523d394725c46e621584b","fetchTime":"2026-11-25T17:29:37.113809713Z"}', 1795627777117838, 1795627777123872, 1795627777123872, 1795627777131087, 'healthy', '');
INSERT INTO deployments (service_uid, number, digest, state, deliver_time, apply_time, healthy_time, end_time, outcome, message) VALUES ('yafbtrhguzvk2uj7kewizit325', 2, 'sha256:2222222222222222222222222222222222222222222222222222222222222222', '{"cause":"commit","author":"Kim \u003ckim@example.com\u003e","commit":{"commit":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","commitTime":"2026-11-25T16:29:36Z","subject":"it''s a commit","author":"Kim \u003ckim@example.com\u003e"},"specRevision":2,"configRevision":"57e2c017306523d394725c46e621584b","fetchTime":"2026-11-25T17:29:37.128380456Z"}', 1795627777131087, 1795627777137454, 0, 0, 'degraded', '');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (1, '4yfmnox7lvipslvragzarivwej', 1795627777106434, 'config.changed', 'edge-1', 'web', '{"id":"4yfmnox7lvipslvragzarivwej", "time":"2026-11-25T17:29:37.106434Z", "type":"config.changed", "severity":"SEVERITY_INFO", "cluster":"edge-1", "service":"web", "message":"Its configuration is another one: host, key, own.", "actor":"user:ada", "count":3}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (2, 'bpc3kjofy2mgrfiqsk6nrzpndo', 1795627777113823, 'source.fetched', '', '', '{"id":"bpc3kjofy2mgrfiqsk6nrzpndo", "time":"2026-11-25T17:29:37.113823Z", "type":"source.fetched", "severity":"SEVERITY_INFO", "source":"shop", "message":"HEAD points to aaaaaaaa: it''s a commit", "commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "duration":"3601.113809713s"}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (3, 'u36vqke5f5vso2haoya2usff3q', 1795627777117839, 'service.delivered', 'edge-1', 'web', '{"id":"u36vqke5f5vso2haoya2usff3q", "time":"2026-11-25T17:29:37.117839Z", "type":"service.delivered", "severity":"SEVERITY_INFO", "cluster":"edge-1", "service":"web", "message":"aaaaaaaa is ready for the cluster.", "commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "digest":"sha256:1111111111111111111111111111111111111111111111111111111111111111"}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (4, 'i75voy4b6bg7nin6hs3ieubxu4', 1795627777125330, 'service.applied', 'edge-1', 'web', '{"id":"i75voy4b6bg7nin6hs3ieubxu4", "time":"2026-11-25T17:29:37.125330Z", "type":"service.applied", "severity":"SEVERITY_INFO", "cluster":"edge-1", "service":"web", "message":"What the hub says is applied: 0 objects.", "commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "digest":"sha256:1111111111111111111111111111111111111111111111111111111111111111"}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (5, 'parlxym7vl3shm64xvd6nitpsi', 1795627777125330, 'service.healthy', 'edge-1', 'web', '{"id":"parlxym7vl3shm64xvd6nitpsi", "time":"2026-11-25T17:29:37.125330Z", "type":"service.healthy", "severity":"SEVERITY_INFO", "cluster":"edge-1", "service":"web", "message":"All 0 objects are healthy.", "commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "digest":"sha256:1111111111111111111111111111111111111111111111111111111111111111"}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (6, 'fsp72yqbfowhciktvp56ljov52', 1795627777128394, 'source.fetched', '', '', '{"id":"fsp72yqbfowhciktvp56ljov52", "time":"2026-11-25T17:29:37.128394Z", "type":"source.fetched", "severity":"SEVERITY_INFO", "source":"shop", "message":"HEAD points to bbbbbbbb: it''s a commit", "commit":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "duration":"3601.128380456s"}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (7, 'vnk3kuy5liygawbobqsmbkxpoy', 1795627777131088, 'service.delivered', 'edge-1', 'web', '{"id":"vnk3kuy5liygawbobqsmbkxpoy", "time":"2026-11-25T17:29:37.131088Z", "type":"service.delivered", "severity":"SEVERITY_INFO", "cluster":"edge-1", "service":"web", "message":"bbbbbbbb is ready for the cluster.", "commit":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "digest":"sha256:2222222222222222222222222222222222222222222222222222222222222222"}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (8, 'i6dupcz36hx2fk5qdgxx2y4sma', 1795627777138875, 'service.applied', 'edge-1', 'web', '{"id":"i6dupcz36hx2fk5qdgxx2y4sma", "time":"2026-11-25T17:29:37.138875Z", "type":"service.applied", "severity":"SEVERITY_INFO", "cluster":"edge-1", "service":"web", "message":"What the hub says is applied: 0 objects.", "commit":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "digest":"sha256:2222222222222222222222222222222222222222222222222222222222222222"}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (9, 'jqpqdq2pdfd6eb6pea222jqxqq', 1795627777138875, 'service.degraded', 'edge-1', 'web', '{"id":"jqpqdq2pdfd6eb6pea222jqxqq", "time":"2026-11-25T17:29:37.138875Z", "type":"service.degraded", "severity":"SEVERITY_ERROR", "cluster":"edge-1", "service":"web", "message":"0 of 0 objects are healthy.", "commit":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "digest":"sha256:2222222222222222222222222222222222222222222222222222222222222222", "duration":"0.013582636s"}');
INSERT INTO events (seq, id, time, type, cluster, service, event) VALUES (10, 'jofn7o732fggseuunntang4ucq', 1795627777172945, 'cluster.joined', 'edge-1', '', '{"id":"jofn7o732fggseuunntang4ucq", "time":"2026-11-25T17:29:37.172945Z", "type":"cluster.joined", "severity":"SEVERITY_INFO", "cluster":"edge-1", "message":"Its agent joined."}');
INSERT INTO events_gone (id, seq) VALUES (1, 0);
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (1, 0, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (2, 1, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (3, 2, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (4, 3, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (5, 4, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (6, 5, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (7, 6, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (8, 10, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (9, 11, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (10, 12, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (11, 13, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (12, 14, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (13, 16, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (14, 17, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (15, 18, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (16, 19, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (17, 20, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (18, 21, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (19, 25, 1, '2026-11-25 17:29:36');
INSERT INTO goose_db_version (id, version_id, is_applied, tstamp) VALUES (20, 27, 1, '2026-11-25 17:29:36');
INSERT INTO heads (source_uid, epoch, owner, state) VALUES ('s3ipqvolgepzjssauxqywm42bp', 1, 'a', '{"heads":[{"ref":"HEAD","revision":{"commit":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","commitTime":"2026-11-25T16:29:36Z","subject":"it''s a commit","author":"Kim \u003ckim@example.com\u003e"},"fetchTime":"2026-11-25T17:29:37.128380456Z"}]}');
INSERT INTO hub (service_uid, state, touch_time) VALUES ('yafbtrhguzvk2uj7kewizit325', '{"source":"s3ipqvolgepzjssauxqywm42bp","ref":"HEAD","digest":"sha256:2222222222222222222222222222222222222222222222222222222222222222","resolveTime":"2026-11-25T17:29:37.130850943Z"}', 1795627777131000);
INSERT INTO hub_refs (source_uid, ref, state, touch_time) VALUES ('s3ipqvolgepzjssauxqywm42bp', 'HEAD', '{"revision":{"commit":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"},"resolveTime":"2026-11-25T17:29:37.133895994Z"}', 1795627777133000);
INSERT INTO join_tokens (hash, cluster_uid, author, create_time, expire_time, use_time) VALUES ('f0ccdd6b86810a9ecdb9b6f815a4fab000e32242e42b86c6f757ff24ef5c814b', 'f3mcpet2syduzeklalfsuinl4q', 'user:ada', 1795627777168502, 1795628677168502, 1795627777170861);
INSERT INTO log (id, seq) VALUES (1, 20);
INSERT INTO people (name, provider, login_time) VALUES ('ada', '', 1795627776971818);
INSERT INTO readings (backend_uid, next_time, reader, read_time, problem, problem_time) VALUES ('xztzicxrc2czufucw5ctbi4h36', 1795627782482201, 'QAZAJRCEFAHXVZDGFIDIDOBAJ6', 0, 'the console has no folder for files: start it with --config-dir', 1795627777963323);
INSERT INTO refs (uid, kind, name) VALUES ('mvkfxewgo6n24vm2tbhudwe4xo', 'secret', 'db');
INSERT INTO refs (uid, kind, name) VALUES ('wl2d3ehyya7nzlhtmpeofzbwdd', 'role', 'watcher');
INSERT INTO refs (uid, kind, name) VALUES ('umkfam5p24lzkxomlvxcs7rzbk', 'source', 'shop');
INSERT INTO refs (uid, kind, name) VALUES ('jjqg5hvin3iktfjz75bahhkojh', 'source', 'shop');
INSERT INTO refs (uid, kind, name) VALUES ('jjqg5hvin3iktfjz75bahhkojh', 'cluster', 'edge-2');
INSERT INTO refs (uid, kind, name) VALUES ('yafbtrhguzvk2uj7kewizit325', 'source', 'shop');
INSERT INTO refs (uid, kind, name) VALUES ('yafbtrhguzvk2uj7kewizit325', 'cluster', 'edge-1');
INSERT INTO refs (uid, kind, name) VALUES ('yafbtrhguzvk2uj7kewizit325', 'configset', 'base');
INSERT INTO removals (id, hold_time, reason, confirmation) VALUES (1, 0, '', '');
INSERT INTO reports (service_uid, cluster_uid, sequence, receive_time, state, touch_time) VALUES ('yafbtrhguzvk2uj7kewizit325', 'f3mcpet2syduzeklalfsuinl4q', 2, 1795627777140184, '{"service":"web","sequence":2,"phase":"degraded","digest":"sha256:2222222222222222222222222222222222222222222222222222222222222222","commit":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","appliedDigest":"sha256:2222222222222222222222222222222222222222222222222222222222222222","appliedTime":"2026-11-25T17:29:37.137454868Z","observedTime":"2026-11-25T17:29:37.137455159Z"}', 1795627777140000);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('s3ipqvolgepzjssauxqywm42bp', 'source', 'shop', 1, 19, 'null', '{"git":{"url":"https://git.example.com/shop"}}', NULL, 1795627776989119, 1795627776989119);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('f3mcpet2syduzeklalfsuinl4q', 'cluster', 'edge-1', 1, 2, 'null', '{}', NULL, 1795627776996656, 1795627776996656);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('yafbtrhguzvk2uj7kewizit325', 'service', 'web', 3, 20, 'null', '{"source":"shop","path":"deploy","cluster":"edge-1","sync":{"mode":"SYNC_MODE_HOLD","reason":"the shop is degraded"},"configSets":["base"]}', NULL, 1795627777014614, 1795627777146134);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('kuxjeg4b52espdjopjd2s5ewbh', 'cluster', 'edge-2', 1, 5, '{"env":"prod"}', '{}', NULL, 1795627777019379, 1795627777019379);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('ujzrejtpxysicvjrxc7fctrugl', 'secret', 'db', 1, 6, 'null', '{"keys":["password"]}', x'02630dcd29beb7a85975069d7b700c0d9fa14cd6592f59d598e3523d395a98ef898979e5f81a7f1cc2eb901c2bdbe4210b1ccbaeccfaac0de238d011c53b45c1974a387df80168a66b6763c4a84a5d25a3e0a159ce75558e8724c8f03ab3ceb5de77c1dc9233b766e56d3703f1f9cb1db54ac8', 1795627777024227, 1795627777024227);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('mvkfxewgo6n24vm2tbhudwe4xo', 'configset', 'base', 1, 7, 'null', '{"entries":{"host":{"text":"${service.name}.example.com"},"key":{"ref":{"path":"db","key":"password"}},"own":{"secret":true}}}', x'02630dcd290a9c1fed950b64337b682b7da8fd7952eae479933560b15a7f7bdcd84e448d4032d3565289ebae83ed667ed634a40a6f173ddc0ac6f2c3cd29a871d3587ad7297146b2fc4c9d2f6381a998c418437642e660dff8bff367c3b6aee3ce496696e7e191969b2f71c5b8b9', 1795627777030579, 1795627777030579);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('nj5vyo36hrhhiyurclbsoqs63t', 'project', 'team', 1, 8, 'null', '{"namespaces":["shop"]}', NULL, 1795627777042201, 1795627777042201);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('ijh5avuiu6djt7arznbivrnmta', 'role', 'watcher', 1, 9, 'null', '{"rules":[{"verbs":["view"],"kinds":["Service"]}]}', NULL, 1795627777053475, 1795627777053475);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('iqulp32jldzboqfglw2lob5jgu', 'serviceaccount', 'ci', 1, 10, 'null', '{}', NULL, 1795627777057935, 1795627777057935);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('wl2d3ehyya7nzlhtmpeofzbwdd', 'grant', 'watch', 1, 11, 'null', '{"users":["ada"],"groups":["dev''s \u0000 é"],"role":"watcher","clusters":{"all":true}}', NULL, 1795627777065345, 1795627777065345);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('7ec67hpiiaewjlewfu7x5w64t6', 'sink', 'chat', 1, 12, 'null', '{"webhook":{"url":"https://127.0.0.1:9/hook"},"credentials":{"key":{"secret":true}}}', x'02630dcd29f1fe502440a3f71431afcab77882e6693dc76ccabac281da0eef3eedd74725465c0b2616c9820f90c1af5716395b7d6c884833c35dc5210ab82b62baa065ddd43e5ff7d1656c70b323296d077e15a4fdd03626ef52463b85004297fbe615134ba8f67f6aeb7978e2dc46e589d18eb7acd209f75a5e19efc40aa2af1a94645390f93c03942c29e85746', 1795627777074467, 1795627777074467);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('xztzicxrc2czufucw5ctbi4h36', 'backend', 'files', 1, 13, 'null', '{"files":{},"intervalNanos":5000000000}', NULL, 1795627777080062, 1795627777080062);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('umkfam5p24lzkxomlvxcs7rzbk', 'globalservice', 'logs', 1, 14, 'null', '{"clusters":{"labels":{"env":"prod"}},"template":{"source":"shop","path":"logs","cluster":""}}', NULL, 1795627777088123, 1795627777088123);
INSERT INTO resources (uid, kind, name, revision, seq, labels, spec, sealed, create_time, update_time) VALUES ('jjqg5hvin3iktfjz75bahhkojh', 'service', 'logs-edge-2', 1, 15, '{"fairlead.dev/global":"logs"}', '{"source":"shop","path":"logs","cluster":"edge-2"}', NULL, 1795627777088123, 1795627777088123);
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('s3ipqvolgepzjssauxqywm42bp', 1, 'source', 'shop', 'created', 'user:ada', 1795627776989119, 'null', '{"git":{"url":"https://git.example.com/shop"}}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('f3mcpet2syduzeklalfsuinl4q', 1, 'cluster', 'edge-1', 'created', 'user:ada', 1795627776996656, 'null', '{}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('yafbtrhguzvk2uj7kewizit325', 1, 'service', 'web', 'created', 'user:ada', 1795627777014614, 'null', '{"source":"shop","path":"deploy","cluster":"edge-1"}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('kuxjeg4b52espdjopjd2s5ewbh', 1, 'cluster', 'edge-2', 'created', 'user:ada', 1795627777019379, '{"env":"prod"}', '{}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('ujzrejtpxysicvjrxc7fctrugl', 1, 'secret', 'db', 'created', 'user:ada', 1795627777024227, 'null', '{"keys":["password"]}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('mvkfxewgo6n24vm2tbhudwe4xo', 1, 'configset', 'base', 'created', 'user:ada', 1795627777030579, 'null', '{"entries":{"host":{"text":"${service.name}.example.com"},"key":{"ref":{"path":"db","key":"password"}},"own":{"secret":true}}}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('nj5vyo36hrhhiyurclbsoqs63t', 1, 'project', 'team', 'created', 'user:ada', 1795627777042201, 'null', '{"namespaces":["shop"]}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('ijh5avuiu6djt7arznbivrnmta', 1, 'role', 'watcher', 'created', 'user:ada', 1795627777053475, 'null', '{"rules":[{"verbs":["view"],"kinds":["Service"]}]}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('iqulp32jldzboqfglw2lob5jgu', 1, 'serviceaccount', 'ci', 'created', 'user:ada', 1795627777057935, 'null', '{}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('wl2d3ehyya7nzlhtmpeofzbwdd', 1, 'grant', 'watch', 'created', 'user:ada', 1795627777065345, 'null', '{"users":["ada"],"groups":["dev''s \u0000 é"],"role":"watcher","clusters":{"all":true}}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('7ec67hpiiaewjlewfu7x5w64t6', 1, 'sink', 'chat', 'created', 'user:ada', 1795627777074467, 'null', '{"webhook":{"url":"https://127.0.0.1:9/hook"},"credentials":{"key":{"secret":true}}}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('xztzicxrc2czufucw5ctbi4h36', 1, 'backend', 'files', 'created', 'user:ada', 1795627777080062, 'null', '{"files":{},"intervalNanos":5000000000}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('umkfam5p24lzkxomlvxcs7rzbk', 1, 'globalservice', 'logs', 'created', 'user:ada', 1795627777088123, 'null', '{"clusters":{"labels":{"env":"prod"}},"template":{"source":"shop","path":"logs","cluster":""}}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('jjqg5hvin3iktfjz75bahhkojh', 1, 'service', 'logs-edge-2', 'created', 'user:ada', 1795627777088123, '{"fairlead.dev/global":"logs"}', '{"source":"shop","path":"logs","cluster":"edge-2"}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('yafbtrhguzvk2uj7kewizit325', 2, 'service', 'web', 'updated', 'user:ada', 1795627777106434, 'null', '{"source":"shop","path":"deploy","cluster":"edge-1","configSets":["base"]}');
INSERT INTO revisions (uid, revision, kind, name, action, author, time, labels, spec) VALUES ('yafbtrhguzvk2uj7kewizit325', 3, 'service', 'web', 'updated', 'user:ada', 1795627777146134, 'null', '{"source":"shop","path":"deploy","cluster":"edge-1","sync":{"mode":"SYNC_MODE_HOLD","reason":"the shop is degraded"},"configSets":["base"]}');
INSERT INTO seen (cluster_uid, join_time, seen_time, state, lost_time, touch_time, leave_time) VALUES ('f3mcpet2syduzeklalfsuinl4q', 1795627777170861, 0, '{}', 0, 1795627777171000, 0);
INSERT INTO signing_keys (id, sealed) VALUES (1, x'02630dcd291d00558f8c369e2ab718b0cd82dfd1d916db775fb107a75cffce828820bbd21360cae97173a52f320e758daf599a8d6a3dedac59741c8daaf99b090b9cf467a069c6061ec2171feb9bb3f9097d3877889b643784a9c753692326679e7af23959c8f0c4da28ead6d0efa142f1eda47755b90b7033c7e334261b3d429d8a5e6ae3d013ce96bb1fa2f446564808965965d59913a192a0b2a72658afece49ef36afb4ecc8748ac59aedc83a947abd8d68dd1cc934169df8a8adf74b5af49a895ebc6e816f5c02960fc4a75a941b13042f8a72af439ff7fa027a0ffb67499c907a158c58b4893221e6264856c58b0ae9cb9c5de05f6f12cabf2a71dd9988f75e87f8269a67eec4bec908c90b9652a283393825449e0130e69a117f31803af1b3399c8c224632e732cf2eb37b7f93d34aac3f80f28d551a47b1b65e6c58eebee617f764415af916483a07b4c1a82e382254bb5884e53670d8160a2b57b755d06d32b410928983c0506db');
INSERT INTO sinks (sink_uid, seq, next_time, sender, lease_time, attempts, waiting, oldest_time, send_time, sent, dropped, problem, problem_time, rejections, filters) VALUES ('7ec67hpiiaewjlewfu7x5w64t6', 8, 1795627778687688, 'IW6MLAJKEPE5DM52RBU7IENO56', 0, 1, 1, 1795627777138875, 0, 0, 0, 'hooks.example.com: dial tcp: lookup hooks.example.com on 10.255.255.53:53: no such host', 1795627777464671, 0, '');
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'audit events are never changed'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
WHEN OLD.time > (CAST(strftime('%s', 'now') AS INTEGER) - 7 * 86400) * 1000000
BEGIN SELECT RAISE(ABORT, 'audit events are kept for 7 days at least'); END;
CREATE INDEX refs_target ON refs (kind, name);
CREATE INDEX reports_cluster ON reports (cluster_uid);
CREATE INDEX join_tokens_expire ON join_tokens (expire_time);
CREATE INDEX audit_time ON audit (time, seq);
CREATE INDEX audit_actor ON audit (actor, time, seq);
CREATE INDEX audit_cluster ON audit (cluster, time, seq);
CREATE INDEX api_tokens_subject ON api_tokens (subject, id);
CREATE INDEX events_time ON events (time);
CREATE INDEX events_service ON events (service, seq);
CREATE INDEX events_cluster ON events (cluster, seq);
CREATE INDEX events_type ON events (type, seq);
CREATE INDEX revisions_name ON revisions (kind, name, time);
CREATE INDEX resources_releasing ON resources (kind, name) WHERE kind = 'service' AND spec LIKE '%"unpinAfter":%';
