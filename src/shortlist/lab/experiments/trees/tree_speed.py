"""How fast tree training, search and updates are, at the size the authors' code was measured on.

10,677 items, a binary tree of height 14, histories of 69, width 24, 70 negatives per level, on random events: speed
does not depend on their content. The device is synchronised before and after every repeat; claims are about medians.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.index.tree import search
from shortlist.lab.result import Claim, Result, at_least, at_most, result, row, start
from shortlist.progress import Progress, silent
from shortlist.train.tree.plan import TreePlan, plan_of
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet
from shortlist.train.tree.updates.update import updated_tree

FULL: dict[str, Any] = {"items": 10_677, "users": 4000, "batches": (1000, 4000), "repeats": 15}
FULL["answers"] = (1, 50, 500, 2000, 4000)
QUICK: dict[str, Any] = {"items": 300, "users": 40, "batches": (32,), "repeats": 2, "answers": (1, 20)}
SOURCE = "target of this project; the authors' code on the same chip is in tree.md, section 9"
Times = dict[tuple[str, str], list[float]]


def tree_speed(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0,), progress: Progress = silent
) -> Result:
    """Examples, users and updates per second; one value per repeat, all with the first seed."""
    if profile not in ("quick", "full"):
        raise ConfigError(f"tree-speed: expected the profile quick or full, got {profile!r}")
    began, sizes, seed = start(), FULL if profile == "full" else QUICK, seeds[0]
    events = random_events(sizes["items"], sizes["users"], seed)
    found = _training(events, sizes, seed, progress) | _search_and_update(events, sizes, seed)
    rows = [row(method, metric, values) for (method, metric), values in found.items()]
    claims = _claims(found) if profile == "full" else []
    plans = {method: asdict(_plan(method, sizes["batches"][0])) for method in ("dtr-u", "dtr-t")}
    return result("tree-speed-h200", profile, [seed], began, rows, claims, settings=plans)


def random_events(items: int, users: int, seed: int, length: int = 120) -> Interactions:
    """Users with `length` events each, popular items more often."""
    generator = np.random.default_rng(seed)
    weights = 1 / np.arange(1, items + 1) ** 0.8
    sampled = generator.choice(items, users * length, p=weights / weights.sum())
    return Interactions.of(
        np.repeat(np.arange(users), length),
        sampled,
        np.tile(np.arange(length), users),
        n_users=users,
        n_items=items,
    )


def _plan(method: str, batch: int, **overrides: Any) -> TreePlan:
    return plan_of(method, batch_size=batch, steps=10**6, eval_every=10**7, order="random", **overrides)


def _training(events: Interactions, sizes: dict[str, Any], seed: int, progress: Progress) -> Times:
    """Examples per second of each sampler; `all levels` as the authors do, else those below beam 150."""
    found: Times = {}
    ways: list[tuple[str, dict[str, Any]]] = [
        ("", {}),
        (", compiled", {"compiled": True}),
        (", all levels", {"levels": "all"}),
    ]
    if not torch.cuda.is_available():
        ways = [ways[0], ways[2]]
    jobs = [
        (method, batch, way) for method in ("dtr-u", "dtr-t") for batch in sizes["batches"] for way in ways
    ]
    for done, (method, batch, (label, overrides)) in enumerate(jobs, start=1):
        training = TreeTraining(_plan(method, batch, **overrides), TreeTrainingSet(events), seed)
        times = seconds_of(lambda run=training: run.run(run.state.step + 1), sizes["repeats"])  # type: ignore[misc]
        found[method, f"examples/s, batch {batch}{label}"] = [batch / one for one in times]
        progress("tree speed", done, len(jobs))
    return found


def _search_and_update(events: Interactions, sizes: dict[str, Any], seed: int) -> Times:
    """Users per second, and seconds of one update of the tree."""
    plan = _plan("dtr-t", sizes["batches"][0], levels="all", leaf_vectors="slot")
    training = TreeTraining(plan, TreeTrainingSet(events), seed)
    index = training.chosen()
    rows = torch.arange(min(20_000, len(training.instances)), device=training.device)
    found: Times = {}
    for users in sizes["answers"]:
        histories = training.instances.histories(rows[:users])
        for name, half in (("bf16", True), ("float32", False)):
            if half and training.device.type == "cpu":
                continue
            with torch.autocast(training.device.type, torch.bfloat16, enabled=half):
                times = seconds_of(lambda some=histories: search(index, some, 20, beam=150), sizes["repeats"])  # type: ignore[misc]
            found["search", f"users/s at beam 150, batch {users}, {name}"] = [users / one for one in times]
    some = training.instances.take(rows)
    found["update", "seconds from 20,000 instances"] = seconds_of(
        lambda: updated_tree(plan, index, some, seed), 3
    )
    return found


def seconds_of(work: Callable[[], object], repeats: int) -> list[float]:
    """The seconds of repeats, after three warm-up runs."""
    times = []
    for _ in range(repeats + 3):
        _wait()
        began = time.perf_counter()
        work()
        _wait()
        times.append(time.perf_counter() - began)
    return times[3:]


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _claims(found: Times) -> list[Claim]:
    def most(method: str, whole: bool = False) -> float:
        kinds = {metric: values for (of, metric), values in found.items() if of == method}
        return max(
            statistics.median(values) for metric, values in kinds.items() if ("all levels" in metric) == whole
        )

    update = statistics.median(found["update", "seconds from 20,000 instances"])
    return [
        at_least("uniform sampling, examples/s, levels that decide", SOURCE, most("dtr-u"), 40_000),
        at_least("uniform sampling, examples/s, all levels", SOURCE, most("dtr-u", True), 40_000),
        at_least("tree-based sampling, examples/s, levels that decide", SOURCE, most("dtr-t"), 25_000),
        at_least("tree-based sampling, examples/s, all levels", SOURCE, most("dtr-t", True), 25_000),
        at_least("search at beam 150, users/s", SOURCE, most("search"), 25_000),
        at_most("one update of the tree from 20,000 instances, seconds", SOURCE, update, 1.0),
    ]
