"""`manage.py duly worker`: its threads run jobs on Django connections of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.contract.django_project import settings_of
from tests.worker.conftest import PATIENCE_S, ROOT, Place

SETTINGS = """
import pymysql; pymysql.install_as_MySQLdb()
SECRET_KEY = "of-a-test"
INSTALLED_APPS = ["duly.contrib.django", "shop"]
USE_TZ = True
DATABASES = {{"default": {database!r}}}
DULY = {{"NAME": "shop"}}
"""
# Two jobs, so that several threads have something to do at once.
JOBS = """
from datetime import UTC, datetime, timedelta
from pathlib import Path
import threading
from django.db import connection, transaction
import duly
from duly.contrib.django import app

def effect(run):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO effect (nominal_us) VALUES (%s)", [run.occurrence.nominal_us])
    done = threading.get_ident()
    transaction.on_commit(lambda: Path(f"thread-{done}").touch())

for name, shift in (("even", 0), ("odd", 1)):
    anchor = datetime(2026, 1, 1, second=shift, tzinfo=UTC)
    app.job(name, schedule=duly.Every(timedelta(seconds=2), anchor=anchor))(effect)
"""


@pytest.fixture
def shop(place: Place) -> Place:
    """A project in the place's folder, with the tables there."""
    folder = place.folder
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "duly_jobs.py").write_text(JOBS)
    database = settings_of(place.database)
    (folder / "shopsettings.py").write_text(SETTINGS.format(database=database))
    place.ask("CREATE TABLE effect (nominal_us BIGINT NOT NULL)")
    return place


def manage(shop: Place, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{shop.folder}",
        "DJANGO_SETTINGS_MODULE": "shopsettings",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "django", *arguments],
        cwd=shop.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    shop.started.append(process)
    return process


def test_threads_of_a_worker_make_each_effect_once_and_end_with_it(shop: Place) -> None:
    """Each has a connection of its own; what waits for the commit runs after it."""
    migrated = manage(shop, "migrate", "--verbosity", "0")
    _, err = migrated.communicate(timeout=60)
    assert migrated.returncode == 0, err
    worker = manage(shop, "duly", "worker", "--threads", "3")

    until = time.monotonic() + PATIENCE_S
    while len(shop.settled()) < 6:
        assert worker.poll() is None, worker.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)
    worker.send_signal(signal.SIGTERM)
    out, err = worker.communicate(timeout=60)

    assert worker.returncode == 0, err
    assert "applied even:" in out
    assert "applied odd:" in out
    shop.assert_whole()
    assert list(shop.folder.glob("thread-*")), "no callback ran"
