-- Tables of version 0003 on PostgreSQL.

CREATE TABLE duly_outbox (
    id UUID NOT NULL PRIMARY KEY,
    job VARCHAR(100) COLLATE "C" NOT NULL,
    nominal_us BIGINT NOT NULL,
    partition_key VARCHAR(200) COLLATE "C" NOT NULL,
    correction INTEGER NOT NULL,
    destination VARCHAR(100) COLLATE "C" NOT NULL,
    name VARCHAR(200) COLLATE "C",
    natural_key VARCHAR(200) COLLATE "C",
    generation INTEGER NOT NULL,
    content_type VARCHAR(200) NOT NULL,
    headers TEXT NOT NULL,
    body BYTEA NOT NULL,
    fingerprint BYTEA NOT NULL,
    ordering_key VARCHAR(200) COLLATE "C",
    open_seq BIGINT,
    state VARCHAR(16) COLLATE "C" NOT NULL,
    due_us BIGINT,
    created_us BIGINT NOT NULL,
    since_us BIGINT NOT NULL,
    expires_us BIGINT,
    started INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    tried_us BIGINT,
    doubt_us BIGINT,
    token UUID,
    answer VARCHAR(40),
    evidence TEXT,
    remote_id VARCHAR(200),
    settled_us BIGINT,
    closed_us BIGINT,
    CONSTRAINT ck_duly_outbox_state CHECK (state IN
        ('pending', 'sending', 'sent', 'uncertain', 'dead', 'cancelled')),
    CONSTRAINT ck_duly_outbox_due CHECK (state NOT IN ('pending', 'sending') OR due_us IS NOT NULL),
    CONSTRAINT ck_duly_outbox_closed CHECK (state NOT IN ('sent', 'cancelled') OR
        (closed_us IS NOT NULL AND due_us IS NULL AND open_seq IS NULL))
);

CREATE INDEX ix_duly_outbox_due ON duly_outbox (destination, due_us) WHERE due_us IS NOT NULL;

CREATE INDEX ix_duly_outbox_order ON duly_outbox (destination, ordering_key, open_seq)
    WHERE open_seq IS NOT NULL;

CREATE INDEX ix_duly_outbox_open ON duly_outbox (job, nominal_us) WHERE closed_us IS NULL;

CREATE INDEX ix_duly_outbox_occurrence ON duly_outbox (job, nominal_us, partition_key, correction);

CREATE TABLE duly_outbox_order (
    destination VARCHAR(100) COLLATE "C" NOT NULL,
    ordering_key VARCHAR(200) COLLATE "C" NOT NULL,
    last_seq BIGINT NOT NULL,
    PRIMARY KEY (destination, ordering_key)
);

CREATE TABLE duly_delivery (
    message_id UUID NOT NULL,
    number INTEGER NOT NULL,
    token UUID NOT NULL,
    relay VARCHAR(200) NOT NULL,
    started_us BIGINT NOT NULL,
    lease_us BIGINT NOT NULL,
    finished_us BIGINT,
    verdict VARCHAR(16) COLLATE "C",
    answer VARCHAR(40) COLLATE "C",
    evidence TEXT,
    late BOOLEAN,
    PRIMARY KEY (message_id, number)
);

ALTER TABLE duly_audit ADD COLUMN message_id UUID;

CREATE VIEW duly_outbox_view AS
SELECT id, job, timestamptz 'epoch' + nominal_us * interval '1 microsecond' AS nominal_time,
       partition_key, correction, destination, name, natural_key, generation, state,
       timestamptz 'epoch' + due_us * interval '1 microsecond' AS due_at,
       timestamptz 'epoch' + created_us * interval '1 microsecond' AS created_at,
       timestamptz 'epoch' + tried_us * interval '1 microsecond' AS tried_at,
       timestamptz 'epoch' + doubt_us * interval '1 microsecond' AS in_doubt_since,
       started, finished, answer, evidence, remote_id,
       timestamptz 'epoch' + closed_us * interval '1 microsecond' AS closed_at
FROM duly_outbox;

CREATE VIEW duly_delivery_view AS
SELECT message_id, number, relay,
       timestamptz 'epoch' + started_us * interval '1 microsecond' AS started_at,
       timestamptz 'epoch' + finished_us * interval '1 microsecond' AS finished_at,
       verdict, answer, evidence, late
FROM duly_delivery;
