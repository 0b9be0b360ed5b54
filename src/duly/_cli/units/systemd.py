"""Unit files of systemd: a service that starts the job once, and a timer that says when.

Decides how rules become `OnCalendar=` lines (systemd.time(7)) and how words are quoted
(systemd.service(5)). Must never pass a nominal time: systemd knows only when it started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duly._cli.units import rules
from duly._cli.units.order import schedule_lines
from duly._cli.units.rules import DAYS, HOURS, MINUTES, MONTHS, WEEKDAYS, Rule
from duly.zones import load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime

    from duly._cli.units.order import Order

__all__ = ["FOLDER", "calendar_lines", "files"]

FOLDER: Final = "/etc/systemd/system"
NAMES: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")

SERVICE: Final = """\
# {path}.service
# Starts the job {job} once; {name}.timer says when.
# Install both files, then: systemctl daemon-reload && systemctl enable --now {name}.timer

[Unit]
Description=duly job {job}
Wants=network-online.target
After=network-online.target
# Tried again, as Restart= below says, for as long as it takes.
StartLimitIntervalSec=0

[Service]
Type=oneshot
User={user}
WorkingDirectory={directory}
# Secrets such as DULY_DATABASE_URL belong into this file, of mode 0600: everybody can read a unit.
EnvironmentFile=-/etc/duly/{job}.env
# No --at, on purpose: systemd knows when it started the job, not which time that was meant for.
# duly finds the newest due time on the job's own schedule, so a start may come late.
ExecStart={command}
{deadline}# What can pass by itself is tried again: exit code 75 (busy, connection lost), and a
# process that was killed. A handler that failed (1), a wrong call (2), what a person must decide
# (3) and a stop (143) are not.
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=1 2 3 70 129 130 143
SuccessExitStatus=143
"""

TIMER: Final = """\
# {path}.timer
{schedule}

[Unit]
Description=Times of the duly job {job}

[Timer]
{calendar}
# After a time when the machine was off: one start, however many times were missed. It does the
# newest; the others stay missing in duly's ledger until they are run by name (duly run --at).
Persistent=true
# On time: systemd's default would allow a minute more. To spread starts is the job's own jitter=.
AccuracySec=1s
RandomizedDelaySec=0

[Install]
WantedBy=timers.target
"""

GAP: Final = """\
# At a switch of the zone, next on {first:%Y-%m-%d}, the above leaves out a due time: systemd skips
# what the clock skips, and takes what it repeats only once. These starts are for that day, in UTC,
# which has no switch; on all others they end as a `duplicate`, which does nothing.
"""

DEADLINE: Final = """\
# A start that takes longer is stopped, and rolled back.
TimeoutStartSec={deadline}
"""


def files(order: Order) -> dict[str, str]:
    """The two unit files, by name."""
    name = f"duly-{order.job.name}"
    assert order.directory is not None
    deadline = "" if order.deadline is None else DEADLINE.format(deadline=order.deadline)
    service = SERVICE.format(
        path=f"{FOLDER}/{name}",
        name=name,
        job=order.job.name,
        user=order.user,
        directory=_escaped(order.directory),
        command=" ".join(map(_quoted, order.command)),
        deadline=deadline,
    )
    timer = TIMER.format(
        path=f"{FOLDER}/{name}",
        job=order.job.name,
        schedule="\n".join(f"# {line}" for line in schedule_lines(order, order.starts.rules)),
        calendar=_calendar(order),
    )
    return {f"{name}.service": service, f"{name}.timer": timer}


def calendar_lines(rule: Rule, zone: str) -> Iterator[str]:
    """The values of `OnCalendar=` for a rule: one, or two where either day field is enough."""
    if rule.either:
        any_day = Rule(rule.hours, rule.minutes, months=rule.months)
        for days, weekdays in ((rule.days, WEEKDAYS), (DAYS, rule.weekdays)):
            yield _event(any_day, days, weekdays, zone)
    else:
        yield _event(rule, rule.days, rule.weekdays, zone)


def _calendar(order: Order) -> str:
    starts = order.starts
    lines = [line for rule in starts.rules for line in calendar_lines(rule, starts.zone.key)]
    text = "\n".join(f"OnCalendar={line}" for line in lines)
    utc = load("UTC")

    def started(local: datetime) -> bool:
        # A repeated time is taken once, the first; a skipped one not at all (systemd 252).
        return starts.named(local) and not local.fold

    unmet = starts.unmet(started)
    if unmet:
        more = rules.on_months(start.astimezone(utc) for start in unmet)
        added = [line for rule in more for line in calendar_lines(rule, "UTC")]
        text += (
            "\n" + GAP.format(first=unmet[0]) + "\n".join(f"OnCalendar={line}" for line in added)
        )
    return text


def _event(rule: Rule, days: frozenset[int], weekdays: frozenset[int], zone: str) -> str:
    """One calendar event; lists are written out, since systemd 252 loses 00:00 of `*:00/7`."""
    named = ",".join(NAMES[day] for day in sorted(weekdays, key=lambda day: (day - 1) % 7))
    date = f"*-{_list(rule.months, MONTHS)}-{_list(days, DAYS)}"
    time = f"{_list(rule.hours, HOURS)}:{_list(rule.minutes, MINUTES)}:00"
    return f"{'' if weekdays == WEEKDAYS else named + ' '}{date} {time} {zone}"


def _list(values: Collection[int], every: frozenset[int]) -> str:
    return "*" if values == every else ",".join(f"{value:02d}" for value in sorted(values))


def _escaped(text: str) -> str:
    """Without what systemd would replace (systemd.unit(5), specifiers)."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of a command line (systemd.service(5), command lines)."""
    text = _escaped(word).replace("$", "$$")
    if text and not any(mark in text for mark in " \t\"'\\;"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
