"""Figures 4, 6 and 8 of the DTR paper: negatives, width, and how much more deep levels are sampled.

Lessons are short, 600 steps in 2 rounds, and the same settings have the same name in the file of answers, so the
usual plan is taught once for figures 4 and 6. In figure 8 all levels are taught.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import VARIANTS, Curve, curve_rows, experiment_name, sweep, trials_of
from shortlist.lab.experiments.trends import averaged, compare_pairs, rises, steady
from shortlist.lab.result import result, start
from shortlist.progress import Progress, silent

NEGATIVES = (10, 30, 50, 70, 90)
WIDTHS = (12, 16, 24, 32)  # between 24 and 32, and between 12 and 16, the paper sees nothing happen
ALPHAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MODERATE = (0.2, 0.4, 0.6)


def dtr_fig4(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
) -> dict[str, Any]:
    """Negatives on every level."""
    began, name = start(), experiment_name("dtr-fig4", where)
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    ground = trials[0].ground
    values, settled = ((4, 8), 4) if ground.quick else (NEGATIVES, 50)
    curves = {who: sweep(trials, who, "negatives", values) for who in VARIANTS}
    claims = _more_negatives(curves, ground.name, settled)
    told = result(name, profile, seeds, began, curve_rows(curves, ground.name), claims)
    return told | {"x": "negatives on every level"}


def _more_negatives(curves: Mapping[str, Curve], where: str, settled: int) -> list[dict[str, Any]]:
    source, values = "DTR paper, figure 4", sorted(curves["dtr-u"])
    few, many = ({who: curve[value] for who, curve in curves.items()} for value in (values[0], values[-1]))
    claims = [rises(f"{who} rises with negatives on {where}", source, curve) for who, curve in curves.items()]
    claims += [
        steady(f"{who} stays from {settled} negatives on {where}", source, many[who], curve[settled])
        for who, curve in curves.items()
    ]
    pairs = [("dtr-u", "dtr-t"), ("dtr-u", "dtr-t-rl")]
    claims += compare_pairs(source, where, few, pairs, f" with {values[0]} negatives", strict=False)
    pairs = [("dtr-t", "dtr-u"), ("dtr-t-rl", "dtr-u"), ("dtr-t-rl", "dtr-t")]
    return claims + compare_pairs(source, where, many, pairs, f" with {values[-1]} negatives")


def dtr_fig6(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
) -> dict[str, Any]:
    """Width of the vectors of nodes."""
    began, name, source = start(), experiment_name("dtr-fig6", where), "DTR paper, figure 6"
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    ground = trials[0].ground
    values, usual = ((12, 24), 24) if ground.quick else (WIDTHS, 24)
    curves = {who: sweep(trials, who, "width", values) for who in VARIANTS}
    claims = []
    for who, curve in curves.items():
        narrow = {width: runs for width, runs in curve.items() if width <= usual}
        claims.append(rises(f"{who} rises up to width {usual} on {ground.name}", source, narrow))
        wide = curve[max(curve)]
        claims.append(steady(f"{who} stays from width {usual} on {ground.name}", source, wide, curve[usual]))
    told = result(name, profile, seeds, began, curve_rows(curves, ground.name), claims)
    return told | {"x": "width"}


def dtr_fig8(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
) -> dict[str, Any]:
    """More negatives for deep levels; all levels are taught, as in the paper."""
    began, name, source = start(), experiment_name("dtr-fig8", where), "DTR paper, figure 8"
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    ground = trials[0].ground
    values = (0.0, 0.4) if ground.quick else ALPHAS
    curve = sweep(trials, "dtr-u", "alpha", values, levels="all")
    # The mean of the moderate ones: the best of them by the test users would look better than it is.
    moderate = averaged([curve[value] for value in values if value in MODERATE])
    said = f"alpha of {MODERATE[0]} to {MODERATE[-1]} > 0 on {ground.name}"
    claims = [pooled(said, source, moderate, averaged([curve[0.0]]), True)]
    told = result(name, profile, seeds, began, curve_rows({"dtr-u": curve}, ground.name), claims)
    return told | {"x": "alpha"}
