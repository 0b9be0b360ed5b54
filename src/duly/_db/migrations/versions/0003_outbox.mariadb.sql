-- Tables of version 0003 on MariaDB. It has no partial indexes: the columns due_us, open_seq and
-- closed_us tell the open rows, and a range over them passes by the NULLs of the closed ones.

CREATE TABLE IF NOT EXISTS duly_outbox (
    id BINARY(16) NOT NULL PRIMARY KEY,
    job VARCHAR(100) NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) NOT NULL,
    correction INTEGER NOT NULL,
    destination VARCHAR(100) NOT NULL,
    name VARCHAR(200),
    natural_key VARCHAR(200),
    generation INTEGER NOT NULL,
    content_type VARCHAR(200) NOT NULL,
    headers MEDIUMTEXT NOT NULL,
    body MEDIUMBLOB NOT NULL,
    fingerprint BINARY(32) NOT NULL,
    ordering_key VARCHAR(200),
    open_seq BIGINT,
    state VARCHAR(16) NOT NULL,
    due_us BIGINT,
    created_us BIGINT NOT NULL,
    since_us BIGINT NOT NULL,
    expires_us BIGINT,
    started INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    tried_us BIGINT,
    doubt_us BIGINT,
    token BINARY(16),
    answer VARCHAR(40),
    evidence MEDIUMTEXT,
    remote_id VARCHAR(200),
    settled_us BIGINT,
    closed_us BIGINT,
    KEY ix_duly_outbox_due (destination, due_us),
    KEY ix_duly_outbox_order (destination, ordering_key, open_seq),
    KEY ix_duly_outbox_open (closed_us, job, nominal_us),
    KEY ix_duly_outbox_occurrence (job, nominal_us, partition_key, correction),
    CONSTRAINT ck_duly_outbox_state CHECK (state IN
        ('pending', 'sending', 'sent', 'uncertain', 'dead', 'cancelled')),
    CONSTRAINT ck_duly_outbox_due CHECK (state NOT IN ('pending', 'sending') OR due_us IS NOT NULL),
    CONSTRAINT ck_duly_outbox_closed CHECK (state NOT IN ('sent', 'cancelled') OR
        (closed_us IS NOT NULL AND due_us IS NULL AND open_seq IS NULL))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_outbox_order (
    destination VARCHAR(100) NOT NULL,
    ordering_key VARCHAR(200) NOT NULL,
    last_seq BIGINT NOT NULL,
    PRIMARY KEY (destination, ordering_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_delivery (
    message_id BINARY(16) NOT NULL,
    number INTEGER NOT NULL,
    token BINARY(16) NOT NULL,
    relay VARCHAR(200) NOT NULL,
    started_us BIGINT NOT NULL,
    lease_us BIGINT NOT NULL,
    finished_us BIGINT,
    verdict VARCHAR(16),
    answer VARCHAR(40),
    evidence MEDIUMTEXT,
    late BOOLEAN,
    PRIMARY KEY (message_id, number)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

ALTER TABLE duly_audit ADD COLUMN IF NOT EXISTS message_id BINARY(16);

CREATE OR REPLACE VIEW duly_outbox_view AS
SELECT LOWER(HEX(id)) AS id, job, TIMESTAMPADD(MICROSECOND, nominal_us, '1970-01-01 00:00:00.000000') AS nominal_time,
       partition_key, correction, destination, name, natural_key, generation, state,
       TIMESTAMPADD(MICROSECOND, due_us, '1970-01-01 00:00:00.000000') AS due_at,
       TIMESTAMPADD(MICROSECOND, created_us, '1970-01-01 00:00:00.000000') AS created_at,
       TIMESTAMPADD(MICROSECOND, tried_us, '1970-01-01 00:00:00.000000') AS tried_at,
       TIMESTAMPADD(MICROSECOND, doubt_us, '1970-01-01 00:00:00.000000') AS in_doubt_since,
       started, finished, answer, evidence, remote_id,
       TIMESTAMPADD(MICROSECOND, closed_us, '1970-01-01 00:00:00.000000') AS closed_at
FROM duly_outbox;

CREATE OR REPLACE VIEW duly_delivery_view AS
SELECT LOWER(HEX(message_id)) AS message_id, number, relay,
       TIMESTAMPADD(MICROSECOND, started_us, '1970-01-01 00:00:00.000000') AS started_at,
       TIMESTAMPADD(MICROSECOND, finished_us, '1970-01-01 00:00:00.000000') AS finished_at,
       verdict, answer, evidence, late
FROM duly_delivery;
