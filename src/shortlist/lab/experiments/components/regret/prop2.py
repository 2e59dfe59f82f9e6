"""Proposition 2 of the components paper: training on all or on own examples, as printed and repaired."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit import BanditSettings, System
from shortlist.simulate.bandit.compiled_group import CompiledGroup
from shortlist.simulate.bandit.counterexamples import (
    BANDIT,
    SECOND,
    SUPERVISED,
    CounterexampleWorld,
    regimes,
    supervised_outcome,
)
from shortlist.simulate.bandit.regret import RegretSum
from shortlist.simulate.bandit.setup import GroupSetup
from shortlist.train.pools import WeightRule

PAPER, SPEC = "002 proposition 2", "pools 2.4"
RULES = ("all", "own_pool", "own_pick")
BETAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
LINEAR = 0.02  # nominator regret per round of the second half, above which it is called linear
POINTS = 30  # of a curve over rounds
PER_ROUND, POSITIVE, SWEEP, LEARNED = (
    "nominator regret per round",
    "share of seeds with a positive coefficient",
    "nominator regret per round, mix",
    "coefficient",
)
WORKS = {
    "printed, own should work": "own_pool",
    "printed, all should work": "all",
    "repaired, own works": "own_pool",
    "repaired, all works": "all",
}
NOTE = (
    "Nominator regret per round is that of the second half of the rounds; it is called linear above 0.02. Rankers are "
    "oracles, nominators greedy (G) or UCB (U, exploration 1), coefficients start at 0, ties are random. The last "
    "coefficient of the second nominator decides which arms it finds: its sign is drawn over rounds. 'own_pool' weighs "
    "examples of a nominator's pool, 'own_pick' those it nominated itself, 'mix' examples outside its pool by beta."
)


@dataclass(frozen=True)
class Runs:
    """One rule on one counterexample, on all seeds."""

    example: str
    rule: str
    policy: str
    per_round: NDArray[np.float64]  # [S] in the second half
    at: list[int] = field(default_factory=list)
    coefficients: list[NDArray[np.float64]] = field(default_factory=list)  # [S] at each of these rounds

    @property
    def linear(self) -> float:
        """Share of seeds with linear nominator regret."""
        return float((self.per_round > LINEAR).mean())

    @property
    def name(self) -> str:
        return f"{self.rule}, {self.policy} on {self.example}"


def components_prop2(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> Result:
    """Every counterexample; needs no data. The spec's figures have 40 seeds."""
    if profile not in ("quick", "full"):
        raise ConfigError(f"components-prop2: expected a profile quick or full, got {profile!r}")
    began, rounds = start(), 3000 if profile == "full" else 600
    jobs = [(name, rule, policy) for name in BANDIT for rule in RULES for policy in "GU"]
    sweep = [(name, f"mix:{beta}", "G") for name in BANDIT for beta in BETAS]
    found = {}
    for done, job in enumerate([*jobs, *sweep]):
        progress("counterexamples", done, len(jobs) + len(sweep))
        found[job] = play(*job, seeds, rounds)
    progress("counterexamples", len(jobs) + len(sweep), len(jobs) + len(sweep))
    rows = [*_regret(found), *_signs(found), *_sweep(found), *_supervised()]
    settings = {"all": {**_settings("all", rounds).as_json(), "rounds": rounds, "linear above": LINEAR}}
    drawings = {POSITIVE: "round", SWEEP: "beta"}
    claims = [*_supervised_claims(), *_bandit_claims(found)]
    return result(
        "components-prop2",
        profile,
        seeds,
        began,
        rows,
        claims,
        settings=settings,
        note=NOTE,
        drawings=drawings,
    )


def _settings(rule: str, rounds: int) -> BanditSettings:
    return BanditSettings(
        rule=WeightRule.parse(rule), tie="random", alpha_nominator=1.0, record_every=max(rounds // POINTS, 1)
    )


def play(example: str, rule: str, policy: str, seeds: Sequence[int], rounds: int) -> Runs:
    """The nominator regret of the second half, and the last coefficient of the second nominator over rounds."""
    world, settings = CounterexampleWorld(BANDIT[example]), _settings(rule, rounds)
    system = System(policy, world.example.pools.n_nominators, world.masks().sum(1).astype(int)[SECOND], "O")
    group = CompiledGroup(
        GroupSetup.of(world, [system], seeds, settings, world.pools, world.masks()), settings
    )
    stream, regret = world.rounds(seeds), RegretSum(1, len(seeds), "cpu")
    at, coefficients, number = list[int](), list[NDArray[np.float64]](), 0
    while number < rounds:
        block = stream.next(min(settings.record_every, rounds - number))
        regret.add(block, group.play(block))
        number += len(block)
        regret.record()
        at.append(number)
        coefficients.append(group.theta[:, 0, SECOND, 1].copy())  # its second feature is the last one
    curve = torch.stack(regret.recorded, -1)[0, :, 0].numpy()  # [S, recorded rounds] of nominators
    half = int(np.searchsorted(at, rounds / 2))
    per_round = (curve[:, -1] - curve[:, half]) / (rounds - at[half])
    return Runs(example, rule, policy, per_round, at, coefficients)


Found = Mapping[tuple[str, str, str], Runs]


def _regret(found: Found) -> Iterable[Row]:
    for runs in found.values():
        if not runs.rule.startswith("mix"):
            yield row(runs.name, PER_ROUND, runs.per_round.round(5).tolist())
            yield row(runs.name, "share of seeds with linear regret", [runs.linear])


def _signs(found: Found) -> Iterable[Row]:
    """Of greedy nominators: in which regime they are."""
    for (_, rule, policy), runs in found.items():
        if policy == "G" and not rule.startswith("mix"):
            for at, values in zip(runs.at, runs.coefficients, strict=True):
                yield row(f"{rule} on {runs.example}", POSITIVE, [float((values > 0).mean())], float(at))


def _sweep(found: Found) -> Iterable[Row]:
    for (example, rule, _), runs in found.items():
        if rule.startswith("mix"):
            beta = float(rule.removeprefix("mix:"))
            yield row(example, SWEEP, runs.per_round.round(5).tolist(), beta)


def _supervised() -> Iterable[Row]:
    """What the second nominator learns from all data."""
    for name in SUPERVISED:
        for rule in RULES[:2]:
            outcome = supervised_outcome(name, rule)
            for place, value in enumerate(outcome.coefficients, start=1):
                yield row(f"{rule} on supervised, {name}", f"{LEARNED} {place}", [value])
            yield row(f"{rule} on supervised, {name}", "regret", [outcome.regret])


def _supervised_claims() -> Iterable[Claim]:
    """The printed fractions, and what 'on par with uniform play' would need."""
    for name, fails in (("own works", "all"), ("all works", "own_pool")):
        works = "own_pool" if fails == "all" else "all"
        good, bad = supervised_outcome(name, works), supervised_outcome(name, fails)
        note = f"regret per request of {works} {good.regret:g}, of {fails} {bad.regret:g}"
        holds = good.regret == 0 and bad.regret > 0
        yield claim(f"supervised: {name}", PAPER, holds, bad.regret, note)
        note = f"expected reward of the best candidate {bad.best_candidate:g}, of a uniform arm {bad.uniform:.4f}"
        below = bad.best_candidate <= bad.uniform
        yield claim(f"supervised, {name}: {fails} is no better than uniform", "002 abstract", below,
                    bad.best_candidate - bad.uniform, note)  # fmt: skip


def _bandit_claims(found: Found) -> Iterable[Claim]:
    """The rule that should work has sublinear nominator regret on all seeds, the other linear regret on all."""
    for example, works in WORKS.items():
        fails = "all" if works == "own_pool" else "own_pool"
        source = PAPER if example.startswith("printed") else SPEC
        for policy in "GU":
            good, bad = found[example, works, policy], found[example, fails, policy]
            note = (
                f"linear on {good.linear:.1%} of seeds with {works}, on {bad.linear:.1%} with {fails}; mean regret per "
                f"round {good.per_round.mean():.4f} and {bad.per_round.mean():.4f}; regimes of {works}: "
                f"{_regimes(example, works)}"
            )
            holds = good.linear == 0 and bad.linear == 1
            yield claim(f"{example}, {policy}", source, holds, good.linear, note)
    base = "printed, two nominators"
    both = [found[base, rule, "G"].linear for rule in RULES[:2]]
    note = f"linear on {both[0]:.1%} of seeds with all, on {both[1]:.1%} with own_pool"
    yield claim(f"{base}: both fail", PAPER, min(both) == 1, min(both), note)


def _regimes(example: str, rule: str) -> str:
    """Regimes that confirm themselves, by their regret per round."""
    stable = [one for one in regimes(example, rule) if one.consistent]
    return ", ".join(f"{'+' if one.positive else '-'} with {one.regret:g}" for one in stable) or "none"
