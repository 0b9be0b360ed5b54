"""A Django project: the settings block, the command, the migrations, and the example's tests."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.engine import make_url

import duly
from duly._db.tables import HEAD
from tests.contract import django_project
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgresql import PostgresServer

BANK = ROOT / "examples" / "django_bank"
DAY = "2026-09-13"


def manage(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One `manage.py` of the example project, on a file of the test's own."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=BANK,
        env={**os.environ, "BANK_FILE": str(tmp_path / "bank.db"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_example_passes_its_own_tests_on_sqlite(tmp_path: Path) -> None:
    ended = manage(tmp_path, "test")
    assert ended.returncode == 0, ended.stderr


def test_example_passes_its_own_tests_on_postgresql(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    address = postgres.create_database()
    url = make_url(address)
    where = f"{url.username}:{url.password or ''}@{url.host}:{url.port}/{url.database}"
    try:
        ended = manage(tmp_path, "test", BANK_POSTGRESQL=where)
        assert ended.returncode == 0, ended.stderr
    finally:
        postgres.drop(address)


def test_command_forwards_everything_and_ends_with_dulys_code(tmp_path: Path) -> None:
    """Also what stands among Django's own options, which duly does not see."""
    assert manage(tmp_path, "migrate").returncode == 0

    first = manage(
        tmp_path, "duly", "run", "daily-credit", "--at", DAY, "--settings", "project.settings"
    )
    again = manage(tmp_path, "duly", "--json", "run", "daily-credit", "--at", DAY)
    wrong = manage(tmp_path, "duly", "run", "no-such-job", "--at", DAY)
    helped = manage(tmp_path, "duly", "--help")

    assert (first.returncode, first.stdout.split()[0]) == (0, "applied")
    assert '"duplicate"' in again.stdout
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 1)
    assert "manage.py duly" in helped.stdout
    assert "tick" in helped.stdout


def test_migrations_and_init_are_one_thing(tmp_path: Path) -> None:
    """Either may come first; the way back is refused, and nothing is lost by it."""
    assert manage(tmp_path, "migrate").returncode == 0
    init = manage(tmp_path, "duly", "init")
    assert (init.returncode, HEAD in init.stdout) == (0, True)
    manage(tmp_path, "duly", "run", "daily-credit", "--at", DAY)

    back = manage(tmp_path, "migrate", "duly", "zero")
    check = manage(tmp_path, "duly", "check", "daily-credit", "--at", DAY)

    assert "not reversed" in back.stderr
    assert (back.returncode, check.returncode) == (1, 0)


def test_each_version_of_the_tables_has_a_migration_of_djangos() -> None:
    """Else `manage.py migrate` would have nothing to do after an upgrade of duly."""
    ours = {path.stem for path in (ROOT / "src/duly/_db/migrations/versions").glob("0*.py")}
    djangos = {path.stem for path in (ROOT / "src/duly/contrib/django/migrations").glob("0*.py")}
    assert djangos == ours


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"USNIG": "default"}, "did you mean 'USING'"),
        ({"CLOCK": 1}, "it takes USING, SCHEMA"),
        ({"USING": "nowhere"}, "no alias of DATABASES"),
        ({"NAME": 1}, "give words"),
        ({"EVIDENCE_AFTER": True}, "seconds"),
        ({"JOBS_MODULE": "a.b"}, "name of a module"),
        (["USING"], "make it a dict"),
    ],
)
def test_wrong_setting_is_refused_by_name(block: Any, said: str) -> None:
    django_project.connections()
    from django.test import override_settings

    from duly.contrib.django.conf import options

    with override_settings(DULY=block), pytest.raises(duly.UsageError, match=said):
        options()
