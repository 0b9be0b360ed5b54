"""The page about starters says what the code does."""

from __future__ import annotations

import inspect
import json
import re
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly._core.start import Start
from duly.triggers import celery, eventbridge, kubernetes
from duly.triggers.detect import STARTERS
from tests.docs import shell
from tests.docs.pages import DOCS, Block, blocks

PAGE = DOCS / "starters.md"
TEXT = PAGE.read_text("utf-8")
BY_ENVIRONMENT, _, IN_PYTHON = TEXT.partition("\n## In Python\n")
CELERY = "from celery.beat import"


def rows(text: str) -> list[list[str]]:
    """The cells of the tables' rows, without their heads."""
    found = [
        re.split(r" \| ", line.strip("| ")) for line in re.findall(r"^\| .*\|$", text, re.MULTILINE)
    ]
    return [row for row in found if "`" in row[0]]


def one(language: str, part: str = "") -> Block:
    (found,) = [b for b in blocks(PAGE) if b.language == language and part in b.text]
    return found


def test_starters_and_their_variables_are_listed_in_the_order_they_are_asked() -> None:
    """The first table is `STARTERS`."""
    table = "\n".join(re.findall(r"^\|.*\|$", BY_ENVIRONMENT, re.MULTILINE))
    listed: dict[str, set[str]] = {}
    for starter, variables in re.findall(r"^\| (?:`(\w+)` )?\| (`[^|]+`) \|", table, re.MULTILINE):
        name = starter or list(listed)[-1]
        listed.setdefault(name, set()).update(re.findall(r"`(\w+)`", variables))

    assert list(listed) == list(STARTERS)
    assert listed == {name: set(variables) for name, variables in STARTERS.items()}


def test_readings_in_python_are_listed_with_their_arguments() -> None:
    """Each file with a reading of what a caller hands over, and its signature."""
    listed = {row[0].strip("`"): row[1].strip("`") for row in rows(IN_PYTHON)}

    files = {path.stem for path in Path(str(celery.__file__)).parent.glob("*.py")}
    expected = {
        name: reading
        for name in files - {"__init__", "detect", "reading"}
        for reading in ("read", "read_context")
        if hasattr(import_module(f"duly.triggers.{name}"), reading)
    }
    assert listed.keys() == expected.keys()
    for name, reading in expected.items():
        found = inspect.signature(getattr(import_module(f"duly.triggers.{name}"), reading))
        called = re.fullmatch(rf"{name}\.{reading}\((.*)\)", listed[name])
        assert called
        named = [each.partition("=")[0] for each in called[1].split(", ")]
        assert named == list(found.parameters)


def test_kubernetes_block_reads_the_label_of_the_job() -> None:
    """The downward API's path names a label, not an annotation."""
    (variable,) = yaml.safe_load(one("yaml").text)["env"]

    assert variable["name"] == kubernetes.JOB_NAME
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == (
        "metadata.labels['batch.kubernetes.io/job-name']"
    )


def test_eventbridge_block_is_an_override_with_the_placeholder() -> None:
    """What the scheduler replaces is spelt as AWS spells it."""
    (container,) = json.loads(one("json").text)["containerOverrides"]

    assert container["environment"] == [
        {"name": eventbridge.SCHEDULED_TIME, "value": "<aws.scheduler.scheduled-time>"}
    ]


def test_line_for_nomad_gives_the_time_in_its_id(tmp_path: Path) -> None:
    """It runs in a shell as it is written."""
    before = Block("sh", "NOMAD_JOB_ID=backup/periodic-1774746000\n", 1, None, "")
    after = Block("sh", 'echo "$DULY_SCHEDULED_TIME"\n', 1, None, "")

    printed = shell.run([before, one("sh"), after], tmp_path)

    assert printed[-1].strip() == "2026-03-29T01:00:00Z"


def test_python_of_the_page_runs() -> None:
    """All but Celery's, which needs Celery (below)."""
    names: dict[str, Any] = {}
    ran = 0
    for block in blocks(PAGE):
        if block.language == "python" and CELERY not in block.text:
            exec(compile(block.text, PAGE.name, "exec"), names)  # noqa: S102 - a page of ours
            ran += 1

    assert ran == 2
    assert names["start"] == Start(
        "dagster",
        datetime(2026, 3, 29, 1, tzinfo=UTC),
        "scheduled_execution_time=2026-03-29 01:00:00+00:00",
    )


def test_every_block_is_checked_here() -> None:
    """`text` is Airflow's template, which only Airflow renders."""
    found = sorted(block.language for block in blocks(PAGE))
    assert found == ["json", "python", "python", "python", "sh", "text", "yaml"]


def test_scheduler_for_celery_sends_the_time_and_leaves_its_entry_alone(tmp_path: Path) -> None:
    """A message of a real beat scheduler, read from a broker in memory."""
    app = pytest.importorskip("celery", reason="celery is not installed").Celery(
        "page", broker="memory://", set_as_current=False
    )
    names: dict[str, Any] = {}
    exec(compile(one("python", CELERY).text, PAGE.name, "exec"), names)  # noqa: S102
    scheduler = names["NominalTimes"](app, schedule_filename=str(tmp_path / "beat"), lazy=True)
    entry = scheduler.Entry(
        name="credit",
        task="credit",
        schedule=timedelta(minutes=1),
        options={"headers": {"duly_job": "daily-credit"}, "queue": "page"},
        app=app,
    )

    earliest = datetime.now(UTC)
    scheduler.apply_async(entry, advance=False)
    latest = datetime.now(UTC)

    with app.connection_for_read() as connection:
        message = connection.SimpleQueue("page").get(timeout=10)
        message.ack()
    start = celery.read(message.headers, job="daily-credit")
    assert start is not None
    assert start.at is not None
    assert earliest <= start.at <= latest
    assert "duly_nominal_time" not in entry.options["headers"]
