"""Detecting: who is asked, in which order, and what several say together."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import zones
from duly._core.resolve import Nominal, nominal_time
from duly._core.start import Start
from duly.errors import NotDue, StartInvalid, UsageError
from duly.schedules import Cron
from duly.triggers.detect import STARTERS, detect, settle

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "core" / "data" / "dst.json"
VECTORS = {row["id"]: row for row in json.loads(DATA.read_text("utf-8"))["other"]}
NIGHTLY = Cron("30 2 * * *", "Europe/Berlin")
BERLIN = zones.load("Europe/Berlin")
NOW = datetime(2026, 10, 26, tzinfo=UTC)

ALL = {
    "DULY_KUBERNETES_JOB_NAME": "backup-29579100",
    "AIRFLOW_CTX_LOGICAL_DATE": "2026-03-29T01:00:00+00:00",
    "DULY_EVENTBRIDGE_SCHEDULED_TIME": "2026-03-29T01:00:00Z",
    "DULY_SCHEDULED_TIME": "2026-03-29T03:00:00+02:00",
    "INVOCATION_ID": "0" * 32,
    "TRIGGER_UNIT": "backup.timer",
}
CRON = {"HOME": "x", "LOGNAME": "ann", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
VARIABLES = [name for names in STARTERS.values() for name in names]

# What a variable may hold: any text, and text that is nearly right.
times = st.builds(
    "{}{}{}".format,
    st.datetimes().map(lambda wall: wall.isoformat(timespec="seconds")),
    st.sampled_from(["", ".5", ".000000", ".123456789", ".1234567890", "."]),
    st.sampled_from(["Z", "+02:00", "-23:59", "+24:00", "", "z", " "]),
)
jobs = st.builds("{}-{}".format, st.text(max_size=5) | st.just("backup"), st.integers(0, 10**12))
texts = st.text(max_size=80) | jobs | times
environments = st.dictionaries(
    st.sampled_from([*VARIABLES, "INVOCATION_ID"]), texts, min_size=1, max_size=3
)


def floor(start: Start) -> datetime:
    return nominal_time(start, NIGHTLY, zone=BERLIN, now=NOW).time


def or_refused(reading: Callable[[], Any]) -> Any:
    """What *reading* gives; the error if it refuses as a usage error."""
    try:
        return reading()
    except UsageError as error:
        return error


def start_of(starter: str, text: str | None) -> Start:
    at = None if text is None else datetime.fromisoformat(text)
    return Start(starter, at, f"{starter.upper()}={text}")


# ------------------------------------------------------------------------------------------- detect


def test_starters_are_found_in_the_stated_order_whatever_the_order_of_the_environment() -> None:
    """Those without an instant are there too."""
    for environ in (ALL, dict(reversed(ALL.items()))):
        found = detect({**CRON, **environ})

        assert [start.starter for start in found] == [
            "kubernetes",
            "airflow",
            "eventbridge",
            "environment",
            "systemd",
        ]
        at = datetime(2026, 3, 29, 1, tzinfo=UTC)
        assert [start.at for start in found] == [at, at, at, at, None]


def test_cron_and_a_shell_say_nothing() -> None:
    """Their environment has nothing of a schedule's."""
    assert detect(CRON) == ()
    assert detect({}) == ()


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_variable_that_calls_for_a_file_is_read_by_it(variable: str) -> None:
    """Each alone is a start, or is refused by its name: none is ignored."""
    for value in ("x", ""):
        environ = {variable: value, "INVOCATION_ID": "0" * 32}
        found = or_refused(partial(detect, environ))
        if isinstance(found, StartInvalid):
            assert found.message.startswith(variable)
        else:
            assert [start.said for start in found] == [f"{variable}='{value}'"]


@pytest.mark.parametrize("starter", STARTERS)
def test_variable_that_a_file_reads_calls_for_it(starter: str) -> None:
    """A file whose variable is not listed would never be asked."""
    module = import_module(f"duly.triggers.{starter}")
    asked: set[str] = set()

    class Watched(dict[str, str]):
        def get(self, name: str, default: object = None) -> None:  # type: ignore[override]
            asked.add(name)

        def __contains__(self, name: object) -> bool:
            asked.add(str(name))
            return name == "INVOCATION_ID"

    assert module.read_environment(Watched()) is None
    assert asked - {"INVOCATION_ID"} == set(STARTERS[starter])


@settings(deadline=None)
@given(environments)
def test_any_text_gives_starts_or_one_line_that_names_the_variable(
    environ: dict[str, str],
) -> None:
    """Whatever stands there: no other error, no line break, nothing long."""
    found = or_refused(lambda: detect(environ))

    if isinstance(found, UsageError):
        assert type(found) is StartInvalid
        assert any(name in found.message for name in environ)
        assert found.message.isprintable()
        assert len(found.message) < 500
        assert "--at" in found.message
    else:
        for start in found:
            assert start.said.isprintable()
            assert len(start.said) < 300
            assert start.at is None or start.at.tzinfo is UTC


@settings(deadline=None)
@given(environments)
def test_any_text_resolves_or_is_refused_as_a_usage_error(environ: dict[str, str]) -> None:
    """What was read is fit for the resolver: a nominal time that is due, or one clear line."""

    def resolved() -> Nominal:
        return nominal_time(settle(detect(environ), floor), NIGHTLY, zone=BERLIN, now=NOW)

    found = or_refused(resolved)

    if isinstance(found, UsageError):
        assert found.message.isprintable()
    else:
        assert found.due_at <= NOW


@pytest.mark.parametrize("value", ["2026-03-29T01:00:00Z", "2026-03-29T01:00:00.0000004Z"])
def test_scheduled_time_is_taken_from_any_starter(value: str) -> None:
    """.NET writes seven digits of fraction and Go nine."""
    (start,) = detect({"DULY_SCHEDULED_TIME": value})

    assert start == Start(
        "environment", datetime(2026, 3, 29, 1, tzinfo=UTC), f"DULY_SCHEDULED_TIME='{value}'"
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "is empty; unset it"),
        ("2026-03-29", "is not RFC 3339 text"),
        ("2026-03-29T01:00:00", "has no offset"),
        ("2026-03-29 01:00:00+00:00", "separates date and time by a space"),
        ("2026-03-29T01:00:00.0000000001Z", "has more than six digits"),
        ("1774746000", "is not RFC 3339 text"),
    ],
)
def test_scheduled_time_that_does_not_parse_says_what_to_write(value: str, why: str) -> None:
    """It is refused, not ignored: silence would give the newest due, perhaps another period."""
    with pytest.raises(StartInvalid) as caught:
        detect({"DULY_SCHEDULED_TIME": value})

    assert caught.value.message.startswith(f"DULY_SCHEDULED_TIME {value!r} {why}")
    assert caught.value.message.endswith(", or give --at the time that is meant")


def test_value_that_is_long_and_hostile_is_shortened() -> None:
    """A message stays one short line."""
    with pytest.raises(StartInvalid) as caught:
        detect({"DULY_SCHEDULED_TIME": "\x1b[2J\n" * 10_000})

    assert caught.value.message.isprintable()
    assert "(50000 characters)" in caught.value.message


# ------------------------------------------------------------------------------------------ systemd


@pytest.mark.parametrize(
    "environ",
    [
        {"TRIGGER_UNIT": "backup.timer"},
        {"TRIGGER_TIMER_REALTIME_USEC": "1774746047000000"},
        {"TRIGGER_UNIT": "backup.timer", "TRIGGER_TIMER_REALTIME_USEC": "no number"},
    ],
)
def test_systemd_says_that_it_is_at_work_and_no_instant(environ: dict[str, str]) -> None:
    """The time that the timer elapsed is not read, so not even refused."""
    (start,) = detect({"INVOCATION_ID": "0" * 32, **environ})

    assert (start.starter, start.at) == ("systemd", None)


def test_service_of_systemd_without_a_timer_is_no_start() -> None:
    """Every service has an invocation id."""
    assert detect({"INVOCATION_ID": "0" * 32}) == ()
    assert detect({"TRIGGER_UNIT": "backup.timer"}) == ()


def test_res_gap_systemd_skips() -> None:
    """A timer that skipped a gap, with a frozen trigger, means the newest due all the same."""
    row = VECTORS["res-gap-systemd-skips"]
    environ = {"INVOCATION_ID": "0" * 32, "TRIGGER_TIMER_REALTIME_USEC": "1774661400000000"}
    schedule = Cron(row["input"]["expr"], row["input"]["zone"])

    found = nominal_time(
        settle(detect(environ), floor),
        schedule,
        zone=BERLIN,
        now=datetime.fromisoformat(row["input"]["actual"]),
        tolerance=timedelta(seconds=row["input"]["early_tolerance_s"]),
    )

    expected = datetime.fromisoformat(row["expect"]["nominal"])
    assert found == Nominal(expected, "schedule", expected)


# ------------------------------------------------------------------------------------------- settle


def test_several_that_floor_to_one_nominal_time_agree_on_the_first() -> None:
    """The second 02:30 of a fold and a start a minute late mean the same occurrence."""
    starts = [
        start_of("systemd", None),
        start_of("kubernetes", "2026-10-25T01:30:00Z"),
        start_of("environment", "2026-10-25T00:30:47Z"),
    ]

    assert settle(starts, floor) is starts[1]


@pytest.mark.parametrize("third", [False, True])
def test_two_that_floor_to_different_nominal_times_are_refused_with_both(third: bool) -> None:
    """A person says which; nobody's order decides it silently."""
    starts = [start_of("kubernetes", "2026-10-25T01:30:00Z")]
    if third:
        starts.append(start_of("airflow", "2026-10-25T00:30:00Z"))
    starts.append(start_of("environment", "2026-10-24T00:30:00Z"))

    with pytest.raises(StartInvalid) as caught:
        settle(starts, floor)

    assert caught.value.message == (
        "KUBERNETES=2026-10-25T01:30:00Z means 2026-10-25T00:30:00Z, but "
        "ENVIRONMENT=2026-10-24T00:30:00Z means 2026-10-24T00:30:00Z; "
        "give --at the one that is meant"
    )
    assert caught.value.details == {"starters": ["kubernetes", "environment"]}


def test_one_that_speaks_is_not_floored_to_be_compared() -> None:
    """The resolver floors it once, with its own errors."""

    def never(start: Start) -> datetime:
        raise AssertionError(start)

    silent, speaking = start_of("systemd", None), start_of("environment", "2026-10-25T00:30:00Z")
    assert settle([silent, speaking], never) is speaking
    assert settle([silent], never) is silent
    assert settle([], never) is None


def test_one_that_cannot_be_floored_is_refused_by_the_resolver() -> None:
    """What flooring says goes through: a start in the future is not outvoted."""
    starts = [
        start_of("kubernetes", "2026-10-25T00:30:00Z"),
        start_of("environment", "2027-10-25T00:30:00Z"),
    ]

    with pytest.raises(NotDue, match="ENVIRONMENT=2027"):
        settle(starts, floor)


# ------------------------------------------------------------------------------------------ imports


def test_detecting_nothing_imports_nothing() -> None:
    """`duly run` pays every minute for what is imported; cron's start needs no starter's file."""
    code = (
        "import sys; from duly.triggers.detect import detect, settle; before = set(sys.modules)\n"
        f"assert settle(detect({CRON!r}), None) is None\n"
        "print(sorted(set(sys.modules) - before), [m for m in sys.modules if 'duly.' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[] ['duly.triggers', 'duly.triggers.detect']"


def test_detecting_one_starter_imports_its_file_alone() -> None:
    """The others stay unread."""
    code = (
        "import sys; from duly.triggers.detect import detect\n"
        "detect({'DULY_SCHEDULED_TIME': '2026-03-29T01:00:00Z'})\n"
        "print(sorted(m for m in sys.modules if m.startswith('duly.triggers.')),"
        " 'zoneinfo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == (
        "['duly.triggers.detect', 'duly.triggers.environment', 'duly.triggers.reading'] False"
    )
