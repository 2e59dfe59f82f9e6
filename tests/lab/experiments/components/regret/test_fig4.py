"""The figure on rows with labels, small."""

from shortlist.lab.experiments import components_fig4
from tests.lab.experiments.results import check_result, ids, points


def test_the_quick_figure_has_every_conversion():
    found = components_fig4(None, "quick", range(3))
    check_result(found, "components-fig4")
    for conversion in ("target", "arm_is_label", "disjoint"):
        curve = points(found, f"U+U on {conversion}, A=20, N=2", "regret over that of a uniform agent")
        assert list(curve) == [1, 4]
        assert all(0 <= one < 1.5 for one in curve.values())
        assert f"{conversion}, A=20: two-stage < single" in ids(found)
    assert "target, A=20: random nominators approach the ranker" in ids(found)
    shares = points(found, "d/s = 4 on target, A=20", "nominator share of regret")
    assert set(shares) == {2, 5}
