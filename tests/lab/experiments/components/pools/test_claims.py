import numpy as np
import pytest

from shortlist.lab.experiments.components.pools.claims import best_systems, claims_of
from shortlist.lab.experiments.components.pools.methods import CORE, MITIGATIONS, MOE_ITEM, RANDOM
from shortlist.lab.experiments.components.pools.points import EURLEX, POWER_LAW, small_star, star
from shortlist.lab.experiments.components.pools.runs import METRICS
from shortlist.lab.experiments.components.pools.table import Gap, Table


def table_of(grid, better=()):
    """Precision 0.5 with some noise, 0.1 more for some systems."""
    random = np.random.default_rng(0)
    values, facts = {}, {}
    for point in grid.points:
        for method in (*CORE, *MITIGATIONS):
            level = 0.6 if method in better else 0.5
            values[point, method.name] = level + 0.001 * random.random((4, len(METRICS)))
            facts[point, method.name] = [{"step": 10, "last": 20}] * 4
    return Table(values, facts)


def test_the_grid_is_a_star_around_its_centre():
    grid = star(POWER_LAW)
    assert grid.points[0] == grid.centre
    assert len(grid.points) == 24
    assert len(star(EURLEX).points) == 18
    assert {one.subset for one in grid.points} == {10, 25, 40, 50, 100, 200, 400}
    assert len({str(one) for one in grid.points}) == 24
    for sweep in (*grid.sweeps, *small_star(POWER_LAW).sweeps):
        values = [value for value, _ in sweep]
        assert values == sorted(set(values))


def test_a_mixture_that_is_better_everywhere_confirms_the_paper_and_no_loss_at_few_examples():
    grid = star(POWER_LAW)
    holds = {one.id: one.holds for one in claims_of(table_of(grid, (MOE_ITEM,)), grid)}
    assert holds["MoE item > random pools at most points"]
    assert holds["MoE item > random pools with 500 examples or more"]
    assert not holds["MoE item <= random pools at the fewest examples"]
    assert holds["MoE item > single wide expert"]
    assert not holds["MoE item: gains more where features specialise"]
    assert not holds["MoE item, mean squares > MoE item"]
    assert holds["trainings that are best before their last evaluation"]


def test_the_best_system_of_each_value_is_named():
    grid = star(EURLEX)
    text = best_systems(table_of(grid, (RANDOM,)), grid)
    assert text.startswith("Highest precision@5 by c: 100: random pools, 500: random pools")


def test_a_gap_has_the_interval_of_a_t_test():
    gap = Gap.of(np.array([0.1, 0.2, 0.3]))
    assert gap.mean == pytest.approx(0.2)
    assert gap.high - gap.mean == pytest.approx(4.3027 * 0.1 / np.sqrt(3), rel=1e-4)
    assert not gap.above
    assert Gap.of(np.array([0.1])).interval == (0.1, 0.1)
