"""From what the ledger holds of a job to the job, for a process that has no code of it.

Decides nothing about the definition: it is the latest revision's, so starting by it edits
nothing. It never writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly import zones
from duly._core.instants import format_instant
from duly._core.job import Job, check_name
from duly._core.payload import from_text
from duly._sync import questions, registry
from duly.errors import DefinitionStale

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._db.connect import Database


def recorded(database: Database, name: str, handler: Callable[..., Any]) -> Job | None:
    """The job as its latest revision defines it; None if the ledger does not know the name.

    Raises:
        DefinitionStale: It was retired.
        KeyInvalid: The name cannot be a job's.
    """
    check_name(name)
    with database.session() as session:
        ledger_name = questions.ledger_name(session, {}, name)
        known = registry.read(session, ledger_name)
    if known is None:
        return None
    latest = known.latest
    if latest.retired:
        raise DefinitionStale(
            f"job {name} was retired at {format_instant(latest.effective_at)}: nothing is expected"
            " of it; define it again, with its code or with --schedule and --adopt",
            job=name,
            latest=latest.number,
        )
    return Job(
        name,
        handler,
        registry.schedule_of(latest),
        zones.load(latest.zone),
        from_text(latest.payload),
        latest.policies,
        formerly=() if name == ledger_name else (ledger_name,),
    )
