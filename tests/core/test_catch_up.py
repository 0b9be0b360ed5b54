"""What becomes of each missing occurrence: every one in exactly one place, by its policy."""

from __future__ import annotations

import tracemalloc
from array import array
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly._core import catch_up
from duly._core.catch_up import Decision, Failures, Plan, Waiting, plan
from duly._core.instants import from_us, to_us
from duly._core.policies import CATCH_UP, Policies, Retry
from duly.errors import NominalTimeInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MINUTE_US = 60_000_000
AT_ONCE = Retry(first=timedelta(0))


def planned(
    missing: Sequence[int],
    policies: Policies,
    failures: Mapping[int, Failures] | None = None,
    **options: Any,
) -> Plan:
    return plan(
        missing,
        policies=policies,
        now=options.pop("now", NOW),
        due=from_us,
        failures=failures or {},
        key=str,
        **options,
    )


def minutes_ago(*minutes: int) -> list[int]:
    return [to_us(NOW - each * MINUTE) for each in sorted(minutes, reverse=True)]


def made(catch_up: Any, **more: Any) -> Policies:
    if catch_up == "skip":
        more.setdefault("skip_after", timedelta(hours=1))
    return Policies(catch_up=catch_up, **more)


@given(
    ages=st.sets(st.integers(0, 200), max_size=40),
    kind=st.sampled_from(CATCH_UP),
    in_order=st.booleans(),
    limit=st.none() | st.integers(0, 10),
    failed=st.dictionaries(
        st.integers(0, 200),
        st.builds(
            Failures,
            st.integers(1, 4),
            st.sampled_from([NOW, NOW - timedelta(days=1)]),
            st.booleans(),
        ),
        max_size=15,
    ),
    newest=st.none() | st.integers(0, 200),
    most=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_plan_holds_each_missing_occurrence_exactly_once(
    ages: set[int],
    kind: Any,
    in_order: bool,
    limit: int | None,
    failed: dict[int, Failures],
    newest: int | None,
    most: tuple[int, int],
) -> None:
    """Run, skipped, covered, waiting or counted: none is lost, none stands twice."""
    missing = minutes_ago(*ages)
    failures = {to_us(NOW - age * MINUTE): found for age, found in failed.items()}
    policies = made(kind, in_order=in_order, max_per_tick=7, retry=Retry(attempts=3))
    options: dict[str, Any] = {"limit": limit}
    if newest is not None:
        options["newest_due_us"] = to_us(NOW - newest * MINUTE)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catch_up, "SKIPPED_MAX", most[0])
        patch.setattr(catch_up, "COVERED_MAX", most[1])
        found = planned(missing, policies, failures, **options)

    listed = [*found.run, *found.skip, *found.cover, *(w.nominal_us for w in found.waiting)]
    assert len(listed) == len(set(listed))
    assert set(listed) <= set(missing)
    counted = found.over_limit + found.held + found.left
    assert len(listed) + counted == len(missing) == found.missing
    assert min(found.over_limit, found.held, found.left) >= 0
    assert len(found.run) <= (7 if limit is None else limit)
    assert found.run == sorted(found.run)
    assert list(found.cover) == sorted(found.cover, reverse=True)
    assert found.oldest_us == (missing[0] if missing else None)
    assert found.left == 0 or kind == "none"
    assert len(found.skip) <= most[0]
    assert len(found.cover) <= most[1]


def test_each_runs_every_one_oldest_first_up_to_the_limit() -> None:
    missing = minutes_ago(*range(5))

    found = planned(missing, Policies(max_per_tick=3))

    assert (found.run, found.over_limit) == (missing[:3], 2)
    assert planned(missing, Policies(max_per_tick=3), limit=2).run == missing[:2]


def test_each_passes_over_one_that_failed_and_goes_on() -> None:
    """One that waits takes nobody's place; only `in_order` lets the later ones wait for it."""
    missing = minutes_ago(3, 2, 1)
    failures = {missing[1]: Failures(1, NOW)}

    free = planned(missing, Policies(), failures)
    ordered = planned(missing, Policies(in_order=True), failures)

    assert (free.run, free.held) == ([missing[0], missing[2]], 0)
    assert (ordered.run, ordered.held) == ([missing[0]], 1)
    assert [w.nominal_us for w in ordered.waiting] == [missing[1]]


def test_in_order_stops_for_good_at_one_that_was_given_up() -> None:
    """What must not be passed over holds the later ones until a person settles it."""
    missing = minutes_ago(3, 2, 1)

    found = planned(missing, Policies(in_order=True), {missing[0]: Failures(1, NOW, final=True)})

    assert (found.run, found.held, found.next_at) == ([], 2, None)
    assert found.waiting == [Waiting(missing[0], Decision.GIVEN_UP, None)]


def test_skip_gives_up_what_is_older_and_runs_the_others() -> None:
    """An occurrence is as old as its due time; one exactly of that age is still run."""
    missing = minutes_ago(62, 61, 60, 5)

    found = planned(missing, made("skip"))

    assert list(found.skip) == missing[:2]
    assert found.run == missing[2:]


def test_skip_goes_by_the_due_time() -> None:
    """The period of yesterday that falls due now is not a day late."""
    yesterday = to_us(NOW - timedelta(days=1))

    found = plan(
        [yesterday],
        policies=made("skip"),
        now=NOW,
        due=lambda us: from_us(us) + timedelta(days=1),
        failures={},
        key=str,
    )

    assert (found.run, list(found.skip)) == ([yesterday], [])


def test_skip_gives_up_what_waits_for_a_retry_once_it_is_old() -> None:
    missing = minutes_ago(90)

    found = planned(missing, made("skip"), {missing[0]: Failures(1, NOW)})

    assert (list(found.skip), found.waiting) == (missing, [])


def test_skip_takes_a_bounded_number_at_once_and_leaves_the_rest_to_the_next_tick() -> None:
    """The ones that are left are the newer ones, and nobody is asked to settle them."""
    missing = minutes_ago(*range(100, 105), 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catch_up, "SKIPPED_MAX", 2)
        found = planned(missing, made("skip"))

    assert list(found.skip) == missing[:2]
    assert (found.run, found.over_limit, found.left) == (missing[-1:], 3, 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catch_up, "SKIPPED_MAX", 2)
        full = planned(missing, made("skip"), limit=0)

    assert (full.run, full.over_limit) == ([], 4)


def test_reconcile_runs_the_newest_which_covers_the_older() -> None:
    """Newest first, as every claim of several keys goes."""
    missing = minutes_ago(*range(4))

    found = planned(missing, made("reconcile"))

    assert (found.run, list(found.cover)) == (missing[-1:], missing[2::-1])
    assert list(planned(missing[:1], made("reconcile")).cover) == []


def test_reconcile_covers_nothing_while_its_run_waits() -> None:
    """What no run covers stays missing, and waits for that run, not for a person."""
    missing = minutes_ago(*range(4))

    failed = planned(missing, made("reconcile"), {missing[-1]: Failures(1, NOW)})
    full = planned(missing, made("reconcile"), limit=0)

    assert (failed.run, list(failed.cover), failed.held) == ([], [], 3)
    assert (full.run, list(full.cover), full.held + full.over_limit) == ([], [], 4)


def test_reconcile_covers_a_bounded_number_the_newest_ones() -> None:
    missing = minutes_ago(*range(6))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catch_up, "COVERED_MAX", 2)
        found = planned(missing, made("reconcile"))

    assert (list(found.cover), found.over_limit, found.left) == (missing[4:2:-1], 3, 0)


@pytest.mark.parametrize(("newest", "run", "left"), [(0, 1, 2), (None, 1, 2), (-1, 0, 3)])
def test_none_runs_the_newest_due_and_leaves_the_others(
    newest: int | None, run: int, left: int
) -> None:
    """The slot that is due now runs; where that one is settled, nothing does."""
    missing = minutes_ago(0, 1, 2)
    newest_us = None if newest is None else to_us(NOW - newest * MINUTE)

    found = planned(missing, made("none"), newest_due_us=newest_us)

    assert (found.run, found.left) == (missing[-1:] * run, left)


@pytest.mark.parametrize("kind", CATCH_UP)
def test_nothing_missing_plans_nothing(kind: Any) -> None:
    assert planned([], made(kind)) == Plan()


@pytest.mark.parametrize("missing", [[2, 1], [1, 1]])
def test_missing_out_of_order_is_refused(missing: list[int]) -> None:
    """A caller that lists one twice would run it twice."""
    with pytest.raises(NominalTimeInvalid, match="strictly increasing; sort them"):
        planned(missing, Policies())


def test_failed_occurrence_is_tried_again_when_its_delay_is_over() -> None:
    retry = Retry(first=10 * MINUTE, factor=2, most=timedelta(days=1))
    missing = minutes_ago(30)
    for failures in (1, 2, 3):
        delay = retry.delay(failures, str(missing[0]))
        failed = {missing[0]: Failures(failures, NOW - 30 * MINUTE)}
        due_at = NOW - 30 * MINUTE + delay
        policies = Policies(retry=retry)

        early = planned(missing, policies, failed, now=due_at - timedelta(microseconds=1))
        ready = planned(missing, policies, failed, now=due_at)

        assert early.waiting == [Waiting(missing[0], Decision.RETRY_LATER, due_at)]
        assert (early.run, early.next_at) == ([], due_at)
        assert (ready.run, ready.waiting) == (missing, [])


@pytest.mark.parametrize(
    ("attempts", "count", "final", "run"),
    [(3, 2, False, 1), (3, 3, False, 0), (3, 4, False, 0), (None, 9, False, 1), (None, 1, True, 0)],
)
def test_attempts_end_with_the_last_one_or_with_an_error_not_worth_a_retry(
    attempts: int | None, count: int, final: bool, run: int
) -> None:
    missing = minutes_ago(5)
    policies = Policies(retry=Retry(attempts=attempts, first=timedelta(0)))

    found = planned(missing, policies, {missing[0]: Failures(count, NOW, final=final)})

    assert len(found.run) == run
    assert [w.decision for w in found.waiting] == [Decision.GIVEN_UP] * (1 - run)


def test_next_at_is_the_first_retry_of_all_that_wait() -> None:
    missing = minutes_ago(3, 2, 1)
    failed = {
        missing[0]: Failures(1, NOW, final=True),
        missing[1]: Failures(1, NOW),
        missing[2]: Failures(5, NOW),
    }

    found = planned(missing, Policies(), failed)

    assert found.next_at == min(w.until for w in found.waiting if w.until)
    assert found.next_at == NOW + Retry().delay(1, str(missing[1]))


@pytest.mark.parametrize("kind", CATCH_UP)
def test_backlog_of_a_million_is_planned_in_little_memory(kind: Any) -> None:
    """A job that was off for two years does not take the process with it."""
    last = to_us(NOW)
    missing = array("q", range(last - 999_999 * MINUTE_US, last + 1, MINUTE_US))
    tracemalloc.start()
    try:
        found = planned(missing, made(kind))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 50_000_000
    assert len(found.run) <= 100
    listed = len(found.run) + len(found.skip) + len(found.cover)
    assert listed + found.over_limit + found.left == len(missing) == 1_000_000
