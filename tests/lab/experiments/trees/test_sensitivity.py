from shortlist.lab.experiments.trees.sensitivity import dtr_fig4, dtr_fig6, dtr_fig8
from tests.lab.experiments.shapes import check_shape, ids, points


def test_negatives(cache_file):
    told = dtr_fig4(None, "quick", [0], cache_file=cache_file)
    check_shape(told, "dtr-fig4")
    assert told["x"] == "negatives on every level"
    assert list(points(told, "dtr-t on world", "f1@20")) == [4, 8]
    assert {"dtr-u rises with negatives on world", "dtr-t > dtr-u with 8 negatives on world"} <= ids(told)


def test_width(cache_file):
    told = dtr_fig6(None, "quick", [0], cache_file=cache_file, where="mind")
    check_shape(told, "dtr-fig6-mind")
    assert list(points(told, "dtr-t-rl on world", "recall@20")) == [12, 24]
    assert "dtr-u stays from width 24 on world" in ids(told)


def test_deep_levels(cache_file):
    told = dtr_fig8(None, "quick", [0], cache_file=cache_file)
    check_shape(told, "dtr-fig8")
    assert list(points(told, "dtr-u on world", "f1@20")) == [0.0, 0.4]
    assert ids(told) == {"alpha of 0.2 to 0.6 > 0 on world"}


def test_the_usual_plan_is_taught_once_for_all_figures(cache_file):
    four, six = (one(None, "quick", [0], cache_file=cache_file) for one in (dtr_fig4, dtr_fig6))
    assert points(four, "dtr-u on world", "f1@20")[8] == points(six, "dtr-u on world", "f1@20")[24]


def test_kept_answers_are_not_made_again(cache_file, tmp_path, request):
    first = [one(None, "quick", [0], cache_file=cache_file)["rows"] for one in (dtr_fig4, dtr_fig6, dtr_fig8)]
    request.getfixturevalue("untaught")
    assert [
        one(None, "quick", [0], cache_file=cache_file)["rows"] for one in (dtr_fig4, dtr_fig6, dtr_fig8)
    ] == first
