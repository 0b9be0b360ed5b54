-- What MariaDB needs otherwise.

-- name: claim
-- differs: a plain INSERT, because IGNORE also stores truncated garbage: 1062 is the answer
-- "held". SYSDATE is read after the wait and does not obey SET timestamp (PROTOCOL 16).
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us)
VALUES
    (:job, :nominal_us, :partition_key, :correction, 'applied', :fingerprint, :attempt_id, {now})
RETURNING {now}, @@sql_mode

-- name: read_standing
-- differs: a locking read, because after a lost race at REPEATABLE READ a plain one sees no row.
SELECT o.disposition, o.fingerprint, o.attempt_id, a.id, o.recorded_us, a.result, o.reason
FROM duly_occurrence AS o
LEFT JOIN duly_attempt AS a
  ON a.job = o.job AND a.nominal_us = o.nominal_us AND a.partition_key = o.partition_key
 AND a.correction = o.correction AND a.id = o.attempt_id AND a.outcome = o.disposition
WHERE o.job = :job AND o.nominal_us = :nominal_us AND o.partition_key = :partition_key
  AND o.correction = :correction
LOCK IN SHARE MODE

-- name: lock_guard
-- differs: waits for a prune; taken before the insert, after it came 1213 (PROTOCOL 15).
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
SELECT id FROM duly_guard WHERE id = 1 LOCK IN SHARE MODE

-- name: read_horizon
-- differs: a locking read sees what was committed after the transaction's snapshot.
SELECT horizon_us FROM duly_job WHERE name = :job LOCK IN SHARE MODE

-- name: count_duplicate
-- differs: ON DUPLICATE KEY UPDATE; its row count is not used.
INSERT INTO duly_duplicate
    (job, nominal_us, partition_key, correction, started_by, times, first_us, last_us)
VALUES
    (:job, :nominal_us, :partition_key, :correction, :started_by, 1, {now}, {now})
ON DUPLICATE KEY UPDATE times = times + 1, last_us = VALUES(last_us)

-- name: hold_torn
-- differs: no ON CONFLICT; 1062 is the answer "held".
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, fingerprint, attempt_id, recorded_us)
VALUES
    (:job, :nominal_us, :partition_key, :correction, 'torn', :fingerprint, :attempt_id, {now})

-- name: probe_key
-- differs: a locking read that does not wait: 1205 means the attempt is alive (PROTOCOL 20).
SELECT attempt_id FROM duly_occurrence
WHERE job = :job AND nominal_us = :nominal_us AND partition_key = :partition_key
  AND correction = :correction
LOCK IN SHARE MODE NOWAIT

-- name: raise_horizon
-- differs: ON DUPLICATE KEY UPDATE.
INSERT INTO duly_job (name, horizon_us)
VALUES (:job, :horizon_us)
ON DUPLICATE KEY UPDATE horizon_us = GREATEST(COALESCE(horizon_us, VALUES(horizon_us)), VALUES(horizon_us))

-- name: prune_occurrences
-- differs: DELETE ... LIMIT.
DELETE FROM duly_occurrence
WHERE job = :job AND nominal_us <= :horizon_us
ORDER BY job, nominal_us, partition_key, correction
LIMIT :limit

-- name: prune_attempts
-- differs: as above.
DELETE FROM duly_attempt
WHERE job = :job AND nominal_us <= :horizon_us
ORDER BY job, nominal_us, partition_key, correction, id, outcome
LIMIT :limit

-- name: prune_duplicates
-- differs: as above.
DELETE FROM duly_duplicate
WHERE job = :job AND nominal_us <= :horizon_us
ORDER BY job, nominal_us, partition_key, correction, started_by
LIMIT :limit

-- name: identify
-- differs: what tells the server, its version, where the ledger is and how text is read.
SELECT VERSION(), DATABASE(), @@sql_mode, @@character_set_client, @@character_set_connection

-- name: other_engines
-- differs: only MariaDB has tables that a rollback does not reach.
SELECT table_name, engine
FROM information_schema.tables
WHERE table_schema = :schema AND table_type = 'BASE TABLE' AND engine NOT IN ('InnoDB', 'ROCKSDB')
ORDER BY table_name
LIMIT 10000

-- name: has_table
-- differs: each database keeps its catalogue elsewhere.
SELECT 1
FROM information_schema.tables
WHERE table_schema = :schema AND table_name = :name

-- name: in_transaction
-- differs: the driver's status bits are those of the last OK packet, which a SELECT has not.
SELECT @@in_transaction, @@autocommit, @@sql_mode

-- name: touch_guard
-- differs: the wait for attempts under way is bounded.
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
UPDATE duly_guard SET pruned_us = {now} WHERE id = 1

-- name: add_job
-- differs: no ON CONFLICT.
INSERT INTO duly_job (name) VALUES (:job) ON DUPLICATE KEY UPDATE name = name

-- name: add_slot
-- differs: no ON CONFLICT.
INSERT INTO duly_slot (job, slot) VALUES (:job, :slot) ON DUPLICATE KEY UPDATE slot = slot

-- name: add_partition_set
-- differs: no ON CONFLICT; 1062 is the answer "planned".
INSERT INTO duly_partition_set (job, nominal_us, size, planned_us)
VALUES (:job, :nominal_us, :size, {now})

-- name: settle
-- differs: no ON CONFLICT. A key that was held comes back with another time; the row count
-- cannot tell, because the driver counts found rows.
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, recorded_us, reason, actor)
SELECT :job, each_time.value, :partition_key, 1, :disposition, :recorded_us, :reason, :actor
FROM JSON_TABLE(:nominal_times, '$[*]' COLUMNS (value BIGINT PATH '$')) AS each_time
ORDER BY each_time.value DESC
ON DUPLICATE KEY UPDATE duly_occurrence.job = duly_occurrence.job
RETURNING recorded_us

-- name: waive_free
-- differs: the wait's bound is the statement's, and 1062 is the answer "held": where the driver
-- counts found rows, an upsert that changes nothing counts as one.
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, recorded_us, reason, actor)
VALUES
    (:job, :nominal_us, :partition_key, 1, 'waived', {now}, :reason, :actor)

-- name: lock_job
-- differs: the bound of the wait is the statement's.
SET STATEMENT innodb_lock_wait_timeout = :wait_s FOR
UPDATE duly_job SET name = name WHERE name = :job

-- name: cover
-- differs: no RETURNING that leaves held keys out; `covered` reads what became ours.
INSERT INTO duly_occurrence
    (job, nominal_us, partition_key, correction, disposition, attempt_id, recorded_us, reason)
SELECT :job, each_time.value, :partition_key, 1, 'superseded', :attempt_id, {now}, :reason
FROM JSON_TABLE(:nominal_times, '$[*]' COLUMNS (value BIGINT PATH '$')) AS each_time
ORDER BY each_time.value DESC
ON DUPLICATE KEY UPDATE duly_occurrence.job = duly_occurrence.job

-- name: covered
-- differs: as above.
SELECT nominal_us
FROM duly_occurrence
WHERE job = :job AND nominal_us < :nominal_us AND partition_key = :partition_key
  AND correction = 1 AND attempt_id = :attempt_id AND disposition = 'superseded'
ORDER BY nominal_us DESC

-- name: take_slot
-- differs: where there are many writers, a row's lock is the slot. It goes in one message with the
-- claim, which is not sent off where this ends in an error. One by one: a range would lock the gap
-- before it too, in which the slots of a job that is registered meanwhile have their place.
BEGIN
    DECLARE taken INT;
    DECLARE next_slot INT DEFAULT 1;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET taken = NULL;
    WHILE taken IS NULL AND next_slot <= :slots DO
        SELECT slot INTO taken
        FROM duly_slot
        WHERE job = :job AND slot = next_slot
        FOR UPDATE SKIP LOCKED;
        SET next_slot = next_slot + 1;
    END WHILE;
    IF taken IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = 'no slot is free';
    END IF;
END

-- name: seal
-- differs: it goes in one message with the COMMIT, so that without a claim it must be an error,
-- after which the COMMIT is not done.
INSERT INTO duly_attempt
    (job, nominal_us, partition_key, correction, id, outcome,
     started_by, source, host, pid, started_us, finished_us, result)
SELECT o.job, o.nominal_us, o.partition_key, o.correction, o.attempt_id, 'applied',
       :started_by, :source, :host, :pid, :started_us, :finished_us, :result
FROM duly_occurrence AS o
WHERE o.job = :job AND o.nominal_us = :nominal_us AND o.partition_key = :partition_key
  AND o.correction = :correction AND o.attempt_id = :attempt_id AND o.disposition = 'applied';
IF ROW_COUNT() <> 1 THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'the claim is gone';
END IF

-- name: tear_unsealed
-- differs: the same, where the process died before it could say so.
UPDATE duly_occurrence AS c
JOIN duly_occurrence AS o ON c.job = o.job AND c.partition_key = o.partition_key
SET c.disposition = 'torn'
WHERE o.job = :job AND o.nominal_us = :nominal_us AND o.partition_key = :partition_key
  AND o.correction = :correction AND o.disposition = 'applied'
  AND c.nominal_us < :nominal_us AND c.correction = 1 AND c.disposition = 'superseded'
  AND c.attempt_id = o.attempt_id
  AND NOT EXISTS (
    SELECT 1 FROM duly_attempt AS a
    WHERE a.job = :job AND a.nominal_us = :nominal_us AND a.partition_key = :partition_key
      AND a.correction = :correction AND a.outcome = 'applied')

-- name: tear_covered
-- differs: only here a handler can commit without duly.
UPDATE duly_occurrence SET disposition = 'torn'
WHERE job = :job AND attempt_id = :attempt_id AND disposition = 'superseded'

-- name: next_in_order
-- differs: ON DUPLICATE KEY UPDATE.
INSERT INTO duly_outbox_order (destination, ordering_key, last_seq)
VALUES (:destination, :ordering_key, 1)
ON DUPLICATE KEY UPDATE last_seq = last_seq + 1
RETURNING last_seq

-- name: insert_message
-- differs: no ON CONFLICT; 1062 is the answer "there already".
INSERT INTO duly_outbox
    (id, job, nominal_us, partition_key, correction, destination, name, natural_key, generation,
     content_type, headers, body, fingerprint, ordering_key, open_seq, state,
     due_us, created_us, since_us, expires_us, started, finished, settled_us)
VALUES
    (:id, :job, :nominal_us, :partition_key, :correction, :destination, :name, :natural_key, :generation,
     :content_type, :headers, :body, :fingerprint, :ordering_key, :open_seq, 'pending',
     CASE WHEN :not_before_us > {now} THEN :not_before_us ELSE {now} END, {now},
     CASE WHEN :not_before_us > {now} THEN :not_before_us ELSE {now} END, :expires_us, 0, 0, {now})

-- name: message_fingerprint
-- differs: a locking read sees what was committed after the transaction's snapshot.
SELECT fingerprint FROM duly_outbox WHERE id = :id LOCK IN SHARE MODE

-- name: due_messages
-- differs: relays side by side each take what the others have not locked.
SELECT o.id, o.state, o.started, o.finished, o.created_us, o.since_us, o.expires_us, o.tried_us,
       o.doubt_us, o.job, o.nominal_us, o.partition_key, o.correction, o.name, o.natural_key,
       o.generation, o.content_type, o.headers, o.body, o.ordering_key
FROM duly_outbox AS o FORCE INDEX (ix_duly_outbox_due)
WHERE o.destination = :destination AND o.due_us <= :clock_us
  AND (o.open_seq IS NULL OR o.state = 'uncertain' OR NOT EXISTS (
    SELECT 1 FROM duly_outbox AS e
    WHERE e.destination = o.destination AND e.ordering_key = o.ordering_key
      AND e.open_seq < o.open_seq
      AND (:skip = 0 OR e.state NOT IN ('uncertain', 'dead'))))
ORDER BY o.due_us
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: mine
-- differs: it waits for a commit of ours that is still in flight.
SELECT id FROM duly_outbox WHERE id = :id AND token = :token FOR UPDATE

-- name: prune_deliveries
-- differs: no LIMIT in a subquery of IN.
DELETE d FROM duly_delivery AS d
JOIN (
    SELECT id FROM duly_outbox
    WHERE job = :job AND nominal_us <= :horizon_us AND closed_us IS NOT NULL
    ORDER BY job, nominal_us, partition_key, correction, id
    LIMIT :limit) AS gone ON gone.id = d.message_id

-- name: prune_messages
-- differs: DELETE ... LIMIT.
DELETE FROM duly_outbox
WHERE job = :job AND nominal_us <= :horizon_us AND closed_us IS NOT NULL
ORDER BY job, nominal_us, partition_key, correction, id
LIMIT :limit
