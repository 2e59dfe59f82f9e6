from shortlist.lab.experiments.trees.table3 import _claims, dtr_table3
from tests.lab.experiments.results import check_result, points


def test_both_searches_are_timed_and_counted():
    result = dtr_table3(None, "quick", [0])
    check_result(result, "dtr-table3")
    every, beam = (points(result, method, "nodes scored per user") for method in ("every item", "beam"))
    assert every == {200: 200.0, 100: 100.0}
    assert all(beam[items] < every[items] for items in every)
    assert min(points(result, "beam", "users/s").values()) > 0


def test_the_published_ratio_is_a_claim_of_its_own():
    faster, published = _claims({"every item": [4.0, 6.0, 5.0], "beam": [1.0, 1.0, 1.0]}, "mind")
    assert (faster.holds, published.holds) == (True, False)
    assert faster.estimate == 5.0
    assert faster.interval == (4.0, 6.0)
    assert "11.5" in published.note
