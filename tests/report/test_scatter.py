import re

import pytest

from shortlist.report.scatter import LINE, placed, scatter

POINTS = {"tree": (3.0, 0.2, 0.18, 0.22), "towers": (0.5, 0.15, 0.14, 0.16), "$all$": (40.0, 0.25, 0.2, 0.3)}


def test_plot_is_deterministic_svg():
    drawn = scatter(POINTS, {"popularity": 0.1}, ("ms", "recall@20"))
    assert drawn.startswith("<svg")
    assert drawn == scatter(POINTS, {"popularity": 0.1}, ("ms", "recall@20"))
    assert len(re.findall(r"<svg", drawn)) == 1


def test_single_point_without_levels_is_plotted():
    assert scatter({"a": (1.0, 0.0, 0.0, 0.0)}, {}, ("ms", "recall@20")).startswith("<svg")


def test_label_is_placed_where_it_overlaps_nothing():
    first = placed(0, 0, 50, [])
    assert first[0] > 0
    assert first[1] == 0
    right_taken = [(first[0], -LINE / 2, first[0] + 50, LINE / 2)]
    assert placed(0, 0, 50, right_taken)[0] < 0


@pytest.mark.parametrize("count", [2, 5, 9])
def test_labels_of_close_points_do_not_overlap_while_there_is_room(count):
    taken = []
    for number in range(count):
        dx, dy = placed(number, 0, 40, taken)
        left, low = number + dx, dy - LINE / 2
        box = (left, low, left + 40, low + LINE)
        assert all(
            box[0] >= o[2] or o[0] >= box[2] or box[1] >= o[3] - 1e-9 or o[1] >= box[3] - 1e-9 for o in taken
        )
        taken.append(box)


def test_label_without_free_room_is_still_written():
    assert placed(0, 0, 40, [(-1e6, -1e6, 1e6, 1e6)]) == placed(0, 0, 40, [])
