-- Named queries about the state of jobs; see common.sql.

-- name: job_shown_as
SELECT name
FROM duly_job
WHERE shown_name = :shown_name
ORDER BY name
LIMIT 1

-- name: is_name_held
SELECT EXISTS (SELECT 1 FROM duly_job WHERE name = :job)
  OR EXISTS (SELECT 1 FROM duly_job_revision WHERE job = :job)
  OR EXISTS (SELECT 1 FROM duly_occurrence WHERE job = :job)

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

-- What a schedule or a starter started, and not a person: its nominal time should be past.

-- name: settled_ahead
SELECT o.job, MAX(o.nominal_us)
FROM duly_job AS j
JOIN duly_occurrence AS o
  ON o.job = j.name AND o.nominal_us > :at_us AND o.correction = 1
JOIN duly_attempt AS a
  ON a.job = o.job AND a.nominal_us = o.nominal_us AND a.partition_key = o.partition_key
  AND a.correction = o.correction AND a.id = o.attempt_id AND a.outcome = 'applied'
WHERE a.source NOT IN ('explicit', 'claim', 'correction')
GROUP BY o.job
ORDER BY o.job
LIMIT :limit
