"""Figures 4, 6 and 8 of the DTR paper: negatives, width, and more samples on deep levels.

Training is short, 600 steps in 2 rounds. Equal settings have equal names in the cache, so the usual plan is trained
once for figures 4 and 6. In figure 8 all levels are trained.
"""

from collections.abc import Mapping, Sequence

from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import VARIANTS, Curve, Drawn, curve_rows, figure, sweep
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.trends import averaged, compare_pairs, rises, steady
from shortlist.lab.result import Claim

NEGATIVES = (10, 30, 50, 70, 90)
WIDTHS = (12, 16, 24, 32)  # the paper reports no change between 24 and 32, and between 12 and 16
ALPHAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MODERATE = (0.2, 0.4, 0.6)


@figure("dtr-fig4", "negatives on every level")
def dtr_fig4(trials: Sequence[Trial]) -> Drawn:
    """Negatives on every level."""
    data_setup = trials[0].data_setup
    values, settled = ((4, 8), 4) if data_setup.quick else (NEGATIVES, 50)
    curves = {method: sweep(trials, method, "negatives", values) for method in VARIANTS}
    claims = _more_negatives(curves, data_setup.name, settled)
    rows = curve_rows(curves, data_setup.name)
    return rows, claims


def _more_negatives(curves: Mapping[str, Curve], dataset: str, settled: int) -> list[Claim]:
    source, values = "DTR paper, figure 4", sorted(curves["dtr-u"])
    few, many = (
        {method: curve[value] for method, curve in curves.items()} for value in (values[0], values[-1])
    )
    claims = [
        rises(f"{method} rises with negatives on {dataset}", source, curve)
        for method, curve in curves.items()
    ]
    claims += [
        steady(f"{method} stays from {settled} negatives on {dataset}", source, many[method], curve[settled])
        for method, curve in curves.items()
    ]
    pairs = [("dtr-u", "dtr-t"), ("dtr-u", "dtr-t-rl")]
    claims += compare_pairs(source, dataset, few, pairs, f" with {values[0]} negatives", strict=False)
    pairs = [("dtr-t", "dtr-u"), ("dtr-t-rl", "dtr-u"), ("dtr-t-rl", "dtr-t")]
    return claims + compare_pairs(source, dataset, many, pairs, f" with {values[-1]} negatives")


@figure("dtr-fig6", "width")
def dtr_fig6(trials: Sequence[Trial]) -> Drawn:
    """Width of the node vectors."""
    source = "DTR paper, figure 6"
    data_setup = trials[0].data_setup
    values, usual = ((12, 24), 24) if data_setup.quick else (WIDTHS, 24)
    curves = {method: sweep(trials, method, "width", values) for method in VARIANTS}
    claims = []
    for method, curve in curves.items():
        narrow = {width: runs for width, runs in curve.items() if width <= usual}
        claims.append(rises(f"{method} rises up to width {usual} on {data_setup.name}", source, narrow))
        wide = curve[max(curve)]
        claims.append(
            steady(f"{method} stays from width {usual} on {data_setup.name}", source, wide, curve[usual])
        )
    rows = curve_rows(curves, data_setup.name)
    return rows, claims


@figure("dtr-fig8", "alpha")
def dtr_fig8(trials: Sequence[Trial]) -> Drawn:
    """More negatives for deep levels; all levels are trained, as in the paper."""
    source = "DTR paper, figure 8"
    data_setup = trials[0].data_setup
    values = (0.0, 0.4) if data_setup.quick else ALPHAS
    curve = sweep(trials, "dtr-u", "alpha", values, levels="all")
    # The mean of the moderate values: the best of them on the test users would be biased upwards.
    moderate = averaged([curve[value] for value in values if value in MODERATE])
    text = f"alpha of {MODERATE[0]} to {MODERATE[-1]} > 0 on {data_setup.name}"
    claims = [pooled(text, source, moderate, averaged([curve[0.0]]), True)]
    rows = curve_rows({"dtr-u": curve}, data_setup.name)
    return rows, claims
