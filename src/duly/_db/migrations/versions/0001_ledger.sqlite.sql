-- Tables of version 0001 on SQLite.

CREATE TABLE duly_attempt (
    job TEXT NOT NULL,
    nominal_us INTEGER NOT NULL,
    partition_key TEXT NOT NULL,
    correction INTEGER NOT NULL,
    id BLOB NOT NULL,
    outcome TEXT NOT NULL,
    started_by TEXT,
    source TEXT,
    host TEXT,
    pid INTEGER,
    started_us INTEGER NOT NULL,
    finished_us INTEGER NOT NULL,
    result TEXT,
    error_origin TEXT,
    error_type TEXT,
    error_message TEXT,
    error_traceback TEXT,
    PRIMARY KEY (job, nominal_us, partition_key, correction, id, outcome),
    CONSTRAINT ck_duly_attempt_outcome CHECK (outcome IN
        ('applied', 'failed', 'conflict', 'busy', 'expired', 'fenced', 'abandoned', 'torn'))
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_occurrence (
    job TEXT NOT NULL,
    nominal_us INTEGER NOT NULL,
    partition_key TEXT NOT NULL,
    correction INTEGER NOT NULL,
    disposition TEXT NOT NULL,
    fingerprint BLOB,
    attempt_id BLOB,
    recorded_us INTEGER NOT NULL,
    reason TEXT,
    actor TEXT,
    PRIMARY KEY (job, nominal_us, partition_key, correction),
    CONSTRAINT ck_duly_occurrence_disposition CHECK (disposition IN
        ('applied', 'skipped', 'superseded', 'waived', 'torn')),
    CONSTRAINT ck_duly_occurrence_applied CHECK (disposition <> 'applied' OR
        (attempt_id IS NOT NULL AND fingerprint IS NOT NULL)),
    CONSTRAINT ck_duly_occurrence_correction CHECK (correction >= 1)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_duplicate (
    job TEXT NOT NULL,
    nominal_us INTEGER NOT NULL,
    partition_key TEXT NOT NULL,
    correction INTEGER NOT NULL,
    started_by TEXT NOT NULL,
    times INTEGER NOT NULL,
    first_us INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    PRIMARY KEY (job, nominal_us, partition_key, correction, started_by)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_guard (
    id INTEGER NOT NULL PRIMARY KEY,
    ledger_id TEXT NOT NULL,
    pruned_us INTEGER,
    CONSTRAINT ck_duly_guard_one CHECK (id = 1)
) STRICT, WITHOUT ROWID;

INSERT INTO duly_guard (id, ledger_id) VALUES (1, lower(hex(randomblob(16))));

CREATE TABLE duly_job (
    name TEXT NOT NULL PRIMARY KEY,
    horizon_us INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_audit (
    id BLOB NOT NULL PRIMARY KEY,
    at_us INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    job TEXT NOT NULL,
    nominal_us INTEGER NOT NULL,
    partition_key TEXT NOT NULL,
    correction INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX ix_duly_audit_key ON duly_audit (job, nominal_us, partition_key, correction);

CREATE VIEW duly_occurrence_view AS
SELECT job,
       strftime('%Y-%m-%dT%H:%M:%S', (nominal_us - ((nominal_us % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', ((nominal_us % 1000000) + 1000000) % 1000000) AS nominal_time,
       partition_key, correction, disposition, lower(hex(fingerprint)) AS fingerprint, lower(hex(attempt_id)) AS attempt_id,
       strftime('%Y-%m-%dT%H:%M:%S', (recorded_us - ((recorded_us % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', ((recorded_us % 1000000) + 1000000) % 1000000) AS recorded_at, reason, actor
FROM duly_occurrence;

CREATE VIEW duly_attempt_view AS
SELECT job,
       strftime('%Y-%m-%dT%H:%M:%S', (nominal_us - ((nominal_us % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', ((nominal_us % 1000000) + 1000000) % 1000000) AS nominal_time,
       partition_key, correction, lower(hex(id)) AS id, outcome, started_by, source, host, pid,
       strftime('%Y-%m-%dT%H:%M:%S', (started_us - ((started_us % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', ((started_us % 1000000) + 1000000) % 1000000) AS started_at,
       strftime('%Y-%m-%dT%H:%M:%S', (finished_us - ((finished_us % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', ((finished_us % 1000000) + 1000000) % 1000000) AS finished_at,
       (finished_us - started_us) / 1000000.0 AS seconds,
       result, error_origin, error_type, error_message
FROM duly_attempt;
