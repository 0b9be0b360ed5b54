"""What a job does about time: which policies are refused, and how they are stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly._core.policies import CATCH_UP, Policies, Retry
from duly.errors import NominalTimeInvalid, ScheduleInvalid, UsageError

HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
STARTS = datetime(2026, 1, 1, tzinfo=UTC)

durations = st.timedeltas(timedelta(0), timedelta(days=36_500))
positive = st.timedeltas(MICROSECOND, timedelta(days=36_500))
retries = st.builds(
    Retry,
    attempts=st.none() | st.integers(1, 1_000_000),
    first=durations,
    factor=st.floats(1, 100) | st.integers(1, 100),
    most=durations,
)


@st.composite
def policies(draw: st.DrawFn) -> Policies:
    catch_up = draw(st.sampled_from(CATCH_UP))
    in_order = draw(st.booleans())
    instants = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
    starts, ends = sorted(draw(st.lists(instants, min_size=2, max_size=2, unique=True)))
    return Policies(
        catch_up=catch_up,
        skip_after=draw(positive) if catch_up == "skip" else None,
        max_per_tick=draw(st.integers(1, 100_000)),
        max_running=1 if in_order else draw(st.integers(1, 1_000)),
        in_order=in_order,
        retry=draw(retries),
        deadline=draw(st.none() | durations),
        timeout=draw(st.none() | positive),
        starts=draw(st.none() | st.just(starts)),
        ends=draw(st.none() | st.just(ends)),
    )


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"catch_up": "all"}, "catch_up 'all' is not allowed; allowed are each, skip, reconcile, none"),
    ({"catch_up": None}, "catch_up None is not allowed; allowed are each"),
    ({"catch_up": "skip"}, 'catch_up="skip" needs skip_after='),
    ({"skip_after": HOUR}, 'skip_after= means nothing with catch_up="each"; write catch_up="skip"'),
    ({"catch_up": "none", "skip_after": HOUR}, 'skip_after= means nothing with catch_up="none"'),
    ({"catch_up": "skip", "skip_after": -HOUR}, "skip_after must be a timedelta from 0"),
    ({"catch_up": "skip", "skip_after": timedelta(0)}, "skip_after 0 would let nothing run; give"),
    ({"max_per_tick": 0}, "max_per_tick 0 is not allowed; give an int from 1 to 100000"),
    ({"max_per_tick": 100_001}, "max_per_tick 100001 is not allowed"),
    ({"max_per_tick": True}, "max_per_tick True is not allowed"),
    ({"max_per_tick": 1.0}, "max_per_tick 1.0 is not allowed"),
    ({"max_running": 0}, "max_running 0 is not allowed; give an int from 1 to 1000"),
    ({"max_running": 1001}, "max_running 1001 is not allowed"),
    ({"in_order": True, "max_running": 2}, "in_order=True runs one at a time; leave max_running="),
    ({"in_order": 1}, "in_order 1 is not allowed; give True or False"),
    ({"retry": 3}, "retry must be a Retry, not 3; give one such as Retry(attempts=5)"),
    ({"retry": None}, "retry must be a Retry, not None; give one"),
    ({"deadline": 3600}, "deadline must be a timedelta from 0 to a hundred years, not 3600; give"),
    ({"deadline": timedelta(days=36_501)}, "deadline must be a timedelta from 0 to a hundred"),
    ({"timeout": -MICROSECOND}, "timeout must be a timedelta from 0"),
    ({"timeout": timedelta(0)}, "timeout 0 would let nothing run; give one such as"),
    ({"starts": STARTS, "ends": STARTS}, "ends 2026-01-01T00:00:00Z is not after starts"),
]


@pytest.mark.parametrize(("given_policies", "says"), REFUSED, ids=[str(r[0]) for r in REFUSED])
def test_policy_that_cannot_hold_is_refused_in_one_line(
    given_policies: dict[str, Any], says: str
) -> None:
    """Each refusal names the wrong thing and says what to write."""
    with pytest.raises(ScheduleInvalid) as refused:
        Policies(**given_policies)

    assert says in refused.value.message
    assert "\n" not in refused.value.message
    assert "; " in refused.value.message


@pytest.mark.parametrize("name", ["starts", "ends"])
@pytest.mark.parametrize("value", [datetime(2026, 1, 1), "2026-01-01T00:00:00Z", 0])
def test_start_that_names_no_instant_is_refused(name: str, value: Any) -> None:
    """A naive datetime would mean another instant on each host."""
    with pytest.raises(NominalTimeInvalid, match=f"^{name} .*; (attach|give) one"):
        Policies(**{name: value})


def test_start_in_another_zone_is_the_same_policy() -> None:
    local = STARTS.astimezone(timezone(timedelta(hours=5)))

    assert Policies(starts=local).stored() == Policies(starts=STARTS).stored()
    assert Policies(starts=local).starts == STARTS


@pytest.mark.parametrize(
    ("given_retry", "says"),
    [
        ({"attempts": 0}, "retry.attempts 0 is not allowed; give an int from 1 to 1000000"),
        ({"attempts": True}, "retry.attempts True is not allowed"),
        ({"attempts": 1_000_001}, "retry.attempts 1000001 is not allowed"),
        ({"first": 30}, "retry.first must be a timedelta"),
        ({"most": -HOUR}, "retry.most must be a timedelta"),
        ({"factor": 0.5}, "retry.factor 0.5 is not allowed; give 1 to 100"),
        ({"factor": 101}, "retry.factor 101 is not allowed"),
        ({"factor": float("nan")}, "retry.factor nan is not allowed"),
        ({"factor": True}, "retry.factor True is not allowed"),
        ({"factor": Fraction(3, 2)}, "retry.factor a value of type Fraction is not allowed"),
        ({"on": (ValueError, "OSError")}, "retry.on has 'OSError', which is no exception class;"),
        ({"on": ValueError("x")}, "retry.on has a value of type ValueError, which is no"),
        ({"on": int}, "retry.on has a value of type type, which is no exception class; give one"),
    ],
    ids=str,
)
def test_retry_that_cannot_hold_is_refused_in_one_line(
    given_retry: dict[str, Any], says: str
) -> None:
    with pytest.raises(ScheduleInvalid) as refused:
        Retry(**given_retry)

    assert says in refused.value.message
    assert "\n" not in refused.value.message
    assert "; give" in refused.value.message


def test_retry_on_one_class_is_that_class_alone() -> None:
    assert Retry(on=ConnectionError).on == (ConnectionError,)  # type: ignore[arg-type]


@given(policies())
def test_stored_policies_come_back_as_they_were(given_policies: Policies) -> None:
    """What a revision keeps, as JSON, is what was declared."""
    stored = json.loads(json.dumps(given_policies.stored()))

    assert Policies.read(stored) == given_policies


def test_policies_that_are_not_set_are_not_stored() -> None:
    """A release that adds a policy changes no definition that does not use it."""
    spelled_out = Policies(catch_up="each", max_per_tick=100, in_order=False, retry=Retry())

    assert spelled_out.stored() == Policies().stored() == {}


def test_policies_of_a_later_release_are_read_without_what_is_unknown() -> None:
    """A ledger that a newer duly wrote can still be looked at."""
    stored = Policies(in_order=True, retry=Retry(attempts=3)).stored()
    stored["retry"]["shape"] = "linear"

    assert Policies.read({**stored, "mood": "calm"}) == Policies(
        in_order=True, retry=Retry(attempts=3)
    )


def test_stored_retry_is_equal_for_equal_factors() -> None:
    whole = json.dumps(Policies(retry=Retry(factor=3)).stored())

    assert whole == json.dumps(Policies(retry=Retry(factor=3.0)).stored())


@given(retries, st.integers(1, 1_000_000), st.text(max_size=20))
def test_delay_stays_within_its_bounds(retry: Retry, failures: int, key: str) -> None:
    """However many failures there were, a delay is at least half of what it may be at most."""
    delay = retry.delay(failures, key)

    longest_us = retry.most / MICROSECOND
    if retry.factor == 1:
        longest_us = min(longest_us, retry.first / MICROSECOND)
    assert timedelta(0) <= delay <= retry.most
    assert delay <= retry.most
    if failures == 1 or retry.factor == 1:
        longest_us = min(retry.first, retry.most) / MICROSECOND
        assert longest_us / 2 - 1 <= delay / MICROSECOND <= longest_us
    assert delay == retry.delay(failures, key)


def test_delay_grows_by_its_factor_up_to_the_longest() -> None:
    retry = Retry(first=timedelta(seconds=30), factor=2, most=timedelta(seconds=200))

    for failures, longest in enumerate((30, 60, 120, 200, 200), start=1):
        found = [retry.delay(failures, f"key {n}").total_seconds() for n in range(300)]
        assert longest / 2 <= min(found) < 0.55 * longest
        assert 0.95 * longest < max(found) <= longest


def test_delay_grows_without_end_by_a_small_factor() -> None:
    """The longest delay is reached however slowly it grows, and never overflows."""
    slow = Retry(first=timedelta(seconds=1), factor=1.001, most=HOUR)

    assert slow.delay(20_000, "key") >= HOUR / 2
    assert Retry(factor=100).delay(10_000, "key") >= HOUR / 2
    assert Retry(first=timedelta(0), factor=100).delay(10_000, "key") == timedelta(0)


def test_delays_of_many_keys_are_spread() -> None:
    """A thousand jobs that failed together do not come back together."""
    found = {Retry().delay(1, f"job:{n}") for n in range(1000)}

    assert len(found) > 990
    assert Retry().delay(1, "job:1") != Retry().delay(2, "job:1") / 2


def test_refusals_are_the_programmers_to_mend() -> None:
    assert issubclass(ScheduleInvalid, UsageError)
