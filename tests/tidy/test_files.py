"""Rules for the repository's files that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "duly"
LINES_MAX = 400  # "near 300", with room for the one that needs it

PLACES = {
    "a home directory": r"/(?:home|Users)/[a-z]|/root/",
    "a working directory of one machine": r"(?<![\w.])/work(?:space)?/",
    "a private network": r"\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b",
    "a place that packages come from": r"--(?:extra-)?index-url[ =]\S"
    r"|https?://[^\s/]*(?:/simple\b|artifactory|nexus\b|devpi\b|pypi\.(?!org/project))",
}
BINARY = {".db", ".gif", ".ico", ".jpg", ".png", ".svg", ".woff2"}
VAGUE = re.compile(r"^_*(utils?|commons?|helpers?|managers?|misc)$")


def _tracked() -> list[Path]:
    """The repository's files: what git knows and what it would add."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        text=True,
    )
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_names_a_place_that_only_one_machine_has() -> None:
    """A clone works for everybody: no file knows one person's folders, network or registry."""
    found = []
    for path in _tracked():
        if path.suffix in BINARY or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        for what, pattern in PLACES.items():
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{_named(path)}:{line}: {what}: {match[0]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "/home/ann/duly",
        "see /workspace/main",
        "--index-url https://example.org",
        "http://192.168.1.4/",
        "https://packages.example.org/simple",
    ],
)
def test_place_of_one_machine_is_recognised(text: str) -> None:
    """The rule above can fail."""
    assert any(re.search(pattern, text) for pattern in PLACES.values())


def test_source_file_is_short_enough_to_be_read_at_once() -> None:
    """No file becomes the giant that everybody edits."""
    long = {
        _named(path): lines
        for path in _tracked()
        if path.is_relative_to(SOURCE) and path.suffix in {".py", ".sql"}
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LINES_MAX
    }
    assert not long, f"split what decides apart from what computes: {long}"


def test_module_is_named_for_what_it_does() -> None:
    """A drawer for odds and ends is never opened again with profit."""
    vague = [
        _named(path)
        for path in _tracked()
        if path.suffix == ".py"
        if any(VAGUE.match(part) for part in (*path.relative_to(ROOT).parts[:-1], path.stem))
    ]
    assert not vague


def test_core_never_asks_the_clock() -> None:
    """Time is an argument: what `import time` would be caught for, `datetime` could do as well."""
    asked = []
    for path in (SOURCE / "_core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
                owner = ast.unparse(node.value)
                if owner.rpartition(".")[2] in {"date", "datetime"}:
                    asked.append(f"{_named(path)}:{node.lineno}: {ast.unparse(node)}")
    assert not asked


def test_lock_file_names_versions_and_no_places() -> None:
    """Anybody can install it, from wherever they get packages."""
    lines = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert pins
    assert [line for line in pins if not re.match(r"^[a-z0-9-]+==\S+( ; .+)?$", line)] == []


def test_every_named_query_is_run_by_some_code() -> None:
    """A query that nobody runs is not kept."""
    code = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    for path in (ROOT / "src/duly/_db/sql").glob("*.sql"):
        names = re.findall(r"^-- name: (\w+)$", path.read_text("utf-8"), re.MULTILINE)
        assert [name for name in names if f'"{name}"' not in code] == [], path.name
