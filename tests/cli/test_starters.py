"""`duly run` without `--at`: what it was started for, and how late, is the starter's word."""

from __future__ import annotations

import re
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly._core.jitter import delay
from duly._core.occurrence import Occurrence

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Bank, Duly

MIDNIGHT = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAY = MIDNIGHT - timedelta(days=4)
# A CronJob names its Jobs by the minutes since 1970.
NAME = f"daily-credit-{int(DAY.timestamp()) // 60}"


def text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


KEY = f"daily-credit:{text(DAY)}"


@pytest.fixture(autouse=True)
def _no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("INVOCATION_ID", "TRIGGER_UNIT", "TRIGGER_TIMER_REALTIME_USEC"):
        monkeypatch.delenv(variable, raising=False)


def test_run_in_a_pod_means_the_time_that_the_job_name_says(
    file_bank: Bank, duly: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that is run again days later is for its own day, and says how late it is."""
    monkeypatch.setenv("DULY_KUBERNETES_JOB_NAME", NAME)

    ended = duly("--app", file_bank.app, "run", "daily-credit")
    as_json = duly("--app", file_bank.app, "run", "daily-credit", "--json").json
    history = duly("--app", file_bank.app, "history", "daily-credit", "--json").json

    assert ended.code == 0, ended.err
    assert re.match(rf"applied {KEY}  attempt \S+ in .*, \d+ [a-z]+ \d+ [a-z]+ late  ", ended.out)
    assert (as_json["outcome"], as_json["source"]) == ("duplicate", "kubernetes")
    assert as_json["late_s"] > 86_400
    assert history["attempts"][0]["source"] == "kubernetes"
    assert history["attempts"][0]["started_by"].startswith("kubernetes:")


def test_run_with_at_does_not_listen_to_a_starter(
    file_bank: Bank, duly: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person's word stands, even where a variable of a starter cannot be read."""
    monkeypatch.setenv("DULY_KUBERNETES_JOB_NAME", "made-by-hand")

    ended = duly("--app", file_bank.app, "run", "daily-credit", "--at", "2026-09-13", "--json")

    assert ended.code == 0, ended.err
    assert ended.json["key"] == "daily-credit:2026-09-13T00:00:00Z"
    assert ended.json["source"] == "explicit"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"DULY_KUBERNETES_JOB_NAME": "made-by-hand"}, ["made-by-hand", "give --at"]),
        ({"DULY_KUBERNETES_JOB_NAME": "nightly-20260913"}, ["days ago", "give --at"]),
        ({"DULY_SCHEDULED_TIME": "yesterday"}, ["DULY_SCHEDULED_TIME", "yesterday"]),
        ({"DULY_SCHEDULED_TIME": "2026-11-29T00:00:00"}, ["DULY_SCHEDULED_TIME", "offset"]),
        (
            {
                "DULY_KUBERNETES_JOB_NAME": NAME,
                "DULY_SCHEDULED_TIME": text(DAY + timedelta(days=1)),
            },
            [text(DAY), text(DAY + timedelta(days=1)), "give --at"],
        ),
        ({"DULY_SCHEDULED_TIME": "2999-01-01T00:00:00Z"}, ["is in the future"]),
    ],
)
def test_starter_that_cannot_be_understood_is_refused_not_ignored(
    file_bank: Bank,
    duly: Duly,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    words: list[str],
) -> None:
    """One line names the variable, its value and the next step; nothing is started."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    ended = duly("--app", file_bank.app, "run", "daily-credit")

    assert ended.code == 2
    assert ended.err.count("\n") == 1
    for word in words:
        assert word in ended.err
    assert file_bank.units() == 0


def test_two_starters_that_mean_one_nominal_time_agree(
    file_bank: Bank, duly: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the floor that must agree, not the instant."""
    monkeypatch.setenv("DULY_KUBERNETES_JOB_NAME", NAME)
    monkeypatch.setenv("DULY_SCHEDULED_TIME", text(DAY + timedelta(hours=5)))

    ended = duly("--app", file_bank.app, "run", "daily-credit", "--json")

    assert ended.json["key"] == KEY
    assert ended.json["source"] == "kubernetes"


def test_systemd_says_no_time_but_is_named_as_the_starter(
    file_bank: Bank, duly: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the trigger, which systemd freezes, is not taken for the nominal time."""
    monkeypatch.setenv("INVOCATION_ID", "0" * 32)
    monkeypatch.setenv("TRIGGER_UNIT", "daily.timer")
    monkeypatch.setenv("TRIGGER_TIMER_REALTIME_USEC", "1700000000000000")

    ended = duly("--app", file_bank.app, "run", "hourly", "--json")
    history = duly("--app", file_bank.app, "history", "hourly", "--json").json

    assert ended.json["source"] == "schedule"
    assert 0 <= ended.json["late_s"] < 3_700
    assert history["attempts"][0]["started_by"].startswith("systemd:")


JITTERED = """
import datetime
import duly

app = duly.App("sqlite:///test.db")
anchor = datetime.datetime.fromisoformat({anchor!r})
every_month = duly.Every(datetime.timedelta(days=30), anchor=anchor)

@app.job("spread", schedule=every_month, jitter=datetime.timedelta(days=40))
def spread(run):
    run.execute("UPDATE balance SET units = units + 1 WHERE id = 1")
"""


def test_jitter_puts_a_start_off_and_a_stop_ends_the_wait(
    file_bank: Bank, duly_process: Callable[..., Any]
) -> None:
    """Nothing is begun while it waits; SIGTERM ends it at once and leaves the key free."""
    anchor = datetime.now(UTC).replace(microsecond=0)
    (file_bank.folder / "spreading.py").write_text(JITTERED.format(anchor=anchor.isoformat()))
    # A start that is put off by days: this test does not wait for one.
    partition = next(
        name
        for name in map(str, range(1_000))
        if delay(
            Occurrence("spread", anchor, name).key,
            timedelta(days=40),
            due=anchor,
            next_due=anchor + timedelta(days=30),
        )
        > timedelta(days=3)
    )
    process = duly_process("--app", "spreading:app", "run", "spread", "--partition", partition)
    line = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=20)

    assert re.fullmatch(rf"duly: jitter puts spread:\S+:{partition} off by \d+ d \d+ h\n", line)
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in error
    assert file_bank.units() == 0


def test_jitter_does_not_put_off_what_a_person_starts(file_bank: Bank, duly: Duly) -> None:
    """With `--at` a start is made at once."""
    module = JITTERED.format(anchor="2026-09-01T00:00:00+00:00")
    (file_bank.folder / "jobs_spread.py").write_text(module)

    ended = duly("--app", "jobs_spread:app", "run", "spread", "--at", "2026-09-01")

    assert ended.code == 0, ended.err
    assert ended.err == ""
    assert file_bank.units() == 1
