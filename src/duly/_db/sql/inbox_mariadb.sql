-- What MariaDB needs otherwise on the receiver's side.

-- name: inbox_claim
-- differs: no ON CONFLICT. ON DUPLICATE KEY UPDATE locks the row for writing at once; after a
-- plain INSERT's 1062 two duplicates would hold it in shared mode, and each wait for the other.
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
INSERT INTO duly_inbox
    (consumer, source, message_id, fingerprint, receipt_id, sent_us, received_us, handled_us, duplicates)
VALUES
    (:consumer, :source, :message_id, :fingerprint, :receipt_id, :sent_us, {now},
     CASE WHEN :is_handled THEN {now} END, 0)
ON DUPLICATE KEY UPDATE
    duplicates = duplicates + CASE WHEN fingerprint = VALUES(fingerprint) THEN 1 ELSE 0 END,
    last_us = VALUES(received_us),
    sent_us = CASE WHEN sent_us = VALUES(sent_us) THEN sent_us END
RETURNING CASE WHEN COALESCE(last_us, 0) = 0 THEN {now} END, @@sql_mode

-- name: inbox_standing
-- differs: a locking read, because after a lost race at REPEATABLE READ a plain one sees no row.
SELECT fingerprint, receipt_id, handled_us, received_us, result, duplicates
FROM duly_inbox
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
FOR UPDATE

-- name: inbox_hold
-- differs: no ON CONFLICT.
INSERT INTO duly_inbox
    (consumer, source, message_id, fingerprint, receipt_id, sent_us, received_us, duplicates)
VALUES
    (:consumer, :source, :message_id, :fingerprint, :receipt_id, :sent_us, {now}, 0)
ON DUPLICATE KEY UPDATE consumer = consumer

-- name: inbox_horizon
-- differs: a locking read sees what was committed after the transaction's snapshot.
SELECT horizon_us FROM duly_consumer WHERE name = :consumer LOCK IN SHARE MODE

-- name: inbox_raise_horizon
-- differs: ON DUPLICATE KEY UPDATE.
INSERT INTO duly_consumer (name, horizon_us)
VALUES (:consumer, :horizon_us)
ON DUPLICATE KEY UPDATE horizon_us = GREATEST(COALESCE(horizon_us, VALUES(horizon_us)), VALUES(horizon_us))

-- name: inbox_prune
-- differs: DELETE ... LIMIT.
DELETE FROM duly_inbox
WHERE consumer = :consumer AND sent_us <= :horizon_us
ORDER BY sent_us, source, message_id
LIMIT :limit

-- name: parked_prune
-- differs: as above.
DELETE FROM duly_parked
WHERE consumer = :consumer AND sent_us <= :horizon_us AND state IN ('taken', 'discarded')
ORDER BY consumer, source, message_id, fingerprint
LIMIT :limit

-- name: parked_park
-- differs: no ON CONFLICT.
INSERT INTO duly_parked
    (consumer, source, message_id, fingerprint, why, state, stored_fingerprint, sent_us,
     parked_us, deliveries, last_us)
VALUES
    (:consumer, :source, :message_id, :fingerprint, :why, 'held', :stored_fingerprint, :sent_us,
     {now}, 1, {now})
ON DUPLICATE KEY UPDATE deliveries = deliveries + 1, last_us = VALUES(last_us)

-- name: parked_claim
-- differs: no UPDATE ... RETURNING, and a bound on the wait.
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
UPDATE duly_parked
SET state = 'taken', receipt_id = :receipt_id, handled_us = CASE WHEN :is_handled THEN {now} END
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint AND state = 'released'

-- name: parked_standing
-- differs: a locking read, as above.
SELECT state, fingerprint, receipt_id, handled_us, parked_us, result, reason
FROM duly_parked
WHERE consumer = :consumer AND source = :source AND message_id = :message_id
  AND fingerprint = :fingerprint
FOR UPDATE

-- name: http_claim
-- differs: as above.
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
INSERT INTO duly_http_key
    (scope, http_key, fingerprint, receipt_id, received_us, expires_us, replays)
VALUES
    (:scope, :http_key, :fingerprint, :receipt_id, {now}, {now} + :life_us, 0)
ON DUPLICATE KEY UPDATE
    replays = replays + CASE WHEN fingerprint = VALUES(fingerprint) THEN 1 ELSE 0 END,
    last_us = VALUES(received_us)
RETURNING CASE WHEN COALESCE(last_us, 0) = 0 THEN {now} END, @@sql_mode

-- name: http_standing
-- differs: a locking read, as above.
SELECT fingerprint, receipt_id, handled_us, received_us, expires_us, status, headers, body
FROM duly_http_key
WHERE scope = :scope AND http_key = :http_key
FOR UPDATE

-- name: http_hold
-- differs: no ON CONFLICT.
INSERT INTO duly_http_key
    (scope, http_key, fingerprint, receipt_id, received_us, expires_us, replays)
VALUES
    (:scope, :http_key, :fingerprint, :receipt_id, {now}, {now} + :life_us, 0)
ON DUPLICATE KEY UPDATE scope = scope

-- name: http_forget
-- differs: UPDATE ... LIMIT.
UPDATE duly_http_key SET headers = NULL, body = NULL
WHERE expires_us <= :clock_us AND body IS NOT NULL
ORDER BY expires_us, scope, http_key
