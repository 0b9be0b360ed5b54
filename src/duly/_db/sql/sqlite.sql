-- What SQLite needs otherwise.

-- name: prune_occurrences
-- differs: DELETE ... LIMIT is a compile-time option that Python's SQLite has not.
DELETE FROM duly_occurrence
WHERE (job, nominal_us, partition_key, correction) IN (
    SELECT job, nominal_us, partition_key, correction
    FROM duly_occurrence
    WHERE job = :job AND nominal_us <= :horizon_us
    ORDER BY job, nominal_us, partition_key, correction
    LIMIT :limit)

-- name: prune_attempts
-- differs: as above.
DELETE FROM duly_attempt
WHERE (job, nominal_us, partition_key, correction, id, outcome) IN (
    SELECT job, nominal_us, partition_key, correction, id, outcome
    FROM duly_attempt
    WHERE job = :job AND nominal_us <= :horizon_us
    ORDER BY job, nominal_us, partition_key, correction, id, outcome
    LIMIT :limit)

-- name: prune_duplicates
-- differs: as above.
DELETE FROM duly_duplicate
WHERE (job, nominal_us, partition_key, correction, started_by) IN (
    SELECT job, nominal_us, partition_key, correction, started_by
    FROM duly_duplicate
    WHERE job = :job AND nominal_us <= :horizon_us
    ORDER BY job, nominal_us, partition_key, correction, started_by
    LIMIT :limit)

-- name: has_table
-- differs: each database keeps its catalogue elsewhere.
SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = :name

-- name: lock_guard
-- differs: there is one writer, so the write lock is the guard; this takes it and changes nothing.
UPDATE duly_guard SET id = id WHERE id = 0

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
