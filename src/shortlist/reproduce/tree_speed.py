"""How fast tree training, search and updates are, at the size the authors' code was measured on.

10,677 items, a binary tree of height 14, histories of 69, width 24, 70 negatives per level, on random events: speed
does not depend on what they say. Times are medians over repeats, the device waited for at both ends.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.index.tree import search
from shortlist.progress import Progress, silent
from shortlist.report.result import at_least, at_most, result, row, start
from shortlist.train.tree.plan import TreePlan, plan_of
from shortlist.train.tree.rounds import Lesson, TreeTraining
from shortlist.train.tree.turn import updated

FULL: dict[str, Any] = {
    "items": 10_677,
    "users": 4000,
    "batches": (1000, 4000),
    "steps": 20,
    "answers": (1, 50, 500, 2000),
}
QUICK: dict[str, Any] = {"items": 300, "users": 40, "batches": (32,), "steps": 2, "answers": (1, 20)}
SOURCE = "issue 3; authors' code on the same chip: tree.md section 9"


def tree_speed(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> dict[str, Any]:
    """Examples, users and updates per second; one value per seed."""
    if profile not in ("quick", "full"):
        raise ConfigError(f"tree-speed: expected the profile quick or full, got {profile!r}")
    began, sizes = start(), FULL if profile == "full" else QUICK
    values: dict[tuple[str, str], list[float]] = {}
    for at, seed in enumerate(seeds):
        events = random_events(sizes["items"], sizes["users"], seed)
        for key, value in (_training(events, sizes, seed) | _using(events, sizes, seed)).items():
            values.setdefault(key, []).append(value)
        progress("tree speed", at + 1, len(seeds))
    rows = [row(method, metric, found) for (method, metric), found in values.items()]
    best = {key: statistics.fmean(found) for key, found in values.items()}
    claims = _claims(best) if profile == "full" else []
    return result("tree-speed-h200", profile, seeds, began, rows, claims)


def random_events(items: int, users: int, seed: int, length: int = 120) -> Interactions:
    """Users with `length` events each, popular items met more often."""
    generator = np.random.default_rng(seed)
    chances = 1 / np.arange(1, items + 1) ** 0.8
    met = generator.choice(items, users * length, p=chances / chances.sum())
    return Interactions.of(
        np.repeat(np.arange(users), length),
        met,
        np.tile(np.arange(length), users),
        n_users=users,
        n_items=items,
    )


def _plan(method: str, sizes: dict[str, Any], batch: int, **given: Any) -> TreePlan:
    return plan_of(method, batch=batch, levels="all", steps=10**6, judge_every=10**7, order="random", **given)


def _training(events: Interactions, sizes: dict[str, Any], seed: int) -> dict[tuple[str, str], float]:
    """Examples per second of each sampler, all levels taught as the authors do."""
    found = {}
    for method in ("dtr-u", "dtr-t"):
        for batch in sizes["batches"]:
            training = TreeTraining(_plan(method, sizes, batch), Lesson(events), seed)
            training.run(until=5)
            seconds = _seconds(lambda run=training: run.run(run.standing.step + 1), sizes["steps"])  # type: ignore[misc]
            found[method, f"examples/s, batch {batch}"] = batch / seconds
    return found


def _using(events: Interactions, sizes: dict[str, Any], seed: int) -> dict[tuple[str, str], float]:
    """Users per second, and seconds of one update of the tree."""
    plan = _plan("dtr-t", sizes, sizes["batches"][0])
    training = TreeTraining(plan, Lesson(events), seed)
    index = training.chosen()
    rows = torch.arange(min(20_000, len(training.instances)), device=training.device)
    found = {}
    for users in sizes["answers"]:
        histories = training.instances.histories(rows[:users])
        for name, half in (("bf16", True), ("float32", False)):
            if half and training.device.type == "cpu":
                continue
            with torch.autocast(training.device.type, torch.bfloat16, enabled=half):
                seconds = _seconds(lambda some=histories: search(index, some, 20, beam=150), sizes["steps"])  # type: ignore[misc]
            found["search, beam 150", f"users/s, batch {users}, {name}"] = users / seconds
    some = training.instances.some(rows)
    found["update", f"seconds from {len(rows)} instances"] = _seconds(
        lambda: updated(plan, index, some, seed), 3
    )
    return found


def _seconds(work: Callable[[], object], repeats: int) -> float:
    """The median over repeats, after two that warm up."""
    times = []
    for _ in range(repeats + 2):
        _wait()
        began = time.perf_counter()
        work()
        _wait()
        times.append(time.perf_counter() - began)
    return statistics.median(times[2:])


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _claims(best: dict[tuple[str, str], float]) -> list[dict[str, Any]]:
    def most(method: str, start: str) -> float:
        return max(value for (who, what), value in best.items() if who == method and what.startswith(start))

    update = next(value for (who, _), value in best.items() if who == "update")
    return [
        at_least("uniform sampling, examples/s", SOURCE, most("dtr-u", "examples/s"), 40_000),
        at_least("tree-based sampling, examples/s", SOURCE, most("dtr-t", "examples/s"), 25_000),
        at_least("search at beam 150, users/s", SOURCE, most("search, beam 150", "users/s"), 25_000),
        at_most("one update of the tree from 20,000 instances, seconds", SOURCE, update, 1.0),
    ]
