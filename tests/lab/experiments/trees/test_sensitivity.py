from shortlist.lab.experiments.trees.sensitivity import dtr_fig4, dtr_fig6, dtr_fig8
from tests.lab.experiments.results import check_result, ids, points


def test_figure_4_sweeps_negatives(cache_file):
    result = dtr_fig4(None, "quick", [0], cache_file=cache_file)
    check_result(result, "dtr-fig4")
    assert result.x == "negatives on every level"
    assert list(points(result, "dtr-t on world", "f1@20")) == [4, 8]
    assert {"dtr-u rises with negatives on world", "dtr-t > dtr-u with 8 negatives on world"} <= ids(result)


def test_figure_6_sweeps_the_width(cache_file):
    result = dtr_fig6(None, "quick", [0], cache_file=cache_file, where="mind")
    check_result(result, "dtr-fig6-mind")
    assert list(points(result, "dtr-t-rl on world", "recall@20")) == [12, 24]
    assert "dtr-u stays from width 24 on world" in ids(result)


def test_figure_8_sweeps_alpha(cache_file):
    result = dtr_fig8(None, "quick", [0], cache_file=cache_file)
    check_result(result, "dtr-fig8")
    assert list(points(result, "dtr-u on world", "f1@20")) == [0.0, 0.4]
    assert ids(result) == {"alpha of 0.2 to 0.6 > 0 on world"}


def test_the_usual_plan_is_trained_once_for_all_figures(cache_file):
    four, six = (one(None, "quick", [0], cache_file=cache_file) for one in (dtr_fig4, dtr_fig6))
    assert points(four, "dtr-u on world", "f1@20")[8] == points(six, "dtr-u on world", "f1@20")[24]


def test_cached_answers_are_not_computed_again(cache_file, tmp_path, request):
    first = [one(None, "quick", [0], cache_file=cache_file).rows for one in (dtr_fig4, dtr_fig6, dtr_fig8)]
    request.getfixturevalue("no_training")
    assert [
        one(None, "quick", [0], cache_file=cache_file).rows for one in (dtr_fig4, dtr_fig6, dtr_fig8)
    ] == first
