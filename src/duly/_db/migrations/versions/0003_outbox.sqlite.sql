-- Tables of version 0003 on SQLite.

CREATE TABLE duly_outbox (
    id BLOB NOT NULL PRIMARY KEY,
    job TEXT NOT NULL,
    nominal_us INTEGER NOT NULL,
    partition_key TEXT NOT NULL,
    correction INTEGER NOT NULL,
    destination TEXT NOT NULL,
    name TEXT,
    natural_key TEXT,
    generation INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    headers TEXT NOT NULL,
    body BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    ordering_key TEXT,
    open_seq INTEGER,
    state TEXT NOT NULL,
    due_us INTEGER,
    created_us INTEGER NOT NULL,
    since_us INTEGER NOT NULL,
    expires_us INTEGER,
    started INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    tried_us INTEGER,
    doubt_us INTEGER,
    token BLOB,
    answer TEXT,
    evidence TEXT,
    remote_id TEXT,
    settled_us INTEGER,
    closed_us INTEGER,
    CONSTRAINT ck_duly_outbox_state CHECK (state IN
        ('pending', 'sending', 'sent', 'uncertain', 'dead', 'cancelled')),
    CONSTRAINT ck_duly_outbox_due CHECK (state NOT IN ('pending', 'sending') OR due_us IS NOT NULL),
    CONSTRAINT ck_duly_outbox_closed CHECK (state NOT IN ('sent', 'cancelled') OR
        (closed_us IS NOT NULL AND due_us IS NULL AND open_seq IS NULL))
) STRICT;

CREATE INDEX ix_duly_outbox_due ON duly_outbox (destination, due_us) WHERE due_us IS NOT NULL;

CREATE INDEX ix_duly_outbox_order ON duly_outbox (destination, ordering_key, open_seq)
    WHERE open_seq IS NOT NULL;

CREATE INDEX ix_duly_outbox_open ON duly_outbox (job, nominal_us) WHERE closed_us IS NULL;

CREATE INDEX ix_duly_outbox_occurrence ON duly_outbox (job, nominal_us, partition_key, correction);

CREATE TABLE duly_outbox_order (
    destination TEXT NOT NULL,
    ordering_key TEXT NOT NULL,
    last_seq INTEGER NOT NULL,
    PRIMARY KEY (destination, ordering_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_delivery (
    message_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    token BLOB NOT NULL,
    relay TEXT NOT NULL,
    started_us INTEGER NOT NULL,
    lease_us INTEGER NOT NULL,
    finished_us INTEGER,
    verdict TEXT,
    answer TEXT,
    evidence TEXT,
    late INTEGER,
    PRIMARY KEY (message_id, number)
) STRICT, WITHOUT ROWID;

ALTER TABLE duly_audit ADD COLUMN message_id BLOB;

CREATE VIEW duly_outbox_view AS
SELECT lower(hex(id)) AS id, job,
       strftime('%Y-%m-%dT%H:%M:%S', (nominal_us - ((nominal_us % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', ((nominal_us % 1000000) + 1000000) % 1000000) AS nominal_time,
       partition_key, correction, destination, name, natural_key, generation, state,
       CASE WHEN due_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', due_us / 1000000, 'unixepoch') || printf('.%06dZ', due_us % 1000000) END AS due_at,
       strftime('%Y-%m-%dT%H:%M:%S', created_us / 1000000, 'unixepoch') || printf('.%06dZ', created_us % 1000000) AS created_at,
       CASE WHEN tried_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', tried_us / 1000000, 'unixepoch') || printf('.%06dZ', tried_us % 1000000) END AS tried_at,
       CASE WHEN doubt_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', doubt_us / 1000000, 'unixepoch') || printf('.%06dZ', doubt_us % 1000000) END AS in_doubt_since,
       started, finished, answer, evidence, remote_id,
       CASE WHEN closed_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', closed_us / 1000000, 'unixepoch') || printf('.%06dZ', closed_us % 1000000) END AS closed_at
FROM duly_outbox;

CREATE VIEW duly_delivery_view AS
SELECT lower(hex(message_id)) AS message_id, number, relay,
       strftime('%Y-%m-%dT%H:%M:%S', started_us / 1000000, 'unixepoch') || printf('.%06dZ', started_us % 1000000) AS started_at,
       CASE WHEN finished_us IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%S', finished_us / 1000000, 'unixepoch') || printf('.%06dZ', finished_us % 1000000) END AS finished_at,
       verdict, answer, evidence, late
FROM duly_delivery;
