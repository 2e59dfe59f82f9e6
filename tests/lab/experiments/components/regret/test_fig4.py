"""The figure on rows with labels, small."""

from shortlist.lab.experiments import components_fig4
from tests.lab.experiments.results import check_result, ids, points


def test_the_quick_figure_has_every_conversion():
    found = components_fig4(None, "quick", range(3))
    check_result(found, "components-fig4")
    for conversion, rounds in (("target", 120), ("arm_is_label", 60), ("disjoint", 60)):
        place = f"{conversion}, A=20, T={rounds}"
        curve = points(found, f"U+U, N=2 on {place}", "regret over that of a uniform agent")
        single = points(found, f"U, single stage on {place}", "regret over that of a uniform agent")
        assert (list(curve), list(single)) == ([4], [1, 4])
        assert all(0 <= one < 1.5 for one in (*curve.values(), *single.values()))
        assert f"{place}: two-stage < single" in ids(found)
    assert "target, A=20, T=120: random nominators approach the ranker" in ids(found)
    shares = points(found, "d/s = 4 on target, A=20, T=120", "nominator share of regret")
    assert set(shares) == {2, 5}


def test_cached_cells_give_the_same_figure(tmp_path):
    first = components_fig4(None, "quick", range(2), cache_file=tmp_path / "cells")
    again = components_fig4(None, "quick", range(2), cache_file=tmp_path / "cells")
    assert [(one.method, one.values) for one in again.rows] == [
        (one.method, one.values) for one in first.rows
    ]
    assert "Cells: " in first.note
