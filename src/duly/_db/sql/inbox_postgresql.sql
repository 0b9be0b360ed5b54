-- What PostgreSQL needs otherwise on the receiver's side.

-- name: inbox_claim
-- differs: the bounds of the waits are set inside the statement, as in `claim`.
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', :wait_ms, true) AS wait)
INSERT INTO duly_inbox AS i
    (consumer, source, message_id, fingerprint, receipt_id, sent_us, received_us, handled_us, duplicates)
SELECT :consumer, :source, :message_id, :fingerprint, :receipt_id, CAST(:sent_us AS bigint), {now},
       CASE WHEN :is_handled THEN {now} END, 0
FROM bound
ON CONFLICT (consumer, source, message_id) DO UPDATE
SET duplicates = i.duplicates + CASE WHEN i.fingerprint = excluded.fingerprint THEN 1 ELSE 0 END,
    last_us = excluded.received_us,
    sent_us = CASE WHEN i.sent_us = excluded.sent_us THEN i.sent_us END
RETURNING CASE WHEN COALESCE(last_us, 0) = 0 THEN {now} END,
          set_config('lock_timeout', :handler_wait_ms, true)

-- name: inbox_claim_in_caller
-- differs: lock_timeout is set and restored in it, as in `claim_in_caller`.
WITH saved AS MATERIALIZED (
    SELECT COALESCE(:restore, current_setting('lock_timeout')) AS wait,
           set_config('lock_timeout', :wait_ms, true) AS bound
),
claimed AS (
    INSERT INTO duly_inbox AS i
        (consumer, source, message_id, fingerprint, receipt_id, sent_us, received_us, handled_us,
         duplicates)
    SELECT :consumer, :source, :message_id, :fingerprint, :receipt_id, CAST(:sent_us AS bigint),
           {now}, {now}, 0
    FROM saved
    ON CONFLICT (consumer, source, message_id) DO UPDATE
    SET duplicates = i.duplicates + CASE WHEN i.fingerprint = excluded.fingerprint THEN 1 ELSE 0 END,
        last_us = excluded.received_us,
        sent_us = CASE WHEN i.sent_us = excluded.sent_us THEN i.sent_us END
    RETURNING CASE WHEN COALESCE(last_us, 0) = 0 THEN {now} END AS clock_us
)
SELECT claimed.clock_us, set_config('lock_timeout', saved.wait, true)
FROM saved
LEFT JOIN claimed ON true

-- name: parked_claim
-- differs: as above.
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', :wait_ms, true) AS wait)
UPDATE duly_parked
SET state = 'taken', receipt_id = :receipt_id, handled_us = CASE WHEN :is_handled THEN {now} END
FROM bound
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND state = 'released'
RETURNING {now}, set_config('lock_timeout', :handler_wait_ms, true)

-- name: parked_claim_in_caller
-- differs: as above.
WITH saved AS MATERIALIZED (
    SELECT COALESCE(:restore, current_setting('lock_timeout')) AS wait,
           set_config('lock_timeout', :wait_ms, true) AS bound
),
claimed AS (
    UPDATE duly_parked
    SET state = 'taken', receipt_id = :receipt_id, handled_us = {now}
    FROM saved
    WHERE consumer = :consumer AND source = :source AND message_id = :message_id
      AND fingerprint = :fingerprint AND state = 'released'
    RETURNING {now} AS clock_us
)
SELECT claimed.clock_us, set_config('lock_timeout', saved.wait, true)
FROM saved
LEFT JOIN claimed ON true

-- name: http_claim
-- differs: as above.
WITH bound AS MATERIALIZED (SELECT set_config('lock_timeout', :wait_ms, true) AS wait)
INSERT INTO duly_http_key AS k
    (scope, http_key, fingerprint, receipt_id, received_us, expires_us, replays)
SELECT :scope, :http_key, :fingerprint, :receipt_id, {now}, {now} + :life_us, 0
FROM bound
ON CONFLICT (scope, http_key) DO UPDATE
SET replays = k.replays + CASE WHEN k.fingerprint = excluded.fingerprint THEN 1 ELSE 0 END,
    last_us = excluded.received_us
RETURNING CASE WHEN COALESCE(last_us, 0) = 0 THEN {now} END,
          set_config('lock_timeout', :handler_wait_ms, true)
