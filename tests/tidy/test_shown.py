"""Every line of what must be shown to hold names tests that are run on each database."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.servers.processes import ROOT
from tests.shown import NUMBERS, SHOWN

# Each of these fixtures makes one test of each database.
PER_DATABASE = {"bank", "desk", "door", "post", "shop"}
# They need what not every database has, and stand beside others that run on all three.
ON_SOME = {
    "test_m10_example_shows_no_success_that_is_found_impossible_late",
    "test_m10_commit_that_the_database_refuses_shows_the_client_no_2xx",
    "test_example_pays_once_for_a_key",
}


@pytest.mark.parametrize("line", SHOWN)
def test_line_is_shown_on_each_database(line: str) -> None:
    tests = SHOWN[line]
    assert all(name in ON_SOME or arguments & PER_DATABASE for name, arguments in named(tests))
    assert any(name not in ON_SOME for name, _ in named(tests))


@pytest.mark.parametrize("number", NUMBERS)
def test_case_is_shown_by_its_number(number: str) -> None:
    assert any(f"_{number.lower()}_" in name for name, _ in named(NUMBERS[number]))


def test_no_case_is_left_out() -> None:
    assert list(NUMBERS) == [f"M{number:02}" for number in range(1, 15)]


def named(tests: tuple[str, ...]) -> list[tuple[str, set[str]]]:
    """The name and the arguments of each test; KeyError for one that is not there."""
    return [(name, _functions(file)[name]) for file, name in (test.split("::") for test in tests)]


@cache
def _functions(file: str) -> dict[str, set[str]]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return {
        node.name: {each.arg for each in node.args.args}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
