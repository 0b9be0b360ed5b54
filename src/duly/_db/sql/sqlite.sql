-- What SQLite needs otherwise.

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
