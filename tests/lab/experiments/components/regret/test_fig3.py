"""The regret figure, small."""

from shortlist.lab.experiments import components_fig3
from shortlist.lab.experiments.components.regret.cells import FULL, TUNING_SEEDS
from shortlist.lab.render import result_drawings
from shortlist.simulate.bandit.grid import grid_systems, subsets
from tests.lab.experiments.results import check_result, ids, points


def test_the_quick_figure_has_every_curve_and_claim():
    found = components_fig3(None, "quick", range(3))
    check_result(found, "components-fig3")
    curve = points(found, "U+U on A=20, d=6, N=2", "regret")
    assert list(curve) == [1, 2, 6]
    assert curve[1] < curve[2] < curve[6]
    assert points(found, "learned single on A=20, d=6, N=2", "regret")[1] == 0
    assert set(points(found, "d/s = 2 on A=20, d=6", "nominator share of regret")) == {2, 4}
    assert {"two-stage < single", "regret is concave in d/s", "different features help"} <= ids(found)
    drawings = result_drawings(found)
    assert list(drawings)[:2] == ["", "-regret-minus-that-of-a-single-stage"]
    assert all(one.startswith("<svg") for one in drawings.values())


def test_the_full_grid_is_that_of_the_paper():
    cells = [(d, n, a) for d, counts in FULL.nominators.items() for n in counts for a in FULL.arms if n <= a]
    assert len(cells) == 17
    assert subsets(40) == (40, 32, 20, 16, 8, 4)
    two_stage = [one for d in FULL.nominators for one in grid_systems(d, (5,)) if one.ranker]
    assert len(two_stage) == 3 * 6 * 4
    assert not set(TUNING_SEEDS) & set(range(30))
