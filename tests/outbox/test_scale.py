"""What a relay asks costs the same however many messages were sent before."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from duly._db.connect import Database as Ledger

if TYPE_CHECKING:
    from tests.outbox.desk import Desk

SENT = 20_000
_COPY = (
    "INSERT INTO duly_outbox (id, job, nominal_us, partition_key, correction, destination,"
    " generation, content_type, headers, body, fingerprint, state, created_us, since_us, started,"
    " finished, settled_us, closed_us) SELECT {id}, '{job}', {n}, '', 1, '{to}', 1, 'x', '{{}}',"
    " {bytes}, {bytes}, 'sent', 1, 1, 1, 1, 1, 1 FROM {numbers}"
)
_NUMBERS = {
    "sqlite": f"(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {SENT})"
    " SELECT n FROM s)",
    "postgresql": f"generate_series(1, {SENT}) AS s (n)",
    "mariadb": f"(SELECT seq AS n FROM seq_1_to_{SENT}) AS s",
}
_IDS = {
    "sqlite": "randomblob(16)",
    "postgresql": "gen_random_uuid()",
    "mariadb": "UNHEX(MD5(CONCAT(UUID(), n)))",
}
_BYTES = {
    "sqlite": "zeroblob(32)",
    "postgresql": "decode(repeat('00', 32), 'hex')",
    "mariadb": "REPEAT('0', 32)",
}

# What a relay says of one message; PostgreSQL's for many are the same, of arrays.
CHANGES = (
    "start_send", "finish_send", "finish_delivery", "start_lookup", "finish_lookup", "move_message",
    "mine", "message_fingerprint",
)  # fmt: skip
AT_ONCE = ("start_send_all", "finish_send_all", "finish_delivery_all")
_DELIVERIES = (
    "INSERT INTO duly_delivery (message_id, number, token, relay, started_us, lease_us)"
    " SELECT id, 1, id, 'x', 1, 1 FROM duly_outbox WHERE job = '{job}' AND state = 'sent'"
)


def params(desk: Desk, message: Any) -> dict[str, Any]:
    """Values for every bind of a relay's statements, about one message."""
    texts = dict.fromkeys(("state", "before", "answer", "evidence", "remote_id", "verdict"), "sent")
    numbers = dict.fromkeys(("doubt_us", "due_us", "closed_us", "lease_us", "number", "closes"), 1)
    ids = dict.fromkeys(("id", "token"), message)
    asked = {"destination": desk.to, "clock_us": 2**62, "limit": 10, "skip": 0, "late": False}
    return {**texts, **numbers, **ids, **asked}


def _whole(plan: str) -> bool:
    """Whether a table of duly's is read from its beginning to its end."""
    return any(said in plan for said in ("Seq Scan on duly_", '"SCAN ', '"ALL"', '"index"'))


def planned(desk: Desk, name: str, params: dict[str, Any]) -> str:
    """The plan of a named query, as the database tells it."""
    ledger = Ledger(desk.database.url)
    with ledger.session() as session:
        text = session.queries[name]
        prefix = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN ", "mariadb": "EXPLAIN "}
        with closing(session.raw.cursor()) as cursor:
            cursor.execute(prefix[desk.kind] + text, params)
            rows = cursor.fetchall()
    ledger.engine.dispose()
    return json.dumps([[str(cell) for cell in row] for row in rows])


def test_claim_after_many_sent_messages_reads_open_ones_by_their_index(desk: Desk) -> None:
    """No sequential scan: what was sent lies outside the index of what is due."""
    desk.receive(lambda message: None)
    desk.run(
        _COPY.format(
            id=_IDS[desk.kind], job=desk.job, to=desk.to, n="n", bytes=_BYTES[desk.kind],
            numbers=_NUMBERS[desk.kind],
        )
    )  # fmt: skip
    desk.run(_DELIVERIES.format(job=desk.job))
    desk.start()
    word = "ANALYZE TABLE" if desk.kind == "mariadb" else "ANALYZE"
    for table in ("duly_outbox", "duly_delivery"):
        desk.run(f"{word} {table}")
    ((mine,),) = desk.run(
        f"SELECT id FROM duly_outbox WHERE job = '{desk.job}' AND state = 'pending'"
    )
    asked = params(desk, mine)
    for name in ("due_messages", "next_due"):
        plan = planned(desk, name, asked)
        assert "ix_duly_outbox_due" in plan, plan
        assert not _whole(plan), plan
    anything = {**dict.fromkeys(("destination", "state", "answer", "job"), ""), "until_us": 1}
    assert _whole(planned(desk, "all_messages", {**asked, **anything}))  # so it would be seen
    for name in CHANGES:
        plan = planned(desk, name, asked)
        assert not _whole(plan), (name, plan)
    if desk.kind == "postgresql":
        for name in AT_ONCE:
            plan = planned(desk, name, {column: [value] * 20 for column, value in asked.items()})
            assert not _whole(plan), (name, plan)
    assert desk.deliver().sent == 1
    desk.run(f"DELETE FROM duly_outbox WHERE destination = '{desk.to}'")
    desk.run("DELETE FROM duly_delivery WHERE relay = 'x'")
