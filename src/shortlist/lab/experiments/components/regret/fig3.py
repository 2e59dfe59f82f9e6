"""Figure 3 of the components paper: regret of single- and two-stage systems in linear worlds."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from shortlist.lab.experiments.components.regret.cells import (
    ALPHAS,
    TUNED_RATIO,
    TUNING_SEEDS,
    Played,
    Tuned,
    play,
    play_control,
    settings,
    sizes_of,
)
from shortlist.lab.experiments.components.regret.claims import TWO_STAGE, Curves, all_claims, ratio_of, share
from shortlist.lab.result import Result, Row, result, row, start
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit.asymptotes import nominator_asymptotes, single_stage_asymptote

REGRET, GAP, SHARE, CURVE = (
    "regret",
    "regret minus that of a single stage",
    "nominator share of regret",
    "regret by round",
)
LABELS = {REGRET: "d/s", GAP: "d/s", SHARE: "nominators", CURVE: "round"}
DIGITS = 3
NOTE = (
    "Regret by expected rewards after the last round; bands are two standard errors over seeds. All systems of a seed "
    "play the same contexts and rewards. Exploration was tuned on seeds of its own at d/s = 2, one value for each role "
    "and one for a single stage, for each number of features. Lines called 'learned' are the regret per round of "
    "components that know the best coefficients of their features, times the rounds: no learning cost. The standard "
    "deviation of rewards is 0.1, the penalty 1, numbers are float32. A difference between numbers of arms compares "
    "other rounds."
)


def components_fig3(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> Result:
    """Every cell of the grid; needs no data. The paper's figure has 30 seeds."""
    sizes, began = sizes_of(profile), start()
    curves = Curves(play(sizes, seeds, progress), sizes)
    control = play_control(sizes, seeds, _alphas(curves, sizes.control[0]))
    rows = [
        *_regret(curves),
        *_gaps(curves),
        *_shares(curves),
        *_control(curves, control),
        *_over_time(curves),
    ]
    used = {
        f"d = {one.width}": {**asdict(one.alphas), **settings(sizes.rounds).as_json()}
        for one in curves.played
    }
    used["tuning"] = {"alphas": ALPHAS, "seeds": list(TUNING_SEEDS), "d/s": TUNED_RATIO, **asdict(sizes)}
    return result(
        "components-fig3",
        profile,
        seeds,
        began,
        rows,
        all_claims(curves, control),
        settings=used,
        x="d/s",
        note=NOTE,
        drawings=LABELS,
    )


def _alphas(curves: Curves, width: int) -> Tuned:
    return next(one.alphas for one in curves.played if one.width == width)


def _place(one: Played, count: int | None = None) -> str:
    return f"A={one.arms}, d={one.width}" + (f", N={count}" if count else "")


def _regret(curves: Curves) -> Iterable[Row]:
    """Regret of all systems, and the lines without learning cost."""
    rounds = curves.sizes.rounds
    for one, count in curves.places():
        place, ratios = _place(one, count), ratio_of(curves.sizes, one.width)
        learned = nominator_asymptotes(one.width, list(ratios), one.arms, count, curves.sizes.draws)
        for (subset, ratio), lost in zip(ratios.items(), learned, strict=True):
            for name in (*TWO_STAGE, "U", "G"):
                values = curves.final(one, name, count, subset).round(DIGITS).tolist()
                yield row(f"{name} on {place}", REGRET, values, ratio)
            alone = rounds * single_stage_asymptote(one.width, subset, one.arms)
            yield row(f"learned single on {place}", REGRET, [round(alone, DIGITS)], ratio)
            yield row(f"learned nominators on {place}", REGRET, [round(rounds * lost, DIGITS)], ratio)


def _gaps(curves: Curves) -> Iterable[Row]:
    """Paired differences between two stages and a single stage with the same features."""
    for one, count in curves.places():
        for subset, ratio in ratio_of(curves.sizes, one.width).items():
            for name in TWO_STAGE:
                gap = curves.final(one, name, count, subset) - curves.final(one, name[-1], count, subset)
                yield row(f"{name} on {_place(one, count)}", GAP, gap.round(DIGITS).tolist(), ratio)


def _shares(curves: Curves) -> Iterable[Row]:
    """The share of the nominators of U+U against their number, where several numbers were played."""
    for one, count in curves.places():
        if len(curves.sizes.nominators[one.width]) == 1:
            continue
        for subset, ratio in ratio_of(curves.sizes, one.width).items():
            values = share(curves, one, "U+U", count, subset).round(4).tolist()
            yield row(f"d/s = {ratio:.4g} on {_place(one)}", SHARE, values, float(count))


def _control(curves: Curves, control: Played) -> Iterable[Row]:
    """U+U with the same features for all nominators."""
    count = curves.sizes.control[2]
    for subset, ratio in ratio_of(curves.sizes, control.width).items():
        values = curves.final(control, "U+U", count, subset).round(DIGITS).tolist()
        yield row(f"U+U, equal features on {_place(control, count)}", REGRET, values, ratio)


def _over_time(curves: Curves) -> Iterable[Row]:
    """Curves over rounds at the tuned ratio, of one world of every width: those of the control's arms."""
    for one, count in curves.places():
        if one.arms != curves.sizes.control[1]:
            continue
        for subset, ratio in ratio_of(curves.sizes, one.width).items():
            if ratio != TUNED_RATIO:
                continue
            for name in ("U+U", "G+G", "U", "G"):
                curve = one.regret.total[one.regret.row(one.system(name, count, subset))]
                for at, values in zip(one.regret.at, curve.T, strict=True):
                    mean = [round(float(values.mean()), DIGITS)]
                    yield row(f"{name} on {_place(one, count)}", CURVE, mean, float(at))
