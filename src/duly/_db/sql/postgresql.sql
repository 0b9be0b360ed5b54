-- What PostgreSQL needs otherwise.

-- name: claim
-- differs: the wait's bound is set inside the statement, so it costs no round trip, and so is
-- the bound of the handler's own waits, once the row is in; the clock is read after the wait
-- (PROTOCOL 16).
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', :wait_ms, true) AS wait)
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us)
SELECT :job, :nominal_us, :partition_key, :correction, 'applied', :fingerprint, :attempt_id, {now}
FROM bound
ON CONFLICT DO NOTHING
RETURNING {now}, set_config('lock_timeout', :handler_wait_ms, true)

-- name: claim_by_key
-- differs: the same, and the first name of a job that is called so now, for no round trip.
{claim},
          (SELECT MIN(name) FROM duly_job WHERE shown_name = :job)

-- name: seal
-- differs: it goes in one message with the COMMIT, so that without a claim it must be an error,
-- after which the server skips the COMMIT; what it tries to read as a number names the reason.
WITH sealed AS (
    INSERT INTO duly_attempt
        (job, nominal_us, partition_key, correction, id, outcome,
         started_by, source, host, pid, started_us, finished_us, result)
    SELECT o.job, o.nominal_us, o.partition_key, o.correction, o.attempt_id, 'applied',
           :started_by, :source, :host, :pid, :started_us, :finished_us, :result
    FROM duly_occurrence AS o
    WHERE o.job = :job AND o.nominal_us = :nominal_us AND o.partition_key = :partition_key
      AND o.correction = :correction AND o.attempt_id = :attempt_id AND o.disposition = 'applied'
    RETURNING 1
)
SELECT CASE count(*) WHEN 1 THEN 1 ELSE CAST('the claim is gone: ' || count(*) AS integer) END
FROM sealed

-- name: claim_in_caller
-- differs: occurrence and attempt in one statement, so that SET CONSTRAINTS ALL IMMEDIATE
-- and an interruption find both or neither; lock_timeout is set and restored in it. The first
-- name comes with it, as above.
WITH saved AS MATERIALIZED (
    SELECT COALESCE(:restore, current_setting('lock_timeout')) AS wait,
           set_config('lock_timeout', :wait_ms, true) AS bound
),
claimed AS (
    INSERT INTO duly_occurrence
        (job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us)
    SELECT :job, :nominal_us, :partition_key, :correction, 'applied', :fingerprint, :attempt_id, {now}
    FROM saved
    ON CONFLICT DO NOTHING
    RETURNING job, nominal_us, partition_key, correction, attempt_id, recorded_us, {now} AS clock_us,
              pg_current_xact_id()::text AS transaction
),
attempted AS (
    INSERT INTO duly_attempt
        (job, nominal_us, partition_key, correction, id, outcome,
         started_by, source, host, pid, started_us, finished_us)
    SELECT job, nominal_us, partition_key, correction, attempt_id, 'applied',
           :started_by, :source, :host, :pid, recorded_us, clock_us
    FROM claimed
)
SELECT claimed.clock_us, set_config('lock_timeout', saved.wait, true),
       (SELECT MIN(name) FROM duly_job WHERE shown_name = :job),
       claimed.transaction
FROM saved
LEFT JOIN claimed ON true

-- name: is_claimed_here
-- differs: the transaction's number is that of its savepoints too, and no other ever has it.
SELECT 1
FROM duly_occurrence
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND attempt_id = :attempt_id AND disposition = 'applied'
  AND pg_current_xact_id_if_assigned()::text = :transaction

-- name: lock_guard
-- differs: FOR SHARE waits for a prune; at REPEATABLE READ it answers 40001 where the prune
-- is younger than the snapshot.
WITH bound AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS before, set_config('lock_timeout', :wait_ms, true) AS wait
)
SELECT bound.before
FROM duly_guard AS g
CROSS JOIN bound
WHERE g.id = 1
FOR SHARE OF g

-- name: restore_wait
SELECT set_config('lock_timeout', :restore, true)

-- name: count_duplicate
-- differs: evidence of a refusal is worth neither a sync nor a long wait; the settings end with the
-- transaction.
WITH unsynced AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true) AS durability,
           set_config('lock_timeout', '1000', true) AS wait
)
INSERT INTO duly_duplicate AS d
    (job, nominal_us, partition_key, correction, started_by, times, first_us, last_us)
SELECT :job, :nominal_us, :partition_key, :correction, :started_by, 1, {now}, {now}
FROM unsynced
ON CONFLICT (job, nominal_us, partition_key, correction, started_by)
DO UPDATE SET times = d.times + 1, last_us = excluded.last_us

-- name: probe_key
-- differs: the sweep proves a death by claiming the key in a savepoint (PROTOCOL 20).
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', '100', true) AS wait)
INSERT INTO duly_occurrence (job, nominal_us, partition_key, correction, disposition, recorded_us)
SELECT :job, :nominal_us, :partition_key, :correction, 'waived', 0
FROM bound
ON CONFLICT DO NOTHING
RETURNING 1

-- name: identify
-- differs: what tells the server, its version, where the ledger is and whether it is safe.
SELECT version(),
       current_setting('server_version_num')::int,
       current_schema(),
       current_setting('session_replication_role'),
       (SELECT string_agg(n.nspname, ',' ORDER BY n.nspname)
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relname = 'duly_guard' AND c.relkind = 'r'),
       (SELECT string_agg(c.relname, ',' ORDER BY c.relname)
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = COALESCE(:schema, current_schema())
          AND c.relname IN ('duly_occurrence', 'duly_attempt', 'duly_guard', 'duly_job')
          AND c.relkind = 'r' AND c.relpersistence <> 'p')

-- name: has_table
-- differs: each database keeps its catalogue elsewhere.
SELECT 1
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :name AND c.relkind IN ('r', 'p')

-- name: touch_guard
-- differs: the wait for attempts under way is bounded inside the statement.
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', :wait_ms, true) AS wait)
UPDATE duly_guard SET pruned_us = {now} FROM bound WHERE id = 1

-- name: mark_running
-- differs: bounds and durability of the one statement; a SET would leak through a pooler.
WITH brief AS MATERIALIZED (
    SELECT set_config('lock_timeout', '100', true) AS wait,
           set_config('synchronous_commit', 'off', true) AS durability
)
INSERT INTO duly_running
    (attempt_id, job, nominal_us, partition_key, correction, started_by, host, process, pid, started_us)
SELECT :attempt_id, :job, :nominal_us, :partition_key, :correction, :started_by, :host, :process,
       :pid, :started_us
FROM brief

-- name: unmark_running
-- differs: as above.
WITH brief AS MATERIALIZED (
    SELECT set_config('lock_timeout', '100', true) AS wait,
           set_config('synchronous_commit', 'off', true) AS durability
)
DELETE FROM duly_running USING brief WHERE attempt_id = :attempt_id

-- name: take_slot
-- differs: where there are many writers, a row's lock is the slot. It goes in one message with
-- the claim, so that without a free one it must be an error, after which the server skips the
-- claim; what it tries to read as a number names the reason.
WITH taken AS (
    SELECT slot
    FROM duly_slot
    WHERE job = :job AND slot <= :slots
    ORDER BY slot
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT CASE count(*) WHEN 1 THEN 1 ELSE CAST('slots that are free: ' || count(*) AS integer) END
FROM taken

-- name: cover
-- differs: a superseded row carries no attempt: the key to duly_attempt would ask for one. Newest
-- first, as every claim of several keys (PROTOCOL 22).
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, recorded_us, reason)
SELECT :job, CAST(each.value AS BIGINT), :partition_key, 1, 'superseded', {now}, :reason
FROM json_array_elements_text(CAST(:nominal_times AS json)) AS each (value)
ORDER BY CAST(each.value AS BIGINT) DESC
ON CONFLICT DO NOTHING
RETURNING nominal_us

-- name: waive_free
-- differs: the wait's bound is set inside the statement.
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', :wait_ms, true) AS wait)
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, recorded_us, reason, actor)
SELECT :job, :nominal_us, :partition_key, 1, 'waived', {now}, :reason, :actor
FROM bound
ON CONFLICT DO NOTHING

-- name: lock_job
-- differs: the wait's bound is set inside the statement.
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', :wait_ms, true) AS wait)
UPDATE duly_job SET name = name
FROM bound
WHERE name = :job

-- name: settle
-- differs: json_each is another function here; newest first, as above; the wait is bounded.
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', :wait_ms, true) AS wait)
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, recorded_us, reason, actor)
SELECT :job, CAST(each.value AS BIGINT), :partition_key, 1, :disposition, {now}, :reason, :actor
FROM bound
CROSS JOIN json_array_elements_text(CAST(:nominal_times AS json)) AS each (value)
ORDER BY CAST(each.value AS BIGINT) DESC
ON CONFLICT DO NOTHING

-- name: due_messages
-- differs: relays side by side each take what the others have not locked.
SELECT o.id, o.state, o.started, o.finished, o.created_us, o.since_us, o.expires_us, o.tried_us,
       o.doubt_us, o.job, o.nominal_us, o.partition_key, o.correction, o.name, o.natural_key,
       o.generation, o.content_type, o.headers, o.body, o.ordering_key
FROM duly_outbox AS o
WHERE o.destination = :destination AND o.due_us <= :clock_us
  AND (o.open_seq IS NULL OR o.state = 'uncertain' OR NOT EXISTS (
    SELECT 1 FROM duly_outbox AS e
    WHERE e.destination = o.destination AND e.ordering_key = o.ordering_key
      AND e.open_seq < o.open_seq
      AND (:skip = 0 OR e.state NOT IN ('uncertain', 'dead'))))
ORDER BY o.due_us
LIMIT :limit
FOR NO KEY UPDATE OF o SKIP LOCKED

-- name: mine
-- differs: it waits for a commit of ours that is still in flight.
SELECT id FROM duly_outbox WHERE id = :id AND token = :token FOR NO KEY UPDATE

-- name: insert_message_all
-- differs: one statement for all messages of a run; each bind is an array.
INSERT INTO duly_outbox
    (id, job, nominal_us, partition_key, correction, destination, name, natural_key, generation,
     content_type, headers, body, fingerprint, ordering_key, open_seq, state,
     due_us, created_us, since_us, expires_us, started, finished, settled_us)
SELECT n.id, n.job, n.nominal_us, n.partition_key, n.correction, n.destination, n.name,
       n.natural_key, n.generation, n.content_type, n.headers, n.body, n.fingerprint,
       n.ordering_key, n.open_seq, 'pending', GREATEST(n.not_before_us, {now}), {now},
       GREATEST(n.not_before_us, {now}), n.expires_us, 0, 0, {now}
FROM unnest(CAST(:id AS uuid[]), CAST(:job AS text[]), CAST(:nominal_us AS bigint[]),
            CAST(:partition_key AS text[]), CAST(:correction AS integer[]),
            CAST(:destination AS text[]), CAST(:name AS text[]), CAST(:natural_key AS text[]),
            CAST(:generation AS integer[]), CAST(:content_type AS text[]), CAST(:headers AS text[]),
            CAST(:body AS bytea[]), CAST(:fingerprint AS bytea[]), CAST(:ordering_key AS text[]),
            CAST(:open_seq AS bigint[]), CAST(:not_before_us AS bigint[]),
            CAST(:expires_us AS bigint[]))
     AS n (id, job, nominal_us, partition_key, correction, destination, name, natural_key,
           generation, content_type, headers, body, fingerprint, ordering_key, open_seq,
           not_before_us, expires_us)
ON CONFLICT DO NOTHING
RETURNING id

-- name: start_send_all
-- differs: one statement for all that a relay takes; each bind is an array.
UPDATE duly_outbox AS o
SET state = 'sending', due_us = n.lease_us, started = n.number, tried_us = n.clock_us,
    doubt_us = n.doubt_us, token = n.token, settled_us = n.clock_us
FROM unnest(CAST(:id AS uuid[]), CAST(:lease_us AS bigint[]), CAST(:number AS integer[]),
            CAST(:clock_us AS bigint[]), CAST(:doubt_us AS bigint[]), CAST(:token AS uuid[]))
     AS n (id, lease_us, number, clock_us, doubt_us, token)
WHERE o.id = n.id AND o.state IN ('pending', 'sending')
RETURNING o.id

-- name: write_ahead_all
-- differs: as above.
INSERT INTO duly_delivery (message_id, number, token, relay, started_us, lease_us)
SELECT * FROM unnest(CAST(:id AS uuid[]), CAST(:number AS integer[]), CAST(:token AS uuid[]),
                     CAST(:relay AS text[]), CAST(:clock_us AS bigint[]), CAST(:lease_us AS bigint[]))
RETURNING message_id

-- name: finish_send_all
-- differs: as above.
UPDATE duly_outbox AS o
SET state = n.state, due_us = n.due_us, doubt_us = n.doubt_us, answer = n.answer,
    evidence = n.evidence, remote_id = n.remote_id, settled_us = n.clock_us,
    closed_us = n.closed_us, open_seq = CASE WHEN n.closes = 0 THEN o.open_seq END,
    finished = o.finished + 1, token = NULL
FROM unnest(CAST(:id AS uuid[]), CAST(:token AS uuid[]), CAST(:number AS integer[]),
            CAST(:state AS text[]), CAST(:due_us AS bigint[]), CAST(:doubt_us AS bigint[]),
            CAST(:answer AS text[]), CAST(:evidence AS text[]), CAST(:remote_id AS text[]),
            CAST(:clock_us AS bigint[]), CAST(:closed_us AS bigint[]), CAST(:closes AS integer[]))
     AS n (id, token, number, state, due_us, doubt_us, answer, evidence, remote_id, clock_us,
           closed_us, closes)
WHERE o.id = n.id AND o.token = n.token AND o.started = n.number
  AND o.state IN ('sending', 'uncertain')
RETURNING o.id

-- name: finish_delivery_all
-- differs: as above.
UPDATE duly_delivery AS d
SET finished_us = n.clock_us, verdict = n.verdict, answer = n.answer, evidence = n.evidence,
    late = n.late
FROM unnest(CAST(:id AS uuid[]), CAST(:number AS integer[]), CAST(:token AS uuid[]),
            CAST(:clock_us AS bigint[]), CAST(:verdict AS text[]), CAST(:answer AS text[]),
            CAST(:evidence AS text[]), CAST(:late AS boolean[]))
     AS n (id, number, token, clock_us, verdict, answer, evidence, late)
WHERE d.message_id = n.id AND d.number = n.number AND d.token = n.token AND d.finished_us IS NULL
RETURNING d.message_id
