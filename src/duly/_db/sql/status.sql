-- Named queries about the state of jobs; see common.sql.

-- name: job_shown_as
SELECT name
FROM duly_job
WHERE shown_name = :shown_name
ORDER BY name
LIMIT 1

-- Attempts that failed at what is still not settled.

-- name: failing
SELECT MIN(a.started_us), COUNT(*)
FROM duly_attempt AS a
WHERE a.job = :job AND a.nominal_us >= :since_us AND a.nominal_us <= :until_us
  AND a.outcome IN ('failed', 'abandoned')
  AND NOT EXISTS (
    SELECT 1 FROM duly_occurrence AS o
    WHERE o.job = a.job AND o.nominal_us = a.nominal_us AND o.partition_key = a.partition_key
      AND o.correction = a.correction)

-- name: last_failure
SELECT a.job, a.nominal_us, a.partition_key, a.correction, a.outcome, a.error_type, a.error_message
FROM duly_attempt AS a
WHERE a.job = :job AND a.nominal_us >= :since_us AND a.nominal_us <= :until_us
  AND a.outcome IN ('failed', 'abandoned')
  AND NOT EXISTS (
    SELECT 1 FROM duly_occurrence AS o
    WHERE o.job = a.job AND o.nominal_us = a.nominal_us AND o.partition_key = a.partition_key
      AND o.correction = a.correction)
ORDER BY a.finished_us DESC, a.id DESC
LIMIT 1
