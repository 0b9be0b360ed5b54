"""A crontab fragment.

Decides how rules become the five fields of crontab(5) and how a command is written for cron and
its shell. Must never set a variable: it would hold for every line below, also those of others.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from duly._cli.units import rules
from duly._cli.units.order import dns_name, schedule_lines
from duly._cli.units.rules import DAYS, HOURS, MINUTES, MONTHS, WEEKDAYS, Rule
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from duly._cli.units.order import Order

__all__ = ["FOLDER", "fields", "files"]

FOLDER: Final = "/etc/cron.d"

# MAX_COMMAND of Vixie cron and of cronie is 1000 or less, with the byte at the end.
COMMAND_MAX: Final = 990

HEAD: Final = """\
{where}
{schedule}
# The cron daemon must count in {zone} (see timedatectl). If it does not, print this again
# with --timezone and the zone that it counts in. (cronie also obeys a line CRON_TZ=, for all lines
# below it; Debian's cron takes that for a variable like any other.)
# cron has a short PATH and /bin/sh, so all paths are absolute. What the job prints is dropped; an
# error is mailed, by MAILTO. Set what else its code reads from the environment above these lines,
# but no secret in /etc/cron.d, which everybody can read.
# cron does not try again after exit code 75 (busy, connection lost); the next start does. Another
# line, an hour later, is a second chance, and if it is not needed it ends as a `duplicate`.
"""

GAP: Final = """\
# At a switch of the zone, next on {first:%Y-%m-%d}, the above can leave out a due time: some crons
# skip what the clock skips, and take what it repeats only once. These starts are for that day; on
# all others they end as a `duplicate`, which does nothing.
"""


def files(order: Order) -> dict[str, str]:
    """The crontab fragment, by the name of its file."""
    starts = order.starts
    command = _command(order)
    named = dns_name(order.job.name, limit=200)
    if order.user is None:
        name = f"duly-{named}.crontab"
        where = "# For the crontab of the user who runs the job (crontab -e)."
        column = ""
    else:
        # A name with a dot is passed over by Debian's cron.
        name = f"duly-{named}"
        where = f"# {FOLDER}/{name}"
        column = f"{order.user} "
    lines = [(fields(rule), rule) for rule in starts.rules]
    schedule = "\n".join(f"# {line}" for line in schedule_lines(order, starts.rules))
    text = HEAD.format(where=where, schedule=schedule, zone=starts.zone.key)
    text += "".join(f"{line} {column}{command}\n" for line, _ in lines)

    def started(local: datetime) -> bool:
        # cron(8): in a repeated hour only lines whose minute or hour starts with `*` run again.
        return any(
            rule.matches(local) and (not local.fold or _elapsed(line)) for line, rule in lines
        )

    unmet = starts.unmet(started)
    if unmet:
        more = _extra_lines(unmet)
        text += GAP.format(first=unmet[0]) + "".join(f"{line} {column}{command}\n" for line in more)
    return {name: text}


def fields(rule: Rule) -> str:
    """The five fields of a rule, as they were written where that is possible."""
    spelled: tuple[str | None, ...] = rule.spelled or (None,) * 5
    days, weekdays = rule.days, rule.weekdays
    if days == DAYS and weekdays == WEEKDAYS:
        spelled = (*spelled[:2], None, spelled[3], None)  # any day, in whatever words
    restricted = days != DAYS and weekdays != WEEKDAYS
    if restricted and rule.spelled is None and not rule.either:
        # cron would take either; the one that names fewer days has all that both have.
        if len(days) * 7 <= len(weekdays) * 31:
            weekdays = WEEKDAYS
        else:
            days = DAYS
    values = (rule.minutes, rule.hours, days, rule.months, weekdays)
    every = (MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS)
    return " ".join(map(_field, spelled, values, every))


def _field(spelled: str | None, values: Collection[int], every: frozenset[int]) -> str:
    # crontab(5) takes a name alone, not in a range or a list.
    if spelled is not None and not any(letter.isalpha() for letter in spelled):
        return spelled
    if values == every:
        return "*"
    step = _step(sorted(values), every)
    return _ranges(sorted(values)) if step is None else f"*/{step}"


def _step(values: list[int], every: Collection[int]) -> int | None:
    """The step of a whole row of minutes or hours; in a field of days a star has a meaning."""
    if every not in (MINUTES, HOURS) or len(values) < 4:
        return None
    step = values[1] - values[0]
    return step if values == list(range(0, max(every) + 1, step)) else None


def _ranges(values: list[int]) -> str:
    """Ascending numbers, three or more in a row as a range."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs
    )


def _elapsed(line: str) -> bool:
    minute, hour, *_ = line.split()
    return minute.startswith("*") or hour.startswith("*")


def _extra_lines(unmet: list[datetime]) -> list[str]:
    first = [fields(rule) for rule in rules.on_months(start for start in unmet if not start.fold)]
    # A line with `*` for its hour also runs in the repeated hour.
    repeated = rules.on_months(start for start in unmet if start.fold)
    return first + [fields(Rule(HOURS, rule.minutes, months=rule.months)) for rule in repeated]


def _command(order: Order) -> str:
    assert order.directory is not None
    words = shlex.join(order.command)
    if order.deadline is not None:
        words = f"timeout {order.deadline} {words}"
    # An unescaped % is the end of the command.
    text = f"cd {shlex.quote(order.directory)} && {words} >/dev/null".replace("%", r"\%")
    if len(text.encode()) > COMMAND_MAX:
        raise UsageError(
            f"the command has {len(text.encode())} bytes, and cron takes {COMMAND_MAX}:"
            " put it into a script, and give that as --command"
        )
    return text
