"""A real cron starts the printed line, and the ledger has its effect."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

import duly
from duly._cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

JOBS = """
import duly

app = duly.App("sqlite:///bank.db")

@app.job("minutely", schedule="* * * * *", timezone="Europe/Berlin")
def minutely(run):
    return str(run.nominal_time)
"""
# Cron starts its lines at the next full minute.
PATIENCE_S = 75
PATH = os.environ.get("PATH", "") + ":/usr/sbin"

# The daemon sees crontabs of its own, and its mounts and processes end with it. What PAM wants of a
# session depends on the machine, and is not what is asked here.
PRIVATE = """
set -e
mount --bind {folder}/crontabs /var/spool/cron/crontabs
mount --bind {folder}/cron.d /etc/cron.d
mount --bind {folder}/crontab /etc/crontab
mount --bind {folder}/pam /etc/pam.d/cron
mount -t tmpfs tmpfs /run
exec cron -f
"""
PAM = "".join(f"{kind} required pam_permit.so\n" for kind in ("auth", "account", "session"))
PLACES = ("/var/spool/cron/crontabs", "/etc/cron.d", "/etc/crontab", "/etc/pam.d/cron")
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Starts Debian's cron with one crontab, that of root; it is killed at the end."""
    if os.geteuid() != 0:
        pytest.skip("not root, which alone may give cron a private spool")
    if shutil.which("cron", path=PATH) is None or not all(map(os.path.exists, PLACES)):
        reason = "no cron (Debian package cron)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    if subprocess.run([*ALONE, "mount", "-t", "tmpfs", "tmpfs", "/run"], check=False).returncode:
        pytest.skip("this machine lets nobody have mounts of their own")
    folder = tmp_path / "cron"
    for name in ("crontabs", "cron.d"):
        (folder / name).mkdir(parents=True)
    (folder / "crontab").write_text("")
    (folder / "pam").write_text(PAM)
    started: list[subprocess.Popen[bytes]] = []

    def start(crontab: str) -> None:
        spooled = folder / "crontabs" / "root"
        spooled.write_text(crontab)
        spooled.chmod(0o600)
        script = PRIVATE.format(folder=shlex.quote(str(folder)))
        environment = {"PATH": PATH}
        process = subprocess.Popen([*ALONE, "sh", "-c", script], env=environment)
        started.append(process)

    yield start
    for process in started:
        assert process.poll() is None, "cron ended by itself"
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_cron_runs_the_printed_line_and_the_effect_is_in_the_ledger(
    cron: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "jobs_real_cron.py").write_text(JOBS)
    monkeypatch.chdir(tmp_path)
    app = duly.App(f"sqlite:///{tmp_path / 'bank.db'}")
    app.job("minutely")(lambda run: None)  # so that it is known before its first attempt
    app.init()
    assert main(["--app", "jobs_real_cron:app", "units", "cron", "minutely"]) == 0

    cron(capsys.readouterr().out)

    until = time.monotonic() + PATIENCE_S
    while not (attempts := app.history("minutely").attempts):
        assert time.monotonic() < until, "cron did not start the line, or it failed"
        time.sleep(0.25)
    app.close()
    newest = attempts[0]
    assert newest.outcome is duly.Outcome.APPLIED
    assert newest.source == "schedule"
    assert newest.occurrence.nominal_time.second == 0
