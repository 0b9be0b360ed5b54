"""`duly schedule`: what a person is shown, in each form, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from holidays.version import __version__ as holidays_version

from duly import BusinessDays, Dates, OnCalendar, RRule, zones
from duly._cli import cron_words
from duly._cli.schedule_words import length
from duly.schedules import Cron, Every
from tests.docs import terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Duly, Ended

JOBS = """
from datetime import UTC, datetime, timedelta
import duly

app = duly.App("sqlite:///absent.db")

@app.job("nightly", schedule="30 2 * * *", timezone="Europe/Berlin")
def nightly(run): ...

@app.job("credit", schedule="15 2 * * *", timezone="Europe/Berlin", period="day",
         period_offset=-1, jitter=timedelta(minutes=5))
def credit(run): ...

ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)

@app.job("sampled", schedule=duly.Every(timedelta(hours=6), anchor=ANCHOR), timezone="Asia/Tokyo")
def sampled(run): ...

@app.job("by-name")
def by_name(run): ...
"""
BERLIN = ["--timezone", "Europe/Berlin"]
GAP = ["--from", "2026-03-28", "--until", "2026-03-31"]
FOLD = ["--from", "2026-10-24", "--until", "2026-10-27"]
CANONICAL = "cron 30 2 * * *; zone=Europe/Berlin; gap=skip; fold=both"


@pytest.fixture
def app(tmp_path: Path) -> str:
    """Jobs on a database that is not there: no schedule is asked of it."""
    (tmp_path / "jobs_of_schedules.py").write_text(JOBS)
    return "jobs_of_schedules:app"


def head(ended: Ended) -> dict[str, str]:
    """The lines above the rows in a pipe, by their label."""
    assert ended.code == 0, ended
    lines = [line for line in ended.out.splitlines() if re.match(r"# \w+: ", line)]
    return dict(line[2:].split(": ", 1) for line in lines)


def rows(ended: Ended) -> list[dict[str, str]]:
    """The rows of a pipe, by the header's words."""
    assert ended.code == 0, ended
    header, *found = (line for line in ended.out.splitlines() if not line.startswith("#"))
    names = header.split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in found]


def refused(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended
    assert ended.out == ""
    assert ended.err.startswith("duly: error: ")
    assert ended.err.count("\n") == 1
    for word in words:
        assert word in ended.err


# ---------------------------------------------------------------------------------- what it shows


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ([], [("01:00:00Z", "03:00", "02:30 does not exist, moved to 03:00")]),
        (["--gap", "next"], [("01:00:00Z", "03:00", "02:30 does not exist, moved to 03:00")]),
        (["--gap", "shift"], [("01:30:00Z", "03:30", "02:30 does not exist, moved to 03:30")]),
        (["--gap", "skip"], [("", "02:30", "02:30 does not exist, not run")]),
    ],
)
def test_gap_is_shown_under_each_rule(
    duly: Duly, rule: list[str], expected: list[tuple[str, str, str]]
) -> None:
    """The day of the switch is there, run or not, and says what happened."""
    found = rows(duly("schedule", "30 2 * * *", *BERLIN, *GAP, *rule))

    assert [row["local time"][:14] for row in found] == [
        "Sat 2026-03-28", "Sun 2026-03-29", "Mon 2026-03-30",
    ]  # fmt: skip
    assert [
        (row["nominal time"][11:], row["local time"][15:], row["note"]) for row in found[1:2]
    ] == expected
    assert [row["note"] for row in (found[0], found[2])] == ["", ""]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ([], [("00:30:00Z", "this is the first; the second at 01:30Z is not run")]),
        (["--fold", "last"], [("01:30:00Z", "this is the second; the first at 00:30Z is not run")]),
        (
            ["--fold", "both"],
            [("00:30:00Z", "this is the first"), ("01:30:00Z", "this is the second")],
        ),
    ],
)
def test_repeated_hour_is_shown_under_each_rule(
    duly: Duly, rule: list[str], expected: list[tuple[str, str]]
) -> None:
    """Which of the two runs, and where the other one is."""
    found = rows(duly("schedule", "30 2 * * *", *BERLIN, *FOLD, *rule))

    noted = [(row["nominal time"][11:], row["note"]) for row in found if row["note"]]
    assert noted == [(at, f"02:30 comes twice, {note}") for at, note in expected]


def test_head_says_the_schedule_its_zone_and_its_rules_in_words(duly: Duly) -> None:
    assert head(duly("schedule", "30 2 * * *", *BERLIN)) == {
        "words": "At 02:30",
        "text": "cron 30 2 * * *; zone=Europe/Berlin; gap=next; fold=first",
        "zone": f"Europe/Berlin, by tzdata {zones.data_version()}",
        "gap": "a time that does not exist runs at the first instant after the gap",
        "fold": "a time that comes twice runs the first time only",
    }


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        ("skip", "only on business days"),
        ("next", "a day that is no business day moves to the next one"),
        ("previous", "a day that is no business day moves to the one before"),
    ],
)
def test_head_says_where_other_days_go_and_by_which_calendar(
    duly: Duly, shift: str, words: str
) -> None:
    """Also by which release: what it expects of coming years can change."""
    text = f"business DE {shift}; of=cron 0 9 1 * *; zone=UTC; gap=next; fold=first"
    found = head(duly("schedule", text, "--from", "2026-01-01", "--count", "1"))

    assert found["words"] == "At 09:00, on day 1 of the month"
    assert found["business"] == f"{words}; calendar DE, by holidays {holidays_version}"


def test_row_has_clock_offset_and_interval(duly: Duly) -> None:
    """What the key says, what the wall clock says, and what it is about."""
    found = rows(duly("schedule", "0 9 * * *", *BERLIN, *GAP))

    assert found[1] == {
        "nominal time": "2026-03-29T07:00:00Z",
        "due at": "2026-03-29T07:00:00Z",
        "local time": "Sun 2026-03-29 09:00",
        "offset": "+02:00",
        "interval from": "2026-03-28T08:00:00Z",
        "interval": "23 h",
        "note": "",
    }


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        ("America/New_York", "-05:00"),
        ("America/St_Johns", "-03:30"),
        ("Asia/Kathmandu", "+05:45"),
        ("UTC", "+00:00"),
    ],
)
def test_offset_has_its_sign_and_its_minutes(duly: Duly, zone: str, offset: str) -> None:
    [row] = rows(
        duly("schedule", "@daily", "--timezone", zone, "--from", "2026-01-10", "--count", "1")
    )
    assert (row["local time"], row["offset"]) == ("Sat 2026-01-10 00:00", offset)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@daily", "2026-03-28T00:00:00Z"),
        ("  30 2 * * *  ", "2026-03-28T02:30:00Z"),
        (CANONICAL, "2026-03-28T01:30:00Z"),
        ("every 5400s; anchor=2026-03-28T00:10:00Z", "2026-03-28T00:10:00Z"),
        (Dates(["2026-03-28T05:00:00+02:00"]).text, "2026-03-28T03:00:00Z"),
        (Dates(["2026-03-29"], at="02:30", timezone="Europe/Berlin").text,
         "2026-03-29T01:00:00Z"),
        (OnCalendar("Mon..Fri 09:00 Europe/Berlin").text, "2026-03-30T07:00:00Z"),
        (RRule("FREQ=MONTHLY", start="2026-01-31T09:00:00").text, "2026-03-31T09:00:00Z"),
        (BusinessDays("0 9 * * *", calendar="DE").text, "2026-03-30T09:00:00Z"),
        (f"period day 0; zone=Europe/Berlin; of={CANONICAL}".replace("both", "first"),
         "2026-03-27T23:00:00Z"),
    ],
)  # fmt: skip
def test_text_of_each_kind_needs_no_app(duly: Duly, text: str, expected: str) -> None:
    """Cron text, a word, and the canonical text of any kind."""
    ended = duly("schedule", text, "--from", "2026-03-28", "--count", "1")

    assert [row["nominal time"] for row in rows(ended)] == [expected]


def test_job_is_shown_by_its_own_definition_without_its_database(duly: Duly, app: str) -> None:
    """Period, jitter, due time: nothing is opened, and no file is made."""
    ended = duly("--app", app, "schedule", "credit", "--from", "2026-03-28", "--count", "1")

    found = head(ended)
    assert (found["job"], found["words"]) == ("credit", "At 02:15")
    assert found["period"] == "each is for the day before the one that its due time lies in"
    assert found["jitter"] == "a start is put off by up to 5 min"
    assert rows(ended) == [
        {
            "nominal time": "2026-03-27T23:00:00Z",
            "due at": "2026-03-29T01:00:00Z",
            "local time": "Sat 2026-03-28 00:00",
            "offset": "+01:00",
            "interval from": "2026-03-27T23:00:00Z",
            "interval": "24 h",
            "note": "due time: 2026-03-29 02:15 does not exist, moved to 03:00",
        }
    ]
    assert not os.path.exists("absent.db")


def test_elapsed_interval_is_shown_on_the_clock_of_its_job(duly: Duly, app: str) -> None:
    """It has no zone of its own, and no rule at a switch."""
    ended = duly("--app", app, "schedule", "sampled", "--from", "2026-03-28", "--count", "1")

    assert {"gap", "fold", "words"}.isdisjoint(head(ended))
    assert [row["local time"] for row in rows(ended)] == ["Sat 2026-03-28 03:00"]
    alone = duly("schedule", "every 3600s; anchor=2026-01-01T00:00:00Z", *BERLIN, *GAP)
    assert {row["offset"] for row in rows(alone)} == {"+01:00"}


def test_period_start_that_a_switch_moves_is_called_a_start(duly: Duly) -> None:
    """Midnight is missing in Sao Paulo: the day starts at 01:00, whenever it is due."""
    text = "period day 0; zone=America/Sao_Paulo; of=cron 0 6 * * *; zone=America/Sao_Paulo;"
    ended = duly("schedule", f"{text} gap=next; fold=first", "--from", "2018-11-04", "--count", "1")
    assert [row["note"] for row in rows(ended)] == ["00:00 does not exist, the day starts at 01:00"]


def test_date_is_read_in_the_schedules_zone_and_until_is_left_out(duly: Duly) -> None:
    """A date is its first instant there; an instant is itself."""
    for bounds in (GAP, ["--from", "2026-03-27T23:00:00Z", "--until", "2026-03-31T00:00:00+02:00"]):
        found = rows(duly("schedule", "0 0 * * *", *BERLIN, *bounds))
        assert [row["local time"] for row in found] == [
            "Sat 2026-03-28 00:00", "Sun 2026-03-29 00:00", "Mon 2026-03-30 00:00",
        ]  # fmt: skip


def test_first_row_is_the_next_one_by_this_hosts_clock(duly: Duly) -> None:
    """Without --from, nothing that has passed is shown."""
    before = datetime.now(UTC)
    [row] = rows(duly("schedule", "* * * * *", "--count", "1"))
    after = datetime.now(UTC)

    found = datetime.fromisoformat(row["nominal time"])
    assert before <= found <= after + timedelta(seconds=61)


def test_rows_are_at_most_as_many_as_asked(duly: Duly) -> None:
    assert len(rows(duly("schedule", "* * * * *"))) == 10
    assert len(rows(duly("schedule", "* * * * *", "--count", "1000"))) == 1000
    daily = ["schedule", "@daily", *GAP, "--json", "--count"]
    assert [duly(*daily, count).json["more"] for count in ("2", "3", "4")] == [True, False, False]


def test_schedule_ends_with_the_calendar_and_says_so(duly: Duly) -> None:
    """Past the year 9999 there is nothing, which is an answer and no error."""
    ended = duly("schedule", "@daily", "--from", "9999-12-30T12:00:00Z")

    assert [row["nominal time"] for row in rows(ended)] == ["9999-12-31T00:00:00Z"]
    assert "up to the year 9999, where the calendar ends" in ended.out.splitlines()[-1]
    assert duly("schedule", "@daily", "--from", "9999-12-30", "--json").json["more"] is False
    asked = duly("schedule", "@daily", "--from", "9999-12-30", "--count", "2")
    assert "9999, where" in asked.out
    assert "9999, where" not in duly("schedule", "@daily", *GAP).out


def test_span_without_a_nominal_time_says_so(duly: Duly) -> None:
    ended = duly("schedule", "0 0 29 2 *", "--from", "2026-01-01", "--until", "2027-01-01")

    assert rows(ended) == []
    assert ended.out.endswith(
        "# no nominal time from 2026-01-01T00:00:00Z to before 2027-01-01T00:00:00Z\n"
    )


def test_json_is_one_object_with_rows(duly: Duly) -> None:
    """For a program: instants, seconds, and each note by its kind."""
    found = duly("schedule", CANONICAL, *GAP, "--json").json

    assert {name: found[name] for name in ("job", "schedule", "words", "timezone", "tzdata")} == {
        "job": None,
        "schedule": CANONICAL,
        "words": "At 02:30",
        "timezone": "Europe/Berlin",
        "tzdata": zones.data_version(),
    }
    assert (found["gap"], found["fold"], found["more"]) == ("skip", "both", False)
    assert (found["from"], found["until"]) == ("2026-03-27T23:00:00Z", "2026-03-30T22:00:00Z")
    first, skipped, last = found["rows"]
    assert first == {
        "nominal_time": "2026-03-28T01:30:00Z",
        "due_at": "2026-03-28T01:30:00Z",
        "local_time": "2026-03-28T02:30:00+01:00",
        "weekday": "Sat",
        "interval": {
            "start": "2026-03-27T01:30:00Z",
            "end": "2026-03-28T01:30:00Z",
            "seconds": 86400.0,
        },
        "notes": [],
    }
    assert skipped["nominal_time"] is None
    assert skipped["local_time"] == "2026-03-29T02:30:00"
    [note] = skipped["notes"]
    assert (note["kind"], note["count"], note["other"]) == ("skipped", 1, None)
    assert last["interval"]["seconds"] == 47 * 3600
    [_, twice, _, _] = duly("schedule", CANONICAL, *FOLD, "--json").json["rows"]
    assert twice["notes"][0]["other"] == "2026-10-25T01:30:00Z"


def test_many_skipped_times_are_one_row_with_their_number(duly: Duly) -> None:
    found = rows(duly("schedule", "*/15 * * * *", *BERLIN, "--from", "2026-03-29T01:00:00Z"))

    assert found[0]["note"] == "02:00 to 02:45 (4 times) do not exist, not run"


def test_day_that_does_not_exist_is_named_with_its_date(duly: Duly) -> None:
    """Apia skipped 30 December 2011 whole."""
    apia = ["0 9 * * *", "--timezone", "Pacific/Apia", "--from", "2011-12-30T00:00:00Z"]

    [moved] = rows(duly("schedule", *apia, "--count", "1"))
    [merged] = rows(duly("schedule", *apia, "--count", "1", "--gap", "shift"))

    assert moved["note"] == "2011-12-30 09:00 does not exist, moved to 2011-12-31 00:00"
    assert merged["note"].endswith("moved to 2011-12-31 09:00, which is due anyway")


def test_host_zone_changes_nothing(duly: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown is the schedule's zone, wherever the host thinks it is."""
    shown = set()
    for zone in ("America/New_York", "Asia/Tokyo", "no/such"):
        monkeypatch.setenv("TZ", zone)
        shown.add(duly("schedule", "30 2 * * *", *BERLIN, *GAP).out)
    assert len(shown) == 1


# ------------------------------------------------------------------------------------ on a terminal


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        "'30 2 * * *' --timezone Europe/Berlin --from 2026-03-28 --gap skip",
        "'30 2 * * *' --timezone Europe/Berlin --from 2026-10-24",
        "credit --app jobs_of_schedules:app --from 2026-03-27",
        "'45 1 * * *' --timezone Australia/Lord_Howe --from 2026-04-03",
    ],
)
def test_table_fits_a_terminal_and_nothing_is_cut(
    app: str, tmp_path: Path, columns: int, arguments: str
) -> None:
    """Every cell of the pipe stands in the table, whole, and no line is broken."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DULY_")}
    line = f"{sys.executable} -m duly schedule {arguments}"

    code, text = terminal.typed(line, tmp_path, environment, columns=columns)
    piped = subprocess.run(
        ["bash", "-c", line],  # noqa: S607
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert code == 0, text
    heading, *table = text.partition("\n\n")[2].splitlines()
    assert all(len(each) <= columns for each in (heading, *table)), text
    assert heading.startswith("nominal time")
    flat = "\n".join(table)
    for row in rows(_ended(piped)):
        for name in ("nominal time", "local time", "offset", "interval", "note"):
            assert row[name] in flat
        assert row["due at"] in flat
    for text_line in text.partition("\n\n")[0].splitlines():
        assert text_line[10:] in piped.stdout


def test_table_on_a_terminal_without_unicode_is_plain(tmp_path: Path) -> None:
    """No escape stands where nothing runs."""
    line = f"{sys.executable} -m duly schedule '30 2 * * *' {' '.join((*BERLIN, *GAP))} --gap skip"

    code, text = terminal.typed(
        f"export PYTHONIOENCODING=ascii; {line}", tmp_path, dict(os.environ), columns=80
    )

    assert code == 0
    assert re.search(r"^- +Sun 2026-03-29 02:30$", text, re.MULTILINE), text
    assert "\\" not in text


def _ended(done: subprocess.CompletedProcess[str]) -> Ended:
    from tests.cli.conftest import Ended

    return Ended(done.returncode, done.stdout, done.stderr)


def test_pipe_imports_no_rich(tmp_path: Path) -> None:
    """A script that asks for the next time does not wait for what it never sees."""
    script = (
        "import sys\n"
        "from duly._cli.main import main\n"
        "code = main(['schedule', '@daily', '--count', '1'])\n"
        "heavy = {'rich', 'sqlalchemy', 'alembic', 'sqlite3', 'holidays', 'dateutil'}\n"
        "print(sorted(heavy & set(sys.modules)), code, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stderr == "[] 0\n"


# ----------------------------------------------------------------------------------------- in words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("30 14 * * *", "At 14:30"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0 9 * JAN-MAR MON", "At 09:00, only on Monday, January through March"),
        # Either day field matches if both are restricted, both must if one starts with a star.
        ("0 0 13 * FRI", "At 00:00, on day 13 of the month; or at 00:00, only on Friday"),
        (
            "0 0 13 * MON-FRI",
            "At 00:00, on day 13 of the month; or at 00:00, Monday through Friday",
        ),
        ("0 0 */2 * FRI", "At 00:00, every 2 days, only on Friday"),
    ],
)
def test_words_join_the_day_fields_as_the_schedule_does(
    expression: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In English and 24 hours, whatever the host's language."""
    monkeypatch.setattr("locale.getlocale", lambda *_: ("de_DE", "UTF-8"))
    assert cron_words.in_words(Cron(expression)) == words


def test_words_are_given_for_cron_only_and_their_lack_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cron_words.in_words(Every(timedelta(1), anchor=datetime(2026, 1, 1, tzinfo=UTC))) is None

    def unknown(*_arguments: Any, **_more: Any) -> str:
        raise ValueError("a field that the package does not know")

    monkeypatch.setattr("cron_descriptor.ExpressionDescriptor", unknown)
    assert cron_words.in_words(Cron("@daily")) is None


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (timedelta(hours=23), "23 h"),
        (timedelta(hours=23, minutes=30), "23 h 30 min"),
        (timedelta(hours=47), "47 h"),
        (timedelta(days=3), "3 d"),
        (timedelta(days=2, hours=23), "2 d 23 h"),
        (timedelta(minutes=15), "15 min"),
        (timedelta(seconds=90), "1 min 30 s"),
        (timedelta(milliseconds=500), "0.5 s"),
        (timedelta(seconds=59, microseconds=999_999), "59.999999 s"),
        (timedelta(seconds=10), "10 s"),
        (timedelta(0), "0 s"),
    ],
)
def test_length_is_exact(duration: timedelta, words: str) -> None:
    assert length(duration) == words


# --------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["0 25 * * *"], ["hour (field 2)", "character 3", "0-23"]),
        (["30 2 * *"], ["4 fields"]),
        (["0 0 30 2 *"], ["never fires", "day 30"]),
        (["@dayly"], ["@daily"]),
        (["@reboot"], ["names no time"]),
        ([""], ["0 fields"]),
        (["@daily", "--timezone", "EST"], ["abbreviation", "America/New_York"]),
        (["@daily", "--timezone", "local"], ["host's own clock", "UTC"]),
        (["@daily", "--timezone", "Europe/Berln"], ["did you mean Europe/Berlin?"]),
        (["@daily", "--from", "10000-01-01"], ["past the year 9999", "earlier"]),
        (["@daily", "--until", "12026-01-01T00:00:00Z"], ["--until", "past the year 9999"]),
        (
            ["@daily", "--from", "2026-03-30", "--until", "2026-03-28"],
            ["--from 2026-03-30 is after --until 2026-03-28", "swap"],
        ),
        (["@daily", "--until", "2020-01-01"], ["--until 2020-01-01 is in the past", "--from"]),
        (["@daily", "--from", "2026-03-28T00:00:00"], ["--from", "has no offset", "add Z"]),
        (["@daily", "--from", "yesterday"], ["--from", "not RFC 3339"]),
        (["@daily", "--from", "2026-02-30"], ["no date of the calendar"]),
        (["@daily", "--count", "0"], ["1<=x<=1000"]),
        (["@daily", "--count", "1001"], ["1<=x<=1000"]),
        (["@daily", "--gap", "later"], ["--gap", "skip"]),
        (["30", "2", "*", "*", "*"], ["one argument", "quotes"]),
        (["*/5"], ["neither a job's name nor a schedule"]),
        (["every 5 minutes"], ["is no schedule", "every 900s; anchor="]),
        (["every 900s; anchor=2026-01-01T00:00:00"], ["anchor", "has no offset"]),
        ([CANONICAL, "--gap", "next"], ["--gap is for cron text"]),
        ([CANONICAL, "--timezone", "UTC"], ["its own zone, Europe/Berlin"]),
        (["nightly"], ["--app jobs:app"]),
        ([], ["JOB|TEXT"]),
    ],
)
def test_wrong_text_or_bound_is_refused_with_2(
    duly: Duly, arguments: list[str], words: list[str]
) -> None:
    """One line that names what is wrong and says the next step."""
    refused(duly("schedule", *arguments), 2, *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nightyl"], ["did you mean 'nightly'?"]),
        (["by-name"], ["has no schedule", "--at"]),
        (["nightly", "--gap", "skip"], ["--gap is for cron text", "'nightly'"]),
        (["nightly", "--fold", "both"], ["--fold is for cron text"]),
        (["nightly", "--timezone", "UTC"], ["its own zone, Europe/Berlin"]),
        (["nightly", "--timezone", "EST"], ["abbreviation"]),
        (["sampled", "--timezone", "UTC"], ["its own zone, Asia/Tokyo"]),
    ],
)
def test_wrong_job_is_refused_with_2(
    duly: Duly, app: str, arguments: list[str], words: list[str]
) -> None:
    """A job is shown as it is defined, or not at all."""
    refused(duly("--app", app, "schedule", *arguments), 2, *words)


def test_own_zone_of_a_job_may_be_named(duly: Duly, app: str) -> None:
    assert duly("--app", app, "schedule", "nightly", *BERLIN).code == 0
    assert duly("schedule", CANONICAL, *BERLIN).code == 0


def test_refusal_in_json_is_one_object(duly: Duly) -> None:
    ended = duly("schedule", "0 25 * * *", "--json")

    assert (ended.code, ended.out, ended.error["error"]) == (2, "", "schedule_invalid")
