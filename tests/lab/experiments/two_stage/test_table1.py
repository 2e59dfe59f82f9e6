"""Table 1 of the two-stage bounds paper, on the small world."""

import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments.two_stage.table1 import arms_of, bounds_table1
from shortlist.lab.experiments.two_stage.trial import SMALL, Arm, Sizes
from tests.lab.experiments.results import check_result, ids, points

SOME = [
    "TS",
    "H-TS 16",
    "H-TS 1",
    "random subset as large as H-TS 1",
    "TS, candidates",
    "H-TS 16, in sample",
    "weighted 16",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("table1") / "cache.safetensors"


@pytest.fixture(scope="module")
def result(cache):
    return bounds_table1(None, seeds=(0, 1), cache_file=cache, only=SOME)


def test_the_result_has_rows_for_every_arm_and_every_number_of_items(result):
    check_result(result, "bounds-table1")
    metrics = {one.metric for one in result.rows if one.method == "TS on world"}
    assert {f"P@1, K={k}" for k in (8, 16, 24, "N")} < metrics
    assert {f"next item first, K={k}" for k in (8, 16, 24, "N")} < metrics


def test_only_claims_whose_arms_were_run_are_made(result):
    assert "H-TS 16: above TS at K=16 on world" in ids(result)
    assert not any("both" in one or "mixed" in one for one in ids(result))


def test_the_gain_of_filters_is_a_curve_over_their_size(result):
    curve = points(result, "K=16 on world", "H-TS less TS in P@1")
    assert sorted(curve) == [1, 16]
    means = {one.method: one.mean for one in result.rows if one.metric == "P@1, K=16"}
    assert curve[16] == pytest.approx(means["H-TS 16 on world"] - means["TS on world"])


def test_settings_and_training_of_every_arm_are_recorded(result):
    arms = {f"world/two stages/{arm}" for arm in SOME}
    assert set(result.settings) == {*arms, "world/two stages/retriever"}
    assert set(result.training) == {f"{arm}/{seed}" for arm in arms for seed in (0, 1)}
    history = result.training["world/two stages/TS/0"]
    assert len(history.validation) == history.epochs <= SMALL.epochs


def test_a_cached_answer_is_not_computed_again(result, cache, monkeypatch):
    def refuse(*_):
        raise AssertionError("trained although the answer is cached")

    monkeypatch.setattr("shortlist.lab.experiments.two_stage.table1.train_ranker", refuse)
    again = bounds_table1(None, seeds=(0, 1), cache_file=cache, only=SOME)
    assert again.rows == result.rows
    assert again.training == result.training


def test_an_unknown_arm_is_refused():
    with pytest.raises(ConfigError, match="unknown arms H-TS 7"):
        bounds_table1(None, only=["H-TS 7"])


def test_the_arms_include_those_of_the_paper():
    arms = arms_of(Sizes())
    assert [arms[f"H-TS {k}"] for k in (40, 80, 120)] == [Arm(40), Arm(80), Arm(120)]
    assert arms["TS"] == Arm()
    assert len(arms) == len(arms_of(SMALL)) == 14
