"""What a process's definition means to the ledger: the same, an edit, or one that must not run."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import zones
from duly._core.policies import Policies, Retry
from duly._core.revision import Definition, Revision, decide, retirement
from duly._core.zone_record import ZoneRecord
from duly.errors import DefinitionStale, OperatorError, PeriodChanged, ZoneDataOutdated

DATA = Path(__file__).with_name("data") / "zoneinfo"
NOW = datetime(2026, 9, 13, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
VANCOUVER = "America/Vancouver"
NINE = "cron 0 9 * * *; zone=America/Vancouver; gap=next; fold=first"
TEN = "cron 0 10 * * *; zone=America/Vancouver; gap=next; fold=first"


def version(release: str) -> ZoneInfo:
    text = DATA.joinpath(release, f"{VANCOUVER}.base64").read_text("ascii")
    return ZoneInfo.from_file(BytesIO(b64decode(text)), key=VANCOUVER)


def defined(schedule: str | None = NINE, **more: Any) -> Definition:
    policies = more.pop("policies", Policies())
    fields = {"zone": VANCOUVER, "payload": "null", "app": "bank", **more}
    return Definition("daily-credit", schedule, policies=policies, **fields)


def told(
    definition: Definition,
    revisions: list[Revision],
    *,
    now: datetime = NOW,
    data: str = "2026f",
    adopt: bool = False,
) -> Revision | None:
    """What the ledger answers, which then holds it."""
    zone = version(data) if definition.zone == VANCOUVER else zones.load(definition.zone)
    found = decide(definition, revisions, now=now, zone=zone, zone_version=data, adopt=adopt)
    if found is not None:
        revisions.append(found)
    return found


def one_line(error: OperatorError | BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    assert text.startswith("job daily-credit: ")
    assert "; " in text
    return text


def test_first_definition_expects_nothing_of_the_past() -> None:
    """A job that replaces an old crontab starts now."""
    found = told(defined(), [])

    assert found is not None
    assert (found.number, found.why, found.effective_at) == (1, "first", NOW)
    assert (found.schedule, found.zone, found.payload, found.app) == (
        NINE,
        VANCOUVER,
        "null",
        "bank",
    )
    assert found.digest == defined().digest
    assert found.zone_version == "2026f"
    assert found.zone_record == ZoneRecord.around(version("2026f"), NOW)
    assert not found.retired


def test_first_definition_with_a_start_in_the_past_holds_from_there() -> None:
    """And so does what it knows of the zone."""
    starts = datetime(2019, 7, 1, tzinfo=UTC)

    found = told(defined(policies=Policies(starts=starts)), [])

    assert found is not None
    assert found.effective_at == starts
    assert found.zone_record == ZoneRecord.around(version("2026f"), NOW, since=starts)


def test_edit_before_a_start_in_the_future_holds_at_once() -> None:
    """A start that was mistyped can be mended, and the first day belongs to the new text."""
    starts = Policies(starts=NOW + 30 * DAY)
    revisions: list[Revision] = []

    first = told(defined(policies=starts), revisions)
    edit = told(defined(TEN, policies=starts), revisions, now=NOW + DAY)

    assert first is not None
    assert edit is not None
    assert (first.effective_at, edit.effective_at) == (NOW, NOW + DAY)


def test_same_definition_makes_no_revision() -> None:
    """However often a process starts, on whichever App."""
    revisions: list[Revision] = []
    told(defined(), revisions)

    assert told(defined(), revisions, now=NOW + DAY) is None
    assert told(defined(app="other"), revisions) is None
    assert told(defined(), revisions, now=NOW - DAY) is None
    assert told(defined(), revisions, adopt=True) is None


@pytest.mark.parametrize(
    "edited",
    [
        defined(TEN),
        defined(None),
        defined(zone="Europe/Berlin"),
        defined(payload='{"units":10}'),
        defined(policies=Policies(max_per_tick=3)),
        defined(policies=Policies(retry=Retry(attempts=3))),
        defined(policies=Policies(starts=NOW)),
    ],
    ids=["schedule", "no schedule", "zone", "payload", "policy", "retry", "starts"],
)
def test_edit_of_anything_is_a_revision_from_now_on(edited: Definition) -> None:
    revisions: list[Revision] = []
    told(defined(), revisions)

    found = told(edited, revisions, now=NOW + DAY)

    assert found is not None
    assert (found.number, found.why, found.effective_at) == (2, "edit", NOW + DAY)
    assert found.digest == edited.digest != revisions[0].digest
    assert (found.schedule, found.zone, found.payload) == (
        edited.schedule,
        edited.zone,
        edited.payload,
    )
    assert found.policies == edited.policies


def test_definition_of_an_earlier_revision_does_not_come_back_by_itself() -> None:
    """A host that was not deployed yet is told, and runs nothing."""
    revisions: list[Revision] = []
    told(defined(), revisions)
    told(defined(TEN), revisions, now=NOW + DAY)

    with pytest.raises(DefinitionStale) as stale:
        told(defined(), revisions, now=NOW + 2 * DAY)

    text = one_line(stale.value)
    assert "this code has revision 1, and the job is at revision 2 since 2026-09-14T12:00" in text
    assert "`duly init --adopt`" in text
    assert stale.value.details == {"job": "daily-credit", "revision": 1, "latest": 2}


def test_rollback_that_a_person_adopts_is_a_revision_of_its_own() -> None:
    """And then the newer code is the stale one."""
    revisions: list[Revision] = []
    told(defined(), revisions)
    told(defined(TEN), revisions, now=NOW + DAY)

    found = told(defined(), revisions, now=NOW + 2 * DAY, adopt=True)

    assert found is not None
    assert (found.number, found.why, found.effective_at) == (3, "adopted", NOW + 2 * DAY)
    assert found.digest == revisions[0].digest
    assert told(defined(), revisions, now=NOW + 3 * DAY) is None
    with pytest.raises(DefinitionStale, match="has revision 2, and the job is at revision 3"):
        told(defined(TEN), revisions, now=NOW + 3 * DAY)


def test_retired_job_does_not_come_back_by_itself() -> None:
    """Code that still has it is told so; a person, or another definition, brings it back."""
    revisions: list[Revision] = []
    told(defined(), revisions)
    revisions.append(retirement(revisions[-1], NOW + DAY))

    retired = revisions[-1]
    assert (retired.number, retired.why, retired.effective_at) == (2, "retired", NOW + DAY)
    assert (retired.retired, retired.schedule, retired.digest) == (True, None, "")
    with pytest.raises(DefinitionStale) as stale:
        told(defined(), revisions, now=NOW + 2 * DAY)
    assert "has revision 1, and the job was retired at 2026-09-14T12:00:00Z; deploy" in one_line(
        stale.value
    )
    adopted = told(defined(), [*revisions], now=NOW + 2 * DAY, adopt=True)
    edited = told(defined(TEN), [*revisions], now=NOW + 2 * DAY)
    assert adopted is not None
    assert edited is not None
    assert (adopted.why, edited.why, edited.number) == ("adopted", "edit", 3)


def test_newer_zone_data_that_disagrees_makes_a_revision() -> None:
    """The future goes by the newer data, from now on; the older record stays for the past."""
    revisions: list[Revision] = []
    told(defined(), revisions, data="2025b")

    found = told(defined(), revisions, now=NOW + DAY)

    assert found is not None
    assert (found.number, found.why, found.effective_at) == (2, "zone data", NOW + DAY)
    assert found.zone_version == "2026f"
    assert found.zone_record.agrees(version("2026f"))
    assert revisions[0].zone_record.agrees(version("2025b"))
    assert told(defined(), revisions, now=NOW + 2 * DAY) is None


@pytest.mark.parametrize("edited", [defined(), defined(TEN), defined(payload="1")])
def test_older_zone_data_that_disagrees_is_refused(edited: Definition) -> None:
    """Whatever the host says, its clock would name other instants."""
    revisions: list[Revision] = []
    told(defined(), revisions, data="2026f")

    with pytest.raises(ZoneDataOutdated) as outdated:
        told(edited, revisions, data="2025b", now=NOW + DAY)

    text = one_line(outdated.value)
    assert "knows America/Vancouver from tzdata 2026f, and this host has 2025b" in text
    assert "run pip install --upgrade tzdata here" in text
    assert outdated.value.details == {
        "job": "daily-credit",
        "zone": VANCOUVER,
        "ledger": "2026f",
        "host": "2025b",
    }


def test_older_zone_data_is_refused_for_a_zone_that_the_job_had_before() -> None:
    """The ledger knows that zone better than this host, whatever zone the job has in between."""
    revisions: list[Revision] = []
    told(defined(), revisions)
    told(defined(zone="Europe/Berlin"), revisions, now=NOW + DAY)

    with pytest.raises(ZoneDataOutdated, match="America/Vancouver from tzdata 2026f"):
        told(defined(TEN), revisions, data="2025b", now=NOW + 2 * DAY)


def test_zone_data_that_agrees_changes_nothing() -> None:
    """Most releases touch other zones: neither a revision nor a refusal."""
    berlin = defined(zone="Europe/Berlin")
    revisions: list[Revision] = []
    told(berlin, revisions, data="2025b")

    assert told(berlin, revisions, data="2026f") is None
    assert told(berlin, revisions, data="2024a") is None
    edit = told(defined(TEN, zone="Europe/Berlin"), revisions, data="2024a", now=NOW + DAY)
    assert edit is not None
    assert edit.why == "edit"


def test_edit_with_newer_zone_data_is_one_revision() -> None:
    revisions: list[Revision] = []
    told(defined(), revisions, data="2025b")

    found = told(defined(TEN), revisions, data="2026f", now=NOW + DAY)

    assert found is not None
    assert (found.why, found.zone_version) == ("edit", "2026f")
    assert told(defined(TEN), revisions, data="2026f", now=NOW + 2 * DAY) is None


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (f"period day 0; zone=UTC; of={NINE}", TEN, 'has period="day", and this code has no per'),
        (NINE, f"period day 0; zone=UTC; of={TEN}", 'has no period=, and this code has period="d'),
        (
            f"period day -1; zone=UTC; of={NINE}",
            f"period day 0; zone=UTC; of={NINE}",
            'has period="day" with period_offset=-1, and this code has period="day"; a period is',
        ),
        (
            f"period day 0; zone=UTC; of={NINE}",
            f"period week 0; zone=UTC; of={NINE}",
            'has period="day", and this code has period="week"',
        ),
    ],
)
def test_another_period_on_a_job_with_history_is_refused(
    before: str, after: str, says: str
) -> None:
    """It would settle the same days under other keys; retiring the job first changes nothing."""
    revisions: list[Revision] = []
    told(defined(before), revisions)

    for _ in range(2):
        with pytest.raises(PeriodChanged) as changed:
            told(defined(after), revisions, now=NOW + DAY)
        text = one_line(changed.value)
        assert "its revision 1" in text
        assert says in text
        assert "give the job a new name, with starts=" in text
        assert changed.value.details == {"job": "daily-credit"}
        revisions.append(retirement(revisions[-1], NOW))


def test_period_stays_while_its_time_of_day_its_zone_or_its_being_scheduled_changes() -> None:
    """Only another period, or another offset, names other occurrences."""
    day = f"period day -1; zone=UTC; of={NINE}"
    revisions: list[Revision] = []
    told(defined(None), revisions)  # never expected anything, so nothing has a period

    texts = [day, f"period day -1; zone=Europe/Berlin; of={TEN}", None, day.replace("9", "8")]
    for payload, text in enumerate(texts):
        assert told(defined(text, payload=str(payload)), revisions) is not None

    assert [r.period for r in revisions] == [None, "day -1", "day -1", None, "day -1"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", "retire"]), st.integers(-3, 3), st.booleans()),
        max_size=12,
    )
)
def test_effective_times_and_numbers_always_increase(
    steps: list[tuple[str, int, bool]],
) -> None:
    """Whatever the clock does; what is written is the definition, and then holds."""
    revisions: list[Revision] = []
    zone = zones.load("UTC")
    for what, days, adopt in steps:
        now = NOW + days * DAY
        if what == "retire":
            if revisions and not revisions[-1].retired:
                revisions.append(retirement(revisions[-1], now))
            continue
        definition = defined(NINE, zone="UTC", payload=what)
        try:
            found = decide(definition, revisions, now=now, zone=zone, zone_version="1", adopt=adopt)
        except DefinitionStale:
            assert not adopt
            assert definition.digest in [r.digest for r in revisions[:-1]]
            continue
        if found is None:
            assert revisions[-1].digest == definition.digest
            continue
        assert found.effective_at >= now or not revisions
        revisions.append(found)
        assert decide(definition, revisions, now=now, zone=zone, zone_version="1") is None

    assert [r.number for r in revisions] == list(range(1, len(revisions) + 1))
    effective = [r.effective_at for r in revisions]
    assert effective == sorted(set(effective))


def test_edits_within_one_tick_of_the_clock_hold_one_after_the_other() -> None:
    revisions: list[Revision] = []
    for payload in "123":
        told(defined(payload=payload), revisions)

    assert [r.effective_at - NOW for r in revisions] == [0 * DAY, MICROSECOND, 2 * MICROSECOND]
