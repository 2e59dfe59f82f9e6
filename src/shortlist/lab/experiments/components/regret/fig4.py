"""Figure 4 of the components paper on rows with labels: regret over that of a uniform agent, and who causes it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.components.regret.fig4_cells import (
    POWER_LAW,
    TUNING_SEEDS,
    PlayedPlace,
    Source,
    play_all,
    relative,
    table_of,
)
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit import PairedDifference, System, paired

PAPER = "002 figure 4"
RELATIVE, SHARE = "regret over that of a uniform agent", "nominator share of regret"
RANDOM = "random nominators, U ranker"
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


def components_fig4(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    jobs: int = 1,
    where: str = POWER_LAW,
) -> Result:
    """The power-law world of the paper's label frequencies, or Eurlex-4K."""
    name = "components-fig4" + ("" if where == POWER_LAW else f"-{where}")
    if profile not in ("quick", "full"):
        raise ConfigError(f"{name}: expected a profile quick or full, got {profile!r}")
    began, source, cache = start(), Source(where, profile, data), AnswerCache.open(cache_file)
    table = table_of(source)
    places = play_all(source, seeds, cache, jobs, progress)
    settings = {str(one): _settings_json(one) for one in places}
    settings["table"] = {
        "rows": len(table), "labels": table.n_labels, "features": table.width, "positivity": table.positivity,
        "share of the five most frequent labels": table.top_share, "rows without a label": table.empty,
    }  # fmt: skip
    return result(
        name,
        profile,
        seeds,
        began,
        [*_regret(places), *_shares(places)],
        _claims(places),
        settings=settings,
        note=f"{NOTE} {cache.origins}",
        drawings={RELATIVE: "d/s", SHARE: "nominators"},
    )


def _settings_json(played: PlayedPlace) -> Mapping[str, object]:
    return {
        **asdict(played.place),
        "alpha": played.alpha,
        "tuning seeds": list(TUNING_SEEDS),
        "dtype": "float32",
    }


def _regret(places: Sequence[PlayedPlace]) -> Iterable[Row]:
    for place in places:
        for system in place.values:
            stages = f"N={system.n_nominators}" if system.ranker else "single stage"
            x = place.width / system.subset
            name = f"{system.name}, {stages} on {place}"
            yield row(name, RELATIVE, place.relative(system).round(4).tolist(), x)
        for system, values in place.random.items():
            name = f"{RANDOM}, N={system.n_nominators} on {place}"
            yield row(name, f"{RELATIVE}, random", relative(values).round(4).tolist())


def _shares(places: Sequence[PlayedPlace]) -> Iterable[Row]:
    """The share of the nominators of U+U against their number."""
    for place in places:
        for system in place.two_stage:
            if system.name == "U+U" and len(place.place.nominators) > 1:
                ratio = place.width / system.subset
                values = place.share(system).round(4).tolist()
                yield row(f"d/s = {ratio:.4g} on {place}", SHARE, values, float(system.n_nominators))


def _claims(places: Sequence[PlayedPlace]) -> list[Claim]:
    found = []
    for place in places:
        found += [_below_single(place), *_more_nominators(place)]
        if place.random:
            found.append(_random_approaches(place))
    return found


def _below_single(place: PlayedPlace) -> Claim:
    """Two stages against a single stage with the same features and policy, and where they are below it."""
    gaps = [(system, _gap_to_single(place, system)) for system in place.two_stage]
    by_ratio = defaultdict[float, list[bool]](list)
    for system, gap in gaps:
        by_ratio[place.width / system.subset].append(gap.high < 0)
    listed = ", ".join(f"{ratio:g}: {sum(own)} of {len(own)}" for ratio, own in sorted(by_ratio.items()))
    note = f"relative regret minus that of a single stage; clearly below 0 by d/s {listed}"
    return _every(f"{place}: two-stage < single", [gap for _, gap in gaps], note)


def _gap_to_single(place: PlayedPlace, system: System) -> PairedDifference:
    single = System(system.nominator, 1, system.subset, None, place.alpha)
    return paired(place.relative(system), place.relative(single))


def _more_nominators(place: PlayedPlace) -> Iterable[Claim]:
    """Relative regret and the share of nominators, from each number of nominators to the next."""
    regret, shares = [], []
    counts = sorted({one.n_nominators for one in place.two_stage})
    for system in place.two_stage:
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


def _random_approaches(place: PlayedPlace) -> Claim:
    """With more random nominators the regret comes near that of the ranker alone."""
    alone = float(place.relative(System("U", 1, place.width, None, place.alpha)).mean())
    means = {system.n_nominators: float(relative(values).mean()) for system, values in place.random.items()}
    last = list(means.values())[-1]
    falls = all(a > b for a, b in pairwise(means.values())) and last >= alone - 0.02
    listed = ", ".join(f"{count}: {mean:.3f}" for count, mean in means.items())
    note = f"relative regret by nominators {listed}; the ranker alone {alone:.3f}"
    return claim(f"{place}: random nominators approach the ranker", PAPER, falls, last - alone, note)


def _every(name: str, gaps: Sequence[PairedDifference], note: str) -> Claim:
    clear, above = sum(gap.high < 0 for gap in gaps), sum(gap.low > 0 for gap in gaps)
    worst = max(gaps, key=lambda gap: gap.high)
    text = f"{note}; clearly below 0 in {clear}, above in {above} of {len(gaps)}, the highest is shown"
    return claim(name, PAPER, clear == len(gaps), worst.mean, text, [worst.low, worst.high])
