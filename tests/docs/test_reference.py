"""The reference names everything that there is, and nothing that there is not."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from sqlalchemy import inspect

import duly
import duly.testing
from duly import errors
from duly._cli import exits, group
from duly._core.states import Disposition, Outcome
from tests.docs import shell
from tests.docs.pages import DOCS, ROOT, Block, blocks

if TYPE_CHECKING:
    from tests.servers.database import Database

PAGE = DOCS / "reference.md"
TEXT = PAGE.read_text("utf-8")


def part(heading: str) -> str:
    """The text below *heading*, down to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    found = re.search(
        rf"^{re.escape(heading)}$\n(.*?)(?=^#{{1,{level}}} |\Z)", TEXT, re.MULTILINE | re.DOTALL
    )
    assert found, f"the reference has lost its part {heading!r}"
    return found[1]


def names(text: str) -> set[str]:
    """What stands in backticks."""
    return set(re.findall(r"`([^`]+)`", text))


def cells(text: str) -> dict[str, str]:
    """Name in backticks in a table's first column -> the rest of its row."""
    rows = re.findall(r"^\| (`[^|]+?) +\|(.*)\|$", text, re.MULTILINE)
    return {name: rest for first, rest in rows for name in re.findall(r"`([^`]+)`", first)}


# ------------------------------------------------------------------------------------- command line


def command(name: str) -> click.Command:
    found = group.cli.get_command(click.Context(group.cli), name)
    assert found is not None
    return found


def option_names(parameters: list[click.Parameter]) -> set[str]:
    return {name for each in parameters if isinstance(each, click.Option) for name in each.opts}


GLOBAL = option_names(group.cli.params) | {"-h", "--help"}


def test_every_option_of_the_group_is_documented_and_no_other() -> None:
    table = part("## Command line").partition("### ")[0]

    documented = {name.split(" ")[0] for name in cells(table)}

    assert documented == GLOBAL


def test_every_environment_variable_is_documented() -> None:
    table = part("## Command line").partition("### ")[0]
    variables = {
        option.envvar for option in group.cli.params if isinstance(option, click.Option)
    } - {None}

    assert variables
    assert {name for name in names(table) if re.fullmatch(r"DULY_\w+", name)} == variables


def test_every_command_is_documented_and_no_other() -> None:
    headings = re.findall(r"^#### `duly (\w+)", part("### Commands"), re.MULTILINE)

    assert headings == list(group.COMMANDS)


@pytest.mark.parametrize("name", group.COMMANDS)
def test_every_option_and_argument_of_a_command_is_documented_and_no_other(name: str) -> None:
    found = command(name)
    arguments = [each.name for each in found.params if isinstance(each, click.Argument)]
    heading = " ".join(["duly", name, *(each.upper() for each in arguments if each)])
    text = part(f"#### `{heading}`")

    documented = {option.split(" ")[0] for option in cells(text)}

    assert documented == option_names(found.params) - GLOBAL


def test_every_default_of_an_option_that_help_shows_is_documented() -> None:
    for name in group.COMMANDS:
        for option in command(name).params:
            if isinstance(option, click.Option) and option.show_default is True:
                row = cells(part_of(name)).items()
                said = [rest for spelt, rest in row if spelt.split(" ")[0] in option.opts]
                assert said, f"{name} {option.opts}"
                shown = f"({option.default}" in said[0] or "as for" in said[0]
                assert shown, f"{name} {option.opts}"


def part_of(name: str) -> str:
    heading = next(line for line in TEXT.splitlines() if re.match(rf"#### `duly {name}\b", line))
    return part(heading)


def test_every_exit_code_is_documented_and_no_other() -> None:
    documented = set(re.findall(r"^\| (\d+) \|", part("### Exit codes"), re.MULTILINE))

    ours = {
        str(value)
        for name, value in vars(exits).items()
        if name.isupper() and type(value) is int and name != "MESSAGE_MAX"
    }
    assert documented == ours | {"129", "130", "143"}
    spelt = re.findall(r"^  (\d+(?: \d+)*)", group.EPILOG, re.MULTILINE)
    assert documented == {code for codes in spelt for code in codes.split()}


# ------------------------------------------------------------------------------------------- errors

FAMILIES = {
    "The programmer must act": errors.UsageError,
    "A person at the controls must act": errors.OperatorError,
    "Try again": errors.TransientError,
}
OF_THE_COMMAND_LINE = {exits.AppInvalid.code}


def test_every_error_is_documented_with_its_code_below_who_must_act() -> None:
    text = part("## Errors")
    documented: dict[str, tuple[str, str]] = {}
    for title in FAMILIES:
        _, found, rest = text.partition(f"**{title}**")
        assert found, title
        table = rest.partition("**")[0]
        for code, row in cells(table).items():
            documented[code] = (title, row.split("|")[0].strip().strip("`"))

    expected = {
        kind.code: (title, kind.__name__)
        for kind in map(errors.__dict__.get, errors.__all__)
        if isinstance(kind, type)
        for title, family in FAMILIES.items()
        if issubclass(kind, family)
    }
    assert {code: row for code, row in documented.items() if row[1]} == expected
    assert {code for code, row in documented.items() if not row[1]} == OF_THE_COMMAND_LINE


def test_errors_outside_the_families_are_documented() -> None:
    outside = {
        kind
        for kind in map(errors.__dict__.get, errors.__all__)
        if isinstance(kind, type)
        and issubclass(kind, errors.DulyError)
        and not issubclass(kind, tuple(FAMILIES.values()))
    }
    said = names(part("## Errors"))
    assert outside
    for kind in outside:
        assert {kind.__name__, kind.code} <= said


def test_codes_that_only_the_command_line_has_are_documented() -> None:
    source = Path(exits.__file__).read_text("utf-8")
    codes = set(re.findall(r'Ending\(\s*[\w+ ]+,\s*"(\w+)"', source))
    assert {"handler_failed", "stopped", "internal"} <= codes
    assert codes <= names(part("## Errors"))


# -------------------------------------------------------------------------------------- the ledger


def test_every_table_column_and_view_is_documented_and_no_other(database: Database) -> None:
    """Read from a migrated database of each kind."""
    app = duly.App(database.url)
    app.init()
    found = inspect(app.database.engine)
    tables = {
        name: {column["name"] for column in found.get_columns(name)}
        for name in found.get_table_names()
    }
    views = {
        name: {column["name"] for column in found.get_columns(name)}
        for name in found.get_view_names()
    }
    app.close()

    described = _described(part("## Tables"))
    if database.name == "sqlite":
        described.pop("duly_running")  # side files in its place
    assert tables == described

    shown = _described(part("## Views"))
    other = "seconds" if database.name == "postgresql" else "duration"
    assert views == {name: columns - {other} for name, columns in shown.items()}


def _described(text: str) -> dict[str, set[str]]:
    """Table or view -> its columns: of the table below its name, or of its sentence."""
    found: dict[str, set[str]] = {}
    for paragraph in re.split(r"(?=^\*\*`duly_)", text, flags=re.MULTILINE)[1:]:
        name = re.match(r"\*\*`(\w+)`\*\*", paragraph)
        assert name, paragraph
        columns = set(cells(paragraph))
        if not columns:
            sentence = paragraph[name.end() :].partition("\n\n")[0]
            columns = {each for each in names(sentence) if re.fullmatch(r"[a-z_]+", each)}
        found[name[1]] = columns
    return found


# ------------------------------------------------------------------------------------------- Python


def test_every_outcome_and_disposition_is_documented() -> None:
    words = part("## Words")
    outcomes, _, dispositions = words.partition("**Dispositions**")

    assert {each.value for each in Outcome} <= set(cells(outcomes))
    assert {each.value for each in Disposition} <= names(dispositions)


def test_every_public_name_is_documented() -> None:
    public = set(duly._HOMES)
    assert public
    assert {
        name
        for name in public
        if not re.search(rf"\b{name}\b", part("## Python") + part("## Words"))
    } == set()
    assert {
        name for name in duly.testing.__all__ if not re.search(rf"\b{name}\b", part("### Testing"))
    } - {"Kind", "When", "Injected", "InjectedError"} == set()


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("### App", "duly._sync.app.App"),
        ("### Run", "duly._sync.run.Run"),
        ("### claim", "duly._sync.claim.Claim"),
        ("### once", "duly._sync.once.OnceRun"),
        ("### Result", "duly._sync.refusals.Result"),
    ],
)
def test_every_public_member_is_documented(heading: str, kind: str) -> None:
    found: Any = getattr(duly, kind.rpartition(".")[2])
    members = {name for name in vars(found) if not name.startswith("_")}
    members |= {name for name in getattr(found, "__slots__", ()) if not name.startswith("_")}
    text = part(heading)

    assert {name for name in members if not re.search(rf"\b{name}\b", text)} == set()


def test_python_of_the_reference_runs_with_the_jobs_of_the_tutorial(tmp_path: Path) -> None:
    """The only block that is not run shows keys; those must be canonical."""
    found = blocks(PAGE)
    assert {block.language for block in found} == {"python", "text"}
    bank = [block for block in blocks(DOCS / "tutorial.md") if "CREATE TABLE" in block.text]
    jobs = [block for block in blocks(DOCS / "tutorial.md") if block.file == "jobs.py"]

    shell.run([*bank, *jobs, *(block for block in found if block.language == "python")], tmp_path)

    for key in _keys(found):
        assert duly.Occurrence.parse(key).key == key


def _keys(found: list[Block]) -> list[str]:
    keys = [line for block in found if block.language == "text" for line in block.text.split()]
    assert keys
    return keys


def test_every_source_of_a_nominal_time_is_documented() -> None:
    """What the code writes there, by whoever says a nominal time; and nothing else."""
    (row,) = [line for line in TEXT.splitlines() if line.startswith("| `source` | where its")]
    said = names(row) - {"source", "duly.claim", "duly.once"}
    assert said == _sources()


def _sources() -> set[str]:
    """The constants that stand where the source of a nominal time is given."""
    position = {"Nominal": 1, "_with_due": 1, "Start": 0, "Work": 5}
    found: set[Any] = set()
    for path in (ROOT / "src" / "duly").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Dict) and path.name == "claim.py":
                found |= {
                    value.value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant)
                    and key.value == "source"
                    and isinstance(value, ast.Constant)
                }
            if not isinstance(node, ast.Call) or path.name in {"answering.py", "receiving.py"}:
                continue  # these two leave no attempt: they have rows of their own
            at = position.get(ast.unparse(node.func))
            if at is None or len(node.args) <= at:
                continue
            given = node.args[at]
            unread = len(node.args) > 1 and ast.unparse(node.args[1]) == "None"
            if isinstance(given, ast.Constant) and isinstance(given.value, str) and not unread:
                found.add(given.value)
    return found


def test_every_event_that_is_logged_is_documented() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "duly").rglob("*.py"))
    events = set(re.findall(r"\blog\.\w+\(\s*\"(\w+)\"", source))
    assert events
    assert events == names(part("## Logs")) - {"logging", "duly"}
