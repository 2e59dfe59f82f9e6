from shortlist.lab.experiments.trees.fig3 import METHODS, dtr_fig3
from shortlist.lab.experiments.trees.table2 import dtr_table2
from tests.lab.experiments.results import check_result, ids, points


def test_f1_is_reported_for_every_update(cache_file):
    result = dtr_fig3(None, "quick", [0], cache_file=cache_file)
    check_result(result, "dtr-fig3")
    for method in (*METHODS, "dtr-u, tree as it was"):
        assert list(points(result, f"{method} on world", "f1@20 of validation users")) == [0, 1]
    assert {"dtr-t rises with updates on world", "dtr-u > jtm on world"} <= ids(result)
    assert "dtr-u > dtr-u, tree as it was on world" in ids(result)


def test_its_trainings_are_those_of_table_2(cache_file, request):
    """After table 2 only one more training is needed."""
    dtr_fig3(None, "quick", [0], cache_file=cache_file)
    table = dtr_table2(None, "quick", [0], cache_file=cache_file)
    request.getfixturevalue("no_training")
    figure = dtr_fig3(None, "quick", [0], cache_file=cache_file)
    for method in METHODS:
        rows = [
            [one.mean for one in result.rows if (one.method, one.metric) == (f"{method} on world", "f1@20")]
            for result in (table, figure)
        ]
        assert rows[0] == rows[1]
