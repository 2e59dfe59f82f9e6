"""What the pool experiment should show by the paper and by the controls, and what it shows."""

from collections.abc import Callable, Sequence

import numpy as np

from shortlist.lab.experiments.components.pools.methods import (
    ALL_FIRST,
    BY_ERROR,
    CORE,
    DISTILLED,
    DISTILLED_SQUARES,
    ENSEMBLE,
    MITIGATIONS,
    MOE_ITEM,
    MOE_USER_ITEM,
    RANDOM,
    SINGLE,
    SQUARES_ITEM,
    SQUARES_USER_ITEM,
    Method,
)
from shortlist.lab.experiments.components.pools.points import Grid, Point
from shortlist.lab.experiments.components.pools.runs import METRICS
from shortlist.lab.experiments.components.pools.table import PRECISION, RECALL, Gap, Table
from shortlist.lab.result import Claim, at_least, claim

PAPER, CONTROL, OURS = "two-stage components, Figure 5", "control of Figure 5", "improvement of Figure 5"
PLAIN = (MOE_USER_ITEM, MOE_ITEM)
SQUARES = {MOE_USER_ITEM: SQUARES_USER_ITEM, MOE_ITEM: SQUARES_ITEM}
VALIDATION, OWN_BLOCK = METRICS[4], METRICS[6]
FEW = "at the fewest examples"
BLOCKS = " where each nominator reads a block"


def claims_of(table: Table, grid: Grid) -> list[Claim]:
    """Every claim about one world."""
    points = [one for one in grid.points if not one.blocks]
    found = [one for method in PLAIN for one in _of_paper(table, points, method)]
    found += [one for method in PLAIN for one in _controls(table, grid, points, method)]
    found += _improvements(table, grid, points)
    own = [one for one in grid.points if one.blocks]
    return [*found, *(_blocks(table, own) if own else []), _converged(table)]


def best_systems(table: Table, grid: Grid) -> str:
    """Which system without all features has the highest precision at each value of each sweep, in sentences."""
    names = [one.name for one in CORE if not one.full]
    parts = []
    for sweep in grid.sweeps:
        winners = [f"{value:g}: {table.best(point, names)}" for value, point in sweep]
        parts.append(f"Highest precision@5 by {sweep.name}: {', '.join(winners)}.")
    return " ".join(parts)


def _of_paper(table: Table, points: Sequence[Point], method: Method) -> list[Claim]:
    """What the paper says of learned against random pools, and what would refute it."""
    many, few = _where(points, lambda at: at.examples >= 500), _fewest(points)
    wide = _where(points, lambda at: at.width == max(one.width for one in points))
    found = [
        _wins(f"{method.name} > {RANDOM.name} at most points", table, points, method),
        _wins(f"{method.name} > {RANDOM.name} with 500 examples or more", table, many, method),
        _not_above(f"{method.name} <= {RANDOM.name} {FEW}", table, few, method),
        _not_above(f"{method.name} <= {RANDOM.name} at the widest item vectors", table, wide, method),
    ]
    shares = [table.relative(points, method, RANDOM, metric) for metric in (RECALL, PRECISION)]
    more = Gap.of(shares[0] - shares[1])
    note = f"relative gain in recall {shares[0].mean():+.4f}, in precision {shares[1].mean():+.4f}"
    name = f"{method.name}: larger gain in recall than in precision"
    return [*found, claim(name, PAPER, more.above, more.mean, note, more.interval)]


def _controls(table: Table, grid: Grid, points: Sequence[Point], method: Method) -> list[Claim]:
    """Whether a gain is one of shared-out items, or of more parameters and of averaging."""
    found = [
        _above(f"{method.name} > {one.name}", CONTROL, table, points, method, one)
        for one in (SINGLE, ENSEMBLE)
    ]
    for sweep in grid.sweeps:
        if sweep.setting == "kappa":
            found.append(_specialised(table, sweep.points[0], sweep.points[-1], method))
    return found


def _specialised(table: Table, even: Point, own: Point, method: Method) -> Claim:
    gains = [table.differences([at], method, RANDOM)[0] for at in (own, even)]
    more = Gap.of(gains[0] - gains[1])
    note = f"gain over {RANDOM.name}: {gains[0].mean():+.4f} at kappa=1, {gains[1].mean():+.4f} at kappa=0"
    name = f"{method.name}: gains more where features specialise"
    return claim(name, CONTROL, more.above, more.mean, note, more.interval)


def _improvements(table: Table, grid: Grid, points: Sequence[Point]) -> list[Claim]:
    few = _fewest(points)
    found = [
        _above(
            f"{DISTILLED.name} >= {MOE_ITEM.name} {FEW}", OURS, table, few, DISTILLED, MOE_ITEM, strict=False
        )
    ]
    for plain, squares in SQUARES.items():
        found += [
            _above(f"{squares.name} > {plain.name} {FEW}", OURS, table, few, squares, plain),
            _above(f"{squares.name} > {plain.name}", OURS, table, points, squares, plain),
            _above(f"{squares.name} > {RANDOM.name} {FEW}", OURS, table, few, squares, RANDOM),
            _above(f"{squares.name} > {RANDOM.name}", OURS, table, points, squares, RANDOM),
        ]
    for distilled in (DISTILLED, DISTILLED_SQUARES, ALL_FIRST, BY_ERROR):
        found.append(_above(f"{distilled.name} > {RANDOM.name}", OURS, table, points, distilled, RANDOM))
    found.append(_above(f"{BY_ERROR.name} > {ALL_FIRST.name}", OURS, table, points, BY_ERROR, ALL_FIRST))
    for point in grid.mitigated:
        found += [_mitigated(table, point, method) for method in PLAIN]
    return found


def _mitigated(table: Table, point: Point, plain: Method) -> Claim:
    """The variant of a plain mixture with the best validation precision against the plain one."""
    variants = [one.name for one in (*MITIGATIONS, SQUARES[plain]) if one.gate == plain.gate]
    best = max(variants, key=lambda name: float(table.of(point, name, VALIDATION).mean()))
    gap = table.gap([point], best, plain)
    note = f"paired difference in {PRECISION}; {best} has the highest validation precision of {len(variants)} variants"
    name = f"best variant of {plain.name} > {plain.name} at c={point.examples}"
    return claim(name, OURS, gap.above, gap.mean, note, gap.interval)


def _blocks(table: Table, points: Sequence[Point]) -> list[Claim]:
    """Experts that read one block each: only a pool of the labels of that block fits."""
    found = []
    for method in (MOE_USER_ITEM, MOE_ITEM, SQUARES_ITEM, DISTILLED, DISTILLED_SQUARES, BY_ERROR):
        weight = sum(table.of(at, method, OWN_BLOCK).mean() for at in points) / len(points)
        gap = table.gap(points, method, RANDOM)
        note = (
            f"paired difference in {PRECISION} over {len(points)} points; the mean weight of the expert that reads "
            f"a label's block is {weight:.3f}, if random {1 / points[0].nominators:.3f}"
        )
        name = f"{method.name} > {RANDOM.name}{BLOCKS}"
        found.append(claim(name, CONTROL, gap.above, gap.mean, note, gap.interval))
    pairs = [(MOE_ITEM, ENSEMBLE), (SQUARES_ITEM, ENSEMBLE), (DISTILLED, MOE_ITEM), (BY_ERROR, DISTILLED)]
    return [
        *found,
        *(
            _above(f"{one.name} > {other.name}{BLOCKS}", CONTROL, table, points, one, other)
            for one, other in pairs
        ),
    ]


def _converged(table: Table) -> Claim:
    trained = [one for facts in table.facts.values() for one in facts if "last" in one]
    share = float(np.mean([one["step"] < one["last"] for one in trained]))
    return at_least("trainings that are best before their last evaluation", OURS, share, 0.8)


def _wins(name: str, table: Table, points: Sequence[Point], method: Method) -> Claim:
    """More points with a higher mean than without."""
    gaps = table.differences(points, method, RANDOM)
    count, clear = int((gaps.mean(1) > 0).sum()), sum(Gap.of(one).above for one in gaps)
    mean = Gap.of(gaps.mean(0))
    note = f"mean difference in {PRECISION}; above at {count} of {len(points)} points, clearly at {clear}"
    return claim(name, PAPER, 2 * count > len(points), mean.mean, note, mean.interval)


def _not_above(name: str, table: Table, points: Sequence[Point], method: Method) -> Claim:
    gap = table.gap(points, method, RANDOM)
    note = f"mean difference in {PRECISION} over {len(points)} points; holds if not above 0"
    return claim(name, PAPER, gap.mean <= 0, gap.mean, note, gap.interval)


def _above(
    name: str,
    source: str,
    table: Table,
    points: Sequence[Point],
    one: Method,
    other: Method,
    strict: bool = True,
) -> Claim:
    gap = table.gap(points, one, other)
    above = int((table.differences(points, one, other).mean(1) > 0).sum())
    must = "must lie above 0" if strict else "must not lie below 0"
    note = f"paired difference in {PRECISION}, above at {above} of {len(points)} points; the interval {must}"
    return claim(name, source, gap.above if strict else gap.high >= 0, gap.mean, note, gap.interval)


def _where(points: Sequence[Point], keep: Callable[[Point], bool]) -> list[Point]:
    return [one for one in points if keep(one)] or list(points)


def _fewest(points: Sequence[Point]) -> list[Point]:
    least = min(one.examples for one in points)
    return [one for one in points if one.examples == least]
