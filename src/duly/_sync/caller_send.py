"""`duly.send`: a message that leaves only if a caller's own transaction commits.

Decides that the occurrence must be claimed in that transaction. It never begins, commits or rolls
back, and speaks to no receiver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._core.occurrence import Occurrence
from duly._core.outbox import freeze
from duly._db.messages import enqueue
from duly._sync.caller_errors import told_of
from duly._sync.callers import open_session, synchronous
from duly.errors import KeyInvalid, NotInTransaction, NoTransaction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duly._core.outbox import Draft


def send(
    connection: Any,
    occurrence: Occurrence | str,
    destination: str,
    body: Any,
    *,
    name: str | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    ordering_key: str | None = None,
    schema: str | None = None,
) -> str:
    """Send a message with the transaction of *connection*, in which *occurrence* was claimed.

    The caller commits claim, change and message together, or none. Said again with the same
    content it changes nothing.

    Args:
        connection: As `duly.claim` takes it; the one in which the claim was made.
        occurrence: What was claimed, or its key's text.
        destination, body, name, key, headers, not_before, expires_at, ordering_key: As `Run.send`;
            the destination is looked up by the relay.
        schema: Of the ledger, where it is not the connection's default.

    Returns:
        The message's id.

    Raises:
        MessageInvalid: It cannot be sent as it is; refused before any statement.
        NotInTransaction: No transaction is open, or the occurrence was not claimed in it as new.
        PayloadConflict: The same name or key was sent before with another content.
        TransientError: The database was contended: roll back and try the whole again.
    """
    draft = freeze(
        _named(occurrence),
        destination,
        body,
        name=name,
        key=key,
        headers=headers,
        not_before=not_before,
        expires_at=expires_at,
        ordering_key=ordering_key,
    )
    with told_of(draft.occurrence.key):
        _send(connection, schema, draft)
    return str(draft.id)


def _named(occurrence: object) -> Occurrence:
    if isinstance(occurrence, str):
        return Occurrence.parse(occurrence)
    if not isinstance(occurrence, Occurrence):
        raise KeyInvalid(
            f"a key is a duly.Occurrence or the text of one, not {type(occurrence).__name__}"
        )
    return occurrence


def _send(connection: Any, schema: str | None, draft: Draft) -> None:
    try:
        session = open_session(synchronous(connection), schema)
        session.require_transaction()
    except NoTransaction as refused:
        said = str(refused).replace("duly.claim", "duly.send").replace("the claim", "the message")
        raise NotInTransaction(said) from refused
    about = draft.occurrence.key
    try:
        if not session.is_claimed_here(draft.occurrence):
            raise NotInTransaction(
                f"{about} is not claimed in this transaction (not at all, by another, or in one"
                " that has ended), so the message would be sent whatever becomes of it: call"
                " duly.claim first, and send where claim.is_new, before the commit; a handler"
                " sends with run.send",
                key=about,
            )
        enqueue(session, [draft])
    finally:
        session.restore()
