from shortlist.lab.experiments.trees.fig3 import METHODS, dtr_fig3
from shortlist.lab.experiments.trees.table2 import dtr_table2
from tests.lab.experiments.shapes import check_shape, ids, points


def test_quality_is_told_for_every_update(cache_file):
    told = dtr_fig3(None, "quick", [0], cache_file=cache_file)
    check_shape(told, "dtr-fig3")
    for who in (*METHODS, "dtr-u, tree as it was"):
        assert list(points(told, f"{who} on world", "f1@20 of validation users")) == [0, 1]
    assert {"dtr-t rises with updates on world", "dtr-u > jtm on world"} <= ids(told)
    assert "dtr-u > dtr-u, tree as it was on world" in ids(told)


def test_its_trainings_are_those_of_table_2(cache_file, request):
    """Whoever has run table 2 needs one training more, and no other."""
    dtr_fig3(None, "quick", [0], cache_file=cache_file)
    table = dtr_table2(None, "quick", [0], cache_file=cache_file)
    request.getfixturevalue("untaught")
    figure = dtr_fig3(None, "quick", [0], cache_file=cache_file)
    for who in METHODS:
        rows = [
            [
                one["mean"]
                for one in told["rows"]
                if (one["method"], one["metric"]) == (f"{who} on world", "f1@20")
            ]
            for told in (table, figure)
        ]
        assert rows[0] == rows[1]
