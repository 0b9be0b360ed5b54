"""What a person's decision does to the rows of one message.

Each is a compare-and-set on the state: what a relay has under way is not touched. It decides
nothing about who may (`_core/redress.py` does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from duly._core.outbox import Draft, message_id
from duly._core.redress import ACTIONS
from duly._core.states import MessageState
from duly._core.wording import shown
from duly._db.messages import enqueue, stored
from duly._db.sessions.base import key_params
from duly._sync.process import new_attempt_id
from duly.errors import MessageSettled, UnknownMessage

if TYPE_CHECKING:
    from duly._core import ops
    from duly._db.sessions.base import Session

_NEXT: Final = {
    "redrive": "only what is dead or uncertain is sent again under its id",
    "resend": "only what is dead, uncertain or sent gets a next generation",
    "confirm": "only what is uncertain or dead can be said to have arrived",
    "abandon": "only what is pending, uncertain or dead can be given up",
    "lookup": "only what is uncertain is looked up",
}


def redrive(session: Session, row: Any, clock_us: int) -> UUID | None:
    """Pending again, under its id; None if it is neither dead nor uncertain."""
    changed = session.change("redrive_message", {"id": row[0], "clock_us": clock_us})
    return session.decode_id(row[0]) if changed else None


def confirm(session: Session, row: Any, clock_us: int) -> UUID | None:
    """Sent; None if it is neither dead nor uncertain."""
    changed = session.change("confirm_message", {"id": row[0], "clock_us": clock_us})
    return session.decode_id(row[0]) if changed else None


def abandon(session: Session, row: Any, clock_us: int) -> UUID | None:
    """Cancelled if it was never started, else dead for good; None if it cannot be."""
    params = {"id": row[0], "clock_us": clock_us, "answer": "abandoned"}
    changed = session.change("cancel_message", params) or session.change("abandon_message", params)
    return session.decode_id(row[0]) if changed else None


def resend(session: Session, row: Any, clock_us: int) -> UUID | None:
    """A copy of the next generation, in its place; None if it cannot be."""
    if MessageState(row[1]) not in ACTIONS["resend"]:
        return None
    found = stored(session, row[20], row[:20])
    generation = found.generation + 1
    again = message_id(found.occurrence, row[20], found.name, found.key, generation)
    (fingerprint,) = session.run("message_fingerprint", {"id": row[0]})[0]
    draft = Draft(
        again,
        found.occurrence,
        found.destination,
        found.name,
        found.key,
        generation,
        found.content_type,
        found.headers,
        found.body,
        bytes(fingerprint),
        found.ordering_key,
        None,
        None,
    )
    if not enqueue(session, [draft]):
        raise MessageSettled(
            f"message {found.row.id} was sent once more already, as {again}: to send it yet again,"
            " name that one",
            message_id=str(again),
        )
    params = {"id": row[0], "clock_us": clock_us, "answer": "resent"}
    session.change("abandon_message", params)
    return again


_ACTS: Final = {"redrive": redrive, "resend": resend, "confirm": confirm, "abandon": abandon}


def acted(action: str, session: Session, row: Any, clock_us: int) -> UUID:
    """Do what was decided about a message; returns the id that is to be looked at now.

    Raises:
        MessageSettled: Its state does not allow it.
    """
    made = _ACTS[action](session, row, clock_us)
    if made is None:
        raise settled(action, session, row)
    return made


def audit(session: Session, row: Any, action: str, said: ops.Order) -> None:
    """Record who decided what about a message, and why."""
    occurrence = stored(session, row[20], row[:20]).occurrence
    params = {
        **key_params(occurrence),
        "audit_id": session.encode_id(new_attempt_id()),
        "id": row[0],
        "actor": said.actor,
        "action": action,
        "reason": said.reason,
    }
    session.change("audit_message", params)


def settled(action: str, session: Session, row: Any) -> MessageSettled:
    """The refusal of a decision that the message's state does not allow."""
    now = session.run("read_message", {"id": row[0]})
    state = now[0][1] if now else row[1]
    return MessageSettled(
        f"message {session.decode_id(row[0])} is {state}, and {_NEXT[action]}: `duly outbox show"
        f" {session.decode_id(row[0])}` tells more",
        message_id=str(session.decode_id(row[0])),
        state=state,
    )


def parsed_id(text: object) -> UUID:
    """A message's id.

    Raises:
        UnknownMessage: The text is none.
    """
    try:
        return UUID(str(text))
    except ValueError:
        raise UnknownMessage(
            f"{shown(text)} is no message's id: it has 36 characters, as `duly outbox list` shows"
        ) from None


def read(session: Session, message: Any) -> Any:
    """The row of a message.

    Raises:
        UnknownMessage: There is none.
    """
    known = message if not isinstance(message, UUID) else session.encode_id(message)
    rows = session.run("read_message", {"id": known})
    if not rows:
        raise UnknownMessage(
            f"no message has the id {session.decode_id(known)}: `duly outbox list --closed` shows"
            " those that there are"
        )
    return rows[0]
