-- Tables of version 0004 on SQLite.

CREATE TABLE duly_inbox (
    consumer TEXT NOT NULL,
    source TEXT NOT NULL,
    message_id TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    receipt_id BLOB NOT NULL,
    sent_us INTEGER,
    received_us INTEGER NOT NULL,
    handled_us INTEGER,
    result TEXT,
    duplicates INTEGER NOT NULL,
    last_us INTEGER,
    PRIMARY KEY (consumer, source, message_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX ix_duly_inbox_sent ON duly_inbox (consumer, sent_us);

CREATE TABLE duly_consumer (
    name TEXT NOT NULL PRIMARY KEY,
    horizon_us INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_parked (
    consumer TEXT NOT NULL,
    source TEXT NOT NULL,
    message_id TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    why TEXT NOT NULL,
    state TEXT NOT NULL,
    stored_fingerprint BLOB,
    receipt_id BLOB,
    sent_us INTEGER,
    parked_us INTEGER NOT NULL,
    handled_us INTEGER,
    result TEXT,
    deliveries INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    actor TEXT,
    reason TEXT,
    PRIMARY KEY (consumer, source, message_id, fingerprint),
    CONSTRAINT ck_duly_parked_why CHECK (why IN ('conflict', 'expired', 'torn')),
    CONSTRAINT ck_duly_parked_state CHECK (state IN ('held', 'released', 'taken', 'discarded'))
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_http_key (
    scope TEXT NOT NULL,
    http_key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    receipt_id BLOB NOT NULL,
    received_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    handled_us INTEGER,
    status INTEGER,
    headers TEXT,
    body BLOB,
    replays INTEGER NOT NULL,
    last_us INTEGER,
    PRIMARY KEY (scope, http_key)
) STRICT;

CREATE INDEX ix_duly_http_key_expires ON duly_http_key (expires_us) WHERE body IS NOT NULL;
