"""Two-stage bandits simulated in batches, against a plain loop over seeds and systems with the same trajectories."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shortlist.errors import ShortlistError
from shortlist.lab.bench.bandit.plain import PlainRun, plain_runs
from shortlist.lab.result import Result, at_least, result, row, start
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit import BanditSettings, LinearWorld, Regret, System, simulate
from shortlist.simulate.bandit.grid import grid_systems

SOURCE = "target of this project"
REPEATS = 3  # of the batched simulation; the plain loop is long enough for one


@dataclass(frozen=True)
class Size:
    """A world, its systems and the seeds."""

    width: int = 20
    arms: int = 50
    nominators: int = 5
    seeds: int = 30
    rounds: int = 200


def bench_bandit(seed: int = 0, size: Size | None = None, progress: Progress = silent) -> Result:
    """Seconds of both, with float64; refuses to compare different trajectories."""
    began, size = start(), size or Size()
    world, systems = LinearWorld(size.width, size.arms), grid_systems(size.width, (size.nominators,))
    seeds, settings = range(seed, seed + size.seeds), BanditSettings(record_every=size.rounds)

    def batched(keep: bool = False) -> Regret:
        return simulate(world, systems, seeds=seeds, rounds=size.rounds, settings=settings, keep_actions=keep)

    found = batched(keep=True)  # compiles, too
    plain, seconds = list[list[PlainRun]](), list[float]()
    for number, one in enumerate(seeds):
        began_at = time.perf_counter()
        plain.append(plain_runs(world, systems, one, size.rounds, settings))
        seconds.append(time.perf_counter() - began_at)
        progress("plain loop", number + 1, size.seeds)
    _check_equal(found, plain, systems)
    times = list[float]()
    for _ in range(REPEATS):
        began_at = time.perf_counter()
        batched()
        times.append(time.perf_counter() - began_at)
    total = sum(seconds)
    rows = [row("batched", "seconds", times), row("plain", "seconds", [total])]
    speedup = total / float(np.median(times))
    claims = [at_least("speedup", SOURCE, speedup, 20)]
    profile = (
        f"{len(systems)} systems, {size.seeds} seeds, {size.rounds} rounds, {size.arms} arms, "
        f"{size.width} features, {size.nominators} nominators, float64"
    )
    note = "actions and regret of both are equal to the last bit"
    return result("bandit", profile, [seed], began, rows, claims, figures={"speedup": speedup}, note=note)


def _check_equal(found: Regret, plain: Sequence[Sequence[PlainRun]], systems: Sequence[System]) -> None:
    assert found.actions is not None
    for at, runs in enumerate(plain):
        for row_, (system, run) in enumerate(zip(systems, runs, strict=True)):
            same = np.array_equal(found.actions[row_, at], run.actions)
            regret = (found.nominator[row_, at, -1], found.ranker[row_, at, -1])
            if not (same and regret == (run.nominator, run.ranker)):
                raise ShortlistError(
                    f"bench bandit: expected the same trajectory of {system.name} with {system.subset} features in "
                    f"seed {found.seeds[at]}, got another from the plain loop; fix one of them before comparing times"
                )
