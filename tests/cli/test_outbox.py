"""`duly deliver` and `duly outbox`: what is printed, what is decided, and what a signal means."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from duly._cli.main import main
from tests.outbox.desk import until
from tests.outbox.peer import Does, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOBS = """
import {module}
from duly.channels import Http

app = {module}.App("sqlite:///bank.db")
app.destination("pay", Http({url!r}))

@app.job("bill")
{define} bill(run):
    for n in range(2):
        run.send("pay", n, name=str(n))
"""
AT = "2026-09-13T00:00:00Z"


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as made:
        yield made


@pytest.fixture(params=[("duly", "def"), ("duly.aio", "async def")], ids=["sync", "aio"])
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with the jobs of a bill, of either kind, and its messages in the outbox."""
    module, define = request.param
    (tmp_path / "bills.py").write_text(JOBS.format(module=module, define=define, url=peer.url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DULY_APP", "bills:app")
    monkeypatch.delitem(sys.modules, "bills", raising=False)
    assert main(["init"]) == 0
    assert main(["run", "bill", "--at", AT]) == 0
    return tmp_path


def typed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(arguments)
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.mark.usefixtures("folder")
def test_deliver_once_sends_what_is_due_and_says_how_it_went(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = typed(capsys, "deliver", "--once")
    assert (code, out) == (0, "2 sent, 0 again, 0 uncertain, 0 dead, 0 late\n")
    assert len(peer.seen) == 2
    assert typed(capsys, "deliver", "--once", "--destination", "pai")[0] == 2


@pytest.mark.usefixtures("folder")
def test_uncertain_message_is_shown_confirmed_and_redriven(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runbook of docs/outbox.md, typed."""
    peer.always = Does(status=None)
    typed(capsys, "deliver", "--once")
    _, out, _ = typed(capsys, "--json", "outbox", "summary")
    (told,) = json.loads(out)["destinations"]
    assert (told["destination"], told["uncertain"], told["pending"]) == ("pay", 2, 0)
    _, out, _ = typed(capsys, "outbox", "list", "--state", "uncertain")
    first, second = [line.split("\t")[0] for line in out.splitlines()[1:]]
    _, out, _ = typed(capsys, "outbox", "show", first)
    assert "ambiguous (protocol_error)" in out

    code, _, err = typed(capsys, "outbox", "confirm", first)
    assert (code, "--reason" in err) == (2, True)
    code, out, _ = typed(capsys, "outbox", "confirm", first, first, "--reason", "in their list")
    assert (code, out) == (0, f"{first} settled as sent\n")
    code, _, err = typed(capsys, "outbox", "redrive", first, "--reason", "again")
    assert (code, "is sent" in err) == (3, True)

    _, out, _ = typed(capsys, "outbox", "redrive", "--state", "uncertain", "--dry-run")
    assert second in out
    peer.always = Does()
    typed(capsys, "outbox", "redrive", "--state", "uncertain", "--reason", "not there")
    assert typed(capsys, "deliver", "--once")[1].startswith("1 sent")
    assert typed(capsys, "outbox", "list")[1].splitlines()[1:] == []
    _, out, _ = typed(capsys, "outbox", "show", first)
    assert "outbox confirm by " in out
    assert "in their list" in out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["redrive", "--reason", "all of them"], 2, "name the messages"),
        (["show"], 2, "the ID of one message"),
        (["show", "x", "--state", "dead"], 2, "the ID of one message"),
        (["summary", "x"], 2, "takes no ID"),
        (["summary", "--destination", "pay"], 2, "list the options"),
        (["redrive", "--destination", "pai", "--reason", "r"], 2, "did you mean 'pay'?"),
        (["redrive", "--destination", "nope", "--dry-run"], 2, "no message is to 'nope'"),
        (["list", "--destination", "nope"], 2, "no destination of that name is registered"),
        (["show", "x"], 2, "no message's id"),
        (["redrive", "x", "--state", "dead", "--reason", "r"], 2, "not by both"),
        (["list", "--state", "lost"], 2, "uncertain"),
        (["redrive", "--older-than", "2026-01-01T00:00:00Z"], 2, "give an age"),
        (["forget"], 2, "is not one of"),
    ],
)
def test_wrong_call_is_one_line_that_says_what_is_allowed(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, err = typed(capsys, "outbox", *arguments)
    assert found == code
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("folder")
def test_dry_run_says_and_ends_with_what_the_command_would(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message that is refused keeps the others of its batch from being decided about."""
    peer.behaviours += [Does(status=400), Does()]
    typed(capsys, "deliver", "--once")
    _, out, _ = typed(capsys, "--json", "outbox", "list", "--closed")
    states = {each["state"]: each["id"] for each in json.loads(out)["messages"]}
    both = (states["dead"], states["sent"])

    code, out, err = typed(capsys, "outbox", "redrive", *both, "--dry-run")
    would = {line.split("\t")[0]: line.split("\t")[-1] for line in out.splitlines()}
    assert would == {"id": "would be", both[0]: "left as it is", both[1]: "refused"}
    assert (code, err) == typed(capsys, "outbox", "redrive", *both, "--reason", "r")[::2]
    assert (code, err.count("\n")) == (3, 1)

    code, out, err = typed(capsys, "outbox", "redrive", both[0], "--dry-run")
    assert (code, out.splitlines()[1].split("\t")[-1], err) == (0, "to be sent again", "")
    code, out, _ = typed(capsys, "--json", "outbox", "resend", *both, "--dry-run")
    found = json.loads(out)["messages"]
    assert (code, {each["would"] for each in found}) == (0, {"sent once more"})
    code, _, err = typed(capsys, "outbox", "lookup", both[0], "--dry-run")
    assert (code, err) == typed(capsys, "outbox", "lookup", both[0])[::2]
    assert (code, "lookup=" in err) == (2, True)
    _, out, _ = typed(capsys, "--json", "outbox", "list", "--closed")
    assert {each["state"]: each["id"] for each in json.loads(out)["messages"]} == states


@pytest.mark.usefixtures("folder")
def test_limit_says_that_it_left_others_out(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """In what is shown, rehearsed and decided; what nothing matches is said too."""
    peer.always = Does(status=400)
    typed(capsys, "deliver", "--once")
    dead = ("--state", "dead")
    for arguments in (
        ("list", *dead),
        ("redrive", *dead, "--dry-run"),
        ("redrive", *dead, "--reason", "mended"),
    ):
        code, _, err = typed(capsys, "outbox", *arguments, "--limit", "1")
        assert (code, err.count("\n")) == (0, 1)
        assert "more than --limit 1 match" in err
    code, out, err = typed(capsys, "--json", "outbox", "list", "--limit", "1")
    assert (code, json.loads(out)["more"], "note" in json.loads(err)) == (0, True, True)
    for limit in ("2", "100000"):
        code, out, err = typed(capsys, "--json", "outbox", "list", "--limit", limit)
        assert (code, json.loads(out)["more"], err) == (0, False, "")
    code, out, err = typed(capsys, "outbox", "redrive", *dead, "--reason", "mended")
    assert (code, out.count("\n"), err) == (0, 1, "")
    code, out, err = typed(capsys, "outbox", "redrive", *dead, "--reason", "mended")
    assert (code, out, "no message matches" in err) == (0, "", True)


@pytest.mark.usefixtures("folder")
def test_batches_that_were_decided_before_a_refusal_are_told(
    peer: Peer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rehearsed, each message is told as it would end; an id in another form is the same one."""
    monkeypatch.setattr("duly._sync.outbox.BATCH", 1)
    peer.behaviours += [Does(status=400), Does()]
    typed(capsys, "deliver", "--once")
    _, out, _ = typed(capsys, "--json", "outbox", "list", "--closed")
    states = {each["state"]: each["id"] for each in json.loads(out)["messages"]}
    for first, second, would in (
        ("dead", "sent", ["to be sent again", "refused"]),
        ("sent", "dead", ["refused", "not reached"]),
    ):
        ids = [states[first], states[first].upper().replace("-", ""), states[second]]
        code, out, err = typed(capsys, "outbox", "redrive", *ids, "--dry-run")
        assert (code, err.count("\n")) == (3, 1)
        assert [line.split("\t")[-1] for line in out.splitlines()[1:]] == would
    ids = [states["dead"], states["dead"].upper(), states["sent"]]
    code, out, err = typed(capsys, "outbox", "redrive", *ids, "--reason", "r")
    assert (code, out, err.count("\n")) == (3, f"{states['dead']} to be sent again\n", 1)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("poll", ["0", "0.0", "-1", "nan", "-0", "inf", "x"])
def test_deliver_with_no_pause_is_refused(poll: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = typed(capsys, "deliver", "--once", "--poll", poll)
    assert (code, err.count("\n")) == (2, 1)


def test_signal_lets_what_is_under_way_end(folder: Path, peer: Peer) -> None:
    """It is waited for and written down: no doubt is left by a deployment."""
    peer.always = Does(after_s=1.0)
    environment: dict[str, Any] = {**os.environ, "DULY_APP": "bills:app"}
    with subprocess.Popen(
        [sys.executable, "-m", "duly", "deliver"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as relay:
        until(lambda: len(peer.seen) == 2, "started")
        relay.send_signal(signal.SIGTERM)
        assert relay.stdout is not None
        assert relay.stdout.read() == "2 sent, 0 again, 0 uncertain, 0 dead, 0 late\n"
        assert relay.wait(20) == 0
