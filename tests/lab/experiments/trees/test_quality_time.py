from shortlist.lab.experiments.trees.quality_time import SIMPLE, dtr_time
from tests.lab.experiments.results import check_result, ids, points


def test_validation_f1_is_reported_over_seconds(tmp_path, request):
    cache_file = tmp_path / "answers"
    result = dtr_time(None, "quick", [0], cache_file=cache_file)
    check_result(result, "dtr-time")
    curve = points(result, "dtr-u, seed 0", "f1@20 of validation users")
    assert len(curve) == 2
    assert list(curve) == sorted(curve)
    assert min(curve) > 0
    assert ids(result) == {f"dtr-u > {method} on world" for method in SIMPLE} | {
        "seconds of training on world"
    }
    (seconds,) = [one for one in result.rows if one.metric == "training seconds"]
    assert seconds.values[0] >= max(curve)
    request.getfixturevalue("no_training")
    assert dtr_time(None, "quick", [0], cache_file=cache_file).rows == result.rows
