from shortlist.lab.experiments.trees.quality_time import SIMPLE, dtr_time
from tests.lab.experiments.shapes import check_shape, ids, points


def test_quality_is_told_over_seconds(tmp_path, request):
    cache_file = tmp_path / "answers"
    told = dtr_time(None, "quick", [0], cache_file=cache_file)
    check_shape(told, "dtr-time")
    curve = points(told, "dtr-u, seed 0", "f1@20 of validation users")
    assert len(curve) == 2
    assert list(curve) == sorted(curve)
    assert min(curve) > 0
    assert ids(told) == {f"dtr-u > {who} on world" for who in SIMPLE} | {"seconds of training on world"}
    (seconds,) = [one for one in told["rows"] if one["metric"] == "training seconds"]
    assert seconds["values"][0] >= max(curve)
    request.getfixturevalue("untaught")
    assert dtr_time(None, "quick", [0], cache_file=cache_file)["rows"] == told["rows"]
