"""Runs a page's blocks in one directory, as a reader who types them one after the other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.docs.pages import Block

SECONDS = 150
MARK = "=== duly docs: end of block"

# For a machine without the sqlite3 program: what the pages use of it.
SQLITE3 = """\
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
rows = []
for statement in filter(str.strip, sys.argv[2].split(";")):
    rows += connection.execute(statement).fetchall()
connection.commit()
print(*("|".join(map(str, row)) for row in rows), sep="\\n")
"""


def environment(folder: Path) -> dict[str, str]:
    """The installed package, and what the pages need, on the PATH; nothing of duly's set."""
    programs = folder / ".programs"
    programs.mkdir()
    _program(programs / "duly", f'exec "{sys.executable}" -m duly "$@"')
    _program(programs / "python", f'exec "{sys.executable}" "$@"')
    if shutil.which("sqlite3") is None:
        (programs / "sqlite3.py").write_text(SQLITE3)
        _program(programs / "sqlite3", f'exec "{sys.executable}" {programs}/sqlite3.py "$@"')
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    return {
        **clean,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}:{folder}",
        "PYTHONWARNINGS": "default",
        "LC_ALL": "C",
    }


def run(blocks: Sequence[Block], folder: Path, *, seconds: float = SECONDS) -> list[str]:
    """Run *blocks* in one shell; returns what each printed, stdout and stderr together.

    A block that is to be written to a file is written; other Python is executed.
    """
    script = ["set -e"]
    for number, block in enumerate(blocks):
        if block.file is not None:
            source = folder / f".block-{number}"
            source.write_text(block.text)
            script.append(f"cp {source} {block.file}")
        elif block.language == "python":
            source = folder / f".block-{number}.py"
            source.write_text(block.text)
            script.append(f"python {source}")
        elif block.language == "sh":
            script.append(block.text)
        script.append(f"echo '{MARK} {number}'")
    finished = subprocess.run(
        ["bash", "-c", "\n".join(script)],  # noqa: S607
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout
    return re.split(rf"^{MARK} \d+\n", finished.stdout, flags=re.MULTILINE)[:-1]


def matches(expected: str, found: str) -> bool:
    """Whether *found* is what a page shows, where `…` stands for anything, also for lines."""
    # A job that bash put into the background and that was killed is announced by bash.
    kept = [line for line in found.splitlines() if not re.match(r"bash: line \d+:.*Killed", line)]
    pattern = re.escape(expected.strip()).replace("…", ".*")
    return re.fullmatch(pattern, "\n".join(kept).strip(), re.DOTALL) is not None


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
