-- Tables of version 0002 on SQLite.

ALTER TABLE duly_job ADD COLUMN shown_name TEXT;

ALTER TABLE duly_job ADD COLUMN complete_us INTEGER;

ALTER TABLE duly_attempt ADD COLUMN final INTEGER;

CREATE TABLE duly_job_revision (
    job TEXT NOT NULL,
    revision INTEGER NOT NULL,
    effective_us INTEGER NOT NULL,
    recorded_us INTEGER NOT NULL,
    why TEXT NOT NULL,
    digest TEXT NOT NULL,
    schedule TEXT,
    zone TEXT NOT NULL,
    zone_version TEXT NOT NULL,
    zone_record TEXT NOT NULL,
    policies TEXT NOT NULL,
    payload TEXT NOT NULL,
    app TEXT NOT NULL,
    recorded_by TEXT NOT NULL,
    PRIMARY KEY (job, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_pause (
    job TEXT NOT NULL,
    paused_us INTEGER NOT NULL,
    resumed_us INTEGER,
    included INTEGER NOT NULL,
    PRIMARY KEY (job, paused_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_slot (
    job TEXT NOT NULL,
    slot INTEGER NOT NULL,
    PRIMARY KEY (job, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_partition_set (
    job TEXT NOT NULL,
    nominal_us INTEGER NOT NULL,
    size INTEGER NOT NULL,
    planned_us INTEGER NOT NULL,
    PRIMARY KEY (job, nominal_us)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_partition (
    job TEXT NOT NULL,
    nominal_us INTEGER NOT NULL,
    partition_key TEXT NOT NULL,
    PRIMARY KEY (job, nominal_us, partition_key)
) STRICT, WITHOUT ROWID;

CREATE VIEW duly_job_revision_view AS
SELECT job, revision,
       strftime('%Y-%m-%dT%H:%M:%S', (effective_us - ((effective_us % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', ((effective_us % 1000000) + 1000000) % 1000000) AS effective_at,
       strftime('%Y-%m-%dT%H:%M:%S', (recorded_us - ((recorded_us % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', ((recorded_us % 1000000) + 1000000) % 1000000) AS recorded_at,
       why, schedule, zone, zone_version, policies, payload, app, recorded_by
FROM duly_job_revision;
