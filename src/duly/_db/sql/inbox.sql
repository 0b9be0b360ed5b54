-- The receiver's side, the same on every database (see common.sql for the form).
--
-- A claim counts a duplicate by itself: what another statement did after it would have to turn
-- a shared lock into its own, and two duplicates at once would each wait for the other. A row
-- that was met has a `last_us`, also one of this very delivery, whose commit went unanswered.
-- (COALESCE, because SQLite 3.40 takes IS NULL in RETURNING to be false for a new row.)

-- name: inbox_claim
INSERT INTO duly_inbox AS i
    (consumer, source, message_id, fingerprint, receipt_id, sent_us, received_us, handled_us, duplicates)
VALUES
    (:consumer, :source, :message_id, :fingerprint, :receipt_id, :sent_us, {now},
     CASE WHEN :is_handled THEN {now} END, 0)
ON CONFLICT (consumer, source, message_id) DO UPDATE
SET duplicates = i.duplicates + CASE WHEN i.fingerprint = excluded.fingerprint THEN 1 ELSE 0 END,
    last_us = excluded.received_us,
    sent_us = CASE WHEN i.sent_us = excluded.sent_us THEN i.sent_us END
RETURNING CASE WHEN COALESCE(last_us, 0) = 0 THEN {now} END

-- name: inbox_unclaim
DELETE FROM duly_inbox
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND receipt_id = :receipt_id

-- name: inbox_confirm
SELECT 1 FROM duly_inbox
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND receipt_id = :receipt_id

-- name: inbox_standing
SELECT fingerprint, receipt_id, handled_us, received_us, result, duplicates
FROM duly_inbox
WHERE consumer = :consumer AND source = :source AND message_id = :message_id

-- name: inbox_seal
UPDATE duly_inbox SET handled_us = {now}, result = :result
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND receipt_id = :receipt_id AND handled_us IS NULL

-- name: inbox_store
UPDATE duly_inbox SET result = :result
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND receipt_id = :receipt_id

-- name: inbox_hold
INSERT INTO duly_inbox
    (consumer, source, message_id, fingerprint, receipt_id, sent_us, received_us, duplicates)
VALUES
    (:consumer, :source, :message_id, :fingerprint, :receipt_id, :sent_us, {now}, 0)
ON CONFLICT DO NOTHING

-- name: inbox_horizon
SELECT horizon_us FROM duly_consumer WHERE name = :consumer

-- name: inbox_raise_horizon
INSERT INTO duly_consumer AS c (name, horizon_us)
VALUES (:consumer, :horizon_us)
ON CONFLICT (name) DO UPDATE SET horizon_us = excluded.horizon_us
WHERE c.horizon_us IS NULL OR c.horizon_us < excluded.horizon_us

-- name: inbox_newest
SELECT MAX(received_us) FROM duly_inbox

-- name: inbox_consumers
SELECT i.consumer, c.horizon_us
FROM (SELECT DISTINCT consumer FROM duly_inbox WHERE sent_us <= :bound_us) AS i
LEFT JOIN duly_consumer AS c ON c.name = i.consumer
ORDER BY i.consumer
LIMIT :limit

-- name: inbox_oldest_torn
SELECT sent_us, source, message_id FROM duly_inbox
WHERE consumer = :consumer AND sent_us <= :bound_us AND handled_us IS NULL
ORDER BY sent_us, source, message_id
LIMIT 1

-- name: inbox_prune
DELETE FROM duly_inbox
WHERE (consumer, source, message_id) IN (
    SELECT consumer, source, message_id
    FROM duly_inbox
    WHERE consumer = :consumer AND sent_us <= :horizon_us
    ORDER BY sent_us, source, message_id
    LIMIT :limit)

-- name: parked_prune
DELETE FROM duly_parked
WHERE (consumer, source, message_id, fingerprint) IN (
    SELECT consumer, source, message_id, fingerprint
    FROM duly_parked
    WHERE consumer = :consumer AND sent_us <= :horizon_us AND state IN ('taken', 'discarded')
    ORDER BY consumer, source, message_id, fingerprint
    LIMIT :limit)

-- name: inbox_list
SELECT consumer, source, message_id, fingerprint, receipt_id, sent_us, received_us, handled_us,
       result, duplicates, last_us
FROM duly_inbox
WHERE consumer = :consumer
ORDER BY received_us DESC, source, message_id
LIMIT :limit

-- name: inbox_show
SELECT consumer, source, message_id, fingerprint, receipt_id, sent_us, received_us, handled_us,
       result, duplicates, last_us
FROM duly_inbox
WHERE consumer = :consumer AND source = :source AND message_id = :message_id

-- name: inbox_summary
SELECT i.consumer, COUNT(*), SUM(i.duplicates), MAX(i.received_us), MAX(c.horizon_us),
       (SELECT COUNT(*) FROM duly_parked AS p WHERE p.consumer = i.consumer AND p.state = 'held')
FROM duly_inbox AS i
LEFT JOIN duly_consumer AS c ON c.name = i.consumer
GROUP BY i.consumer
ORDER BY i.consumer
LIMIT :limit

-- What is parked.

-- name: parked_park
INSERT INTO duly_parked AS p
    (consumer, source, message_id, fingerprint, why, state, stored_fingerprint, sent_us,
     parked_us, deliveries, last_us)
VALUES
    (:consumer, :source, :message_id, :fingerprint, :why, 'held', :stored_fingerprint, :sent_us,
     {now}, 1, {now})
ON CONFLICT (consumer, source, message_id, fingerprint) DO UPDATE
SET deliveries = p.deliveries + 1, last_us = excluded.last_us

-- name: parked_claim
UPDATE duly_parked
SET state = 'taken', receipt_id = :receipt_id, handled_us = CASE WHEN :is_handled THEN {now} END
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND state = 'released'
RETURNING {now}

-- name: parked_unclaim
UPDATE duly_parked SET state = 'released', receipt_id = NULL, handled_us = NULL
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND receipt_id = :receipt_id

-- name: parked_confirm
SELECT 1 FROM duly_parked
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND receipt_id = :receipt_id

-- name: parked_standing
SELECT state, fingerprint, receipt_id, handled_us, parked_us, result, reason
FROM duly_parked
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint

-- name: parked_seal
UPDATE duly_parked SET handled_us = {now}, result = :result
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND receipt_id = :receipt_id AND handled_us IS NULL

-- name: parked_store
UPDATE duly_parked SET result = :result
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND receipt_id = :receipt_id

-- name: parked_hold
UPDATE duly_parked SET state = 'held', why = 'torn', receipt_id = NULL, handled_us = NULL
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND handled_us IS NULL

-- name: parked_list
SELECT consumer, source, message_id, fingerprint, why, state, stored_fingerprint, sent_us,
       parked_us, deliveries, last_us, actor, reason
FROM duly_parked
WHERE (:consumer = '' OR consumer = :consumer) AND (:is_open = 0 OR state = 'held' OR (state = 'taken' AND handled_us IS NULL))
ORDER BY parked_us DESC, consumer, source, message_id, fingerprint
LIMIT :limit

-- name: parked_show
SELECT consumer, source, message_id, fingerprint, why, state, stored_fingerprint, sent_us,
       parked_us, deliveries, last_us, actor, reason
FROM duly_parked
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
ORDER BY parked_us, fingerprint
LIMIT 100

-- name: parked_settle
UPDATE duly_parked SET state = :state, actor = :actor, reason = :reason
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND state = :before
  AND (state <> 'taken' OR handled_us IS NULL)

-- Idempotency keys of HTTP requests.

-- name: http_claim
INSERT INTO duly_http_key AS k
    (scope, http_key, fingerprint, receipt_id, received_us, expires_us, replays)
VALUES
    (:scope, :http_key, :fingerprint, :receipt_id, {now}, {now} + :life_us, 0)
ON CONFLICT (scope, http_key) DO UPDATE
SET replays = k.replays + CASE WHEN k.fingerprint = excluded.fingerprint THEN 1 ELSE 0 END,
    last_us = excluded.received_us
RETURNING CASE WHEN COALESCE(last_us, 0) = 0 THEN {now} END

-- name: http_confirm
SELECT 1 FROM duly_http_key
WHERE scope = :scope AND http_key = :http_key AND receipt_id = :receipt_id

-- name: http_standing
SELECT fingerprint, receipt_id, handled_us, received_us, expires_us, status, headers, body
FROM duly_http_key
WHERE scope = :scope AND http_key = :http_key

-- name: http_seal
UPDATE duly_http_key
SET handled_us = {now}, status = :status, headers = :headers, body = :body
WHERE scope = :scope AND http_key = :http_key AND receipt_id = :receipt_id AND handled_us IS NULL

-- name: http_hold
INSERT INTO duly_http_key
    (scope, http_key, fingerprint, receipt_id, received_us, expires_us, replays)
VALUES
    (:scope, :http_key, :fingerprint, :receipt_id, {now}, {now} + :life_us, 0)
ON CONFLICT DO NOTHING

-- name: http_forget
UPDATE duly_http_key SET headers = NULL, body = NULL
WHERE (scope, http_key) IN (
    SELECT scope, http_key
    FROM duly_http_key
    WHERE expires_us <= :clock_us AND body IS NOT NULL
    ORDER BY expires_us, scope, http_key
    LIMIT :limit)
