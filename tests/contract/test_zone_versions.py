"""Zone data of two releases on two hosts: the newer speaks, the older is refused or agrees."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

import duly
from duly import zones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.bank import Bank

DATA = Path(__file__).parents[1] / "core" / "data" / "zoneinfo"
ZONE = "America/Vancouver"


@contextmanager
def release(
    version: str, monkeypatch: pytest.MonkeyPatch, data: str | None = None
) -> Iterator[None]:
    """While inside, this host has that release; its Vancouver is that of *data*."""
    (path,) = (DATA / (data or version)).rglob("Vancouver*")
    raw = base64.b64decode(path.read_bytes(), validate=False)
    zone = ZoneInfo.from_file(BytesIO(raw), key=ZONE)
    with monkeypatch.context() as patched:
        patched.setattr(zones, "data_version", lambda: version)
        with zones.recorded(zone):
            yield


def host(bank: Bank) -> duly.App:
    return bank.define(bank.app(), schedule="0 9 * * *", timezone=ZONE)


def revisions(bank: Bank) -> list[tuple[int, str, str]]:
    rows = bank.run(
        "SELECT revision, zone_version, why FROM duly_job_revision"
        f" WHERE job = '{bank.job}' ORDER BY revision"
    )
    return [(int(number), str(version), str(why)) for number, version, why in rows]


def test_newer_data_that_disagrees_makes_a_revision_and_the_older_is_refused(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts would settle one slot under two keys; the older one is told to upgrade."""
    with release("2025b", monkeypatch):
        host(bank).register()
    with release("2026f", monkeypatch):
        host(bank).register()
    with release("2025b", monkeypatch):
        _, refused = host(bank).register()
        with pytest.raises(duly.ZoneDataOutdated, match="pip install --upgrade tzdata"):
            host(bank).run(bank.job, "2026-06-01T16:00:00Z")

    assert isinstance(refused[bank.job], duly.ZoneDataOutdated)
    assert revisions(bank) == [(1, "2025b", "first"), (2, "2026f", "zone data")]


def test_newer_data_that_agrees_makes_no_revision_and_is_not_compared_again(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that changes other zones is noted; the older host still agrees and may run."""
    with release("2026d", monkeypatch, data="2026f"):
        host(bank).register()
    with release("2026f", monkeypatch):
        host(bank).register()
    with release("2026d", monkeypatch, data="2026f"):
        _, refused = host(bank).register()

    assert refused == {}
    assert revisions(bank) == [(1, "2026f", "first")]
