-- Named queries about what is expected and missing; see common.sql.

-- name: read_job
SELECT name, shown_name, horizon_us, complete_us
FROM duly_job
WHERE name = :job

-- name: latest_revisions
SELECT r.job, r.revision, r.digest, r.why, r.zone_version, r.effective_us, j.complete_us, j.shown_name,
       r.app
FROM duly_job_revision AS r
JOIN (SELECT job, MAX(revision) AS revision FROM duly_job_revision GROUP BY job) AS latest
  ON latest.job = r.job AND latest.revision = r.revision
LEFT JOIN duly_job AS j ON j.name = r.job
ORDER BY r.job

-- name: list_revisions
SELECT job, revision, effective_us, digest, schedule, zone, zone_version, zone_record, policies,
       payload, app, why
FROM duly_job_revision
WHERE job = :job
ORDER BY revision

-- name: add_revision
INSERT INTO duly_job_revision
    (job, revision, effective_us, recorded_us, why, digest, schedule, zone, zone_version, zone_record,
     policies, payload, app, recorded_by)
VALUES
    (:job, :revision, :effective_us, {now}, :why, :digest, :schedule, :zone, :zone_version,
     :zone_record, :policies, :payload, :app, :recorded_by)

-- name: note_zone_version
UPDATE duly_job_revision SET zone_version = :zone_version
WHERE job = :job AND revision = :revision AND zone_version < :zone_version

-- name: add_job
INSERT INTO duly_job (name)
VALUES (:job)
ON CONFLICT DO NOTHING

-- name: show_job_as
UPDATE duly_job SET shown_name = :shown_name WHERE name = :job

-- name: mark_complete
UPDATE duly_job SET complete_us = :complete_us
WHERE name = :job AND (complete_us IS NULL OR complete_us < :complete_us)
  AND COALESCE(complete_us, :never_us) = :known_us
  AND NOT EXISTS (
    SELECT 1 FROM duly_job_revision AS r WHERE r.job = :job AND r.revision > :revision)

-- name: reopen
UPDATE duly_job
SET complete_us = CASE
  WHEN COALESCE(complete_us, :never_us) < :nominal_us THEN COALESCE(complete_us, :never_us)
  ELSE :nominal_us END - 1
WHERE name = :job

-- name: unmark_complete
UPDATE duly_job SET complete_us = :complete_us
WHERE name = :job AND complete_us > :complete_us

-- Pauses.

-- name: list_pauses
SELECT paused_us, resumed_us, included
FROM duly_pause
WHERE job = :job
ORDER BY paused_us

-- name: open_pauses
SELECT job, paused_us
FROM duly_pause
WHERE resumed_us IS NULL
ORDER BY job

-- name: add_pause
INSERT INTO duly_pause (job, paused_us, included)
VALUES (:job, :paused_us, :included)

-- name: end_pause
UPDATE duly_pause SET resumed_us = :resumed_us, included = :included
WHERE job = :job AND resumed_us IS NULL

-- name: lock_job
UPDATE duly_job SET name = name WHERE name = :job

-- Slots: how many occurrences of one job run at once. A row's lock is the slot.

-- name: list_slots
SELECT slot FROM duly_slot WHERE job = :job ORDER BY slot

-- name: add_slot
INSERT INTO duly_slot (job, slot)
VALUES (:job, :slot)
ON CONFLICT DO NOTHING

-- What is settled, as runs of one step: the rows that end a run, each with the start of the next.

-- name: settled_runs
SELECT nominal_us, next_us
FROM (
    SELECT nominal_us, LEAD(nominal_us) OVER (ORDER BY nominal_us) AS next_us
    FROM duly_occurrence
    WHERE job = :job AND nominal_us >= :since_us AND partition_key = :partition_key AND correction = 1
) AS settled
WHERE next_us IS NULL OR next_us - nominal_us <> :step_us
ORDER BY nominal_us
LIMIT :limit

-- name: oldest_settled
SELECT MIN(nominal_us)
FROM duly_occurrence
WHERE job = :job AND nominal_us >= :since_us AND partition_key = :partition_key AND correction = 1

-- name: settled_times
SELECT nominal_us
FROM duly_occurrence
WHERE job = :job AND nominal_us >= :since_us AND nominal_us <= :until_us
  AND partition_key = :partition_key AND correction = 1
ORDER BY nominal_us

-- name: failures
SELECT a.nominal_us, COUNT(*), MAX(a.finished_us), MAX(CASE WHEN a.final THEN a.finished_us END)
FROM duly_attempt AS a
WHERE a.job = :job AND a.nominal_us >= :since_us AND a.nominal_us <= :until_us
  AND a.partition_key = :partition_key AND a.correction = 1
  AND a.outcome IN ('failed', 'abandoned')
  AND NOT EXISTS (
    SELECT 1 FROM duly_occurrence AS o
    WHERE o.job = a.job AND o.nominal_us = a.nominal_us AND o.partition_key = a.partition_key
      AND o.correction = 1)
GROUP BY a.nominal_us
ORDER BY a.nominal_us
LIMIT :limit

-- Decisions not to run.

-- name: settle
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, recorded_us, reason, actor)
SELECT :job, each.value, :partition_key, 1, :disposition, {now}, :reason, :actor
FROM json_each(:nominal_times) AS each
WHERE true
ORDER BY each.value DESC
ON CONFLICT DO NOTHING

-- name: waive_free
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, recorded_us, reason, actor)
VALUES
    (:job, :nominal_us, :partition_key, 1, 'waived', {now}, :reason, :actor)
ON CONFLICT DO NOTHING

-- name: cover
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, attempt_id, recorded_us, reason)
SELECT :job, each.value, :partition_key, 1, 'superseded', :attempt_id, {now}, :reason
FROM json_each(:nominal_times) AS each
WHERE true
ORDER BY each.value DESC
ON CONFLICT DO NOTHING
RETURNING nominal_us

-- Partitions: the set of each occurrence, fixed when it is first planned.

-- name: add_partition_set
INSERT INTO duly_partition_set (job, nominal_us, size, planned_us)
VALUES (:job, :nominal_us, :size, {now})
ON CONFLICT DO NOTHING

-- name: add_partition
INSERT INTO duly_partition (job, nominal_us, partition_key)
VALUES (:job, :nominal_us, :partition_key)

-- name: planned_sets
SELECT nominal_us
FROM duly_partition_set
WHERE job = :job AND nominal_us >= :since_us AND nominal_us < :until_us
ORDER BY nominal_us

-- name: fixed_partitions
SELECT partition_key
FROM duly_partition
WHERE job = :job AND nominal_us = :nominal_us
ORDER BY partition_key

-- name: missing_partitions
SELECT p.nominal_us, p.partition_key
FROM duly_partition AS p
WHERE p.job = :job AND p.nominal_us >= :since_us AND p.nominal_us < :until_us
  AND NOT EXISTS (
    SELECT 1 FROM duly_occurrence AS o
    WHERE o.job = p.job AND o.nominal_us = p.nominal_us AND o.partition_key = p.partition_key
      AND o.correction = 1)
ORDER BY p.nominal_us, p.partition_key
LIMIT :limit
