"""What a definition is printed for: the job, the command, and the user's wishes.

Decides how a job's name becomes a name that a starter takes, and which commands may stand in a
file that others can read. Must never let a password into one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly._core.redact import redact
from duly._core.wording import shown
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._cli.units.rules import Rule
    from duly._cli.units.times import Starts
    from duly._core.job import Job

__all__ = ["Order", "absolute", "dns_name", "schedule_lines", "without_secrets"]


@dataclass(frozen=True, slots=True)
class Order:
    """One definition to print.

    Attributes:
        starts: When the job must be started.
        command: The words of the command line that starts it.
        directory: Where it is started; None in an image, which has its own.
        user: Who starts it.
        deadline: Seconds after which a start is stopped; None for no bound.
        image: What Kubernetes runs it in.
        namespace: Of Kubernetes; None for the one that it is applied in.
    """

    job: Job
    starts: Starts
    command: tuple[str, ...]
    directory: str | None = None
    user: str | None = None
    deadline: int | None = None
    image: str = ""
    namespace: str | None = None


def without_secrets(words: Sequence[str]) -> None:
    """Refuse a command that holds a password.

    Raises:
        UsageError: It says where a password belongs.
    """
    for word in words:
        if redact(word) != word:
            raise UsageError(
                f"the command holds a password ({redact(word)[:200]}), and others can read a"
                " definition: take it from the environment, such as DULY_DATABASE_URL, in the"
                " job's code"
            )


def absolute(words: Sequence[str]) -> None:
    """Refuse a program that the starter would have to look for.

    Raises:
        UsageError: It says to write the whole path.
    """
    if not words[0].startswith("/"):
        raise UsageError(
            f"--command {shown(words[0])} is no absolute path, and a starter does not have your"
            " PATH: write the whole path of the program"
        )


def dns_name(name: str, *, limit: int) -> str:
    """A job's name in the letters of a DNS label (RFC 1123), no two jobs the same.

    Args:
        name: The job's name.
        limit: The most characters; at least 20.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
    # `-gap` is what duly appends to the name of a second definition.
    if plain == name and len(plain) <= limit and not plain.endswith("-gap"):
        return plain
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: limit - 9].rstrip('-')}-{mark}"


def schedule_lines(order: Order, rules: Sequence[Rule]) -> list[str]:
    """What the job's schedule is, and how near *rules* come to it, as lines of a comment."""
    starts = order.starts
    assert order.job.schedule is not None
    said = [f"The schedule of {order.job.name}: {order.job.schedule.text}"]
    if not starts.exact:
        a_day = sum(rule.times_a_day() for rule in rules)
        until = f"{starts.until:%Y-%m-%d}"
        said += [
            f"Computed from its due times until {until}: print it again before that, and when the",
            f"schedule changes. Starts a day: {a_day:,} at most. One that is not needed ends as a",
            "`duplicate`, which does nothing.",
        ]
    return said
