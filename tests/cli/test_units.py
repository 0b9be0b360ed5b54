"""`duly units`: what it prints is what systemd, cron and Kubernetes take."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml
from crontab import CronTab

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Duly

JOBS = """
import os
from datetime import UTC, datetime, timedelta
import duly

app = duly.App(os.environ.get("DULY_DATABASE_URL", "sqlite:///bank.db"))
EVERY = timedelta(minutes=90)

def job(name, **definition):
    app.job(name, **definition)(lambda run: None)

job("daily-credit", schedule="30 2 * * *", timezone="Europe/Berlin")
job("monthly", schedule="0 9 1,15 * MON", timezone="Europe/Berlin")
job("Q_x".lower() + "." + "y" * 90, schedule="0 0 * * *")
job("both-fields", schedule="0 6 */2 * FRI-SUN", timezone="Europe/Berlin")
job("switch-day", schedule="0 3 1,15 * SUN", timezone="Europe/Berlin")
job("elapsed", schedule=duly.Every(EVERY, anchor=datetime(2026, 1, 1, tzinfo=UTC)))
job("hasty", schedule=duly.Every(timedelta(seconds=7), anchor=datetime(2026, 1, 1, tzinfo=UTC)))
job("by-hand")
"""
LONG = "q_x." + "y" * 90
KUBERNETES = ["1.29", "1.31", "1.33", "1.35", "1.37"]


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / "jobs_units.py").write_text(JOBS)
    return "jobs_units:app"


@pytest.fixture
def systemd_verify(tmp_path: Path) -> Callable[[dict[str, str]], str]:
    """Has systemd read unit files, and returns what it complains of."""
    if shutil.which("systemd-analyze") is None:
        _absent("no systemd-analyze (Debian package systemd)")

    def verify(files: dict[str, str]) -> str:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        names = [str(tmp_path / name) for name in files]
        said = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *names],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        return said.stderr if said.returncode == 0 else f"exit {said.returncode}: {said.stderr}"

    return verify


def _absent(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def files_of(duly: Duly, app: str, *arguments: str) -> dict[str, str]:
    ended = duly("--app", app, "--json", "units", *arguments)
    assert ended.code == 0, ended.err
    files: dict[str, str] = ended.json["files"]
    return files


# ------------------------------------------------------------------------------------------ systemd


@pytest.mark.parametrize("job", ["daily-credit", "monthly", "elapsed", LONG])
def test_unit_files_are_taken_by_systemd_without_complaint(
    app: str, duly: Duly, systemd_verify: Callable[[dict[str, str]], str], job: str
) -> None:
    files = files_of(duly, app, "systemd", job, "--deadline", "60", "--user", "root")

    assert sorted(files) == [f"duly-{job}.service", f"duly-{job}.timer"]
    assert systemd_verify(files) == ""


def test_systemd_complains_of_a_unit_file_that_is_wrong(
    app: str, duly: Duly, systemd_verify: Callable[[dict[str, str]], str]
) -> None:
    """The check above can fail."""
    files = files_of(duly, app, "systemd", "daily-credit")
    name = "duly-daily-credit.timer"

    assert systemd_verify({**files, name: files[name].replace("02:30", "26:30")}) != ""


def test_timer_starts_at_the_end_of_the_gap_that_systemd_skips(app: str, duly: Duly) -> None:
    timer = files_of(duly, app, "systemd", "daily-credit")["duly-daily-credit.timer"]

    lines = [line for line in timer.splitlines() if line.startswith("OnCalendar=")]
    assert lines == [
        "OnCalendar=*-*-* 02:30:00 Europe/Berlin",
        "OnCalendar=*-03-* 01:00:00 UTC",
    ]


def test_either_day_field_is_enough_in_two_lines_of_a_timer(app: str, duly: Duly) -> None:
    timer = files_of(duly, app, "systemd", "monthly")["duly-monthly.timer"]

    assert "OnCalendar=*-*-01,15 09:00:00 Europe/Berlin" in timer
    assert "OnCalendar=Mon *-*-* 09:00:00 Europe/Berlin" in timer


def test_timer_has_only_days_that_both_fields_name(app: str, duly: Duly) -> None:
    """A day field that starts with a star makes it both, also in Vixie cron."""
    timer = files_of(duly, app, "systemd", "both-fields")["duly-both-fields.timer"]

    odd = ",".join(f"{day:02d}" for day in range(1, 32, 2))
    assert timer.count("OnCalendar=") == 1
    assert f"OnCalendar=Fri,Sat,Sun *-*-{odd} 06:00:00 Europe/Berlin" in timer


@pytest.mark.parametrize("starter", ["systemd", "cron", "kubernetes"])
def test_due_time_that_the_starter_meets_at_a_switch_gets_no_second_start(
    app: str, duly: Duly, starter: str
) -> None:
    image = ["--image", "x"] if starter == "kubernetes" else []
    ended = duly("--app", app, "units", starter, "switch-day", *image)

    assert ended.code == 0
    assert "At a switch" not in ended.out


def test_service_runs_the_very_words_that_were_given(
    app: str,
    duly: Duly,
    tmp_path: Path,
    systemd_verify: Callable[[dict[str, str]], str],
) -> None:
    """Whatever blanks, quotes, dollars and percents they hold."""
    words = ["a b", "50%n", "$HOME", 'say "x"', "back\\slash", "it's", "${X}", ";", "#no"]
    command = subprocess.list2cmdline([])  # an empty line to build on
    command += " ".join([sys.executable, *(_shell(word) for word in words)])
    files = files_of(
        duly, app, "systemd", "daily-credit", "--command", command,
        "--working-directory", str(tmp_path / "5%n"), "--user", "root",
    )  # fmt: skip

    service = files["duly-daily-credit.service"]
    [line] = [line for line in service.splitlines() if line.startswith("ExecStart=")]
    assert systemd_words(line.removeprefix("ExecStart=")) == [sys.executable, *words]
    assert f"WorkingDirectory={tmp_path}/5%%n" in service
    assert systemd_verify(files) == ""


def _shell(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def systemd_words(text: str) -> list[str]:
    """The words of a command line, as systemd.service(5) and systemd.syntax(7) say."""
    assert "$" not in text.replace("$$", ""), "a variable"
    assert "%" not in text.replace("%%", ""), "a specifier"
    found, word, quoted, begun = [], "", False, False
    characters = iter(text.replace("%%", "%").replace("$$", "$") + " ")
    for character in characters:
        if character == "\\":
            word, begun = word + next(characters), True
        elif character == '"':
            quoted, begun = not quoted, True
        elif character == " " and not quoted:
            if begun:
                found.append(word)
            word, begun = "", False
        else:
            word, begun = word + character, True
    assert not quoted
    return found


def test_service_tries_again_what_can_pass_and_nothing_else(app: str, duly: Duly) -> None:
    service = files_of(duly, app, "systemd", "daily-credit")["duly-daily-credit.service"]

    assert "\nRestart=on-failure\n" in service
    [prevented] = [line for line in service.splitlines() if "RestartPrevent" in line]
    assert set(prevented.partition("=")[2].split()) == {"1", "2", "3", "70", "129", "130", "143"}


# --------------------------------------------------------------------------------------------- cron


def test_crontab_fragment_is_read_by_a_crontab_parser(app: str, duly: Duly) -> None:
    ended = duly("--app", app, "units", "cron", "daily-credit")

    jobs = list(CronTab(tab=ended.out))
    assert [str(job.slices) for job in jobs] == ["30 2 * * *", "0 3 * 3 *"]
    assert all(job.is_valid() for job in jobs)
    assert all(f"--app {app} run daily-credit >/dev/null" in job.command for job in jobs)
    assert not any("=" in line.split()[0] for line in ended.out.splitlines() if line[:1] != "#")


def test_crontab_of_the_system_names_the_user(app: str, duly: Duly) -> None:
    """And its file has no dot, which Debian's cron would pass over."""
    [(name, text)] = files_of(duly, app, "cron", LONG, "--user", "bank").items()

    assert "." not in name
    [job] = CronTab(tab=text, user=False)
    assert job.user == "bank"
    assert job.command.startswith("cd /")


def test_crontab_in_another_zone_has_the_hours_of_summer_and_winter(app: str, duly: Duly) -> None:
    ended = duly("--app", app, "units", "cron", "daily-credit", "--timezone", "UTC")

    assert [str(job.slices) for job in CronTab(tab=ended.out)] == ["30 0,1 * * *", "0 1 * 3 *"]


def test_command_of_a_crontab_reaches_the_shell_word_for_word(app: str, duly: Duly) -> None:
    """A crontab ends a command at a bare percent, and a shell splits at blanks."""
    words = ["50% off", "it's", "$HOME", "a\\b"]
    command = " ".join([sys.executable, "-c", _shell("import sys; print(sys.argv[1:])")])
    command += "".join(" " + _shell(word) for word in words)
    [text] = files_of(
        duly, app, "cron", "monthly", "--command", command, "--working-directory", "/"
    ).values()
    [line] = [line for line in text.splitlines() if not line.startswith("#")]

    said = line.split(maxsplit=5)[5]
    assert said.count("%") == said.count("\\%") == 1
    shell = ["sh", "-c", said.replace("\\%", "%").removesuffix(" >/dev/null")]
    ended = subprocess.run(shell, capture_output=True, text=True, check=True)
    assert ended.stdout == f"{words}\n"


def test_command_too_long_for_cron_is_refused(app: str, duly: Duly) -> None:
    long = "/bin/echo " + "x" * 1000
    ended = duly("--app", app, "units", "cron", "daily-credit", "--command", long)

    assert ended.code == 2
    assert "put it into a script" in ended.err


# --------------------------------------------------------------------------------------- Kubernetes


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("job", ["daily-credit", "elapsed", LONG])
def test_manifest_is_valid_to_kubernetes(app: str, duly: Duly, job: str, version: str) -> None:
    [text] = files_of(
        duly, app, "kubernetes", job, "--image", "example.org/bank:1.0",
        "--namespace", "bank", "--deadline", "600", "--working-directory", "/srv",
    ).values()  # fmt: skip

    for document in yaml.safe_load_all(text):
        kubernetes_validate.validate(document, version, strict=True)
        assert len(document["metadata"]["name"]) <= 52


def test_kubernetes_complains_of_a_manifest_that_is_wrong(app: str, duly: Duly) -> None:
    """The check above can fail."""
    [text] = files_of(duly, app, "kubernetes", "monthly", "--image", "x").values()
    document = yaml.safe_load(text.replace("restartPolicy", "restartPolice"))

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES[-1], strict=True)


def test_second_cron_job_starts_at_the_end_of_the_gap(app: str, duly: Duly) -> None:
    [text] = files_of(duly, app, "kubernetes", "daily-credit", "--image", "x").values()

    found = [
        (each["metadata"]["name"], each["spec"]["schedule"], each["spec"]["timeZone"])
        for each in yaml.safe_load_all(text)
    ]
    assert found == [
        ("duly-daily-credit", "30 2 * * *", "Europe/Berlin"),
        ("duly-daily-credit-gap", "0 1 * 3 *", "Etc/UTC"),
    ]


def test_command_of_a_pod_is_not_expanded_by_kubernetes(app: str, duly: Duly) -> None:
    """`$(DULY_DATABASE_URL)` in a word would put the secret on the command line."""
    command = "duly run daily-credit --started-by '$(DULY_DATABASE_URL)'"
    arguments = ("kubernetes", "daily-credit", "--image", "bank:1", "--command", command)
    (text, *_) = files_of(duly, app, *arguments).values()

    (document, *_) = yaml.safe_load_all(text)
    (container,) = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == "$$(DULY_DATABASE_URL)"


def test_pod_is_told_the_name_of_its_job_and_a_secret(app: str, duly: Duly) -> None:
    [text] = files_of(duly, app, "kubernetes", "monthly", "--image", "x y: #1").values()

    pod = yaml.safe_load(text)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    sources = {each["name"]: each["valueFrom"] for each in container["env"]}
    label = "metadata.labels['batch.kubernetes.io/job-name']"
    assert sources["DULY_KUBERNETES_JOB_NAME"] == {"fieldRef": {"fieldPath": label}}
    assert list(sources["DULY_DATABASE_URL"]) == ["secretKeyRef"]
    assert container["command"] == ["duly", "--app", app, "run", "monthly"]
    assert container["image"] == "x y: #1"


# --------------------------------------------------------------------------------- whatever it is


@pytest.mark.parametrize("starter", ["systemd", "cron", "kubernetes"])
def test_password_of_the_environment_is_in_no_definition(
    app: str, duly: Duly, monkeypatch: pytest.MonkeyPatch, starter: str
) -> None:
    monkeypatch.setenv("DULY_DATABASE_URL", "postgresql://bank:s3cret-word@db/bank")
    image = ["--image", "x"] if starter == "kubernetes" else []
    ended = duly("--app", app, "units", starter, "daily-credit", *image)

    assert ended.code == 0
    assert "s3cret" not in ended.out + ended.err
    assert "DULY_DATABASE_URL" in ended.out or starter == "cron"


def test_password_in_the_command_is_refused_and_not_shown(app: str, duly: Duly) -> None:
    command = "/bin/duly --database postgresql://bank:s3cret-word@db/bank"
    ended = duly("--app", app, "units", "systemd", "daily-credit", "--command", command)

    assert ended.code == 2
    assert "DULY_DATABASE_URL" in ended.err
    assert "s3cret" not in ended.out + ended.err


def test_default_command_is_this_duly_with_the_app_and_the_job(app: str, duly: Duly) -> None:
    [text] = files_of(duly, app, "cron", "monthly").values()

    assert f"cd {Path.cwd()} && {sys.executable} -m duly --app {app} run monthly" in text


def test_output_writes_the_files_and_overwrites_only_when_told(
    app: str, duly: Duly, tmp_path: Path
) -> None:
    here = ("--app", app, "units", "systemd", "monthly", "--output", "units")
    assert duly(*here).code == 2, "no such directory"
    (tmp_path / "units").mkdir()

    ended = duly(*here)
    assert ended.code == 0
    timer = tmp_path / "units" / "duly-monthly.timer"
    assert f"wrote {timer}\n" in ended.out
    assert timer.read_text() == files_of(duly, app, "systemd", "monthly")[timer.name]

    timer.write_text("mine")
    (tmp_path / "units" / "duly-monthly.service").unlink()
    refused = duly(*here)
    assert refused.code == 2
    assert "--force" in refused.err
    assert timer.read_text() == "mine"
    assert not (tmp_path / "units" / "duly-monthly.service").exists(), "all or none"

    assert duly(*here, "--force").code == 0
    assert timer.read_text() != "mine"


def test_printed_text_holds_the_files_one_after_the_other(app: str, duly: Duly) -> None:
    ended = duly("--app", app, "units", "systemd", "monthly")

    assert ended.out == "\n".join(files_of(duly, app, "systemd", "monthly").values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["systemd", "by-hand"], "schedule="),
        (["systemd", "hasty"], "due twice within the minute"),
        (["systemd", "daily-credi"], "did you mean 'daily-credit'?"),
        (["launchd", "daily-credit"], "'launchd' is not one of"),
        (["kubernetes", "daily-credit"], "--image"),
        (["systemd", "daily-credit", "--image", "x"], "--image is for kubernetes"),
        (["systemd", "daily-credit", "--timezone", "UTC"], "--timezone is for cron"),
        (["kubernetes", "daily-credit", "--image", "x", "--user", "y"], "--user is for systemd"),
        (["cron", "daily-credit", "--timezone", "CEST"], "Europe/Berlin"),
        (["cron", "daily-credit", "--user", "a b"], "no user's name"),
        (["systemd", "daily-credit", "--command", "duly run x"], "no absolute path"),
        (["systemd", "daily-credit", "--command", "/bin/duly 'x"], "cannot be read"),
        (["systemd", "daily-credit", "--working-directory", "x"], "no absolute path"),
        (["systemd", "daily-credit", "--force"], "--output"),
        (["systemd", "daily-credit", "--deadline", "0"], "--deadline"),
        (["kubernetes", "monthly", "--image", "x", "--namespace", "A"], "--namespace"),
    ],
)
def test_wrong_call_is_one_line_that_says_the_next_step(
    app: str, duly: Duly, arguments: list[str], said: str
) -> None:
    ended = duly("--app", app, "units", *arguments)

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_database_alone_has_no_job_to_print(duly: Duly) -> None:
    ended = duly("--database", "sqlite:///bank.db", "units", "systemd", "daily-credit")

    assert ended.code == 2
    assert "needs the code of the job" in ended.err


def test_names_of_two_jobs_never_become_one(duly: Duly) -> None:
    from duly._cli.units.order import dns_name

    jobs = ["a.b", "a_b", "a-b", "a--b", "a-b-", "a-gap", "a", "x" * 100, "x" * 99]
    names = [dns_name(job, limit=43) for job in jobs]
    assert len(set(names)) == len(jobs)
    assert all(len(name) <= 43 and name[-1] != "-" for name in names)
    assert "a-gap" not in names


def test_json_of_a_definition_is_one_object(app: str, duly: Duly) -> None:
    ended = duly("--app", app, "units", "cron", "monthly", "--json")

    said: Any = json.loads(ended.out)
    assert (said["starter"], said["job"]) == ("cron", "monthly")
    assert list(said["files"]) == ["duly-monthly.crontab"]
