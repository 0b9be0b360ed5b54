-- Named queries about messages; see common.sql.

-- name: next_in_order
INSERT INTO duly_outbox_order AS o (destination, ordering_key, last_seq)
VALUES (:destination, :ordering_key, 1)
ON CONFLICT (destination, ordering_key) DO UPDATE SET last_seq = o.last_seq + 1
RETURNING last_seq

-- name: insert_message
INSERT INTO duly_outbox
    (id, job, nominal_us, partition_key, correction, destination, name, natural_key, generation,
     content_type, headers, body, fingerprint, ordering_key, open_seq, state,
     due_us, created_us, since_us, expires_us, started, finished, settled_us)
VALUES
    (:id, :job, :nominal_us, :partition_key, :correction, :destination, :name, :natural_key, :generation,
     :content_type, :headers, :body, :fingerprint, :ordering_key, :open_seq, 'pending',
     CASE WHEN :not_before_us > {now} THEN :not_before_us ELSE {now} END, {now},
     CASE WHEN :not_before_us > {now} THEN :not_before_us ELSE {now} END, :expires_us, 0, 0, {now})
ON CONFLICT DO NOTHING

-- name: message_fingerprint
SELECT fingerprint FROM duly_outbox WHERE id = :id

-- A claim: those that are due, and of an order only the first that is still open.

-- name: due_messages
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

-- name: start_send
UPDATE duly_outbox
SET state = 'sending', due_us = :lease_us, started = :number, tried_us = :clock_us,
    doubt_us = :doubt_us, token = :token, settled_us = :clock_us
WHERE id = :id AND state IN ('pending', 'sending')

-- name: write_ahead
INSERT INTO duly_delivery (message_id, number, token, relay, started_us, lease_us)
VALUES (:id, :number, :token, :relay, :clock_us, :lease_us)

-- name: start_lookup
UPDATE duly_outbox
SET due_us = :lease_us, token = :token
WHERE id = :id AND state = 'uncertain'

-- name: move_message
UPDATE duly_outbox
SET state = :state, due_us = :due_us, doubt_us = :doubt_us, answer = :answer,
    evidence = :evidence, settled_us = :clock_us, closed_us = :closed_us,
    open_seq = CASE WHEN :closes = 0 THEN open_seq END
WHERE id = :id AND state = :before

-- name: finish_send
UPDATE duly_outbox
SET state = :state, due_us = :due_us, doubt_us = :doubt_us, answer = :answer,
    evidence = :evidence, remote_id = :remote_id, settled_us = :clock_us, closed_us = :closed_us,
    open_seq = CASE WHEN :closes = 0 THEN open_seq END, finished = finished + 1,
    token = NULL
WHERE id = :id AND token = :token AND state IN ('sending', 'uncertain') AND started = :number

-- name: finish_delivery
UPDATE duly_delivery
SET finished_us = :clock_us, verdict = :verdict, answer = :answer, evidence = :evidence, late = :late
WHERE message_id = :id AND number = :number AND token = :token AND finished_us IS NULL

-- name: finish_lookup
UPDATE duly_outbox
SET state = :state, due_us = :due_us, doubt_us = :doubt_us, answer = :answer,
    evidence = :evidence, settled_us = :clock_us, closed_us = :closed_us,
    open_seq = CASE WHEN :closes = 0 THEN open_seq END
WHERE id = :id AND token = :token AND state = 'uncertain'

-- name: mine
SELECT id FROM duly_outbox WHERE id = :id AND token = :token

-- name: next_due
SELECT MIN(due_us) FROM duly_outbox WHERE destination = :destination AND due_us IS NOT NULL

-- Retention.

-- name: oldest_open_message
SELECT nominal_us, partition_key, correction
FROM duly_outbox
WHERE job = :job AND nominal_us <= :bound_us AND closed_us IS NULL
ORDER BY nominal_us, partition_key, correction
LIMIT 1

-- name: prune_deliveries
DELETE FROM duly_delivery
WHERE message_id IN (
    SELECT id FROM duly_outbox
    WHERE job = :job AND nominal_us <= :horizon_us AND closed_us IS NOT NULL
    ORDER BY job, nominal_us, partition_key, correction, id
    LIMIT :limit)

-- name: prune_messages
DELETE FROM duly_outbox
WHERE id IN (
    SELECT id FROM duly_outbox
    WHERE job = :job AND nominal_us <= :horizon_us AND closed_us IS NOT NULL
    ORDER BY job, nominal_us, partition_key, correction, id
    LIMIT :limit)

-- What persons see.

-- name: read_message
SELECT id, state, started, finished, created_us, since_us, expires_us, tried_us, doubt_us,
       job, nominal_us, partition_key, correction, name, natural_key, generation, content_type,
       headers, body, ordering_key, destination, due_us, answer, evidence, remote_id, settled_us,
       closed_us, open_seq
FROM duly_outbox
WHERE id = :id

-- name: open_messages
SELECT id, state, started, finished, created_us, since_us, expires_us, tried_us, doubt_us,
       job, nominal_us, partition_key, correction, name, natural_key, generation, content_type,
       headers, body, ordering_key, destination, due_us, answer, evidence, remote_id, settled_us,
       closed_us, open_seq
FROM duly_outbox
WHERE closed_us IS NULL
  AND (:destination = '' OR destination = :destination)
  AND (:state = '' OR state = :state)
  AND (:answer = '' OR answer = :answer)
  AND (:job = '' OR job = :job)
  AND created_us <= :until_us
ORDER BY created_us, id
LIMIT :limit

-- name: all_messages
SELECT id, state, started, finished, created_us, since_us, expires_us, tried_us, doubt_us,
       job, nominal_us, partition_key, correction, name, natural_key, generation, content_type,
       headers, body, ordering_key, destination, due_us, answer, evidence, remote_id, settled_us,
       closed_us, open_seq
FROM duly_outbox
WHERE (:destination = '' OR destination = :destination)
  AND (:state = '' OR state = :state)
  AND (:answer = '' OR answer = :answer)
  AND (:job = '' OR job = :job)
  AND created_us <= :until_us
ORDER BY created_us DESC, id
LIMIT :limit

-- name: list_deliveries
SELECT number, relay, started_us, lease_us, finished_us, verdict, answer, evidence, late
FROM duly_delivery
WHERE message_id = :id
ORDER BY number
LIMIT 1000

-- name: list_message_audit
SELECT at_us, actor, action, reason
FROM duly_audit
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction AND message_id = :id
ORDER BY at_us, id
LIMIT 1000

-- name: outbox_counts
SELECT destination, state, answer, COUNT(*), MIN(created_us), MIN(doubt_us)
FROM duly_outbox
WHERE closed_us IS NULL
GROUP BY destination, state, answer
ORDER BY destination, state, answer

-- name: blocked_counts
SELECT o.destination, COUNT(*)
FROM duly_outbox AS o
WHERE o.closed_us IS NULL AND o.state = 'pending' AND o.open_seq IS NOT NULL
  AND EXISTS (
    SELECT 1 FROM duly_outbox AS e
    WHERE e.destination = o.destination AND e.ordering_key = o.ordering_key
      AND e.open_seq < o.open_seq AND e.state IN ('uncertain', 'dead'))
GROUP BY o.destination
ORDER BY o.destination

-- What persons decide; each is a compare-and-set.

-- name: redrive_message
UPDATE duly_outbox
SET state = 'pending', due_us = :clock_us, since_us = :clock_us, doubt_us = NULL,
    finished = started, token = NULL, closed_us = NULL, settled_us = :clock_us,
    expires_us = CASE WHEN expires_us <= :clock_us THEN NULL ELSE expires_us END
WHERE id = :id AND state IN ('dead', 'uncertain')

-- name: confirm_message
UPDATE duly_outbox
SET state = 'sent', due_us = NULL, token = NULL, open_seq = NULL, answer = 'confirmed',
    settled_us = :clock_us, closed_us = :clock_us
WHERE id = :id AND state IN ('dead', 'uncertain') AND closed_us IS NULL

-- name: cancel_message
UPDATE duly_outbox
SET state = 'cancelled', due_us = NULL, token = NULL, open_seq = NULL, answer = 'abandoned',
    settled_us = :clock_us, closed_us = :clock_us
WHERE id = :id AND state = 'pending' AND started = 0

-- name: abandon_message
UPDATE duly_outbox
SET state = 'dead', due_us = NULL, token = NULL, open_seq = NULL, answer = :answer,
    settled_us = :clock_us, closed_us = :clock_us
WHERE id = :id AND state IN ('pending', 'dead', 'uncertain') AND closed_us IS NULL

-- name: audit_message
INSERT INTO duly_audit
    (id, at_us, actor, action, job, nominal_us, partition_key, correction, reason, message_id)
VALUES
    (:audit_id, {now}, :actor, :action, :job, :nominal_us, :partition_key, :correction, :reason, :id)
