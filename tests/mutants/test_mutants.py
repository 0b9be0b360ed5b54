"""Every rule has a test that notices when the rule is gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.mutants import mutants
from tests.mutants.aio_mutants import AIO_MUTANTS
from tests.mutants.catch_up_mutants import CATCH_UP_MUTANTS
from tests.mutants.cell_mutants import CELL_MUTANTS
from tests.mutants.channel_mutants import CHANNEL_MUTANTS
from tests.mutants.outbox_mutants import OUTBOX_MUTANTS
from tests.mutants.prune_mutants import PRUNE_MUTANTS
from tests.mutants.queue_mutants import QUEUE_MUTANTS
from tests.mutants.receiving_mutants import RECEIVING_MUTANTS
from tests.mutants.script_mutants import SCRIPT_MUTANTS
from tests.mutants.way_mutants import WAY_MUTANTS
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mutants.mutants import Mutant

MUTANTS = [
    *mutants.MUTANTS,
    *PRUNE_MUTANTS,
    *AIO_MUTANTS,
    *CATCH_UP_MUTANTS,
    *CELL_MUTANTS,
    *QUEUE_MUTANTS,
    *SCRIPT_MUTANTS,
    *OUTBOX_MUTANTS,
    *CHANNEL_MUTANTS,
    *WAY_MUTANTS,
    *RECEIVING_MUTANTS,
]
SOURCE = ROOT / "src" / "duly"
FAILED = 1  # pytest's exit code where tests ran and one failed


def _text(mutant: Mutant, source: Path = SOURCE) -> str:
    return (source / mutant.file).read_text(encoding="utf-8")


def test_each_mutant_has_a_name_of_its_own() -> None:
    assert [name for name, times in Counter(m.name for m in MUTANTS).items() if times > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_still_fits_the_source(mutant: Mutant) -> None:
    """A rule that was rewritten takes its mutant along."""
    assert _text(mutant).count(mutant.old) == 1, mutant.rule
    assert mutant.old != mutant.new


def test_killer_of_each_mutant_exists() -> None:
    """A test that was renamed takes its mutants along."""
    done = _pytest(ROOT / "src", "--collect-only", *{mutant.killer for mutant in MUTANTS})
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.torture
def test_every_killer_passes_where_nothing_is_mutated(tmp_path: Path) -> None:
    """Otherwise its failure would prove nothing."""
    copied = _copy(tmp_path)
    done = _pytest(copied, *sorted({mutant.killer for mutant in MUTANTS}))
    assert done.returncode == 0, done.stdout[-5000:]
    assert "skipped" not in done.stdout, "a killer that skips kills nothing"


@pytest.mark.torture
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_killed(mutant: Mutant, tmp_path: Path) -> None:
    copied = _copy(tmp_path)
    path = copied / "duly" / mutant.file
    path.write_text(_text(mutant).replace(mutant.old, mutant.new), encoding="utf-8")

    done = _pytest(copied, mutant.killer)

    assert done.returncode == FAILED, f"survived: {mutant.rule}\n{done.stdout[-3000:]}"


def _copy(directory: Path) -> Path:
    copied = directory / "src"
    shutil.copytree(SOURCE, copied / "duly", ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def _pytest(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a process that imports duly from *source*."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in [name for name in environment if name.startswith(("PYTEST_", "DULY_"))]:
        del environment[name]
    code = (
        "import sys, pytest, duly;"
        f"assert duly.__file__.startswith({str(source)!r}), duly.__file__;"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    options = ["-q", "-p", "no:cacheprovider", "--timeout=120"]
    return subprocess.run(
        [sys.executable, "-c", code, *options, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
