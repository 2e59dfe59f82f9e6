from shortlist.lab.experiments.trees.table7 import METHODS, _claims, dtr_table7
from tests.lab.experiments.results import check_result, ids


def test_every_method_is_timed():
    result = dtr_table7(None, "quick", [0])
    check_result(result, "dtr-table7")
    timed = {one.method for one in result.rows if one.metric == "seconds of 1,000 steps"}
    assert timed == {*METHODS, "dtr-t-rl"}
    shares = [one.mean for one in result.rows if one.metric.startswith("share of labels")]
    assert len(shares) == 2
    assert all(0 < share < 1 for share in shares)


def test_claims_compare_medians_of_repeats():
    times = {"din": [10, 11], "otm": [90, 91], "dtr-u": [11, 12], "dtr-t": [20, 21], "dtr-t-rl": [20.5, 21.5]}
    holds = {one.id: one.holds for one in _claims(times, {"by update": 0.02, "every step": 0.5})}
    assert holds.pop("share of time for rectified labels, every step") is False
    assert all(holds.values())
    assert "otm takes longer than dtr-t-rl" in holds
    slow = {one.id: one.holds for one in _claims(times | {"dtr-u": [30, 31]}, {})}
    assert not slow["dtr-t takes longer than dtr-u"]
    assert not slow["dtr-u takes as long as din"]


def test_claims_are_made_on_full_runs_only():
    assert ids(dtr_table7(None, "quick", [0])) == set()
