-- Tables of version 0002 on PostgreSQL.

ALTER TABLE duly_job ADD COLUMN shown_name VARCHAR(100);

ALTER TABLE duly_job ADD COLUMN complete_us BIGINT;

ALTER TABLE duly_attempt ADD COLUMN final BOOLEAN;

CREATE TABLE duly_job_revision (
    job VARCHAR(100) COLLATE "C" NOT NULL,
    revision INTEGER NOT NULL,
    effective_us BIGINT NOT NULL,
    recorded_us BIGINT NOT NULL,
    why VARCHAR(16) NOT NULL,
    digest VARCHAR(64) NOT NULL,
    schedule TEXT,
    zone VARCHAR(100) NOT NULL,
    zone_version VARCHAR(20) NOT NULL,
    zone_record TEXT NOT NULL,
    policies TEXT NOT NULL,
    payload TEXT NOT NULL,
    app VARCHAR(100) COLLATE "C" NOT NULL,
    recorded_by VARCHAR(200) NOT NULL,
    PRIMARY KEY (job, revision)
);

CREATE TABLE duly_pause (
    job VARCHAR(100) COLLATE "C" NOT NULL,
    paused_us BIGINT NOT NULL,
    resumed_us BIGINT,
    included BOOLEAN NOT NULL,
    PRIMARY KEY (job, paused_us)
);

CREATE TABLE duly_slot (
    job VARCHAR(100) COLLATE "C" NOT NULL,
    slot INTEGER NOT NULL,
    PRIMARY KEY (job, slot)
);

CREATE TABLE duly_partition_set (
    job VARCHAR(100) COLLATE "C" NOT NULL,
    nominal_us BIGINT NOT NULL,
    size INTEGER NOT NULL,
    planned_us BIGINT NOT NULL,
    PRIMARY KEY (job, nominal_us)
);

CREATE TABLE duly_partition (
    job VARCHAR(100) COLLATE "C" NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) COLLATE "C" NOT NULL,
    PRIMARY KEY (job, nominal_us, partition_key)
);

CREATE VIEW duly_job_revision_view AS
SELECT job, revision, timestamptz 'epoch' + effective_us * interval '1 microsecond' AS effective_at,
       timestamptz 'epoch' + recorded_us * interval '1 microsecond' AS recorded_at,
       why, schedule, zone, zone_version, policies, payload, app, recorded_by
FROM duly_job_revision;
