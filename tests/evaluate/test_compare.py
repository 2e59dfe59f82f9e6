from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.compare import Contest, Pair, compare
from shortlist.evaluate.scores import Scores
from shortlist.metrics.holm import holm
from shortlist.metrics.significance import Comparison, paired

USERS = 40


def scores(shift: float) -> Scores:
    generator = torch.Generator().manual_seed(int(shift * 1000))
    values = torch.rand(USERS, generator=generator, dtype=torch.float64) * 0.1 + shift
    return Scores({"recall@20": values, "ndcg@20": values / 2}, {})


@pytest.fixture
def contest():
    systems = {"first": scores(0.3), "better": scores(0.5), "same": scores(0.301)}
    return compare(systems, {"popularity": scores(0.1), "last click": scores(0.2)}, seed=1, samples=500)


def test_all_meet_the_first_and_the_best_yardstick(contest):
    assert contest.best_yardstick == "last click"
    assert [(pair.system, pair.against) for pair in contest.pairs] == [
        ("better", "first"),
        ("same", "first"),
        ("first", "last click"),
        ("better", "last click"),
        ("same", "last click"),
    ]
    assert [pair.against for pair in contest.popularity] == ["popularity"] * 3


def test_numbers_are_those_of_the_paired_test_with_holms_correction(contest):
    found = paired(
        contest.systems["better"]["recall@20"], contest.systems["first"]["recall@20"], seed=1, samples=500
    )
    assert contest.pairs[0].found == found
    assert [pair.p_holm for pair in contest.pairs] == holm([pair.found.p_value for pair in contest.pairs])
    assert contest.pairs[0].sure
    assert not contest.pairs[1].sure


def test_one_system_meets_the_yardsticks_alone():
    contest = compare({"only": scores(0.3)}, {"popularity": scores(0.1)}, samples=100)
    assert [(pair.system, pair.against) for pair in contest.pairs] == [("only", "popularity")]
    assert contest.pairs[0].p_holm == contest.pairs[0].found.p_value


def test_the_metric_decides_which_yardstick_is_best():
    one = Scores({"recall@20": torch.tensor([0.2, 0.4]), "ndcg@20": torch.tensor([0.1, 0.1])}, {})
    other = Scores({"recall@20": torch.tensor([0.1, 0.1]), "ndcg@20": torch.tensor([0.2, 0.4])}, {})
    for metric, best in (("recall@20", "one"), ("ndcg@20", "other")):
        assert compare({"s": one}, {"one": one, "other": other}, metric, samples=10).best_yardstick == best


def test_what_was_found_is_said_in_words(contest):
    said = [pair.sentence("recall@20") for pair in contest.pairs]
    assert said[0].startswith("better beats first: recall@20 +0.1968 [+0.18")
    assert said[1].startswith("same is not clearly apart from first: ")
    turned = compare({"a": scores(0.5), "b": scores(0.3)}, {"popularity": scores(0.1)}, samples=100)
    assert turned.pairs[0].sentence("recall@20").startswith("b is beaten by a: recall@20 -0.1968 [-0.2")


def coins(seed: int) -> Contest:
    """Six systems and a yardstick that hit by chance."""
    rng = np.random.default_rng(seed)
    made = [
        Scores({"recall@20": torch.from_numpy(rng.integers(0, 2, 200).astype(float))}, {}) for _ in range(7)
    ]
    return compare(dict(zip("abcdef", made, strict=False)), {"popularity": made[6]})


@pytest.mark.parametrize(("seed", "system", "against"), [(2, "c", "popularity"), (9, "d", "a")])
def test_one_of_many_equal_systems_is_not_beaten_by_chance(seed, system, against):
    contest = coins(seed)
    (pair,) = [one for one in contest.pairs if (one.system, one.against) == (system, against)]
    assert pair.found.below
    assert pair.found.p_value < 0.05 <= pair.p_holm
    assert not pair.sure
    assert pair.sentence("recall@20").startswith(f"{system} is not clearly apart from {against}: ")
    assert not any(one["sure"] for one in contest.as_dict()["comparisons"])


def test_an_interval_that_touches_0_is_not_sure_whatever_the_p_value():
    touching = Comparison(0.1, 1e-18, 0.2, 0.01, 0.5, 3, 0, 1)
    assert not Pair("a", "b", touching, 0.01).sure
    assert Pair("a", "b", replace(touching, low=1e-6), 0.01).sure


def test_plain_values_hold_everything(contest):
    told = contest.as_dict()
    assert told["users"] == USERS
    assert list(told["systems"]) == ["first", "better", "same"]
    assert (
        told["comparisons"][0]["wins"] + told["comparisons"][0]["ties"] + told["comparisons"][0]["losses"]
        == USERS
    )
    assert {"difference", "low", "high", "p_value", "p_holm", "effect_size", "sure"} <= set(
        told["comparisons"][0]
    )


def test_other_users_and_names_that_mean_two_things_are_refused():
    few = Scores({"recall@20": torch.tensor([0.1])}, {})
    for systems, baselines in (
        ({"a": few}, {"popularity": scores(0.1)}),
        ({"a": few}, {"a": few}),
        ({}, {"a": few}),
    ):
        with pytest.raises(DataError, match="scores of the same users"):
            compare(systems, baselines)


def test_a_metric_that_was_not_measured_is_refused(contest):
    with pytest.raises(ConfigError, match="expected one of recall@20, ndcg@20, got 'luck@20'"):
        compare(contest.systems, contest.baselines, "luck@20")
