import torch

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.trends import averaged, compare_pairs, gain, over_seeds, rises, steady


def runs(*values: float):
    return [{"": Scores({"f1@20": torch.tensor(values, dtype=torch.float64)}, {})}]


LOW, HIGH = runs(0.1, 0.2, 0.3, 0.2), runs(0.3, 0.4, 0.4, 0.5)


def test_a_curve_rises_from_its_smallest_value_to_its_largest():
    result = rises("up", "test", {32: HIGH, 2: LOW, 8: runs(0.0, 0.0, 0.1, 0.1)})
    assert result.holds
    assert round(result.estimate, 6) == 0.2
    assert "1 of 2 steps go up" in result.note
    assert not rises("down", "test", {2: HIGH, 32: LOW}).holds


def test_a_curve_stays_only_when_its_interval_is_small():
    assert steady("same", "test", HIGH, HIGH).holds
    assert not steady("higher", "test", HIGH, LOW).holds
    wild = runs(0.5, 0.2, 0.6, 0.3)  # the same mean, but a wide interval
    assert not steady("wild", "test", wild, HIGH).holds


def test_a_gain_is_computed_per_user():
    (one,) = gain({2: LOW, 32: HIGH})
    assert torch.allclose(one[""]["f1@20"], torch.tensor([0.2, 0.2, 0.1, 0.3], dtype=torch.float64))


def test_an_average_of_systems_counts_every_user_once():
    (one,) = averaged([LOW, HIGH])
    assert torch.allclose(one[""]["f1@20"], torch.tensor([0.2, 0.3, 0.35, 0.35], dtype=torch.float64))


def test_a_value_per_seed_must_hold_for_all_seeds():
    assert over_seeds("up", "test", [0.1, 0.2], "rise").holds
    result = over_seeds("up", "test", [0.1, -0.2], "rise")
    assert not result.holds
    assert result.interval == (-0.2, 0.1)


def test_every_pair_of_systems_is_a_claim():
    upper, lower = compare_pairs("test", "world", {"a": HIGH, "b": LOW}, [("a", "b"), ("b", "a")], " now")
    assert upper.id == "a > b now on world"
    assert (upper.holds, lower.holds) == (True, False)
    assert not compare_pairs("test", "world", {"a": HIGH, "b": LOW}, [("b", "a")], strict=False)[0].holds
