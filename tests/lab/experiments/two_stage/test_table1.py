"""Table 1 of the two-stage bounds paper, on the small world."""

import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments.two_stage.table1 import arms_of, bounds_table1
from shortlist.lab.experiments.two_stage.trial import SMALL, Arm, Sizes
from tests.lab.experiments.shapes import check_shape, ids, points

SOME = [
    "TS",
    "H-TS 16",
    "H-TS 1",
    "as many by chance as 1",
    "TS, candidates",
    "H-TS 16, in sample",
    "weighted 16",
]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    cache_file = tmp_path_factory.mktemp("table1") / "kept.safetensors"
    first = bounds_table1(None, seeds=(0, 1), cache_file=cache_file, only=SOME)
    return first, cache_file


def test_the_result_has_rows_for_every_arm_and_every_number_of_items(told):
    check_shape(told[0], "bounds-table1")
    metrics = {one["metric"] for one in told[0]["rows"] if one["method"] == "TS on world"}
    assert {f"P@1, K={k}" for k in (8, 16, 24, "N")} < metrics
    assert {f"next item first, K={k}" for k in (8, 16, 24, "N")} < metrics


def test_only_claims_whose_arms_were_run_are_made(told):
    assert "H-TS 16: above TS at K=16 on world" in ids(told[0])
    assert not any("both" in one or "mixed" in one for one in ids(told[0]))


def test_what_filters_gain_is_a_curve_over_them(told):
    curve = points(told[0], "K=16 on world", "H-TS less TS in P@1")
    assert sorted(curve) == [1, 16]
    means = {one["method"]: one["mean"] for one in told[0]["rows"] if one["metric"] == "P@1, K=16"}
    assert curve[16] == pytest.approx(means["H-TS 16 on world"] - means["TS on world"])


def test_what_is_kept_is_not_made_again(told, monkeypatch):
    def refuse(*_):
        raise AssertionError("trained although the answer is kept")

    monkeypatch.setattr("shortlist.lab.experiments.two_stage.table1.ranker", refuse)
    again = bounds_table1(None, seeds=(0, 1), cache_file=told[1], only=SOME)
    assert again["rows"] == told[0]["rows"]


def test_an_arm_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="knows no H-TS 7"):
        bounds_table1(None, only=["H-TS 7"])


def test_the_paper_is_there_with_its_numbers():
    arms = arms_of(Sizes())
    assert [arms[f"H-TS {k}"] for k in (40, 80, 120)] == [Arm(40), Arm(80), Arm(120)]
    assert arms["TS"] == Arm()
    assert len(arms) == len(arms_of(SMALL)) == 14
