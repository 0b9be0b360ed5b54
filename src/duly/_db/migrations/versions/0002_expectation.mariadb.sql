-- Tables of version 0002 on MariaDB.

ALTER TABLE duly_job ADD COLUMN IF NOT EXISTS shown_name VARCHAR(100);

ALTER TABLE duly_job ADD COLUMN IF NOT EXISTS complete_us BIGINT;

ALTER TABLE duly_attempt ADD COLUMN IF NOT EXISTS final BOOLEAN;

CREATE TABLE IF NOT EXISTS duly_job_revision (
    job VARCHAR(100) NOT NULL,
    revision INTEGER NOT NULL,
    effective_us BIGINT NOT NULL,
    recorded_us BIGINT NOT NULL,
    why VARCHAR(16) NOT NULL,
    digest VARCHAR(64) NOT NULL,
    schedule MEDIUMTEXT,
    zone VARCHAR(100) NOT NULL,
    zone_version VARCHAR(20) NOT NULL,
    zone_record MEDIUMTEXT NOT NULL,
    policies MEDIUMTEXT NOT NULL,
    payload MEDIUMTEXT NOT NULL,
    app VARCHAR(100) NOT NULL,
    recorded_by VARCHAR(200) NOT NULL,
    PRIMARY KEY (job, revision)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_pause (
    job VARCHAR(100) NOT NULL,
    paused_us BIGINT NOT NULL,
    resumed_us BIGINT,
    included BOOLEAN NOT NULL,
    PRIMARY KEY (job, paused_us)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_slot (
    job VARCHAR(100) NOT NULL,
    slot INTEGER NOT NULL,
    PRIMARY KEY (job, slot)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_partition_set (
    job VARCHAR(100) NOT NULL,
    nominal_us BIGINT NOT NULL,
    size INTEGER NOT NULL,
    planned_us BIGINT NOT NULL,
    PRIMARY KEY (job, nominal_us)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE IF NOT EXISTS duly_partition (
    job VARCHAR(100) NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) NOT NULL,
    PRIMARY KEY (job, nominal_us, partition_key)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE OR REPLACE VIEW duly_job_revision_view AS
SELECT job, revision, TIMESTAMPADD(MICROSECOND, effective_us, '1970-01-01 00:00:00.000000') AS effective_at,
       TIMESTAMPADD(MICROSECOND, recorded_us, '1970-01-01 00:00:00.000000') AS recorded_at,
       why, schedule, zone, zone_version, policies, payload, app, recorded_by
FROM duly_job_revision;
