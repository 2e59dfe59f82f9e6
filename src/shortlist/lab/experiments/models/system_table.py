"""A table of systems over setups: means, seconds, paired differences from one system, and whether it is above all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.cells import (
    AUTO,
    CLASSIC,
    METRICS,
    TREES,
    Cell,
    Setup,
    cells_of,
    is_counted,
    seeds_of,
    systems_of,
)
from shortlist.lab.experiments.models.parallel import fill_cache
from shortlist.lab.experiments.parallel import chosen_cells
from shortlist.lab.result import Claim, Difference, Row, claim, row
from shortlist.metrics.significance import PairedTest, paired
from shortlist.progress import Progress, silent

SOURCE = "guarantee of train without a recipe"
DECIDES = METRICS[0]


@dataclass(frozen=True, eq=False)
class SystemTable:
    """What the cache has of some setups, systems and seeds; `failed` cells have a reason."""

    cache: AnswerCache
    setups: Sequence[Setup]
    seeds: Sequence[int]
    systems: Sequence[str] = ()  # all systems of a setup if empty
    failed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def filled(
        cls,
        cache: AnswerCache,
        setups: Sequence[Setup],
        seeds: Sequence[int],
        systems: Sequence[str] = (),
        *,
        folder: Path | None = None,
        is_quick: bool = False,
        jobs: int = 1,
        only: Sequence[str] = (),
        progress: Progress = silent,
    ) -> "SystemTable":
        """Run the cells that the cache does not have, of those under the patterns `only`."""
        trees = [tree for tree in TREES if any(f"/{tree}/" in one for one in only)]
        cells = [*cells_of(setups, systems, seeds), *(cells_of(setups, trees, seeds) if trees else ())]
        failed = fill_cache(chosen_cells(cells, only), cache, folder, is_quick, jobs, progress)
        return cls(cache, setups, seeds, systems, failed)

    def systems_on(self, setup: Setup) -> list[str]:
        """The systems of a setup that have been measured."""
        known = self.systems or (*systems_of(setup), *TREES)
        return [name for name in known if self.values(setup, name)]

    def values(self, setup: Setup, system: str) -> dict[int, Tensor]:
        """The metrics of all test users by seed [metrics, U]; counts on the same split stand for all seeds."""
        names = {seed: str(Cell(setup, system, seed)) for seed in seeds_of(setup, system, self.seeds)}
        found = {seed: self.cache.tensors[name] for seed, name in names.items() if self.cache.has(name)}
        if found and is_counted(setup, system):
            return dict.fromkeys(self.seeds, next(iter(found.values())))
        return found

    def facts(self, setup: Setup, system: str) -> dict[int, dict[str, Any]]:
        """Facts about the training by seed."""
        names = {seed: str(Cell(setup, system, seed)) for seed in self.seeds}
        return {seed: self.cache.facts[name] for seed, name in names.items() if self.cache.has(name)}

    def rows(self) -> list[Row]:
        """Means of every metric, and seconds of training, of every system."""
        return [
            one for setup in self.setups for name in self.systems_on(setup) for one in self._rows(setup, name)
        ]

    def _rows(self, setup: Setup, system: str) -> list[Row]:
        values, title = self.values(setup, system), f"{system} on {setup}"
        seconds = [float(one["seconds"]) for one in self.facts(setup, system).values()]
        means = [
            row(title, metric, [float(one[at].nanmean()) for one in values.values()])
            for at, metric in enumerate(METRICS)
        ]
        return [*means, row(title, "training seconds", seconds)]

    def differences(self, one: str = AUTO) -> list[Difference]:
        """Paired differences of one system from every other, by setup and metric."""
        return [
            Difference(str(setup), one, other, metric, test.difference, test.low, test.high, users)
            for setup in self.setups
            for other in (CLASSIC, *self._models(setup, one))
            if other != one and self.values(setup, one).keys() & self.values(setup, other).keys()
            for metric in METRICS
            for test, users in [self.compared(setup, one, other, metric)]
        ]

    def compared(self, setup: Setup, one: str, other: str, metric: str = DECIDES) -> tuple[PairedTest, int]:
        """The paired test of two systems over the users of the seeds that both have, and the number of users."""
        first, second = self.values(setup, one), self.values(setup, other)
        common = [seed for seed in self.seeds if seed in first and seed in second]
        ours, theirs = (self.user_values(setup, system, metric, common) for system in (one, other))
        return paired(ours, theirs, 0), len(ours)

    def user_values(
        self, setup: Setup, system: str, metric: str = DECIDES, seeds: Sequence[int] | None = None
    ) -> Tensor:
        """One value per user: the mean over seeds where the users are the same, else the users of all seeds."""
        found, at = self.values(setup, system), METRICS.index(metric)
        values = [found[seed][at] for seed in (found if seeds is None else seeds)]
        if not values:
            return torch.empty(0)
        return torch.stack(values).mean(0) if setup.same_users else torch.cat(values)

    def claims(self, one: str = AUTO) -> list[Claim]:
        """By setup: one system is clearly above every single model, or a single model was saved and none is better.

        The second counts only if every measured seed saved a single model. The note names the models that were not run.
        """
        return [self._claim(setup, one) for setup in self.setups if self._compares(setup, one)]

    def _compares(self, setup: Setup, one: str) -> bool:
        return bool(self.values(setup, one)) and bool(self._models(setup, one))

    def _models(self, setup: Setup, one: str) -> list[str]:
        """The single models of a setup that share a seed with one system."""
        own = self.values(setup, one)
        others = (name for name in self.systems_on(setup) if name not in (one, CLASSIC))
        return [name for name in others if own.keys() & self.values(setup, name).keys()]

    def _claim(self, setup: Setup, one: str) -> Claim:
        singles = [bool(facts.get("single")) for facts in self.facts(setup, one).values()]
        saved = sum(singles)
        models = self._models(setup, one)
        missing = [name for name in self.systems or systems_of(setup) if name not in (*models, one, CLASSIC)]
        tests = {name: self.compared(setup, one, name)[0] for name in models}
        closest = min(tests, key=lambda name: tests[name].low)
        test, above = tests[closest], sum(each.above for each in tests.values())
        better = [name for name, each in tests.items() if each.below]
        note = (
            f"{DECIDES}, above {above} of {len(tests)} models; the interval is that of the closest, {closest}"
        )
        note += f"; clearly below {', '.join(better)}" if better else ""
        note += f"; not run: {', '.join(missing)}" if missing else ""
        if saved:
            note += f"; a single model saved on {saved} of {len(singles)} seeds: {self._verdict(setup, one)}"
        holds = above == len(tests) or (all(singles) and not better)
        name = f"{one} above every single model, or a single model saved and none better, on {setup}"
        return claim(name, SOURCE, holds, test.difference, note, [test.low, test.high])

    def _verdict(self, setup: Setup, one: str) -> str:
        plans = [facts.get("plan") or {} for facts in self.facts(setup, one).values() if facts.get("single")]
        return next((plan["verdict"] for plan in plans if plan.get("verdict")), "no verdict")

    @property
    def settings(self) -> dict[str, Mapping[str, Any]]:
        """The settings of every system, and the pipeline, its reasons and its comparison of each `auto`."""
        composed = {
            str(Cell(setup, AUTO, seed)): {key: facts.get(key) for key in ("pipeline", "single", "plan")}
            for setup in self.setups
            for seed, facts in self.facts(setup, AUTO).items()
        }
        return {**self.cache.settings, **composed}

    def skipped(self) -> dict[str, str]:
        """Cells without figures, and why."""
        cells = map(str, cells_of(self.setups, self.systems, self.seeds))
        missing = {cell: "not run" for cell in cells if not self.cache.has(cell)}
        return {**missing, **self.failed}
