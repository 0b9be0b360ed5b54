-- Tables of version 0001 on PostgreSQL.

CREATE TABLE duly_attempt (
    job VARCHAR(100) COLLATE "C" NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) COLLATE "C" NOT NULL,
    correction INTEGER NOT NULL,
    id UUID NOT NULL,
    outcome VARCHAR(16) COLLATE "C" NOT NULL,
    started_by VARCHAR(200),
    source VARCHAR(40),
    host VARCHAR(200),
    pid BIGINT,
    started_us BIGINT NOT NULL,
    finished_us BIGINT NOT NULL,
    result TEXT,
    error_origin VARCHAR(16),
    error_type VARCHAR(200),
    error_message TEXT,
    error_traceback TEXT,
    PRIMARY KEY (job, nominal_us, partition_key, correction, id, outcome),
    CONSTRAINT ck_duly_attempt_outcome CHECK (outcome IN
        ('applied', 'failed', 'conflict', 'busy', 'expired', 'fenced', 'abandoned', 'torn'))
);

CREATE TABLE duly_occurrence (
    job VARCHAR(100) COLLATE "C" NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) COLLATE "C" NOT NULL,
    correction INTEGER NOT NULL,
    disposition VARCHAR(16) COLLATE "C" NOT NULL,
    fingerprint BYTEA,
    attempt_id UUID,
    recorded_us BIGINT NOT NULL,
    reason TEXT,
    actor VARCHAR(200),
    PRIMARY KEY (job, nominal_us, partition_key, correction),
    CONSTRAINT ck_duly_occurrence_disposition CHECK (disposition IN
        ('applied', 'skipped', 'superseded', 'waived', 'torn')),
    CONSTRAINT ck_duly_occurrence_applied CHECK (disposition <> 'applied' OR
        (attempt_id IS NOT NULL AND fingerprint IS NOT NULL)),
    CONSTRAINT ck_duly_occurrence_correction CHECK (correction >= 1),
    CONSTRAINT fk_duly_occurrence_sealed
        FOREIGN KEY (job, nominal_us, partition_key, correction, attempt_id, disposition)
        REFERENCES duly_attempt (job, nominal_us, partition_key, correction, id, outcome)
        DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE duly_duplicate (
    job VARCHAR(100) COLLATE "C" NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) COLLATE "C" NOT NULL,
    correction INTEGER NOT NULL,
    started_by VARCHAR(200) COLLATE "C" NOT NULL,
    times BIGINT NOT NULL,
    first_us BIGINT NOT NULL,
    last_us BIGINT NOT NULL,
    PRIMARY KEY (job, nominal_us, partition_key, correction, started_by)
);

CREATE TABLE duly_running (
    attempt_id UUID NOT NULL PRIMARY KEY,
    job VARCHAR(100) COLLATE "C" NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) COLLATE "C" NOT NULL,
    correction INTEGER NOT NULL,
    started_by VARCHAR(200),
    host VARCHAR(200),
    process VARCHAR(200) NOT NULL,
    pid BIGINT,
    started_us BIGINT NOT NULL
);

CREATE TABLE duly_guard (
    id INTEGER NOT NULL PRIMARY KEY,
    ledger_id VARCHAR(36) NOT NULL,
    pruned_us BIGINT,
    CONSTRAINT ck_duly_guard_one CHECK (id = 1)
);

INSERT INTO duly_guard (id, ledger_id) VALUES (1, gen_random_uuid()::text);

CREATE TABLE duly_job (
    name VARCHAR(100) COLLATE "C" NOT NULL PRIMARY KEY,
    horizon_us BIGINT
);

CREATE TABLE duly_audit (
    id UUID NOT NULL PRIMARY KEY,
    at_us BIGINT NOT NULL,
    actor VARCHAR(200) NOT NULL,
    action VARCHAR(40) NOT NULL,
    job VARCHAR(100) COLLATE "C" NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) COLLATE "C" NOT NULL,
    correction INTEGER NOT NULL,
    reason TEXT NOT NULL
);

CREATE INDEX ix_duly_audit_key ON duly_audit (job, nominal_us, partition_key, correction);

CREATE VIEW duly_occurrence_view AS
SELECT job, timestamptz 'epoch' + nominal_us * interval '1 microsecond' AS nominal_time,
       partition_key, correction, disposition, encode(fingerprint, 'hex') AS fingerprint, attempt_id,
       timestamptz 'epoch' + recorded_us * interval '1 microsecond' AS recorded_at, reason, actor
FROM duly_occurrence;

CREATE VIEW duly_attempt_view AS
SELECT job, timestamptz 'epoch' + nominal_us * interval '1 microsecond' AS nominal_time,
       partition_key, correction, id, outcome, started_by, source, host, pid,
       timestamptz 'epoch' + started_us * interval '1 microsecond' AS started_at,
       timestamptz 'epoch' + finished_us * interval '1 microsecond' AS finished_at,
       (finished_us - started_us) * interval '1 microsecond' AS duration,
       result, error_origin, error_type, error_message
FROM duly_attempt;
