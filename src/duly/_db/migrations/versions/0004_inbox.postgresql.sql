-- Tables of version 0004 on PostgreSQL.

CREATE TABLE duly_inbox (
    consumer VARCHAR(100) COLLATE "C" NOT NULL,
    source VARCHAR(250) COLLATE "C" NOT NULL,
    message_id VARCHAR(300) COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    receipt_id UUID NOT NULL,
    sent_us BIGINT,
    received_us BIGINT NOT NULL,
    handled_us BIGINT,
    result TEXT,
    duplicates BIGINT NOT NULL,
    last_us BIGINT,
    PRIMARY KEY (consumer, source, message_id)
);

CREATE INDEX ix_duly_inbox_sent ON duly_inbox (consumer, sent_us);

CREATE TABLE duly_consumer (
    name VARCHAR(100) COLLATE "C" NOT NULL PRIMARY KEY,
    horizon_us BIGINT
);

CREATE TABLE duly_parked (
    consumer VARCHAR(100) COLLATE "C" NOT NULL,
    source VARCHAR(250) COLLATE "C" NOT NULL,
    message_id VARCHAR(300) COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    why VARCHAR(16) COLLATE "C" NOT NULL,
    state VARCHAR(16) COLLATE "C" NOT NULL,
    stored_fingerprint BYTEA,
    receipt_id UUID,
    sent_us BIGINT,
    parked_us BIGINT NOT NULL,
    handled_us BIGINT,
    result TEXT,
    deliveries BIGINT NOT NULL,
    last_us BIGINT NOT NULL,
    actor VARCHAR(200),
    reason TEXT,
    PRIMARY KEY (consumer, source, message_id, fingerprint),
    CONSTRAINT ck_duly_parked_why CHECK (why IN ('conflict', 'expired', 'torn')),
    CONSTRAINT ck_duly_parked_state CHECK (state IN ('held', 'released', 'taken', 'discarded'))
);

CREATE TABLE duly_http_key (
    scope VARCHAR(200) COLLATE "C" NOT NULL,
    http_key VARCHAR(255) COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    receipt_id UUID NOT NULL,
    received_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    handled_us BIGINT,
    status INTEGER,
    headers TEXT,
    body BYTEA,
    replays BIGINT NOT NULL,
    last_us BIGINT,
    PRIMARY KEY (scope, http_key)
);

CREATE INDEX ix_duly_http_key_expires ON duly_http_key (expires_us) WHERE body IS NOT NULL;
