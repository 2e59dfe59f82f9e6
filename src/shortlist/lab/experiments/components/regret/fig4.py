"""Figure 4 of the components paper on rows with labels: regret over that of a uniform agent, and who causes it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.lab.experiments.components.regret.cells import device
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit import BanditSettings, PairedDifference, Regret, System, paired, simulate
from shortlist.simulate.bandit.grid import subsets
from shortlist.simulate.labels import LabelBandit, LabelTable, PowerLawWorld, simulate_disjoint
from shortlist.simulate.labels.eurlex import read_eurlex
from shortlist.simulate.labels.label_bandit import ARM_IS_LABEL, DISJOINT, TARGET

PAPER = "002 figure 4"
RATIOS = (2, 4, 10, 20, 40)
POLICIES = ("U", "G")
RELATIVE, SHARE = "regret over that of a uniform agent", "nominator share of regret"
TUNING_SEEDS = range(1000, 1003)
ALPHAS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
TUNED = 0.25  # share of the rounds in which exploration is tuned
LONG = 1  # numbers of nominators, above which random nominators are played too
RANDOM = "random nominators, U ranker"
Floats = NDArray[np.float64]
NOTE = (
    "Realised regret after the last round over that of an agent that plays every arm equally often, on the same "
    "rounds; a round in which no arm has a reward costs nobody. 'target': a label is the target of a round, "
    "every arm is a row. "
    "'arm_is_label': an arm is a row and has reward 1 if it has the label of that arm. 'disjoint': an arm is a label "
    "of one row, with coefficients for each arm. One exploration for UCB in all roles, tuned on seeds of its own at "
    "half of the features, a quarter of the rounds. U+G is a UCB ranker with greedy nominators. The features of a "
    "nominator are a random subset of its own. With all features (d/s = 1) two stages are the single stage, which is "
    "the ranker alone. The paper plays 5,000 rounds everywhere."
)


@dataclass(frozen=True)
class Sizes:
    """A grid of one conversion."""

    conversion: str
    arms: tuple[int, ...]
    nominators: tuple[int, ...]
    rounds: int
    ratios: tuple[float, ...] = RATIOS
    policies: tuple[tuple[str, str], ...] = (("U", "U"),)  # of the ranker and of the nominators
    seeds: int = 5  # at most


EVERY_PAIR = tuple((ranker, nominator) for ranker in POLICIES for nominator in POLICIES)
FULL = (
    Sizes(TARGET, (100,), (2, 5, 10, 20, 50), 5000),
    Sizes(TARGET, (1000,), (2, 10, 50), 2000),
    Sizes(TARGET, (100,), (10,), 2000, (2, 10), EVERY_PAIR),
    Sizes(ARM_IS_LABEL, (100,), (2, 10, 50), 2000, (4, 40)),
    Sizes(DISJOINT, (100,), (10,), 1000, (4, 40)),
)
QUICK = (
    Sizes(TARGET, (20,), (2, 5), 120, (4,)),
    Sizes(ARM_IS_LABEL, (20,), (2,), 60, (4,)),
    Sizes(DISJOINT, (20,), (2,), 60, (4,)),
)


@dataclass(frozen=True)
class Place:
    """One conversion with one number of arms, played."""

    sizes: Sizes
    arms: int
    width: int
    alpha: float
    regret: Regret
    random: Regret | None = None

    def __str__(self) -> str:
        return f"{self.sizes.conversion}, A={self.arms}, T={self.sizes.rounds}"

    def final(self, system: System, part: str = "realised_total") -> Floats:
        return self.regret.final(system, part)

    def relative(self, system: System) -> Floats:
        """Regret over that of the uniform agent [S]."""
        return np.asarray(self.final(system) / self.regret.uniform[:, -1])

    def share(self, system: System) -> Floats:
        """The share of the nominators in the regret [S]."""
        whole = np.maximum(self.final(system), 1e-9)
        return np.asarray(self.final(system, "realised_nominator") / whole)


def components_fig4(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    where: str = "power-law",
) -> Result:
    """The power-law world of the paper's label frequencies, or Eurlex-4K."""
    name = "components-fig4" + ("" if where == "power-law" else f"-{where}")
    if profile not in ("quick", "full"):
        raise ConfigError(f"{name}: expected a profile quick or full, got {profile!r}")
    began, table = start(), table_of(name, where, profile, data)
    places = [
        _played(table, sizes, arms, seeds, progress)
        for sizes in (FULL if profile == "full" else QUICK)
        for arms in sizes.arms
    ]
    settings = {str(place): _settings_json(place) for place in places}
    settings["table"] = {
        "rows": len(table), "labels": table.n_labels, "features": table.width, "positivity": table.positivity,
        "share of the five most frequent labels": table.top_share, "rows without a label": table.empty,
    }  # fmt: skip
    rows = [*_regret(places), *_shares(places)]
    drawings = {RELATIVE: "d/s", SHARE: "nominators"}
    return result(
        name, profile, seeds, began, rows, _claims(places), settings=settings, note=NOTE, drawings=drawings
    )


def table_of(name: str, where: str, profile: str, data: Path | None) -> LabelTable:
    """Rows of the world; a small one for the quick profile."""
    if profile == "quick":
        return replace(PowerLawWorld(), arms=30, width=40, positives=3.0).table(800)
    if where == "power-law":
        return PowerLawWorld().table(20_000)
    if data is None:
        raise ConfigError(f"{name}: the full profile needs --data, the folder with eurlex-4k; give it")
    return read_eurlex(data).train


def systems_of(width: int, sizes: Sizes, arms: int, alpha: float) -> list[System]:
    """Two stages whose nominators lack features, and single stages; with all features both are the same."""
    two = [
        System(nominator, count, subset, ranker, alpha, alpha)
        for count in sizes.nominators
        if count <= arms
        for subset in subsets(width, sizes.ratios)
        for ranker, nominator in sizes.policies
    ]
    shown = subsets(width, (1, *sizes.ratios))
    return [*two, *(System(policy, 1, subset, None, alpha) for subset in shown for policy in POLICIES)]


def _settings(rounds: int, epsilon: float = 0.0) -> BanditSettings:
    return BanditSettings(dtype=torch.float32, device=device(), record_every=rounds, epsilon=epsilon)


def _simulation(table: LabelTable, sizes: Sizes, arms: int) -> Callable[..., Regret]:
    bandit = LabelBandit(table, sizes.conversion, arms)
    return partial(simulate_disjoint if sizes.conversion == DISJOINT else simulate, bandit)


def _played(table: LabelTable, sizes: Sizes, arms: int, seeds: Sequence[int], progress: Progress) -> Place:
    play, rounds = _simulation(table, sizes, arms), sizes.rounds
    few = max(1, round(TUNED * rounds))
    subset, count = subsets(table.width, (2,))[0], sizes.nominators[len(sizes.nominators) // 2]
    trial = [System("U", count, subset, "U", alpha, alpha) for alpha in ALPHAS]
    tried = play(trial, seeds=TUNING_SEEDS, rounds=few, settings=_settings(few))
    alpha = ALPHAS[int(np.argmin(tried.realised_total[:, :, -1].mean(1)))]
    seeds = list(seeds)[: sizes.seeds]
    systems = systems_of(table.width, sizes, arms, alpha)
    regret = play(systems, seeds=seeds, rounds=rounds, settings=_settings(rounds), progress=progress)
    random = None
    if sizes.conversion == TARGET and len(sizes.nominators) > LONG:
        explorers = [System("G", count, 1, "U", None, alpha) for count in sizes.nominators if count <= arms]
        random = play(explorers, seeds=seeds, rounds=rounds, settings=_settings(rounds, epsilon=1.0))
    return Place(sizes, arms, table.width, alpha, regret, random)


def _settings_json(place: Place) -> Mapping[str, object]:
    plain = {key: one for key, one in asdict(place.sizes).items() if key != "arms"}
    return {**_settings(place.sizes.rounds).as_json(), **plain, "arms": place.arms, "alpha": place.alpha}


def _regret(places: Sequence[Place]) -> Iterable[Row]:
    for place in places:
        for system in place.regret.systems:
            where = f"{place}, N={system.n_nominators}" if system.ranker else f"{place}, single stage"
            x = place.width / system.subset
            yield row(f"{system.name} on {where}", RELATIVE, place.relative(system).round(4).tolist(), x)
        if place.random is not None:
            for system in place.random.systems:
                values = place.random.final(system, "realised_total") / place.random.uniform[:, -1]
                where = f"{RANDOM}, {place}, N={system.n_nominators}"
                yield row(where, "regret over that of a uniform agent, random", values.round(4).tolist())


def _shares(places: Sequence[Place]) -> Iterable[Row]:
    """The share of the nominators of U+U against their number."""
    for place in places:
        for system in place.regret.systems:
            if system.name == "U+U" and len(place.sizes.nominators) > 1:
                ratio = place.width / system.subset
                values = place.share(system).round(4).tolist()
                yield row(f"d/s = {ratio:.4g} on {place}", SHARE, values, float(system.n_nominators))


def _claims(places: Sequence[Place]) -> list[Claim]:
    found = []
    for place in places:
        found += [_below_single(place), *_more_nominators(place)]
        if place.random is not None:
            found.append(_random_approaches(place, place.random))
    return [one for one in found if one is not None]


def _two_stage(place: Place) -> list[System]:
    return [one for one in place.regret.systems if one.ranker]


def _below_single(place: Place) -> Claim:
    """Two stages against a single stage with the same features and policy."""
    gaps = []
    for system in _two_stage(place):
        single = System(system.nominator, 1, system.subset, None, place.alpha)
        gaps.append(paired(place.relative(system), place.relative(single)))
    return _every(f"{place}: two-stage < single", gaps, "relative regret minus that of a single stage")


def _more_nominators(place: Place) -> Iterable[Claim | None]:
    """Relative regret and the share of nominators, from each number of nominators to the next."""
    regret, shares = [], []
    counts = sorted({one.n_nominators for one in _two_stage(place)})
    for system in _two_stage(place):
        for few, many in pairwise(counts):
            if system.n_nominators == few:
                other = replace(system, n_nominators=many)
                regret.append(paired(place.relative(other), place.relative(system)))
                shares.append(paired(place.share(other), place.share(system)))
    if regret:
        yield _every(f"{place}: regret falls with nominators", regret, "relative regret, more against fewer")
        yield _every(
            f"{place}: nominator share falls", shares, "share of regret, more against fewer nominators"
        )


def _random_approaches(place: Place, random: Regret) -> Claim:
    """With more random nominators the regret comes near that of the ranker alone."""
    alone = place.relative(System("U", 1, place.width, None, place.alpha)).mean()
    means = [
        float((random.final(one, "realised_total") / random.uniform[:, -1]).mean()) for one in random.systems
    ]
    falls = all(a > b for a, b in pairwise(means)) and means[-1] >= float(alone) - 0.02
    listed = ", ".join(
        f"{one.n_nominators}: {mean:.3f}" for one, mean in zip(random.systems, means, strict=True)
    )
    note = f"relative regret by nominators {listed}; the ranker alone {alone:.3f}"
    return claim(
        f"{place}: random nominators approach the ranker", PAPER, falls, means[-1] - float(alone), note
    )


def _every(name: str, gaps: Sequence[PairedDifference], note: str) -> Claim:
    clear, above = sum(gap.high < 0 for gap in gaps), sum(gap.low > 0 for gap in gaps)
    worst = max(gaps, key=lambda gap: gap.high)
    text = f"{note}; clearly below 0 in {clear}, above in {above} of {len(gaps)}, the highest is shown"
    return claim(name, PAPER, clear == len(gaps), worst.mean, text, [worst.low, worst.high])
