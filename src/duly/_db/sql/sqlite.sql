-- What SQLite needs otherwise.

-- name: has_table
-- differs: each database keeps its catalogue elsewhere.
SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = :name

-- name: lock_guard
-- differs: there is one writer, so the write lock is the guard; this takes it and changes nothing.
UPDATE duly_guard SET id = id WHERE id = 0

-- name: claim_by_key
-- differs: a row answers where it was inserted, with the first name of a job that is called so now.
-- It is read after the write lock was taken: read first, it would be of a snapshot that the lock
-- cannot be had from.
{claim}
RETURNING (SELECT MIN(name) FROM duly_job WHERE shown_name = :job)

-- name: claim_attempt
-- differs: only where the key is free, under the write lock that this statement takes first.
INSERT INTO duly_attempt
    (job, nominal_us, partition_key, correction, id, outcome,
     started_by, source, host, pid, started_us, finished_us)
SELECT :job, :nominal_us, :partition_key, :correction, :attempt_id, 'applied',
       :started_by, :source, :host, :pid, {now}, {now}
WHERE NOT EXISTS (
    SELECT 1 FROM duly_occurrence
    WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
      AND correction = :correction)

-- name: is_claimed_here
-- differs: asked of another connection too, which sees what is committed.
SELECT 1
FROM duly_occurrence AS o
JOIN duly_attempt AS a
  ON a.job = o.job AND a.nominal_us = o.nominal_us AND a.partition_key = o.partition_key
 AND a.correction = o.correction AND a.id = o.attempt_id AND a.outcome = o.disposition
WHERE o.job = :job AND o.nominal_us = :nominal_us AND o.partition_key = :partition_key
  AND o.correction = :correction AND o.disposition = 'applied'

-- name: settled_runs
-- differs: SQLite counts rows at a third of the cost of looking at the row after each, so blocks of
-- steps are counted, and only in those that are not full is any row looked at. Each block begins
-- at a row: a gap, however long, is one step.
WITH RECURSIVE block (since_us) AS (
    SELECT MIN(nominal_us)
    FROM duly_occurrence
    WHERE job = :job AND nominal_us >= :since_us AND partition_key = :partition_key
      AND correction = 1
    UNION ALL
    SELECT (
        SELECT MIN(o.nominal_us)
        FROM duly_occurrence AS o
        WHERE o.job = :job AND o.nominal_us >= block.since_us + 32 * :step_us
          AND o.partition_key = :partition_key AND o.correction = 1)
    FROM block
    WHERE block.since_us IS NOT NULL
)
SELECT nominal_us, next_us
FROM (
    SELECT o.nominal_us, (
        SELECT MIN(later.nominal_us)
        FROM duly_occurrence AS later
        WHERE later.job = :job AND later.nominal_us > o.nominal_us
          AND later.partition_key = :partition_key AND later.correction = 1) AS next_us
    FROM block
    CROSS JOIN duly_occurrence AS o
    WHERE o.job = :job AND o.nominal_us >= block.since_us
      AND o.nominal_us < block.since_us + 32 * :step_us
      AND o.partition_key = :partition_key AND o.correction = 1
      AND NOT (
        SELECT COUNT(*) = 33 AND MAX((each.nominal_us - block.since_us) % :step_us) = 0
        FROM duly_occurrence AS each
        WHERE each.job = :job AND each.nominal_us >= block.since_us
          AND each.nominal_us <= block.since_us + 32 * :step_us
          AND each.partition_key = :partition_key AND each.correction = 1)
) AS settled
WHERE next_us IS NULL OR next_us - nominal_us <> :step_us
ORDER BY nominal_us
LIMIT :limit
