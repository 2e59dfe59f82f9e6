"""When a difference between two ways to train counts as clear."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from shortlist.lab.experiments.two_stage.table1_claims import claims_of, over_seeds, strict_filters
from shortlist.lab.experiments.two_stage.trial import Sizes
from shortlist.lab.result import Claim


class RandomRun:
    """A run whose arms hit at given rates."""

    def __init__(self, seed: int, rates: dict[str, float], users: int = 2000) -> None:
        rng = np.random.default_rng(seed)
        self.first_items = dict.fromkeys(rates)
        self.sampled = {
            name: torch.from_numpy((rng.random(users) < rate).astype(float)) for name, rate in rates.items()
        }

    def hits(self, arm: str, position: int) -> torch.Tensor:
        return self.sampled[arm]


def claims(rates: list[dict[str, float]]) -> dict[str, Claim]:
    runs = [RandomRun(seed, one) for seed, one in enumerate(rates)]
    return {one.id: one for one in claims_of(runs, Sizes(), "here")}


def test_a_gain_on_every_seed_is_clear():
    one = claims([{"TS": 0.3, "H-TS 80": 0.4}] * 5)["H-TS 80: above TS at K=80 on here"]
    assert one.holds
    assert one.interval[0] > 0
    assert "above on 5 of 5 seeds" in one.note


def test_a_gain_on_one_seed_only_is_not_clear():
    """The interval over users is above 0, but the seeds differ too much."""
    rates = [{"TS": 0.3, "H-TS 80": rate} for rate in (0.7, 0.28, 0.3, 0.29, 0.31)]
    one = claims(rates)["H-TS 80: above TS at K=80 on here"]
    assert one.interval[0] > 0
    assert not one.holds


def test_a_loss_on_every_seed_is_clear():
    found = claims([{"TS": 0.4, "H-TS 2": 0.3}] * 5)
    assert found["H-TS 2: below TS at K=80 on here"].holds


def test_one_seed_is_never_clear():
    assert not any(one.holds for one in claims([{"TS": 0.1, "H-TS 80": 0.9}]).values())


def test_the_interval_over_seeds_is_students():
    low, high = over_seeds([0.0, 1.0, 2.0])
    assert (low, high) == pytest.approx((1 - 4.302652729911275 / 3**0.5, 1 + 4.302652729911275 / 3**0.5))
    assert over_seeds([1.0]) == (float("-inf"), float("inf"))


def test_strict_filters_are_smaller_than_any_of_the_paper():
    assert strict_filters(Sizes()) == (2, 5)
    assert strict_filters(SimpleNamespace(middle=16)) == (1, 2)
