-- Named queries, the same on every database. `:name` binds. A table's name is qualified
-- with the ledger's schema when the file is loaded; {now} is the database's clock in
-- microseconds (`dialects.py`), and {a_name} the query of that name. A dialect's own file overrides
-- a query and says why.

-- name: claim
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us)
VALUES
    (:job, :nominal_us, :partition_key, :correction, 'applied', :fingerprint, :attempt_id, {now})
ON CONFLICT DO NOTHING

-- name: claim_attempt
INSERT INTO duly_attempt
    (job, nominal_us, partition_key, correction, id, outcome,
     started_by, source, host, pid, started_us, finished_us)
VALUES
    (:job, :nominal_us, :partition_key, :correction, :attempt_id, 'applied',
     :started_by, :source, :host, :pid, {now}, {now})

-- name: unclaim
DELETE FROM duly_occurrence
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND attempt_id = :attempt_id

-- name: unclaim_attempt
DELETE FROM duly_attempt
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND id = :attempt_id AND outcome = 'applied'

-- name: confirm
SELECT 1
FROM duly_occurrence
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND attempt_id = :attempt_id AND disposition = 'applied'

-- name: read_standing
SELECT o.disposition, o.fingerprint, o.attempt_id, a.id, o.recorded_us, a.result, o.reason
FROM duly_occurrence AS o
LEFT JOIN duly_attempt AS a
  ON a.job = o.job AND a.nominal_us = o.nominal_us AND a.partition_key = o.partition_key
 AND a.correction = o.correction AND a.id = o.attempt_id AND a.outcome = o.disposition
WHERE o.job = :job AND o.nominal_us = :nominal_us AND o.partition_key = :partition_key
  AND o.correction = :correction

-- name: seal
INSERT INTO duly_attempt
    (job, nominal_us, partition_key, correction, id, outcome,
     started_by, source, host, pid, started_us, finished_us, result)
SELECT o.job, o.nominal_us, o.partition_key, o.correction, o.attempt_id, 'applied',
       :started_by, :source, :host, :pid, :started_us, :finished_us, :result
FROM duly_occurrence AS o
WHERE o.job = :job AND o.nominal_us = :nominal_us AND o.partition_key = :partition_key
  AND o.correction = :correction AND o.attempt_id = :attempt_id AND o.disposition = 'applied'

-- name: lock_guard
SELECT id FROM duly_guard WHERE id = 1

-- name: read_horizon
SELECT horizon_us FROM duly_job WHERE name = :job

-- name: record_attempt
INSERT INTO duly_attempt
    (job, nominal_us, partition_key, correction, id, outcome,
     started_by, source, host, pid, started_us, finished_us,
     error_origin, error_type, error_message, error_traceback, final)
VALUES
    (:job, :nominal_us, :partition_key, :correction, :attempt_id, :outcome,
     :started_by, :source, :host, :pid, :started_us, :finished_us,
     :error_origin, :error_type, :error_message, :error_traceback, :final)

-- name: count_duplicate
INSERT INTO duly_duplicate AS d
    (job, nominal_us, partition_key, correction, started_by, times, first_us, last_us)
VALUES
    (:job, :nominal_us, :partition_key, :correction, :started_by, 1, {now}, {now})
ON CONFLICT (job, nominal_us, partition_key, correction, started_by)
DO UPDATE SET times = d.times + 1, last_us = excluded.last_us

-- name: hold_torn
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us)
VALUES
    (:job, :nominal_us, :partition_key, :correction, 'torn', :fingerprint, :attempt_id, {now})
ON CONFLICT DO NOTHING

-- name: turn_torn
UPDATE duly_occurrence
SET disposition = 'torn'
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND attempt_id = :attempt_id AND disposition = 'applied'

-- name: hold
UPDATE duly_occurrence
SET disposition = 'torn', attempt_id = NULL, reason = :reason
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND attempt_id = :attempt_id AND disposition = 'applied'

-- name: resume_held
UPDATE duly_occurrence
SET disposition = 'applied', attempt_id = :attempt_id, reason = NULL
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND disposition = 'torn' AND reason = :reason

-- name: release_held
DELETE FROM duly_occurrence
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND disposition = 'torn' AND reason = :reason

-- name: waive_torn
UPDATE duly_occurrence
SET disposition = 'waived', attempt_id = NULL, reason = :reason, actor = :actor
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND disposition = 'torn'

-- name: waive_unsealed
UPDATE duly_occurrence
SET disposition = 'waived', attempt_id = NULL, reason = :reason, actor = :actor
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND disposition = 'applied'
  AND NOT EXISTS (
    SELECT 1 FROM duly_attempt AS a
    WHERE a.job = :job AND a.nominal_us = :nominal_us AND a.partition_key = :partition_key
      AND a.correction = :correction AND a.outcome = 'applied')

-- name: audit
INSERT INTO duly_audit
    (id, at_us, actor, action, job, nominal_us, partition_key, correction, reason)
VALUES
    (:id, {now}, :actor, :action, :job, :nominal_us, :partition_key, :correction, :reason)

-- name: clock
SELECT {now}

-- Attempts under way (PostgreSQL and MariaDB; SQLite has side files).

-- name: mark_running
INSERT INTO duly_running
    (attempt_id, job, nominal_us, partition_key, correction, started_by, host, process, pid, started_us)
VALUES
    (:attempt_id, :job, :nominal_us, :partition_key, :correction, :started_by, :host, :process,
     :pid, :started_us)

-- name: unmark_running
DELETE FROM duly_running WHERE attempt_id = :attempt_id

-- name: list_running
SELECT attempt_id, job, nominal_us, partition_key, correction, started_by, host, process, pid, started_us
FROM duly_running
ORDER BY started_us, attempt_id
LIMIT :limit

-- name: running_on_key
SELECT attempt_id, job, nominal_us, partition_key, correction, started_by, host, process, pid, started_us
FROM duly_running
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction
ORDER BY started_us, attempt_id
LIMIT 10

-- name: attempt_is_recorded
SELECT 1 FROM duly_attempt
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND id = :attempt_id

-- Pruning.

-- name: prune_jobs
SELECT j.job, h.horizon_us
FROM (
    SELECT job FROM duly_occurrence WHERE nominal_us <= :bound_us
    UNION
    SELECT job FROM duly_attempt WHERE nominal_us <= :bound_us
) AS j
LEFT JOIN duly_job AS h ON h.name = j.job
ORDER BY j.job
LIMIT :limit

-- name: newest_recorded
SELECT MAX(recorded_us) FROM duly_occurrence

-- name: oldest_torn
SELECT MIN(o.nominal_us)
FROM duly_occurrence AS o
WHERE o.job = :job AND o.nominal_us <= :bound_us
  AND (o.disposition = 'torn'
       OR (o.disposition = 'applied' AND NOT EXISTS (
            SELECT 1 FROM duly_attempt AS a
            WHERE a.job = o.job AND a.nominal_us = o.nominal_us
              AND a.partition_key = o.partition_key AND a.correction = o.correction
              AND a.id = o.attempt_id AND a.outcome = 'applied')))

-- name: touch_guard
UPDATE duly_guard SET pruned_us = {now} WHERE id = 1

-- name: raise_horizon
INSERT INTO duly_job AS j (name, horizon_us)
VALUES (:job, :horizon_us)
ON CONFLICT (name) DO UPDATE SET horizon_us = excluded.horizon_us
WHERE j.horizon_us IS NULL OR j.horizon_us < excluded.horizon_us

-- No DELETE ... LIMIT: PostgreSQL has none, and in SQLite it is an option that Python's build lacks.

-- name: prune_occurrences
DELETE FROM duly_occurrence
WHERE (job, nominal_us, partition_key, correction) IN (
    SELECT job, nominal_us, partition_key, correction
    FROM duly_occurrence
    WHERE job = :job AND nominal_us <= :horizon_us
    ORDER BY job, nominal_us, partition_key, correction
    LIMIT :limit)

-- name: prune_attempts
DELETE FROM duly_attempt
WHERE (job, nominal_us, partition_key, correction, id, outcome) IN (
    SELECT job, nominal_us, partition_key, correction, id, outcome
    FROM duly_attempt
    WHERE job = :job AND nominal_us <= :horizon_us
    ORDER BY job, nominal_us, partition_key, correction, id, outcome
    LIMIT :limit)

-- name: prune_duplicates
DELETE FROM duly_duplicate
WHERE (job, nominal_us, partition_key, correction, started_by) IN (
    SELECT job, nominal_us, partition_key, correction, started_by
    FROM duly_duplicate
    WHERE job = :job AND nominal_us <= :horizon_us
    ORDER BY job, nominal_us, partition_key, correction, started_by
    LIMIT :limit)

-- Reading.

-- name: list_attempts
SELECT job, nominal_us, partition_key, correction, id, outcome, started_by, source, host, pid,
       started_us, finished_us, result, error_origin, error_type, error_message, error_traceback
FROM duly_attempt
WHERE job = :job
ORDER BY nominal_us DESC, partition_key DESC, correction DESC, id DESC, outcome DESC
LIMIT :limit

-- name: attempts_on_key
SELECT job, nominal_us, partition_key, correction, id, outcome, started_by, source, host, pid,
       started_us, finished_us, result, error_origin, error_type, error_message, error_traceback
FROM duly_attempt
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction
ORDER BY nominal_us DESC, partition_key DESC, correction DESC, id DESC, outcome DESC
LIMIT :limit

-- name: list_duplicates
SELECT job, nominal_us, partition_key, correction, started_by, times, first_us, last_us
FROM duly_duplicate
WHERE job = :job
ORDER BY nominal_us DESC, partition_key DESC, correction DESC, started_by DESC
LIMIT :limit

-- name: duplicates_on_key
SELECT job, nominal_us, partition_key, correction, started_by, times, first_us, last_us
FROM duly_duplicate
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction
ORDER BY last_us DESC, started_by
LIMIT :limit

-- name: read_occurrence
SELECT job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us,
       reason, actor
FROM duly_occurrence
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction

-- name: last_completed
SELECT job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us,
       reason, actor
FROM duly_occurrence
WHERE job = :job AND disposition = 'applied'
ORDER BY nominal_us DESC, partition_key, correction DESC
LIMIT 1

-- name: list_held
SELECT job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us,
       reason, actor
FROM duly_occurrence
WHERE job = :job AND disposition = 'torn' AND attempt_id IS NULL
ORDER BY nominal_us DESC, partition_key DESC, correction DESC
LIMIT :limit

-- name: list_corrections
SELECT job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us,
       reason, actor
FROM duly_occurrence
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
ORDER BY correction
LIMIT 100

-- name: known_jobs
SELECT name FROM (
    SELECT job AS name FROM duly_occurrence
    UNION SELECT job FROM duly_attempt
    UNION SELECT name FROM duly_job
) AS known
ORDER BY name
LIMIT :limit

-- name: audit_on_key
SELECT at_us, actor, action, reason
FROM duly_audit
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction
ORDER BY at_us, id
LIMIT :limit

-- name: schema_version
SELECT version_num FROM duly_schema_version

-- name: read_guard
SELECT ledger_id, pruned_us FROM duly_guard WHERE id = 1
