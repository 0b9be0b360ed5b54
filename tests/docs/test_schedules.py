"""The page about schedules shows what the command prints, and its tables are true."""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime, timedelta
from json import loads
from typing import TYPE_CHECKING, Any

import pytest
from croniter import croniter
from cronsim import CronSim

import duly
from duly import zones
from duly._core.resolve import nominal_time
from tests.core.test_on_calendar_text import needs_analyze
from tests.docs import shell, terminal
from tests.docs.pages import DOCS, ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = DOCS / "schedules.md"
TEXT = PAGE.read_text("utf-8")
FOUND = blocks(PAGE)
# The page's job without a schedule: not worth a block, but refused in a table.
BY_NAME = """
@app.job("by-name")
def by_name(run): ...
"""
SPRING, AUTUMN = "2026-03-29", "2026-10-25"


def table(header: str) -> list[list[str]]:
    """The cells of the rows below *header*."""
    _, found, rest = TEXT.partition(header + "\n")
    assert found, f"the page has lost its table {header!r}"
    rows = rest.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split(" |")] for row in rows]


def code(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with the page's file in it."""
    for block in FOUND:
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
    return tmp_path


def test_every_command_of_the_page_prints_what_it_shows(folder: Path) -> None:
    """Typed on a terminal of 80 columns, from top to bottom."""
    environment = shell.environment(folder)
    wrong, commands = [], 0
    for number, block in enumerate(FOUND):
        if block.language == "text" or block.file is not None:
            continue
        shown = FOUND[number + 1]
        assert shown.language == "text", f"line {block.line} shows no output"
        script = folder / "block.py"
        script.write_text(block.text)
        command = block.text if block.language == "sh" else f"python {script}"
        exit_code, printed = terminal.typed(command, folder, environment)
        commands += block.language == "sh"
        if exit_code or not shell.matches(shown.text, printed):
            wrong.append(f"line {block.line}: expected\n{shown.text}found\n{printed}")
    assert not wrong, "\n".join(wrong)
    assert commands == 10
    assert not (folder / "bank.db").exists(), "a schedule is shown without its database"


def test_switch_days_are_shown_under_each_rule() -> None:
    """Both days, without a rule and with each of the six."""
    commands = [block.text for block in FOUND if block.language == "sh"]
    for option, day, rules in (
        ("--gap", "--from 2026-03-28 --until 2026-03-31", ("skip", "next", "shift")),
        ("--fold", "--from 2026-10-24 --until 2026-10-27", ("first", "last", "both")),
    ):
        start = f"duly schedule '30 2 * * *' --timezone Europe/Berlin {day}"
        shown = [command.strip() for command in commands if command.startswith(start)]
        assert sorted(shown) == sorted([start, *(f"{start} {option} {rule}" for rule in rules)])


def test_refused_commands_say_what_the_table_says(folder: Path) -> None:
    """One line, exit 2."""
    rows = table("| command | message |")
    with (folder / "jobs.py").open("a") as file:
        file.write(BY_NAME)
    environment = shell.environment(folder)
    wrong = []
    for command, message in rows:
        [typed], [said] = code(command), code(message)
        done = subprocess.run(
            ["bash", "-c", typed],  # noqa: S607
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        ended = (done.returncode, done.stdout)
        if ended != (2, "") or not shell.matches(f"duly: error: {said}", done.stderr):
            wrong.append(f"{typed}: {ended} {done.stderr}")
    assert len(rows) == 10
    assert not wrong, "\n".join(wrong)


# ----------------------------------------------------------------------------- the switch elsewhere


def instants(schedule: Any, day: str) -> list[str]:
    """The nominal times of a UTC day, as the table writes them."""
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    return [f"{at:%H:%M}Z" for at in schedule.between(start, start + timedelta(days=1))]


ELSEWHERE = table("| starter | 29 March 2026 | 25 October 2026 | the same in duly |")


@pytest.mark.parametrize("row", ELSEWHERE, ids=lambda row: row[0])
def test_rule_named_beside_a_starter_gives_its_instants(row: list[str]) -> None:
    """`none` is an empty day."""
    rule = dict(re.findall(r'(gap|fold)="(\w+)"', row[3]))
    schedule: Any = duly.Cron("30 2 * * *", "Europe/Berlin", **rule)

    for day, cell in ((SPRING, row[1]), (AUTUMN, row[2])):
        assert ", ".join(instants(schedule, day)) == cell.replace("none", "")


def said_of(starter: str) -> tuple[str, str]:
    [row] = [row for row in ELSEWHERE if row[0].startswith(starter)]
    return row[1], row[2]


def found_by(next_one: Any) -> list[str]:
    """The instants within the UTC day that a library's iterator gives."""
    found = []
    for day in (SPRING, AUTUMN):
        start = datetime.fromisoformat(day).replace(tzinfo=UTC)
        local = (start - timedelta(hours=1)).astimezone(zones.load("Europe/Berlin"))
        times, after = [], next_one(local)
        for _ in range(4):
            at = next(after).astimezone(UTC)
            if start <= at < start + timedelta(days=1):
                times.append(f"{at:%H:%M}Z")
        found.append(", ".join(times) or "none")
    return found


def test_croniter_does_what_the_table_says() -> None:
    def after(local: datetime) -> Any:
        walk = croniter("30 2 * * *", local)
        return (walk.get_next(datetime) for _ in range(9))

    assert found_by(after) == list(said_of("croniter"))


def test_cron_does_what_the_table_says_by_the_library_that_copies_debians() -> None:
    """It is written after Debian's cron, and tested against it."""
    assert found_by(lambda local: CronSim("30 2 * * *", local)) == list(said_of("cron ("))


@needs_analyze
def test_systemd_does_what_the_table_says() -> None:
    for day, said in zip((SPRING, AUTUMN), said_of("systemd"), strict=True):
        done = subprocess.run(
            ["systemd-analyze", "calendar", "--iterations=3",  # noqa: S607
             f"--base-time={day} 00:00:00 UTC", "*-*-* 02:30:00 Europe/Berlin"],
            capture_output=True, text=True, check=True, env={"TZ": "UTC", "LC_ALL": "C"},
        )  # fmt: skip
        elapses = re.findall(rf"(?:elapse|#\d): \w+ {day} (\d\d:\d\d):00 UTC", done.stdout)
        assert "elapse" in done.stdout
        assert ", ".join(f"{each}Z" for each in elapses) == said.replace("none", "")


# ------------------------------------------------------------------------------------ other tables


def test_default_rules_are_those_of_the_table() -> None:
    rows = table("| kind | `gap` | `fold` |")
    made: list[list[Any]] = [
        [duly.Cron("30 2 * * *"), duly.OnCalendar("02:30"), duly.OnCalendar("daily")],
        [
            duly.Cron("*/15 2 * * *"),
            duly.Cron("0 * * * *"),
            duly.Cron("* 0 2 * * *"),
            duly.OnCalendar("*:00/15"),
            duly.OnCalendar("00/2:00"),
        ],
        [duly.RRule("FREQ=DAILY", start="2026-01-01T02:30:00")],
        [duly.Dates(["2026-01-01"], at="02:30")],
    ]
    for row, schedules in zip(rows, made, strict=False):
        for schedule in schedules:
            assert [[schedule.gap], [schedule.fold]] == [code(row[1]), code(row[2])], schedule
    within = duly.BusinessDays(duly.Cron("0 9 * * *", gap="shift", fold="last"), calendar="DE")
    assert len(rows) == 5
    assert (within.gap, within.fold) == ("shift", "last")


def test_kinds_of_the_table_are_all_there_are() -> None:
    """Each is public; and each that `from_text` reads, but for periods, stands in the table."""
    named = [code(row[0])[0] for row in table("| kind | example | counts |")]
    homes = {module.rpartition(".")[2] for module in duly.schedules.KINDS.values()}

    assert all(hasattr(duly, name) for name in named)
    assert len(named) == len(homes - {"period"})


def test_examples_in_the_text_are_true() -> None:
    """What the prose says of single expressions."""
    year = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    fridays = list(duly.Cron("0 0 */2 * FRI").between(*year))
    assert {(at.weekday(), at.day % 2) for at in fridays} == {(4, 1)}
    either = list(duly.Cron("0 0 13 * FRI").between(*year))
    assert {at.weekday() == 4 or at.day == 13 for at in either} == {True}
    assert {(at.day == 13, at.weekday() == 4) for at in either} > {(True, False), (False, True)}
    monthly = duly.RRule("FREQ=MONTHLY;BYMONTHDAY=31", start="2026-01-31T09:00:00")
    assert len(list(monthly.between(*year))) == 7
    for refused in ("0 22-4 * * *", "5/15 * * * *", "@reboot", "TZ=UTC 0 0 * * *"):
        with pytest.raises(duly.ScheduleInvalid):
            duly.Cron(refused)
    assert "2026-01-01 00:00" in str(duly.OnCalendar("*:00/7").next(year[0] - timedelta(minutes=2)))


def test_date_names_the_occurrence_of_the_pages_job(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credit of 28 March is due on the 29th, and is named by the 28th."""
    monkeypatch.chdir(folder)
    space: dict[str, Any] = {}
    exec((folder / "jobs.py").read_text(), space)  # noqa: S102 - the page's own text
    [job] = space["app"].jobs.values()
    found = nominal_time(
        "2026-03-28", job.schedule, zone=job.zone, now=datetime(2026, 4, 1, tzinfo=UTC)
    )
    assert found.time == datetime(2026, 3, 27, 23, tzinfo=UTC)
    assert found.due_at == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_releases_of_zone_data_that_the_text_compares_differ_so() -> None:
    """Vancouver, as the vectors have it by both releases."""
    data = ROOT / "tests" / "core" / "data" / "dst.json"
    [row] = [
        each for each in loads(data.read_text("utf-8"))["other"] if each["id"] == "tz-vancouver"
    ]
    november = row["input"]["walls"].index("2026-11-02T09:00:00")
    for release, instant in (("2025b", "17:00Z"), ("2026f", "16:00Z")):
        assert row["expect"][release][november] == [f"2026-11-02T{instant[:-1]}:00Z"]
        assert re.search(rf"{instant}\b[^.]*\b{release}", " ".join(TEXT.split()))


def test_period_protects_a_day_from_an_edit_of_its_time() -> None:
    """The two schedules of the page, on one day: two nominal times, or one."""
    app = duly.App("sqlite:///absent.db")
    keys: dict[bool, set[datetime]] = {True: set(), False: set()}
    for number, text in enumerate(("15 1 * * *", "15 2 * * *")):
        for period in (True, False):
            more: dict[str, Any] = {"period": "day"} if period else {}
            app.job(f"job-{number}-{period}".lower(), schedule=text, **more)(lambda _run: None)
            schedule = app.jobs[f"job-{number}-{period}".lower()].schedule
            assert schedule is not None
            day = datetime(2026, 9, 13, tzinfo=UTC)
            keys[period] |= set(schedule.between(day, day + timedelta(days=1)))
    assert [len(keys[True]), len(keys[False])] == [1, 2]
