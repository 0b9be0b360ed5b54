-- Tables of version 0004 on MariaDB.

CREATE TABLE IF NOT EXISTS duly_inbox (
    consumer VARCHAR(100) NOT NULL,
    source VARCHAR(250) NOT NULL,
    message_id VARCHAR(300) NOT NULL,
    fingerprint VARBINARY(40) NOT NULL,
    receipt_id BINARY(16) NOT NULL,
    sent_us BIGINT,
    received_us BIGINT NOT NULL,
    handled_us BIGINT,
    result MEDIUMTEXT,
    duplicates BIGINT NOT NULL,
    last_us BIGINT,
    PRIMARY KEY (consumer, source, message_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS ix_duly_inbox_sent ON duly_inbox (consumer, sent_us);

CREATE TABLE IF NOT EXISTS duly_consumer (
    name VARCHAR(100) NOT NULL PRIMARY KEY,
    horizon_us BIGINT
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_parked (
    consumer VARCHAR(100) NOT NULL,
    source VARCHAR(250) NOT NULL,
    message_id VARCHAR(300) NOT NULL,
    fingerprint VARBINARY(40) NOT NULL,
    why VARCHAR(16) NOT NULL,
    state VARCHAR(16) NOT NULL,
    stored_fingerprint VARBINARY(40),
    receipt_id BINARY(16),
    sent_us BIGINT,
    parked_us BIGINT NOT NULL,
    handled_us BIGINT,
    result MEDIUMTEXT,
    deliveries BIGINT NOT NULL,
    last_us BIGINT NOT NULL,
    actor VARCHAR(200),
    reason MEDIUMTEXT,
    PRIMARY KEY (consumer, source, message_id, fingerprint),
    CONSTRAINT ck_duly_parked_why CHECK (why IN ('conflict', 'expired', 'torn')),
    CONSTRAINT ck_duly_parked_state CHECK (state IN ('held', 'released', 'taken', 'discarded'))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_http_key (
    scope VARCHAR(200) NOT NULL,
    http_key VARCHAR(255) NOT NULL,
    fingerprint VARBINARY(40) NOT NULL,
    receipt_id BINARY(16) NOT NULL,
    received_us BIGINT NOT NULL,
    expires_us BIGINT NOT NULL,
    handled_us BIGINT,
    status INTEGER,
    headers MEDIUMTEXT,
    body LONGBLOB,
    replays BIGINT NOT NULL,
    last_us BIGINT,
    PRIMARY KEY (scope, http_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS ix_duly_http_key_expires ON duly_http_key (expires_us);
