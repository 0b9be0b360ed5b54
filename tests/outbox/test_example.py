"""`examples/invoices`: what it promises is proved while everything is killed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers.processes import ROOT

EXAMPLE = ROOT / "examples" / "invoices" / "prove.py"


def _prove(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.usefixtures("postgres")  # skips, or fails in CI, where there is none
def test_few_invoices_come_out_right_whatever_is_killed() -> None:
    """Each invoice and payment once, each mail once or named as uncertain."""
    said = _prove("--accounts", "40", "--seconds", "5")
    assert "40 invoices, each once" in said
    assert said.endswith("nothing lost, nothing twice\n")


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("postgres")
@pytest.mark.parametrize("run", range(3))
def test_a_thousand_invoices_come_out_right_three_times(run: int) -> None:
    """Three runs in a row, each with kills of its own."""
    assert _prove("--seed", str(run)).endswith("nothing lost, nothing twice\n")
