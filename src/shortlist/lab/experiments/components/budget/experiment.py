"""A budget of candidates split over four nominators: learned splits against fixed ones, before and after a ranker.

A tree, two towers, co-visits and popular items are fitted by their trainers, out of fold for training requests and on
all training events for test users, once per seed. Limits are learned from training requests. Every system serves 200
distinct candidates: lists are read beyond their limits, all by the same factor, until there are so many. A ranker of
the same type is trained on the candidates of every system, because the candidates of a request decide its negatives;
it has the same requests and seed. Segments are by length of history, or clusters of users by their mean item factors;
a logistic gate over nominators gives every request limits of its own. Users of all seeds are pooled: each seed holds
out other users. 'gate' is the learned split times the gate, 'shares of the gate' the budget times it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.components.budget.systems import (
    ALONE,
    AUTO,
    EVEN,
    GATE,
    GLOBAL,
    KMEANS,
    ORACLE,
    PROPORTIONAL,
    SEGMENTS,
    SHARES,
    SYSTEMS,
    split_of,
)
from shortlist.lab.experiments.components.budget.trial import METRICS, BudgetTrial, Sizes
from shortlist.lab.experiments.models.cells import Setup, dataset_of
from shortlist.lab.experiments.parallel import origin_of_cells
from shortlist.lab.result import Claim, Difference, Result, Row, claim, result, row, start
from shortlist.metrics.significance import PairedTest, paired
from shortlist.nominate import Split
from shortlist.progress import Progress, silent

SOURCE = "budget split over nominators"
QUICK = Sizes(budget=24, requests=200, folds=2, tree_epochs=1, tower_epochs=1, ranker_epochs=1, width=24)
NAMES = {"ml-1m": "components-budget", "mind": "components-budget-mind"}
PAIRS = (
    *product((SEGMENTS, KMEANS, GATE, SHARES), (GLOBAL,)),
    *product((SEGMENTS, GLOBAL, GATE), (AUTO, EVEN, PROPORTIONAL, *ALONE, ORACLE)),
)
MEASURED = METRICS[:2]


@dataclass(frozen=True, eq=False)
class BudgetTable:
    """The metrics of all test users of every seed, by system."""

    values: dict[int, Tensor]  # by seed [systems, metrics, C]

    def compared(self, one: str, other: str, metric: str) -> tuple[PairedTest, int]:
        """The paired test of two systems over the users of all seeds."""
        ours, theirs = self._users(one, metric), self._users(other, metric)
        return paired(ours, theirs, 0), len(ours)

    def _users(self, system: str, metric: str) -> Tensor:
        place, at = SYSTEMS.index(system), METRICS.index(metric)
        return torch.cat([one[place, at] for one in self.values.values()])

    def rows(self) -> list[Row]:
        """The mean of every metric of every system."""
        return [
            row(system, metric, [float(one[place, at].nanmean()) for one in self.values.values()])
            for place, system in enumerate(SYSTEMS)
            for at, metric in enumerate(METRICS)
        ]

    def differences(self, where: str) -> list[Difference]:
        """Paired differences of the learned splits."""
        return [
            Difference(where, one, other, metric, test.difference, test.low, test.high, users)
            for one, other in PAIRS
            for metric in MEASURED
            for test, users in [self.compared(one, other, metric)]
        ]

    def claims(self) -> list[Claim]:
        """A learned split is above a fixed one, and one by segments above one for all; none may be below."""
        recall, ndcg = MEASURED
        pairs = (
            (SEGMENTS, GLOBAL),
            (KMEANS, GLOBAL),
            (GATE, GLOBAL),
            (GLOBAL, EVEN),
            (GLOBAL, AUTO),
            (GATE, AUTO),
        )
        above = [self._claim(one, other, recall, "above") for one, other in pairs]
        ranked = [self._claim(one, other, ndcg, "above") for one, other in pairs]
        return [*above, *ranked, *(self._claim(one, AUTO, ndcg, "not below") for one in (GLOBAL, GATE))]

    def _claim(self, one: str, other: str, metric: str, what: str) -> Claim:
        test, users = self.compared(one, other, metric)
        holds = test.above if what == "above" else not test.below
        note = f"paired difference over {users} users of {len(self.values)} seeds"
        return claim(
            f"{metric}: {one} {what} {other}", SOURCE, holds, test.difference, note, [test.low, test.high]
        )


def components_budget(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
) -> Result:
    """All splits on one data set; the quick profile is a small simulated log."""
    began, name = start(), NAMES[where]
    if profile not in ("quick", "full"):
        raise ConfigError(f"{name}: expected the profile quick or full, got {profile!r}")
    is_quick = profile == "quick"
    setup, sizes = Setup("demo" if is_quick else where, "half-history"), QUICK if is_quick else Sizes()
    cache, values, facts = AnswerCache.open(cache_file), dict[int, Tensor](), dict[str, Any]()
    for number, seed in enumerate(seeds):
        progress(name, number, len(seeds))
        answer = f"{setup.data}/{seed}"
        trial = BudgetTrial(dataset_of(setup, seed, data, is_quick), sizes, seed)
        values[seed], facts[answer] = cache.get(answer, lambda trial=trial: _measured(trial), asdict(sizes))  # type: ignore[misc]
    progress(name, len(seeds), len(seeds))
    table = BudgetTable(values)
    return result(
        name,
        profile,
        seeds,
        began,
        table.rows(),
        table.claims(),
        settings={answer: one["limits"] for answer, one in facts.items()},
        differences=tuple(table.differences(str(setup))),
        note=" ".join([*__doc__.partition("\n\n")[2].split(), cache.origins]),
    )


def _measured(trial: BudgetTrial) -> tuple[Tensor, dict[str, Any]]:
    """The metrics of all systems [systems, metrics, C], and their limits."""
    splits = {system: split_of(system, trial) for system in SYSTEMS}
    metrics = torch.stack([trial.measured(splits[system]) for system in SYSTEMS])
    return metrics, {"limits": {system: _plain(one) for system, one in splits.items()}, **origin_of_cells()}


def _plain(split: Split) -> dict[str, Any]:
    """The limits of a split; of one with a gate also its mean shares."""
    own = {"nominators": split.nominators, "limits": split.limits, "history": split.history}
    return own if split.gate is None else {**own, "gate": split.gate.mean.tolist()}
