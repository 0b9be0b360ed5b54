"""Rows of the outbox, as values of the core; and back.

It decides nothing: what a message becomes is `_core/sending.py`'s to say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly._core.channel import Message
from duly._core.instants import from_us
from duly._core.occurrence import Occurrence
from duly._core.outbox import conflict
from duly._core.sending import Look, Move, Row, Start
from duly._core.states import MessageState
from duly._db.sessions.base import key_params

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from duly._core.delivery import Under
    from duly._core.destination import Destination
    from duly._core.outbox import Draft
    from duly._core.sending import Step
    from duly._db.sessions.base import Params, Session


@dataclass(frozen=True, slots=True)
class Stored:
    """A message with what is to be sent.

    Attributes:
        row: What is decided by.
    """

    row: Row
    destination: str
    occurrence: Occurrence
    name: str | None
    key: str | None
    generation: int
    content_type: str
    headers: str
    body: bytes
    ordering_key: str | None

    def message(self, number: int, clock_us: int, to: Destination) -> Message:
        """What a channel gets for a send that is started now."""
        return Message(
            str(self.row.id),
            self.destination,
            self.body,
            self.content_type,
            json.loads(self.headers),
            self.occurrence.key,
            self.name,
            self.key,
            self.generation,
            self.ordering_key,
            from_us(self.row.created_us),
            number,
            from_us(clock_us),
            to.timeout,
            to.contract,
        )


def enqueue(session: Session, drafts: Sequence[Draft]) -> int:
    """Insert *drafts*, which stand in their one order, in the open transaction.

    Returns:
        How many were not there already.

    Raises:
        PayloadConflict: One is there with another content.
    """
    rows = [_inserted(session, draft) for draft in drafts]
    landed = session.insert_messages(rows)
    for draft, row, is_new in zip(drafts, rows, landed, strict=True):
        if is_new:
            continue
        found = session.run("message_fingerprint", row)
        if found and bytes(found[0][0]) != draft.fingerprint:
            raise conflict(draft, bytes(found[0][0]))
    return sum(landed)


def due(session: Session, to: Destination, clock_us: int, limit: int) -> list[Stored]:
    """What is to be looked at now, locked where others could take it too."""
    params = {
        "destination": to.name,
        "clock_us": clock_us,
        "limit": limit,
        "skip": int(to.skip_blocked),
    }
    return [stored(session, to.name, each) for each in session.run("due_messages", params)]


def write_ahead(
    session: Session,
    steps: Sequence[tuple[Row, Step]],
    *,
    clock_us: int,
    lease_us: int,
    token: UUID,
    relay: str,
) -> None:
    """Write down what is about to be done, before any of it is."""
    told = {
        "clock_us": clock_us,
        "lease_us": lease_us,
        "token": session.encode_id(token),
        "relay": relay,
    }
    starts, looks, moves = [], [], []
    for row, step in steps:
        identity = {**told, "id": session.encode_id(row.id)}
        match step:
            case Start():
                starts.append({**identity, "number": step.number, "doubt_us": step.doubt_us})
            case Look():
                looks.append(identity)
            case Move():
                moves.append({**identity, **_moved(step, clock_us), "before": row.state.value})
    session.change_each("start_send", starts)
    session.change_each("write_ahead", starts)
    session.change_each("start_lookup", looks)
    session.change_each("move_message", moves)


def are_mine(session: Session, ids: Sequence[UUID], token: UUID) -> list[UUID]:
    """Which of *ids* are held under *token*: waits for a commit that is still in flight."""
    held = session.encode_id(token)
    return [
        each for each in ids if session.run("mine", {"id": session.encode_id(each), "token": held})
    ]


def finish(session: Session, ended: Sequence[tuple[Under, Move]], clock_us: int) -> list[bool]:
    """Write down how sends and lookups ended; which of them still had the say."""
    rows = [
        {
            "id": session.encode_id(under.row.id),
            "token": session.encode_id(under.token),
            "number": under.row.started,
            "remote_id": None if under.answer is None else under.answer.remote_id,
            **_moved(move, clock_us),
        }
        for under, move in ended
    ]
    both = list(zip(rows, [under for under, _move in ended], strict=True))
    counts = iter(session.change_each("finish_send", [r for r, u in both if not u.is_lookup]))
    looked = iter(session.change_each("finish_lookup", [r for r, u in both if u.is_lookup]))
    had_say = [bool(next(looked if under.is_lookup else counts)) for _row, under in both]
    session.change_each(
        "finish_delivery",
        [
            {
                **row,
                "verdict": under.answer.verdict.value,
                "answer": under.answer.kind,
                "evidence": under.answer.evidence or None,
                "late": not said,
            }
            for (row, under), said in zip(both, had_say, strict=True)
            if under.answer is not None
        ],
    )
    return had_say


def stored(session: Session, destination: str, found: Sequence[Any]) -> Stored:
    """A message of *destination*, from the columns that `due_messages` reads."""
    message_id = session.decode_id(found[0])
    assert message_id is not None
    row = Row(message_id, MessageState(found[1]), *found[2:9])
    occurrence = Occurrence.from_us(*found[9:13])
    name, key, generation, content_type, headers, body, ordering_key = found[13:]
    return Stored(
        row,
        destination,
        occurrence,
        name,
        key,
        generation,
        content_type,
        headers,
        bytes(body),
        ordering_key,
    )


def next_due(session: Session, destination: str) -> int | None:
    """When a relay has to look next; None if nothing of the destination is open."""
    found = session.run("next_due", {"destination": destination})[0][0]
    return None if found is None else int(found)


def _inserted(session: Session, draft: Draft) -> Params:
    seq = None
    if draft.ordering_key is not None:
        # The row's lock lasts until the commit, so the places are given in commit order.
        order = {"destination": draft.destination, "ordering_key": draft.ordering_key}
        seq = int(session.run("next_in_order", order)[0][0])
    return {
        **key_params(draft.occurrence),
        "id": session.encode_id(draft.id),
        "destination": draft.destination,
        "name": draft.name,
        "natural_key": draft.key,
        "generation": draft.generation,
        "content_type": draft.content_type,
        "headers": draft.headers,
        "body": draft.body,
        "fingerprint": draft.fingerprint,
        "ordering_key": draft.ordering_key,
        "open_seq": seq,
        "not_before_us": draft.not_before_us,
        "expires_us": draft.expires_us,
    }


def _moved(move: Move, clock_us: int) -> dict[str, Any]:
    return {
        "state": move.state.value,
        "due_us": move.due_us,
        "doubt_us": move.doubt_us,
        "answer": move.answer,
        "evidence": move.evidence or None,
        "clock_us": clock_us,
        "closed_us": clock_us if move.closes else None,
        "closes": int(move.closes),
    }
