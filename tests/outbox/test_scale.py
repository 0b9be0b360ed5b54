"""What a relay asks costs the same however many messages were sent before."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from duly._db.connect import Database as Ledger
from tests.outbox.desk import hexed

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
    desk.start()
    desk.run(
        {"sqlite": "ANALYZE", "postgresql": "ANALYZE duly_outbox"}.get(
            desk.kind, "ANALYZE TABLE duly_outbox"
        )
    )
    due = {"destination": desk.to, "clock_us": 2**62, "limit": 10, "skip": 0}
    for name, params in (("due_messages", due), ("next_due", {"destination": desk.to})):
        plan = planned(desk, name, params)
        assert "ix_duly_outbox_due" in plan, plan
        assert "Seq Scan" not in plan, plan
        assert "SCAN o" not in plan, plan
    if desk.kind == "postgresql":
        (mine,) = desk.run(
            f"SELECT id FROM duly_outbox WHERE job = '{desk.job}' AND state = 'pending'"
        )
        many = {
            "id": [hexed(mine[0])], "lease_us": [1], "number": [1], "clock_us": [1],
            "doubt_us": [None], "token": [hexed(mine[0])],
        }  # fmt: skip
        assert "Seq Scan" not in planned(desk, "start_send_all", many)
    assert desk.deliver().sent == 1
    desk.run(f"DELETE FROM duly_outbox WHERE destination = '{desk.to}'")
