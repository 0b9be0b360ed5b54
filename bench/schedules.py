"""How fast nominal times come, beside other evaluators of cron.

    python bench/schedules.py            # measures, prints, and writes bench/SCHEDULES.md
    python bench/schedules.py --no-file  # measures and prints

Every contender does the same work in one run, task by task in turns, so that what else the
machine does meets all of them; the medians of the rounds count. A new contender is a function
in `CONTENDERS`.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from croniter import croniter
from cronsim import CronSim

from duly import zones
from duly.schedules import Cron

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESULTS = Path(__file__).with_name("SCHEDULES.md")
ROUNDS = 7
ASKED = 100  # instants at which each round asks for a neighbour
ZONE = "Europe/Berlin"
START = datetime(2026, 1, 1, tzinfo=UTC)

# ------------------------------------------------------------------------------------- contenders


class Evaluator(NamedTuple):
    """One expression, ready to be asked; instants are aware, in whatever zone."""

    following: Callable[[datetime], Iterator[datetime]]  # every nominal time after that instant
    next: Callable[[datetime], datetime | None]
    previous: Callable[[datetime], datetime | None]


def duly(expression: str) -> Evaluator:
    schedule = Cron(expression, ZONE)
    end = datetime(9999, 1, 1, tzinfo=UTC)
    return Evaluator(lambda after: schedule.between(after, end), schedule.next, schedule.previous)


def cronsim(expression: str) -> Evaluator:
    """It is an iterator and no more: each question makes one, in local time as its rules need."""
    zone = zones.load(ZONE)

    def backward(at: datetime) -> datetime:
        return next(CronSim(expression, at.astimezone(zone), reverse=True))

    def forward(after: datetime) -> Iterator[datetime]:
        return CronSim(expression, after.astimezone(zone))

    return Evaluator(forward, lambda after: next(forward(after)), backward)


def croniter_(expression: str) -> Evaluator:
    """An iterator too."""
    zone = zones.load(ZONE)

    def reader(at: datetime) -> Any:
        return croniter(expression, at.astimezone(zone), ret_type=datetime)

    return Evaluator(
        lambda after: reader(after).all_next(),
        lambda after: reader(after).get_next(),
        lambda at: reader(at).get_prev(),
    )


CONTENDERS: dict[str, Callable[[str], Evaluator]] = {
    "duly": duly,
    "cronsim": cronsim,
    "croniter": croniter_,
}

# ------------------------------------------------------------------------------------------ tasks


class Task(NamedTuple):
    """What is measured: `measure` gives one round's number."""

    name: str
    unit: str
    needed: float
    measure: Callable[[Callable[[str], Evaluator]], float]

    @property
    def more_is_better(self) -> bool:
        return self.unit == "/s"

    def met(self, value: float) -> bool:
        return value >= self.needed if self.more_is_better else value <= self.needed


def enumerated(expression: str, count: int) -> Callable[[Callable[[str], Evaluator]], float]:
    """Nominal times a second of processor time over the first *count*."""

    def measure(contender: Callable[[str], Evaluator]) -> float:
        evaluator = contender(expression)
        begun = time.process_time()
        found = sum(1 for _ in islice(evaluator.following(START), count))
        took = time.process_time() - begun
        assert found == count
        return found / took

    return measure


Ask: TypeAlias = "Callable[[Evaluator], Callable[[datetime], datetime | None]]"


def asked(
    expression: str, first: datetime, span: timedelta, ask: Ask
) -> Callable[[Callable[[str], Evaluator]], float]:
    """The median of single questions, in microseconds, at instants all over the span."""
    chance = random.Random(f"{expression} {first}")
    instants = [first + chance.random() * span for _ in range(ASKED)]

    def measure(contender: Callable[[str], Evaluator]) -> float:
        question = ask(contender(expression))
        taken = []
        for instant in instants:
            begun = time.perf_counter_ns()
            found = question(instant)
            taken.append(time.perf_counter_ns() - begun)
            assert found is not None
        return statistics.median(taken) / 1_000

    return measure


def tasks() -> list[Task]:
    decade, month = timedelta(days=3_652), timedelta(days=28)
    found = [
        Task("between `*/5 * * * *`", "/s", 200_000, enumerated("*/5 * * * *", 20_000)),
        Task("between `30 2 * * *`", "/s", 50_000, enumerated("30 2 * * *", 4_000)),
    ]
    for name, ask, leap in (
        ("next", lambda e: e.next, datetime(2096, 3, 1, tzinfo=UTC)),
        ("previous", lambda e: e.previous, datetime(2104, 1, 1, tzinfo=UTC)),
    ):
        found += [
            Task(f"{name} `{text}`", "µs", 50, asked(text, START, decade, ask))
            for text in ("*/5 * * * *", "30 2 * * *")
        ]
        # 2100 is no leap year: the one before lies in 2096, the one after in 2104.
        text = "0 0 29 2 *"
        found.append(
            Task(f"{name} `{text}`, 8 years away", "µs", 50, asked(text, leap, month, ask))
        )
    return found


# ---------------------------------------------------------------------------------------- results


def facts() -> list[str]:
    """The machine and the versions, without which a number says little."""
    versions = [f"{name} {metadata.version(name)}" for name in ("cronsim", "croniter")]
    python = f"Python {platform.python_version()} ({platform.python_implementation()})"
    return [
        f"{python}, {platform.system()} {platform.machine()}",
        f"{cpu()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start",
        f"tzdata {zones.data_version()}, {', '.join(versions)}",
        f"{ROUNDS} rounds in turns, zone {ZONE}; each number is the median of the rounds",
    ]


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def measured() -> dict[str, dict[str, float]]:
    """For each task the median of each contender."""
    rounds: dict[str, dict[str, list[float]]] = {}
    for turn in range(ROUNDS):
        for task in tasks():
            for name, contender in CONTENDERS.items():
                value = task.measure(contender)
                rounds.setdefault(task.name, {}).setdefault(name, []).append(value)
        print(f"round {turn + 1} of {ROUNDS}", file=sys.stderr)
    return {
        task: {name: statistics.median(values) for name, values in of_task.items()}
        for task, of_task in rounds.items()
    }


def table(medians: dict[str, dict[str, float]]) -> list[str]:
    """Markdown: duly's number, what is needed, and how many times as long the others take."""
    others = [name for name in CONTENDERS if name != "duly"]
    head = ["task", "duly", "needed", "", *(f"{name} (ratio)" for name in others)]
    lines = [row(head), row(["---", *["---:"] * 2, "---", *["---:"] * len(others)])]
    for task in tasks():
        of_task = medians[task.name]
        ours = of_task["duly"]
        sign = "≥" if task.more_is_better else "≤"
        cells = [
            task.name,
            written(ours, task),
            f"{sign} {task.needed:,.0f}{'' if task.more_is_better else ' '}{task.unit}",
            "met" if task.met(ours) else "**missed**",
        ]
        for name in others:
            ratio = ours / of_task[name] if task.more_is_better else of_task[name] / ours
            cells.append(f"{written(of_task[name], task)} ({ratio:,.1f} x)")
        lines.append(row(cells))
    return lines


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def written(value: float, task: Task) -> str:
    return f"{value:,.0f}/s" if task.more_is_better else f"{value:,.1f} µs"


def main() -> None:
    about = facts()
    lines = [
        "# Speed of schedules",
        "",
        "Written by `python bench/schedules.py`. A ratio says how many times as long the other",
        "takes for the same. `between` enumerates, per second of processor time; `next` and",
        "`previous` are single questions at instants spread over ten years, by the clock. cronsim",
        "and croniter make an iterator for each, as they offer no other way.",
        "",
        *(f"- {fact}" for fact in about),
        "",
        *table(measured()),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if "--no-file" not in sys.argv[1:]:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
