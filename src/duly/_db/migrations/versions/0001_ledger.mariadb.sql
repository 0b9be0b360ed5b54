-- Tables of version 0001 on MariaDB.

CREATE TABLE IF NOT EXISTS duly_attempt (
    job VARCHAR(100) NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) NOT NULL,
    correction INTEGER NOT NULL,
    id BINARY(16) NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    started_by VARCHAR(200),
    source VARCHAR(40),
    host VARCHAR(200),
    pid BIGINT,
    started_us BIGINT NOT NULL,
    finished_us BIGINT NOT NULL,
    result MEDIUMTEXT,
    error_origin VARCHAR(16),
    error_type VARCHAR(200),
    error_message MEDIUMTEXT,
    error_traceback MEDIUMTEXT,
    PRIMARY KEY (job, nominal_us, partition_key, correction, id, outcome),
    CONSTRAINT ck_duly_attempt_outcome CHECK (outcome IN
        ('applied', 'failed', 'conflict', 'busy', 'expired', 'fenced', 'abandoned', 'torn'))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_occurrence (
    job VARCHAR(100) NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) NOT NULL,
    correction INTEGER NOT NULL,
    disposition VARCHAR(16) NOT NULL,
    fingerprint BINARY(32),
    attempt_id BINARY(16),
    recorded_us BIGINT NOT NULL,
    reason MEDIUMTEXT,
    actor VARCHAR(200),
    PRIMARY KEY (job, nominal_us, partition_key, correction),
    CONSTRAINT ck_duly_occurrence_disposition CHECK (disposition IN
        ('applied', 'skipped', 'superseded', 'waived', 'torn')),
    CONSTRAINT ck_duly_occurrence_applied CHECK (disposition <> 'applied' OR
        (attempt_id IS NOT NULL AND fingerprint IS NOT NULL)),
    CONSTRAINT ck_duly_occurrence_correction CHECK (correction >= 1)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_duplicate (
    job VARCHAR(100) NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) NOT NULL,
    correction INTEGER NOT NULL,
    started_by VARCHAR(200) NOT NULL,
    times BIGINT NOT NULL,
    first_us BIGINT NOT NULL,
    last_us BIGINT NOT NULL,
    PRIMARY KEY (job, nominal_us, partition_key, correction, started_by)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_running (
    attempt_id BINARY(16) NOT NULL PRIMARY KEY,
    job VARCHAR(100) NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) NOT NULL,
    correction INTEGER NOT NULL,
    started_by VARCHAR(200),
    host VARCHAR(200),
    process VARCHAR(200) NOT NULL,
    pid BIGINT,
    started_us BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_guard (
    id INTEGER NOT NULL PRIMARY KEY,
    ledger_id VARCHAR(36) NOT NULL,
    pruned_us BIGINT,
    CONSTRAINT ck_duly_guard_one CHECK (id = 1)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

INSERT IGNORE INTO duly_guard (id, ledger_id) VALUES (1, UUID());

CREATE TABLE IF NOT EXISTS duly_job (
    name VARCHAR(100) NOT NULL PRIMARY KEY,
    horizon_us BIGINT
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_audit (
    id BINARY(16) NOT NULL PRIMARY KEY,
    at_us BIGINT NOT NULL,
    actor VARCHAR(200) NOT NULL,
    action VARCHAR(40) NOT NULL,
    job VARCHAR(100) NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) NOT NULL,
    correction INTEGER NOT NULL,
    reason MEDIUMTEXT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE INDEX IF NOT EXISTS ix_duly_audit_key ON duly_audit (job, nominal_us, partition_key, correction);

CREATE OR REPLACE VIEW duly_occurrence_view AS
SELECT job, TIMESTAMPADD(MICROSECOND, nominal_us, '1970-01-01 00:00:00.000000') AS nominal_time,
       partition_key, correction, disposition, LOWER(HEX(fingerprint)) AS fingerprint, LOWER(HEX(attempt_id)) AS attempt_id,
       TIMESTAMPADD(MICROSECOND, recorded_us, '1970-01-01 00:00:00.000000') AS recorded_at, reason, actor
FROM duly_occurrence;

CREATE OR REPLACE VIEW duly_attempt_view AS
SELECT job, TIMESTAMPADD(MICROSECOND, nominal_us, '1970-01-01 00:00:00.000000') AS nominal_time,
       partition_key, correction, LOWER(HEX(id)) AS id, outcome, started_by, source, host, pid,
       TIMESTAMPADD(MICROSECOND, started_us, '1970-01-01 00:00:00.000000') AS started_at,
       TIMESTAMPADD(MICROSECOND, finished_us, '1970-01-01 00:00:00.000000') AS finished_at,
       (finished_us - started_us) / 1000000 AS seconds,
       result, error_origin, error_type, error_message
FROM duly_attempt;
