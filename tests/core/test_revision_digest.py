"""The digest of a definition: equal in every process for those that expect the same."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duly._core.policies import Policies, Retry
from duly._core.revision import Definition

NINE = "cron 0 9 * * *; zone=America/Vancouver; gap=next; fold=first"


def defined(*, policies: Policies | None = None, **more: Any) -> Definition:
    fields = {"zone": "America/Vancouver", "payload": "null", "app": "bank", **more}
    return Definition("daily-credit", NINE, policies=policies or Policies(), **fields)


def test_digest_is_what_it_was_in_any_process() -> None:
    """It is stored: another form, or another order in a process, would make every job an edit."""
    code = (
        "from datetime import *; from duly._core.policies import *; "
        "from duly._core.revision import Definition; "
        "p = Policies(catch_up='skip', skip_after=timedelta(hours=1), in_order=True, "
        "retry=Retry(attempts=3, factor=1.1), starts=datetime(2026, 1, 1, tzinfo=timezone.utc)); "
        "print(Definition('j', 'every 900s; anchor=2026-01-01T00:00:00Z', 'UTC', p, 'null', '')"
        ".digest)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("0", "1", "77")
    }

    assert found == {"5b6fd33fc68aab30a4f4626819a4171d300fab075ecbf2c5ea8395c73968f3f6"}


def test_digest_passes_over_what_is_expected_either_way() -> None:
    """Defaults that are written out, a whole factor, the App: the same definition."""
    spelled_out = Policies("each", None, 100, 1, in_order=False, retry=Retry(on=OSError))  # type: ignore[arg-type]

    assert defined(policies=spelled_out).digest == defined().digest
    assert defined(app="").digest == defined().digest
    assert replace(defined(), job="another").digest == defined().digest
    whole, real = Policies(retry=Retry(factor=3)), Policies(retry=Retry(factor=3.0))
    assert defined(policies=whole).digest == defined(policies=real).digest


def test_digest_takes_no_part_for_another() -> None:
    """Nothing runs over from one part into the next, whatever characters it has."""
    parts = ["", "null", '"', "', '", '", "', "x", "{}"]
    found = {
        Definition("j", schedule, zone, Policies(), payload, "").digest
        for schedule in [None, "None", *parts]
        for zone in parts
        for payload in parts
    }

    assert len(found) == 9 * 7 * 7


@given(st.integers(1, 3), st.sampled_from([1.5, 1.5000000000000002]), st.booleans())
def test_digest_sees_every_policy(most: int, factor: float, in_order: bool) -> None:
    changed = Policies(max_per_tick=most, retry=Retry(factor=factor), in_order=in_order)

    same = Policies(max_per_tick=2, retry=Retry(factor=1.5), in_order=True) == changed
    like = defined(policies=Policies(max_per_tick=2, retry=Retry(factor=1.5), in_order=True))
    assert (defined(policies=changed).digest == like.digest) is same
