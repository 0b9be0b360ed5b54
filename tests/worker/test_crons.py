"""Two real crons on two "hosts" drive `duly tick`; one of them is stopped for a while."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.units.test_real_cron import ALONE, PAM, PATH, PLACES, PRIVATE
from tests.worker.conftest import ROOT, Place, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MINUTE_US = 60_000_000
MINUTELY = """
@app.job("minutely", schedule="* * * * *")
def minutely(run):
    count(run)
"""


class Host:
    """A cron of its own, with mounts and processes of its own."""

    def __init__(self, name: str, folder: Path, place: Place) -> None:
        for part in ("crontabs", "cron.d"):
            (folder / part).mkdir(parents=True)
        (folder / "crontab").write_text("")
        (folder / "pam").write_text(PAM)
        duly = f"{sys.executable} -m duly --app jobs:app tick --started-by {name}"
        spooled = folder / "crontabs" / "root"
        spooled.write_text(
            f"PYTHONPATH={ROOT / 'src'}\n"
            f"* * * * * cd {place.folder} && {duly} >> {folder / 'out'} 2>&1\n"
        )
        spooled.chmod(0o600)
        script = PRIVATE.format(folder=shlex.quote(str(folder)))
        command = [*ALONE, "sh", "-c", script]
        self.name = name
        self.process = subprocess.Popen(command, env={"PATH": PATH})

    def signal(self, number: int) -> None:
        """To the daemon itself, which is the child of `unshare`."""
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), number)

    def close(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def hosts(postgres_place: Place, tmp_path: Path) -> Iterator[Callable[[], tuple[Host, Host]]]:
    if os.geteuid() != 0:
        pytest.skip("not root, which alone may give cron a private spool")
    if shutil.which("cron", path=PATH) is None or not all(map(os.path.exists, PLACES)):
        reason = "no cron (Debian package cron)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    if subprocess.run([*ALONE, "mount", "-t", "tmpfs", "tmpfs", "/run"], check=False).returncode:
        pytest.skip("this machine lets nobody have mounts of their own")
    started: list[Host] = []

    def start() -> tuple[Host, Host]:
        started.extend(Host(name, tmp_path / name, postgres_place) for name in ("one", "two"))
        return started[0], started[1]

    yield start
    for host in started:
        host.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("away", [1, pytest.param(3, marks=pytest.mark.torture)])
def test_two_crons_of_which_one_is_stopped_settle_each_minute_once(
    hosts: Callable[[], tuple[Host, Host]], postgres_place: Place, away: int
) -> None:
    """While one is away the other goes on, and what the returned one starts late is nothing new."""
    place = postgres_place
    place.define(MINUTELY)
    assert place.start("tick").wait(60) == 0  # registers: nothing of the past is expected

    one, two = hosts()
    within(place.settled, "no cron started a tick", seconds=90)
    two.signal(signal.SIGSTOP)
    seen = len(place.settled())
    within(lambda: len(place.settled()) >= seen + away, "it stood still", seconds=60 * away + 60)
    two.signal(signal.SIGCONT)
    # What cron starts for the minutes it slept through comes within seconds.
    within((place.folder / "two" / "out").exists, "the other never ran", seconds=30)
    time.sleep(5)

    settled = place.settled()
    assert place.effects() == settled
    assert settled == list(range(settled[0], settled[-1] + 1, MINUTE_US))
    assert len(settled) > away
    rows = place.ask("SELECT nominal_us, started_by FROM duly_attempt WHERE outcome = 'applied'")
    assert {by for us, by in rows if int(us) in settled[seen : seen + away]} == {one.name}
    assert place.ask("SELECT count(*) FROM duly_attempt WHERE outcome <> 'applied'")[0][0] == 0
